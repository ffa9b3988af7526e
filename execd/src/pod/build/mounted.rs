//! One whole overlay over read-only trees that lie apart from the container's own root.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::workdir;
use crate::pod::recipe::{Recipe, Upper};
use crate::sandbox::upper::{make_mount_points, make_pair, open_directory};
use crate::spawner::enter::Failure;
use crate::sys::mount::{self, Filesystem, NODEV};

/// A sandbox's root, not yet entered.
pub struct Root {
    /// The merged tree.
    pub overlay: OwnedFd,
    /// The upper directory; of slices, the directory of all uppers.
    pub upper: OwnedFd,
}

/// Makes it in the calling process's mount namespace. Everything is opened here: the kernel
/// takes no layer of another's mount namespace.
pub(super) fn make(lowers: &[PathBuf], recipe: &Recipe) -> Result<Root, Failure> {
    let volatile = matches!(recipe.upper, Upper::Directory(_));
    let lowers = lowers
        .iter()
        .map(|path| {
            open(path).map_err(|error| Failure::of(format!("opening {}", path.display()), error))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let (upper, work) = match &recipe.upper {
        Upper::Memory { bytes, inodes } => in_memory(*bytes, *inodes, &lowers),
        Upper::Directory(path) => on_disk(path),
    }
    .map_err(Failure::at("making the upper"))?;
    if let Some(path) = &recipe.copied {
        workdir::fill(&lowers, upper.as_fd(), path)
            .map_err(Failure::at("copying the work directory"))?;
    }
    make_mount_points(upper.as_fd(), &lowers).map_err(Failure::at("making mount points"))?;
    let overlay = overlay(&lowers, &upper, &work, volatile)
        .map_err(|error| Failure::of("mounting the overlay".to_owned(), error))?;
    Ok(Root { overlay, upper })
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

/// Goes with the mount namespace: nothing is left to be removed.
fn in_memory(bytes: u64, inodes: u64, lowers: &[OwnedFd]) -> io::Result<(OwnedFd, OwnedFd)> {
    let fs = Filesystem::open(c"tmpfs")?;
    fs.set(c"size", &bytes.to_string())?;
    // Its root, the upper, the work directory and the overlay's own.
    fs.set(c"nr_inodes", &(inodes + 5).to_string())?;
    fs.set(c"mode", "0700")?;
    let tree = fs.mount(NODEV)?;
    make_pair(tree.as_fd(), lowers)?;
    let parts = (
        open_directory(tree.as_fd(), "u")?,
        open_directory(tree.as_fd(), "w")?,
    );
    // A detached mount is dissolved when its descriptor closes, and then no overlay takes it;
    // this process ends once the overlay holds on to it.
    std::mem::forget(tree);
    Ok(parts)
}

fn on_disk(path: &Path) -> io::Result<(OwnedFd, OwnedFd)> {
    Ok((open(&path.join("u"))?, open(&path.join("w"))?))
}

/// `userxattr`: the overlay's own marks under a name that a user namespace may write.
fn overlay(
    lowers: &[OwnedFd],
    upper: &OwnedFd,
    work: &OwnedFd,
    volatile: bool,
) -> io::Result<OwnedFd> {
    let fs = Filesystem::open(c"overlay")?;
    for lower in lowers {
        fs.set_fd(c"lowerdir+", lower.as_fd())?;
    }
    fs.set_fd(c"upperdir", upper.as_fd())?;
    fs.set_fd(c"workdir", work.as_fd())?;
    fs.flag(c"userxattr")?;
    if volatile {
        fs.flag(c"volatile")?;
    }
    let overlay = fs.mount(NODEV)?;
    if mount::is_read_only(overlay.as_fd())? {
        return Err(io::Error::other(
            "it came up read only: the upper's file system refuses what an overlay needs",
        ));
    }
    Ok(overlay)
}
