//! The program that acts inside: beside this one, as execd is.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::cli::failure::Failure;

const NAME: &str = "innkeeper-guest";
const VARIABLE: &str = "INNKEEPER_GUEST";

/// Finds and reads it.
pub(super) fn read() -> Result<Bytes, Failure> {
    let path = find()?;
    let read = std::fs::read(&path);
    read.map(Bytes::from).map_err(|error| {
        Failure::failed(format_args!(
            "cannot read {} ({error}): name {NAME} in {VARIABLE}",
            path.display()
        ))
    })
}

fn find() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let own = std::env::current_exe().unwrap_or_default();
    let beside = own.parent().unwrap_or(Path::new("/")).join(NAME);
    if beside.is_file() {
        return Ok(beside);
    }
    Err(Failure::failed(format_args!(
        "{NAME} is not beside {}: put it there or name it in {VARIABLE}",
        own.display()
    )))
}
