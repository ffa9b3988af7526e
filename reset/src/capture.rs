//! Capture: reads a tree through a descriptor of its root into a [`Tree`].
//!
//! Nothing is resolved by a path of more than one name, no link is followed, only directories and
//! regular files are opened, and depth is bounded by nothing but the entries. Names and attributes are
//! read as they are; the tree must be still (nothing of the guest runs), and a file that changes while
//! it is read is an error, never a guess.

mod contents;
mod directory;
mod entry;
mod same;
mod stamps;
mod walker;
mod xattrs;

use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::io::Errno;

pub use same::{Same, same};

use crate::ids::IdMap;
use crate::tree::{BuildError, Tree};

/// How the tree is to be read.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// The guest's range of ids as the walked mount shows it.
    pub ids: IdMap,
    /// Where the digests of file contents come from.
    pub contents: Contents<'a>,
    /// Whether the mount is a finished file system or the raw upper directory of an overlay.
    pub view: View,
    /// Paths relative to the root, without slashes at either end, that are left out together with what
    /// lies below them. Whole paths: `var/w` leaves out neither `var/www` nor `x/var/w`.
    pub exclude: Vec<Vec<u8>>,
    /// Records what is mounted below as [`crate::tree::Kind::Mount`] and does not enter it.
    pub same_mount_only: bool,
    /// Paths at which another mount is part of the tree, as the slices of a root are, and is entered all
    /// the same. Whole paths relative to the root, without slashes at either end.
    pub entered: Vec<Vec<u8>>,
    /// After this moment the capture fails.
    pub deadline: Option<Instant>,
    /// More entries than this fail the capture.
    pub max_entries: usize,
}

impl Options<'_> {
    /// A merged tree with all contents read, mounts not crossed, at most 8 million entries.
    pub fn new(ids: IdMap) -> Self {
        Options {
            ids,
            contents: Contents::Read,
            view: View::Merged,
            exclude: Vec::new(),
            same_mount_only: true,
            entered: Vec::new(),
            deadline: None,
            max_entries: 8 << 20,
        }
    }
}

/// Where the digests of contents come from.
#[derive(Debug, Clone, Copy)]
pub enum Contents<'a> {
    /// Every regular file is read.
    Read,
    /// An entry at the same path in an earlier tree with the same stamp, size and mtime keeps what takes
    /// more than a statx to read: contents, target, extended attributes and inode flags. All others,
    /// and all directories, are read.
    Reuse(&'a Tree, Trust),
}

/// Why an unchanged stamp proves an unchanged inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// All lower layers are read only, in a store that no guest can write, and the upper is fresh: a
    /// file with the inode and change time of the earlier capture is that same lower file.
    ///
    /// Device numbers are those of the mount, so another mount of the same layers shows others; they
    /// must map one to one. Files whose change time was within a clock tick of the earlier capture
    /// carry no stamp, and are read. The caller must not say this of anything writable: on tmpfs, and
    /// on an overlay with its upper there, a store through a shared mapping changes no time stamp.
    ReadOnlyLower,
}

/// What the walked tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// A file system as a guest sees it: the overlay's own attributes do not show.
    Merged,
    /// The upper directory of an overlay: whiteouts are character devices 0:0, and the attributes by
    /// which the overlay hides, moves and protects count.
    Upper,
}

/// A captured tree and the work it took.
#[derive(Debug)]
pub struct Capture {
    /// The tree.
    pub tree: Tree,
    /// Regular files whose contents were read.
    pub files_read: u64,
    /// Bytes of contents read.
    pub bytes_read: u64,
    /// Regular files whose digest was kept because their stamp had not changed.
    pub files_trusted: u64,
}

/// Why a tree could not be captured. Every one of these means that nothing is known about it.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// A system call failed.
    #[error("cannot {operation} {:?}", shown(.path))]
    Call {
        /// What was tried.
        operation: &'static str,
        /// Path relative to the root.
        path: Vec<u8>,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// Somebody changed an entry during the capture.
    #[error("{:?} changed while it was read; something still runs", shown(.path))]
    Changed {
        /// Path relative to the root.
        path: Vec<u8>,
    },
    /// Out of time.
    #[error("the deadline passed at {:?}", shown(.path))]
    Deadline {
        /// Path relative to the root.
        path: Vec<u8>,
    },
    /// Too many entries.
    #[error("the tree has more than {limit} entries")]
    TooMany {
        /// The limit of the options.
        limit: usize,
    },
    /// The kernel does not tell mounts apart.
    #[error("this kernel's statx gives no mount ids (Linux 5.8 and later do)")]
    NoMountIds,
    /// A thread of the comparing broke off.
    #[error("comparing the tree broke off")]
    Broken,
    /// The file system gave something that cannot be a tree.
    #[error("the file system gave an impossible entry at {:?}", shown(.path))]
    Impossible {
        /// Path relative to the root.
        path: Vec<u8>,
        /// What is impossible about it.
        #[source]
        source: BuildError,
    },
}

fn shown(path: &[u8]) -> String {
    format!("/{}", path.escape_ascii())
}

/// Captures the tree below `root`, which may be an `O_PATH` descriptor.
///
/// # Errors
/// When anything could not be read, changed meanwhile, or took too long.
pub fn capture(root: BorrowedFd<'_>, options: &Options<'_>) -> Result<Capture, CaptureError> {
    walker::walk(root, options)
}
