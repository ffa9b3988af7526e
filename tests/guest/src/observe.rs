//! Prints one record of all that can be observed from inside, as JSON.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use innkeeper_test_oracle::{Depth, inside};

/// Observes and prints.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let light = arguments.iter().any(|word| word == "--light");
    let depth = if light { Depth::Light } else { Depth::Full };
    let record = inside::observe(depth);
    let written = record.write(&mut std::io::stdout().lock());
    match written.and_then(|()| std::io::stdout().flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the record could not be written: {error}");
            ExitCode::FAILURE
        }
    }
}
