//! The work directory in the upper from the start, as a copy that hides the image's.
//!
//! An overlay that is mounted with `userxattr` can neither rename a directory of a lower layer
//! nor keep the inode number of a file that it copies up for a hard link: `git mv` of a directory
//! and a local `git clone` fail on the image's own. On files of the upper both work.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{XattrFlags, fsetxattr};

use crate::replica;
use crate::sandbox::upper::{copy_attributes, open_directory};
use crate::sys::mount::{Filesystem, NODEV, RDONLY};

/// Copies the directory `path` of the merged lowers into an upper, opaque; the directories above
/// it as they are.
pub(super) fn fill(lowers: &[OwnedFd], upper: BorrowedFd<'_>, path: &[u8]) -> io::Result<()> {
    let merged = merged(lowers)?;
    let from = merged
        .as_ref()
        .or(lowers.first())
        .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let names = path
        .split(|byte| *byte == b'/')
        .filter(|name| !name.is_empty())
        .map(CString::new)
        .collect::<Result<Vec<_>, _>>()?;
    descend(from.as_fd(), upper, &names)
}

/// The lowers alone, read only; none where one lower is all there is.
fn merged(lowers: &[OwnedFd]) -> io::Result<Option<OwnedFd>> {
    if lowers.len() < 2 {
        return Ok(None);
    }
    let fs = Filesystem::open(c"overlay")?;
    for lower in lowers {
        fs.set_fd(c"lowerdir+", lower.as_fd())?;
    }
    fs.flag(c"userxattr")?;
    let tree = fs.mount(NODEV | RDONLY)?;
    let root = open_directory(tree.as_fd(), ".")?;
    // Dissolved with its descriptor; this process ends when it has built.
    std::mem::forget(tree);
    Ok(Some(root))
}

fn descend(from: BorrowedFd<'_>, to: BorrowedFd<'_>, names: &[CString]) -> io::Result<()> {
    let Some((name, rest)) = names.split_first() else {
        replica::copy_merged(from, to).map_err(|error| io::Error::other(described(&error)))?;
        return Ok(fsetxattr(
            to,
            c"user.overlay.opaque",
            b"y",
            XattrFlags::empty(),
        )?);
    };
    let text = name
        .to_str()
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    replica::tree::make_directory(to, name)?;
    let (deeper_from, deeper_to) = (open_directory(from, text)?, open_directory(to, text)?);
    descend(deeper_from.as_fd(), deeper_to.as_fd(), rest)?;
    // Last, since what was made below has moved the time.
    copy_attributes(from, to)
}

fn described(error: &dyn std::error::Error) -> String {
    innkeeper_reset::layered::Fault::of(error).0
}
