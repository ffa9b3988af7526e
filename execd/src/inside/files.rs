//! File calls: stat, list, remove, read and write inside a sandbox.
//!
//! They run as the guest's root in the sandbox's mount namespace, in a process without
//! threads, with blocking I/O and constant memory. Nothing here can be made to wait by
//! what lies at a path: only regular files are read and written, everything is opened
//! with `O_NONBLOCK`, and links of `/proc/PID/fd` and the like are never followed.
//!
//! Links. Stat, list and read follow links as `docker cp` does: inside the sandbox they
//! can only lead to what the caller may read anyway. Write and remove follow a link on
//! their way (and write one at the end) only if it is older than the sandbox, so it came
//! with the image or its prepared layer. One made since is refused by name: whoever made
//! it decides else which file the caller changes.

pub(super) mod descent;
pub mod entry;
pub(super) mod error;
pub mod frames;
mod list;
mod read;
mod remove;
pub(super) mod resolve;
mod write;

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};

pub(super) use error::FileError;

use super::Answer;
use entry::Entry;

/// What to do. Paths are absolute in the sandbox, bytes without NUL, of any length.
#[derive(Debug, Serialize, Deserialize)]
pub enum FileCall {
    /// Describes one path. No descriptors. Answer: `Info`.
    Stat {
        /// What to describe.
        path: Vec<u8>,
        /// Describe what a link at the end leads to, not the link.
        follow: bool,
    },
    /// Lists a directory. One descriptor: a pipe that takes entries as `entry` encodes
    /// them, in no order. Answer: `Listed`.
    List {
        /// The directory.
        path: Vec<u8>,
        /// More entries than this are an error.
        limit: usize,
    },
    /// Removes a path; a link itself, not what it leads to. No descriptors. Answer: `Removed`.
    Remove {
        /// What to remove.
        path: Vec<u8>,
        /// With all that is in it.
        recursive: bool,
    },
    /// Reads a regular file. One descriptor: a pipe that takes the bytes. Answer: `Sent`.
    Read {
        /// The file.
        path: Vec<u8>,
        /// First byte.
        offset: u64,
        /// Bytes at most; 0: to the end, as it was when the call began.
        length: u64,
    },
    /// Writes a regular file under another name beside it and renames it into place, so
    /// that no one ever sees a part. One descriptor: a pipe that gives the bytes in
    /// `frames`; without the last frame nothing is changed. Answer: `Written`.
    Write {
        /// The file.
        path: Vec<u8>,
        /// Permission bits with setuid, setgid and sticky; 0: 0644.
        mode: u32,
        /// Owner.
        uid: u32,
        /// Group.
        gid: u32,
        /// Make missing directories on the way: root's, 0755.
        make_parents: bool,
    },
}

/// What a file call answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum FileAnswer {
    /// Of `Stat`.
    Info(Entry),
    /// Of `List`: entries sent.
    Listed(u64),
    /// Of `Remove`.
    Removed,
    /// Of `Read` and of a tar stream out: bytes sent.
    Sent(u64),
    /// Of `Write`.
    Written {
        /// Bytes stored.
        size: u64,
        /// blake3 of them.
        hash: [u8; 32],
    },
    /// Of a tar stream in.
    Unpacked {
        /// Entries made.
        entries: u64,
        /// Bytes of files stored.
        bytes: u64,
    },
}

/// Does one file call.
pub fn run(call: FileCall, descriptors: Vec<OwnedFd>) -> Answer {
    let mut descriptors = descriptors.into_iter();
    let done = match call {
        FileCall::Stat { path, follow } => entry::of_path(&path, follow).map(FileAnswer::Info),
        FileCall::List { path, limit } => {
            pipe(&mut descriptors).and_then(|pipe| list::run(&path, limit, pipe))
        }
        FileCall::Remove { path, recursive } => remove::run(&path, recursive),
        FileCall::Read {
            path,
            offset,
            length,
        } => pipe(&mut descriptors).and_then(|pipe| read::run(&path, offset, length, pipe)),
        FileCall::Write {
            path,
            mode,
            uid,
            gid,
            make_parents,
        } => pipe(&mut descriptors).and_then(|pipe| {
            let wish = write::Wish {
                mode,
                uid,
                gid,
                make_parents,
            };
            write::run(&path, &wish, pipe)
        }),
    };
    answer(done)
}

/// The one descriptor of a call.
pub(super) fn pipe(descriptors: &mut impl Iterator<Item = OwnedFd>) -> Result<OwnedFd, FileError> {
    descriptors.next().ok_or(FileError::NoPipe)
}

/// Puts a result into the form that travels.
pub(super) fn answer(done: Result<FileAnswer, FileError>) -> Answer {
    match done {
        Ok(answer) => Answer::File(answer),
        Err(error) => Answer::Failed {
            errno: error.errno(),
            message: error.to_string(),
        },
    }
}
