//! Acting out a script of hostile operations.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the script that the arguments name.
pub(crate) fn run(_arguments: &[OsString]) -> ExitCode {
    eprintln!("this program knows no script yet");
    ExitCode::from(2)
}
