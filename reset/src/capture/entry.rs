//! One entry: its attributes in the guest's view.

use std::ffi::CStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, readlinkat, statx};
use rustix::io::Errno;

use super::{Options, xattrs};
use crate::sys;
use crate::tree::{Entry, Kind};

/// Buffers that are used again for every entry.
#[derive(Default)]
pub(super) struct Buffers {
    pub(super) list: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) contents: Vec<u8>,
}

/// Asks for one name in a directory, or with the empty name for the descriptor itself.
pub(super) fn stat(dir: BorrowedFd<'_>, name: &CStr) -> Result<Statx, Errno> {
    let flags = if name.is_empty() {
        AtFlags::EMPTY_PATH | sys::STAT_AT
    } else {
        sys::STAT_AT
    };
    let stat = statx(
        dir,
        name,
        flags,
        StatxFlags::BASIC_STATS | StatxFlags::MNT_ID,
    )?;
    let basic = StatxFlags::BASIC_STATS.bits();
    // A file system that cannot give one of these would look like one in which it is zero.
    if stat.stx_mask & basic != basic {
        Err(Errno::NODATA)
    } else {
        Ok(stat)
    }
}

/// The mount an answer came from, where the kernel says it.
pub(super) fn mount_id(stat: &Statx) -> Option<u64> {
    (stat.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(stat.stx_mnt_id)
}

pub(super) fn file_type(stat: &Statx) -> FileType {
    FileType::from_raw_mode(u32::from(stat.stx_mode))
}

pub(super) fn device(stat: &Statx) -> u64 {
    u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor)
}

/// The attributes that statx gives.
pub(super) fn basic(stat: &Statx, options: &Options<'_>) -> Result<Entry, Errno> {
    let kind = match file_type(stat) {
        FileType::Directory => Kind::Directory,
        FileType::RegularFile => Kind::File,
        FileType::Symlink => Kind::Symlink,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Unknown => return Err(Errno::INVAL),
    };
    let mut entry = Entry::new(kind);
    entry.mode = stat.stx_mode & 0o7777;
    entry.uid = options.ids.shown(stat.stx_uid);
    entry.gid = options.ids.shown(stat.stx_gid);
    entry.mtime_s = stat.stx_mtime.tv_sec;
    entry.mtime_ns = stat.stx_mtime.tv_nsec;
    if matches!(kind, Kind::File | Kind::Symlink) {
        entry.size = stat.stx_size;
    }
    if matches!(kind, Kind::CharDevice | Kind::BlockDevice) {
        entry.rdev = u64::from(stat.stx_rdev_major) << 32 | u64::from(stat.stx_rdev_minor);
    }
    if kind != Kind::Directory {
        entry.link_count = stat.stx_nlink;
    }
    Ok(entry)
}

/// The attributes that take calls of their own: target, inode flags and extended attributes. An error
/// names the operation.
pub(super) fn read(
    dir: BorrowedFd<'_>,
    name: &CStr,
    entry: &mut Entry,
    options: &Options<'_>,
    buffers: &mut Buffers,
) -> Result<(), (&'static str, Errno)> {
    if entry.kind == Kind::Symlink {
        let target = readlinkat(dir, name, Vec::new()).map_err(|e| ("read link", e))?;
        entry.target = target.into_bytes();
    }
    let openable = matches!(entry.kind, Kind::Directory | Kind::File);
    entry.flags = sys::inode_flags(dir, name, openable).map_err(|e| ("read inode flags of", e))?;
    entry.xattrs = xattrs::read(dir, name, options, buffers)?;
    Ok(())
}
