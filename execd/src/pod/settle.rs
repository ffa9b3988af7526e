//! The spawner's start in a container.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use super::{Vigil, leave};
use crate::sys::process;

/// Takes the daemon's id (the only word) and becomes the parent of all that loses its own.
/// Gives the container's /proc.
///
/// # Errors
/// When the kernel refuses, or the word is no id.
pub fn settle(words: &[String]) -> io::Result<(OwnedFd, Vigil)> {
    let own = words.first().and_then(|word| word.parse().ok());
    let own = own.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    leave(own)?;
    process::adopt_orphans()?;
    Ok((File::open("/proc")?.into(), Vigil::begin()))
}
