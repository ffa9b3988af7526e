//! Copies of trees that cannot be told from the original: owner, mode, times, extended attributes,
//! access lists, flags, hard links, holes.

pub mod attributes;
pub mod look;
pub mod tree;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use thiserror::Error;

use attributes::{Place, Time, View};
use look::{open, stat};

/// Why something was not copied.
#[derive(Debug, Error)]
#[error("{operation} /{} failed", path.escape_ascii())]
pub struct ReplicaError {
    path: Vec<u8>,
    operation: &'static str,
    #[source]
    source: io::Error,
}

impl ReplicaError {
    /// At a path relative to the root.
    pub fn at(path: &[u8], operation: &'static str, source: io::Error) -> Self {
        Self {
            path: path.to_vec(),
            operation,
            source,
        }
    }
}

/// Moves the raw upper of an overlay to a path where nothing is yet, on another mount too.
///
/// # Errors
/// When something cannot be read or made; what was made so far is of no use then.
pub fn bring(upper: &Path, to: &Path) -> Result<(), ReplicaError> {
    let fail = |operation| move |error| ReplicaError::at(b"", operation, error);
    match fs::rename(upper, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        done => return done.map_err(fail("moving")),
    }
    fs::create_dir(to).map_err(fail("making"))?;
    let open = |path: &Path| fs::File::open(path).map_err(fail("opening"));
    copy(open(upper)?.as_fd(), open(to)?.as_fd())
}

/// Copies the raw upper of an overlay into an empty directory.
fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), ReplicaError> {
    copy_as(View::Upper, from, to)
}

/// Copies a tree, as a guest sees it, into an empty directory.
///
/// # Errors
/// When something cannot be read or made; what was made so far is of no use then.
pub fn copy_merged(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), ReplicaError> {
    copy_as(View::Merged, from, to)
}

fn copy_as(view: View, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), ReplicaError> {
    let none = BTreeSet::new();
    let mut copier = tree::Copier::new(to, &none, view);
    let here = open(from, c".").map_err(copier.fail("opening"))?;
    let seen = stat(here.as_fd(), c"").map_err(copier.fail("looking at"))?;
    copier.contents(here.as_fd(), to, &seen)?;
    let (from, to) = (Place::itself(here.as_fd()), Place::itself(to));
    copier.settle(from, &seen, to, Time::Kept)
}

#[cfg(test)]
mod tests;
