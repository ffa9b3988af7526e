//! How the harness brings a patch and an eval script into a container, as data.
//!
//! All commands run as root in [`WORKDIR`]. They are tried in order until one exits 0; before
//! each but the first the tree is put back with [`RESTORE`], since a failed attempt leaves
//! parts behind. When none did, [`CHECK_APPLIED`] tells whether the patch is in place all the
//! same; when that fails too the patch does not apply, and the instance is an error without a
//! report.

/// Where the repository stands and commands run.
pub const WORKDIR: &str = "/testbed";
/// Where the patch is put before it is applied.
pub const PATCH_FILE: &str = "/tmp/patch.diff";
/// Where the eval script is put.
pub const EVAL_FILE: &str = "/eval.sh";
/// How the eval script is run. Standard output and error have to be merged as they arrive.
pub const EVAL_COMMAND: [&str; 2] = ["/bin/bash", EVAL_FILE];
/// How long the eval script may run unless asked otherwise, in seconds.
pub const DEFAULT_TIMEOUT_S: u64 = 1800;

/// The attempts to apply the patch, in order.
pub const ATTEMPTS: [&[&str]; 4] = [
    &["git", "apply", "--verbose", PATCH_FILE],
    &["git", "apply", "--verbose", "--3way", PATCH_FILE],
    &["git", "apply", "--verbose", "--reject", PATCH_FILE],
    &[
        "patch",
        "--batch",
        "--forward",
        "--fuzz=5",
        "-p1",
        "-i",
        PATCH_FILE,
    ],
];
/// Puts the tree back between attempts; its exit status is of no account.
pub const RESTORE: [&str; 3] = ["/bin/bash", "-c", "git checkout -- . ; git clean -fd"];
/// Exits 0 when the patch is in place although every attempt failed.
pub const CHECK_APPLIED: [&str; 5] = ["git", "apply", "--check", "--reverse", PATCH_FILE];
/// Shows the tree's changes; run before and after the eval script for the run log.
pub const DIFF: [&str; 4] = ["git", "-c", "core.fileMode=false", "diff"];

/// What `test_output.txt` ends with when the eval script was stopped at its timeout.
#[must_use]
pub fn timeout_trailer(seconds: u64) -> String {
    format!("\n\nTimeout error: {seconds} seconds exceeded.")
}

/// One line of `run_instance.log`. `time` is local time as `2026-01-31 23:59:59,123`; the text
/// may have several lines.
#[must_use]
pub fn log_line(time: &str, level: LogLevel, text: &str) -> String {
    let level = match level {
        LogLevel::Info => "INFO",
        LogLevel::Warning => "WARNING",
        LogLevel::Error => "ERROR",
    };
    format!("{time} - {level} - {text}\n")
}

/// The levels that occur in `run_instance.log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// The course of things.
    Info,
    /// Something was left out.
    Warning,
    /// The run failed.
    Error,
}
