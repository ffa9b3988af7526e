//! Tar streams out of and into a sandbox, made and read by our own code: nothing of the
//! guest's tree takes part but the files themselves.

mod attributes;
mod out;
mod stream;
mod unpack;

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

use super::Answer;
use super::files;

/// What to do.
#[derive(Debug, Serialize, Deserialize)]
pub enum TreeCall {
    /// Sends a path as a tar archive. One descriptor: a pipe that takes it. Answer: `Sent`.
    ///
    /// Names begin with the path's own last name (`x` of `/a/x`), or have no such beginning
    /// where the path ends in `/.` or is `/`, as `docker cp` does it. Owners, modes,
    /// times in nanoseconds, links, hard links, named pipes and extended attributes are kept;
    /// sockets, devices and other file systems below the path are left out.
    Out {
        /// A file, a directory, a link or a named pipe.
        path: Vec<u8>,
        /// Send what a link at the end leads to, not the link.
        follow: bool,
    },
    /// Unpacks a tar archive. One descriptor: a pipe that gives it in `frames`. Answer:
    /// `Unpacked`. A failure leaves what was unpacked before it.
    ///
    /// Nothing is made outside the directory: a name with `..` is refused, an absolute one
    /// begins at the directory, and no link leads out of it, whoever made it and when.
    /// Devices are refused. Owners are numbers. What exists is replaced, but a directory
    /// only gets the attributes of its entry, and the directory itself not even those.
    In {
        /// The directory; it must exist. Links to it are followed as in a file's writing.
        path: Vec<u8>,
    },
}

/// Does one call.
pub fn run(call: TreeCall, descriptors: Vec<OwnedFd>) -> Answer {
    let mut descriptors = descriptors.into_iter();
    files::answer(files::pipe(&mut descriptors).and_then(|pipe| match call {
        TreeCall::Out { path, follow } => out::run(&path, follow, pipe),
        TreeCall::In { path } => unpack::run(&path, pipe),
    }))
}

#[cfg(test)]
mod tests;
