//! What a whole test log says: whether the tests ran, and each test's status.

use std::sync::LazyLock;

use regex::Regex;

use crate::parsers::{self, ParseError};
use crate::status::StatusMap;

/// Markers that the eval script and the harness write, in their exact spelling.
pub mod markers {
    /// Before the output of the test command.
    pub const START: &str = ">>>>> Start Test Output";
    /// After the output of the test command.
    pub const END: &str = ">>>>> End Test Output";
    /// Followed by the exit status of the test command, where a script records it.
    pub const EXIT_CODE: &str = ">>>>> Test Exit Code";
    /// In the run log: the patch could be applied.
    pub const APPLY_PASS: &str = ">>>>> Applied Patch";
    /// The patch could not be applied.
    pub const APPLY_FAIL: &str = ">>>>> Patch Apply Failed";
    /// The tree could not be put back.
    pub const RESET_FAILED: &str = ">>>>> Reset Failed";
    /// The tests could not be started.
    pub const TESTS_ERROR: &str = ">>>>> Tests Errored";
    /// The tests did not end in time.
    pub const TESTS_TIMEOUT: &str = ">>>>> Tests Timed Out";
}

/// Signs that a suite ran although its parser, which records failures only, found nothing.
/// Counts have to be above zero: a runner that loses its browser still prints a summary.
static SUITE_RAN: LazyLock<Regex> = LazyLock::new(|| {
    let signs = [
        r"Executed [1-9]\d* of \d+",
        r"TOTAL: [1-9]\d* (?:SUCCESS|FAILED)",
        r"[1-9]\d* passing",
        r"Tests:[\s\x1c-\x1f]+[1-9]\d*",
        r"Test Suites:[\s\x1c-\x1f]+(?:\d+ \w+, )*[1-9]\d* total",
        r"^# tests [1-9]\d*",
        r"[1-9]\d* specs?, \d+ failures?",
        r"': ok$",
    ];
    Regex::new(&format!("(?m){}", signs.join("|"))).expect("constant")
});

static EXIT_CODE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(r"{}:[\s\x1c-\x1f]*(-?\d+)", markers::EXIT_CODE)).expect("constant")
});

/// Statuses of a log, or `None` where the log does not show that the tests ran.
///
/// The rules are those of the harness, in its order:
/// 1. a marker of failure anywhere, or a missing start or end marker: nothing was found;
/// 2. the part between the first start marker and the next end marker is parsed, and the
///    whole log if that yields nothing;
/// 3. nothing parsed and no sign of a suite: nothing was found;
/// 4. a recorded exit status other than 0 while no test failed: the lines cannot be those of
///    the run (a patch may print its own), so nothing was found.
///
/// # Errors
/// Those of [`parsers::parse`].
pub fn read_log(parser: &str, log: &str) -> Result<Option<StatusMap>, ParseError> {
    parsers::check_name(parser)?;
    let failed = [
        markers::APPLY_FAIL,
        markers::RESET_FAILED,
        markers::TESTS_ERROR,
        markers::TESTS_TIMEOUT,
    ];
    if failed.iter().any(|marker| log.contains(marker)) || !log.contains(markers::END) {
        return Ok(None);
    }
    let Some(output) = log.split(markers::START).nth(1) else {
        return Ok(None);
    };
    let output = output.split(markers::END).next().unwrap_or(output);

    let mut map = parsers::parse(parser, output)?;
    if map.is_empty() {
        map = parsers::parse(parser, log)?;
    }
    if map.is_empty() {
        return Ok(SUITE_RAN.is_match(log).then_some(map));
    }
    let contradicted = exited_nonzero(log) && !map.values().any(|status| status.is_failure());
    Ok((!contradicted).then_some(map))
}

/// Whether the log records an exit status of the test command, and it is not 0.
fn exited_nonzero(log: &str) -> bool {
    let code = EXIT_CODE
        .captures(log)
        .map(|found| found[1].trim_start_matches('-').to_owned());
    code.is_some_and(|digits| digits.chars().any(|digit| digit != '0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(inside: &str, after: &str) -> String {
        format!(
            "setup\n+ : '>>>>> Start Test Output'\n{inside}\n+ : '>>>>> End Test Output'\n{after}"
        )
    }

    fn passed(log: &str) -> Option<usize> {
        read_log("parse_log_pytest", log)
            .unwrap()
            .map(|map| map.len())
    }

    #[test]
    fn only_the_part_between_the_markers_counts() {
        let text = format!("PASSED before\n{}PASSED after\n", log("PASSED t::a", ""));
        let map = read_log("parse_log_pytest", &text).unwrap().unwrap();
        assert_eq!(map.keys().collect::<Vec<_>>(), ["t::a"]);
    }

    #[test]
    fn the_whole_log_is_read_when_the_part_is_empty() {
        assert_eq!(passed(&log("", "PASSED t::late\n")), Some(1));
    }

    #[test]
    fn missing_markers_and_failure_markers_find_nothing() {
        assert_eq!(passed("PASSED t::a\n"), None);
        assert_eq!(passed(">>>>> End Test Output\nPASSED t::a"), None);
        assert_eq!(passed(&log("PASSED t::a", ">>>>> Tests Timed Out\n")), None);
        assert_eq!(
            passed(&log("PASSED t::a", ">>>>> Patch Apply Failed\n")),
            None
        );
    }

    #[test]
    fn a_silent_suite_needs_a_sign_of_life() {
        assert_eq!(passed(&log("nothing", "")), None);
        assert_eq!(passed(&log("Executed 0 of 0", "")), None);
        assert_eq!(passed(&log("Executed 3 of 3 SUCCESS", "")), Some(0));
        assert_eq!(passed(&log("case 'x': ok", "")), Some(0));
    }

    #[test]
    fn an_exit_status_can_contradict_the_lines() {
        assert_eq!(
            passed(&log("PASSED t::a", ">>>>> Test Exit Code: 1\n")),
            None
        );
        assert_eq!(
            passed(&log("PASSED t::a", ">>>>> Test Exit Code: 0\n")),
            Some(1)
        );
        assert_eq!(
            passed(&log("FAILED t::a - x", ">>>>> Test Exit Code: 1\n")),
            Some(1)
        );
    }
}
