//! The overlay of a sandbox, as a detached mount.

use std::os::fd::{AsFd, OwnedFd};

use super::upper::Upper;
use super::{BuildError, step};
use crate::sys::mount::{self, Filesystem, NODEV};

/// Mounts it over lowers (topmost first) with the file system ids of the sandbox's root.
///
/// `redirect_dir` makes renames of the image's directories work and keeps the inode number
/// of a hard-linked lower file, without which a local `git clone` over a tmpfs fails.
/// `xino` keeps inode numbers of directories: without it the kernel numbers them in the order in
/// which they are first looked up, and that shows whether a walk has verified a sandbox.
/// NODEV always: a device node in an image layer would open the host's device.
pub(super) fn mount(lowers: &[OwnedFd], upper: &Upper, base: u32) -> Result<OwnedFd, BuildError> {
    let fail = step("mounting the overlay");
    let fs = Filesystem::open(c"overlay").map_err(&fail)?;
    for lower in lowers {
        fs.set_fd(c"lowerdir+", lower.as_fd()).map_err(&fail)?;
    }
    fs.set_fd(c"upperdir", upper.mapped.as_fd())
        .map_err(&fail)?;
    fs.set_fd(c"workdir", upper.work.as_fd()).map_err(&fail)?;
    fs.set(c"redirect_dir", "on").map_err(&fail)?;
    fs.set(c"xino", "on").map_err(&fail)?;
    if upper.is_volatile() {
        fs.flag(c"volatile").map_err(&fail)?;
    }
    let overlay = fs.mount_as(base, NODEV).map_err(&fail)?;
    if mount::is_read_only(overlay.as_fd()).map_err(&fail)? {
        return Err(BuildError::ReadOnly);
    }
    Ok(overlay)
}
