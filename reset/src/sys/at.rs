//! Extended attributes and inode flags of an entry named by its directory's descriptor and a name,
//! without opening it: pipes and devices must not be opened, and links not followed.
//!
//! The calls that take a descriptor and a name are younger than some kernels in use; where one is
//! missing, the same is asked through `/proc/self/fd`.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, IFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::tree::Flags;

/// System call numbers, the same on every architecture of Linux but alpha (`scripts/syscall.tbl`).
const GETXATTRAT: libc::c_long = 464;
const LISTXATTRAT: libc::c_long = 465;
pub(super) const FILE_GETATTR: libc::c_long = 468;

/// `XATTR_LIST_MAX` and `XATTR_SIZE_MAX` of `linux/limits.h`.
const XATTR_MAX: usize = 65536;

static NO_XATTRAT: AtomicBool = AtomicBool::new(false);
static NO_FILE_GETATTR: AtomicBool = AtomicBool::new(false);

/// `struct xattr_args` of `linux/xattr.h`.
#[repr(C, align(8))]
pub(super) struct XattrArgs {
    pub(super) value: u64,
    pub(super) size: u32,
    pub(super) flags: u32,
}

/// `struct file_attr` of `linux/fs.h`, its first version.
#[repr(C)]
#[derive(Default)]
pub(super) struct FileAttr {
    pub(super) xflags: u64,
    extsize: u32,
    nextents: u32,
    projid: u32,
    cowextsize: u32,
}

pub(super) fn check(result: libc::c_long) -> Result<usize, Errno> {
    if result < 0 {
        let raw = std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO);
        return Err(Errno::from_raw_os_error(raw));
    }
    Ok(result as usize)
}

/// With an empty name the calls are about the descriptor itself.
pub(super) fn at_flags(name: &CStr) -> libc::c_int {
    if name.is_empty() {
        libc::AT_EMPTY_PATH
    } else {
        libc::AT_SYMLINK_NOFOLLOW
    }
}

pub(super) fn through_proc(dir: BorrowedFd<'_>, name: &CStr) -> Vec<u8> {
    let mut path = format!("/proc/self/fd/{}", dir.as_raw_fd()).into_bytes();
    // With an empty name this ends in a slash, which follows the link to the directory itself.
    path.push(b'/');
    path.extend_from_slice(name.to_bytes());
    path
}

/// True for the answers of a kernel that does not know a call, and of sandboxes that filter what they do
/// not know. Then the older way is taken from now on.
pub(super) fn unknown(error: Errno, remembered: &AtomicBool) -> bool {
    let unknown = matches!(error, Errno::NOSYS | Errno::PERM);
    if unknown {
        remembered.store(true, Ordering::Relaxed);
    }
    unknown
}

/// Names of all extended attributes, as the kernel lists them: each ended by a zero byte, in `buffer`.
pub(crate) fn list_xattrs(
    dir: BorrowedFd<'_>,
    name: &CStr,
    buffer: &mut Vec<u8>,
) -> Result<(), Errno> {
    if NO_XATTRAT.load(Ordering::Relaxed) {
        return list_by_path(dir, name, buffer);
    }
    buffer.clear();
    buffer.reserve(XATTR_MAX);
    // SAFETY: the name is a C string and the buffer has XATTR_MAX writable bytes.
    let len = check(unsafe {
        let (fd, name_at, flags) = (dir.as_raw_fd(), name.as_ptr(), at_flags(name));
        libc::syscall(
            LISTXATTRAT,
            fd,
            name_at,
            flags,
            buffer.as_mut_ptr(),
            XATTR_MAX,
        )
    });
    match len {
        Ok(len) => {
            // SAFETY: the kernel has written that many bytes.
            unsafe { buffer.set_len(len.min(XATTR_MAX)) };
            Ok(())
        }
        // The file system knows none.
        Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) if unknown(error, &NO_XATTRAT) => list_by_path(dir, name, buffer),
        Err(error) => Err(error),
    }
}

fn list_by_path(dir: BorrowedFd<'_>, name: &CStr, buffer: &mut Vec<u8>) -> Result<(), Errno> {
    buffer.clear();
    buffer.reserve(XATTR_MAX);
    match rustix::fs::llistxattr(
        through_proc(dir, name),
        rustix::buffer::spare_capacity(buffer),
    ) {
        Ok(_) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The value of one extended attribute, in `buffer`.
pub(crate) fn get_xattr(
    dir: BorrowedFd<'_>,
    name: &CStr,
    attribute: &CStr,
    buffer: &mut Vec<u8>,
) -> Result<(), Errno> {
    if NO_XATTRAT.load(Ordering::Relaxed) {
        return get_by_path(dir, name, attribute, buffer);
    }
    buffer.clear();
    buffer.reserve(XATTR_MAX);
    let mut args = XattrArgs {
        value: buffer.as_mut_ptr() as u64,
        size: XATTR_MAX as u32,
        flags: 0,
    };
    // SAFETY: both names are C strings, and the arguments name a buffer of XATTR_MAX writable bytes.
    let len = check(unsafe {
        let (fd, name_at, flags) = (dir.as_raw_fd(), name.as_ptr(), at_flags(name));
        let size = size_of::<XattrArgs>();
        libc::syscall(
            GETXATTRAT,
            fd,
            name_at,
            flags,
            attribute.as_ptr(),
            &raw mut args,
            size,
        )
    });
    match len {
        Ok(len) => {
            // SAFETY: the kernel has written that many bytes.
            unsafe { buffer.set_len(len.min(XATTR_MAX)) };
            Ok(())
        }
        Err(error) if unknown(error, &NO_XATTRAT) => get_by_path(dir, name, attribute, buffer),
        Err(error) => Err(error),
    }
}

fn get_by_path(
    dir: BorrowedFd<'_>,
    name: &CStr,
    attribute: &CStr,
    buffer: &mut Vec<u8>,
) -> Result<(), Errno> {
    buffer.clear();
    buffer.reserve(XATTR_MAX);
    let spare = rustix::buffer::spare_capacity(buffer);
    rustix::fs::lgetxattr(through_proc(dir, name), attribute, spare).map(|_| ())
}

/// The inode flags of an entry; `openable` says that it is a regular file or a directory. Types and
/// file systems without flags have none.
pub(crate) fn inode_flags(
    dir: BorrowedFd<'_>,
    name: &CStr,
    openable: bool,
) -> Result<Flags, Errno> {
    if NO_FILE_GETATTR.load(Ordering::Relaxed) {
        return flags_by_ioctl(dir, name, openable);
    }
    let mut attr = FileAttr::default();
    // SAFETY: the name is a C string and the kernel writes at most the size that it is told.
    let result = check(unsafe {
        let (fd, name_at, flags) = (dir.as_raw_fd(), name.as_ptr(), at_flags(name));
        libc::syscall(
            FILE_GETATTR,
            fd,
            name_at,
            &raw mut attr,
            size_of::<FileAttr>(),
            flags,
        )
    });
    match result {
        Ok(_) => Ok(from_xflags(attr.xflags)),
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => Ok(Flags::default()),
        Err(error) if unknown(error, &NO_FILE_GETATTR) => flags_by_ioctl(dir, name, openable),
        Err(error) => Err(error),
    }
}

/// `FS_XFLAG_*` of `linux/fs.h`.
pub(super) const XFLAGS: [(u64, u8); 4] = [
    (0x8, Flags::IMMUTABLE),
    (0x10, Flags::APPEND),
    (0x80, Flags::NODUMP),
    (0x40, Flags::NOATIME),
];

fn from_xflags(xflags: u64) -> Flags {
    Flags(
        XFLAGS
            .iter()
            .filter(|(x, _)| xflags & x != 0)
            .map(|(_, bit)| bit)
            .sum(),
    )
}

/// The flags of the older calls.
pub(super) const IFLAGS: [(IFlags, u8); 4] = [
    (IFlags::IMMUTABLE, Flags::IMMUTABLE),
    (IFlags::APPEND, Flags::APPEND),
    (IFlags::NODUMP, Flags::NODUMP),
    (IFlags::NOATIME, Flags::NOATIME),
];

/// Opens a regular file or a directory for its flags alone.
pub(super) fn open(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let how =
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
    let path = if name.is_empty() { c"." } else { name };
    rustix::fs::openat(dir, path, how, Mode::empty())
}

/// Opens the entry, which has no effect on regular files and directories only.
fn flags_by_ioctl(dir: BorrowedFd<'_>, name: &CStr, openable: bool) -> Result<Flags, Errno> {
    if !openable {
        return Ok(Flags::default());
    }
    let file = open(dir, name)?;
    let flags = match rustix::fs::ioctl_getflags(&file) {
        Ok(flags) => flags,
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => return Ok(Flags::default()),
        Err(error) => return Err(error),
    };
    Ok(Flags(
        IFLAGS
            .iter()
            .filter(|(x, _)| flags.contains(*x))
            .map(|(_, bit)| bit)
            .sum(),
    ))
}

/// What every statx here asks for beside the attribute of its own: no automount, no following.
pub(crate) const STAT_AT: AtFlags = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::NO_AUTOMOUNT);

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::path::Path;

    use rustix::fs::XattrFlags;

    use super::*;

    /// Both ways must say the same, whichever the kernel at hand has.
    #[test]
    fn the_older_ways_say_the_same() {
        let scratch = tempfile::tempdir().expect("tempdir");
        let at = |name: &str| scratch.path().join(name);
        std::fs::write(at("file"), "x").expect("write");
        std::os::unix::fs::symlink("nowhere", at("link")).expect("symlink");
        for path in [at("file"), scratch.path().to_owned()] {
            rustix::fs::lsetxattr(&path, "user.a", b"value", XattrFlags::empty())
                .expect("setxattr");
            set_nodump(&path);
        }
        let dir = std::fs::File::open(scratch.path()).expect("open");
        for (name, openable) in [(c"file", true), (c"", true), (c"link", false)] {
            let (mut new, mut old) = (Vec::new(), Vec::new());
            assert_eq!(list_xattrs(dir.as_fd(), name, &mut new), Ok(()));
            assert_eq!(list_by_path(dir.as_fd(), name, &mut old), Ok(()));
            assert_eq!(new, old);
            let got = get_xattr(dir.as_fd(), name, c"user.a", &mut new);
            assert_eq!(got, get_by_path(dir.as_fd(), name, c"user.a", &mut old));
            assert_eq!(new, old);
            let flags = inode_flags(dir.as_fd(), name, openable);
            assert_eq!(flags, flags_by_ioctl(dir.as_fd(), name, openable));
            let nodump = if openable { Flags::NODUMP } else { 0 };
            assert_eq!(flags, Ok(Flags(nodump)));
        }
    }

    fn set_nodump(path: &Path) {
        let file = std::fs::File::open(path).expect("open");
        let now = rustix::fs::ioctl_getflags(&file).expect("get flags");
        rustix::fs::ioctl_setflags(&file, now | IFlags::NODUMP).expect("set flags");
    }
}
