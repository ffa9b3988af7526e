//! Looking at entries by descriptor and one name, without following links.

use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxFlags, openat, statx};

/// What makes two names one file.
pub type LinkKey = (u32, u32, u64, u64, (i64, u32));

/// Device, inode, and what could not differ between two names of one file: an overlay may show the
/// inodes of two file systems under one device.
pub fn link_key(stat: &Statx) -> LinkKey {
    let time = (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec);
    let (major, minor) = (stat.stx_dev_major, stat.stx_dev_minor);
    (major, minor, stat.stx_ino, stat.stx_size, time)
}

/// Opens a directory.
///
/// # Errors
/// The kernel's; a link is none.
pub fn open(at: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, how, Mode::empty())?)
}

/// What an entry is, with the id of the mount it lies on. The empty name is the descriptor itself.
///
/// # Errors
/// The kernel's.
pub fn stat(at: BorrowedFd<'_>, name: &CStr) -> io::Result<Statx> {
    let mut flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    if name.is_empty() {
        flags |= AtFlags::EMPTY_PATH;
    }
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    let stat = statx(at, name, flags, wanted)?;
    if stat.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
        return Err(io::Error::other(
            "this kernel does not tell mounts apart (Linux 5.8 and later do)",
        ));
    }
    Ok(stat)
}
