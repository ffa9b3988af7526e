//! Attributes of one entry carried over to another: owner, mode, extended attributes, access lists,
//! flags, times.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Gid, IFlags, Mode, OFlags, Statx, Timespec, Timestamps, Uid};
use rustix::fs::{XattrFlags, chmodat, chownat, openat, utimensat};
use rustix::io::Errno;

use crate::sandbox::device::set_fixed_times;

/// `XATTR_LIST_MAX` and `XATTR_SIZE_MAX` of `linux/limits.h`.
const LARGEST: usize = 64 << 10;

/// A name in an open directory; `.` is the directory itself. Nothing follows a link at the name.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The directory.
    pub at: BorrowedFd<'a>,
    /// One name, or `.`.
    pub name: &'a CStr,
}

impl<'a> Place<'a> {
    /// An open directory.
    pub fn itself(at: BorrowedFd<'a>) -> Self {
        Self { at, name: c"." }
    }

    /// The calls for extended attributes that take a directory are younger than many nodes' kernels.
    fn path(&self) -> Vec<u8> {
        let mut path = format!("/proc/self/fd/{}/", self.at.as_raw_fd()).into_bytes();
        path.extend_from_slice(self.name.to_bytes());
        path
    }
}

/// When an entry was last changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// As the original says.
    Kept,
    /// The same in every pod: what the container runtime has made carries the time of the pod's start.
    Fixed,
}

/// Which of the marks of overlays count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// None: a tree as a guest sees it.
    Merged,
    /// Those by which an upper hides and moves what lies below: the raw directory of an overlay that
    /// was mounted in a user namespace.
    Upper,
}

/// Makes `to` like `from`, of which `stat` was taken. Both are of one type.
///
/// # Errors
/// When an attribute cannot be read or set. One that only a machine's administrator may set, and the
/// flags immutable and append, are left: no layer of an image can carry them.
pub fn carry(
    from: Place<'_>,
    stat: &Statx,
    to: Place<'_>,
    view: View,
    time: Time,
) -> io::Result<()> {
    let nofollow = AtFlags::SYMLINK_NOFOLLOW;
    let (uid, gid) = (Uid::from_raw(stat.stx_uid), Gid::from_raw(stat.stx_gid));
    // Before the mode and the capabilities, which a change of the owner takes away.
    chownat(to.at, to.name, Some(uid), Some(gid), nofollow)?;
    let kind = FileType::from_raw_mode(u32::from(stat.stx_mode));
    if kind != FileType::Symlink {
        let mode = Mode::from_raw_mode(u32::from(stat.stx_mode) & 0o7777);
        chmodat(to.at, to.name, mode, AtFlags::empty())?;
    }
    carry_xattrs(from, to, view)?;
    if matches!(kind, FileType::RegularFile | FileType::Directory) {
        carry_flags(from, to)?;
    }
    let moment = match time {
        Time::Kept => Timespec {
            tv_sec: stat.stx_mtime.tv_sec,
            tv_nsec: stat.stx_mtime.tv_nsec.into(),
        },
        Time::Fixed => Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
    };
    let times = Timestamps {
        last_access: moment,
        last_modification: moment,
    };
    Ok(utimensat(to.at, to.name, &times, nofollow)?)
}

/// Owner and mode alone, with the fixed time.
///
/// # Errors
/// When one cannot be set.
pub fn bare(stat: &Statx, to: Place<'_>) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(stat.stx_uid), Gid::from_raw(stat.stx_gid));
    chownat(
        to.at,
        to.name,
        Some(uid),
        Some(gid),
        AtFlags::SYMLINK_NOFOLLOW,
    )?;
    let mode = Mode::from_raw_mode(u32::from(stat.stx_mode) & 0o7777);
    chmodat(to.at, to.name, mode, AtFlags::empty())?;
    fixed_time(to)
}

/// Gives an entry the time that it has in every pod.
///
/// # Errors
/// The kernel's.
pub fn fixed_time(to: Place<'_>) -> io::Result<()> {
    set_fixed_times(to.at, &to.name.to_string_lossy(), AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

/// What the kernel notes for itself about where a copy in an upper came from: file handles and counts
/// that mean nothing elsewhere.
const OVERLAYS_OWN: [&[u8]; 5] = [b"origin", b"impure", b"nlink", b"upper", b"uuid"];

/// Whether an attribute is part of an image and may be set without being the machine's administrator.
fn is_carried(name: &[u8], view: View) -> bool {
    match (name.strip_prefix(b"user.overlay."), view) {
        (Some(_), View::Merged) => false,
        (Some(mark), View::Upper) => !OVERLAYS_OWN.contains(&mark),
        (None, View::Merged | View::Upper) => {
            name.starts_with(b"user.")
                || name == b"security.capability"
                || name.starts_with(b"system.posix_acl_")
        }
    }
}

fn carry_xattrs(from: Place<'_>, to: Place<'_>, view: View) -> io::Result<()> {
    let mut names = Vec::with_capacity(LARGEST);
    match rustix::fs::llistxattr(from.path(), rustix::buffer::spare_capacity(&mut names)) {
        Ok(_) => {}
        Err(Errno::OPNOTSUPP) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    for name in names
        .split(|byte| *byte == 0)
        .filter(|n| is_carried(n, view))
    {
        let mut value = Vec::with_capacity(LARGEST);
        let spare = rustix::buffer::spare_capacity(&mut value);
        rustix::fs::lgetxattr(from.path(), name, spare)?;
        rustix::fs::lsetxattr(to.path(), name, &value, XattrFlags::empty())?;
    }
    Ok(())
}

fn carry_flags(from: Place<'_>, to: Place<'_>) -> io::Result<()> {
    let open = |place: Place<'_>| {
        let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(place.at, place.name, how, Mode::empty())
    };
    let wanted = IFlags::NODUMP | IFlags::NOATIME;
    let flags = match rustix::fs::ioctl_getflags(open(from)?) {
        Ok(flags) => flags & wanted,
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if flags.is_empty() {
        return Ok(());
    }
    let to = open(to)?;
    let now = rustix::fs::ioctl_getflags(&to)?;
    Ok(rustix::fs::ioctl_setflags(&to, now | flags)?)
}
