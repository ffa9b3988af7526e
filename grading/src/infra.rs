//! Signs in a log that the environment, not the patch, broke.

use std::sync::LazyLock;

use regex::Regex;

/// How sure a sign is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Cannot be the work of a patch to the repository's sources.
    Environment,
    /// A broken environment or a bad patch.
    Ambiguous,
}

/// The harness's signs, in its order; the first that occurs decides. Each is kept as the
/// alternatives that make up its expression.
const SIGNS: [(&str, Tier, &[&str]); 8] = [
    (
        "browser_launch_failed",
        Tier::Environment,
        &["Failed to launch", "Failed to connect to the bus"],
    ),
    (
        "display_unavailable",
        Tier::Environment,
        &[
            "cannot open display",
            "Missing X server",
            "unable to open X display",
        ],
    ),
    (
        "out_of_memory",
        Tier::Environment,
        &["Cannot allocate memory", "OutOfMemoryError", "^Killed$"],
    ),
    (
        "container_unavailable",
        Tier::Environment,
        &[
            "Error response from daemon",
            "Cannot connect to the Docker daemon",
        ],
    ),
    (
        "network_unreachable",
        Tier::Environment,
        &[
            "Could not resolve host",
            "Temporary failure in name resolution",
        ],
    ),
    (
        "missing_module",
        Tier::Ambiguous,
        &[
            "Cannot find module",
            "MODULE_NOT_FOUND",
            "ModuleNotFoundError",
        ],
    ),
    (
        "no_tests_collected",
        Tier::Ambiguous,
        &["no tests ran", "collected 0 items"],
    ),
    (
        "tests_timed_out",
        Tier::Ambiguous,
        &[r"Timeout error: \d+ seconds exceeded"],
    ),
];

static PATTERNS: LazyLock<Vec<(&'static str, Tier, Regex)>> = LazyLock::new(|| {
    let compiled = |alternatives: &[&str]| Regex::new(&format!("(?m){}", alternatives.join("|")));
    SIGNS
        .iter()
        .map(|(reason, tier, any)| (*reason, *tier, compiled(any).expect("constant")))
        .collect()
});

/// The reason that a log gives for not being a fair trial, with how sure it is. It is advice:
/// it never makes an instance resolved or leaves one out.
#[must_use]
pub fn classify(log: &str) -> Option<(&'static str, Tier)> {
    PATTERNS
        .iter()
        .find(|(_, _, sign)| sign.is_match(log))
        .map(|(reason, tier, _)| (*reason, *tier))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sign_decides() {
        let log = "ModuleNotFoundError: x\nOSError: Cannot allocate memory\n";
        assert_eq!(classify(log), Some(("out_of_memory", Tier::Environment)));
        assert_eq!(
            classify("a\nKilled\nb"),
            Some(("out_of_memory", Tier::Environment))
        );
        assert_eq!(classify("process Killed"), None);
        assert_eq!(
            classify("\n\nTimeout error: 1800 seconds exceeded."),
            Some(("tests_timed_out", Tier::Ambiguous))
        );
    }
}
