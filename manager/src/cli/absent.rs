//! Commands and options of the contract that this version does not have yet.

use std::ffi::OsString;

use clap::Args;

use super::failure::Failure;

/// Takes whatever is given.
#[derive(Debug, Args)]
pub(crate) struct Anything {
    /// Taken and not used
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGS"
    )]
    _arguments: Vec<OsString>,
}

/// Fails with a sentence that names the first option which was given.
pub(crate) fn refuse(options: &[(&str, bool)]) -> Result<(), Failure> {
    match options.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Failure::absent(name)),
        None => Ok(()),
    }
}
