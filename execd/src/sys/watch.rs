//! Descriptors that the runtime watches.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// What owns its descriptor: it stays open, and the same, for as long as it is watched.
pub trait Owner: AsRawFd {}

impl Owner for OwnedFd {}
impl Owner for std::fs::File {}

/// Watches an owned descriptor.
pub fn watch<T: Owner>(fd: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: an `Owner` keeps its descriptor open and unchanged until it is dropped, and
    // the registration ends before that.
    Ok(unsafe { AsyncFd::register_with_interest(fd, interest) }?)
}
