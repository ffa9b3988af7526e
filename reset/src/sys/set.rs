//! Setting the attributes that `at` reads, by the directory's descriptor and a name: nothing is
//! opened that has an effect when opened, and no link is followed. Each call has an older way for
//! kernels that do not know it.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{IFlags, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use super::at::{
    FILE_GETATTR, FileAttr, IFLAGS, XFLAGS, XattrArgs, at_flags, check, open, through_proc, unknown,
};
use crate::tree::Flags;

/// System call numbers, the same on every architecture of Linux but alpha (`scripts/syscall.tbl`).
const FCHMODAT2: libc::c_long = 452;
const SETXATTRAT: libc::c_long = 463;
const REMOVEXATTRAT: libc::c_long = 466;
const FILE_SETATTR: libc::c_long = 469;

static NO_SETXATTRAT: AtomicBool = AtomicBool::new(false);
static NO_REMOVEXATTRAT: AtomicBool = AtomicBool::new(false);
static NO_FILE_SETATTR: AtomicBool = AtomicBool::new(false);
static NO_FCHMODAT2: AtomicBool = AtomicBool::new(false);

/// Sets one extended attribute.
pub(crate) fn set_xattr(
    dir: BorrowedFd<'_>,
    name: &CStr,
    attribute: &CStr,
    value: &[u8],
) -> Result<(), Errno> {
    let by_path = || {
        let path = through_proc(dir, name);
        rustix::fs::lsetxattr(path, attribute, value, XattrFlags::empty())
    };
    if NO_SETXATTRAT.load(Ordering::Relaxed) {
        return by_path();
    }
    let args = XattrArgs {
        value: value.as_ptr() as u64,
        size: u32::try_from(value.len()).map_err(|_| Errno::TOOBIG)?,
        flags: 0,
    };
    // SAFETY: both names are C strings, and the arguments name the bytes of `value`.
    let result = check(unsafe {
        let (fd, name_at, flags) = (dir.as_raw_fd(), name.as_ptr(), at_flags(name));
        let size = size_of::<XattrArgs>();
        libc::syscall(
            SETXATTRAT,
            fd,
            name_at,
            flags,
            attribute.as_ptr(),
            &raw const args,
            size,
        )
    });
    match result {
        Ok(_) => Ok(()),
        Err(error) if unknown(error, &NO_SETXATTRAT) => by_path(),
        Err(error) => Err(error),
    }
}

/// Removes one extended attribute.
pub(crate) fn remove_xattr(
    dir: BorrowedFd<'_>,
    name: &CStr,
    attribute: &CStr,
) -> Result<(), Errno> {
    let by_path = || rustix::fs::lremovexattr(through_proc(dir, name), attribute);
    if NO_REMOVEXATTRAT.load(Ordering::Relaxed) {
        return by_path();
    }
    // SAFETY: both names are C strings.
    let result = check(unsafe {
        let (fd, name_at, flags) = (dir.as_raw_fd(), name.as_ptr(), at_flags(name));
        libc::syscall(REMOVEXATTRAT, fd, name_at, flags, attribute.as_ptr())
    });
    match result {
        Ok(_) => Ok(()),
        Err(error) if unknown(error, &NO_REMOVEXATTRAT) => by_path(),
        Err(error) => Err(error),
    }
}

/// Sets the permission bits of anything but a symbolic link.
pub(crate) fn set_mode(dir: BorrowedFd<'_>, name: &CStr, mode: u16) -> Result<(), Errno> {
    let by_descriptor = || {
        let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entry = rustix::fs::openat(dir, name, how, Mode::empty())?;
        // With a slash at its end the path would ask for a directory.
        let path = format!("/proc/self/fd/{}", entry.as_raw_fd());
        rustix::fs::chmod(path, Mode::from_raw_mode(u32::from(mode)))
    };
    if NO_FCHMODAT2.load(Ordering::Relaxed) {
        return by_descriptor();
    }
    // SAFETY: the name is a C string.
    let result = check(unsafe {
        let (fd, name_at, flags) = (dir.as_raw_fd(), name.as_ptr(), at_flags(name));
        libc::syscall(FCHMODAT2, fd, name_at, libc::c_uint::from(mode), flags)
    });
    match result {
        Ok(_) => Ok(()),
        Err(error) if unknown(error, &NO_FCHMODAT2) => by_descriptor(),
        Err(error) => Err(error),
    }
}

/// Sets the inode flags that count and leaves all others; `openable` says that the entry is a regular
/// file or a directory. Where a type or file system has no flags, having none is no error.
pub(crate) fn set_inode_flags(
    dir: BorrowedFd<'_>,
    name: &CStr,
    openable: bool,
    flags: Flags,
) -> Result<(), Errno> {
    let set = if NO_FILE_SETATTR.load(Ordering::Relaxed) {
        by_ioctl(dir, name, openable, flags)
    } else {
        match by_attributes(dir, name, flags) {
            Err(error) if unknown(error, &NO_FILE_SETATTR) => by_ioctl(dir, name, openable, flags),
            other => other,
        }
    };
    match set {
        Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) if flags.0 == 0 => Ok(()),
        other => other,
    }
}

fn by_attributes(dir: BorrowedFd<'_>, name: &CStr, flags: Flags) -> Result<(), Errno> {
    let mut attr = FileAttr::default();
    let call = |number, attr: *mut FileAttr| {
        let (fd, name_at, at) = (dir.as_raw_fd(), name.as_ptr(), at_flags(name));
        // SAFETY: the name is a C string, and the kernel reads or writes at most the size told.
        check(unsafe { libc::syscall(number, fd, name_at, attr, size_of::<FileAttr>(), at) })
    };
    call(FILE_GETATTR, &raw mut attr)?;
    let before = attr.xflags;
    for (x, bit) in XFLAGS {
        attr.xflags = if flags.0 & bit != 0 {
            attr.xflags | x
        } else {
            attr.xflags & !x
        };
    }
    if attr.xflags != before {
        call(FILE_SETATTR, &raw mut attr)?;
    }
    Ok(())
}

fn by_ioctl(dir: BorrowedFd<'_>, name: &CStr, openable: bool, flags: Flags) -> Result<(), Errno> {
    if !openable {
        return if flags.0 == 0 {
            Ok(())
        } else {
            Err(Errno::OPNOTSUPP)
        };
    }
    let file = open(dir, name)?;
    let before = rustix::fs::ioctl_getflags(&file)?;
    let mut now = before;
    for (flag, bit) in IFLAGS {
        now.set(flag, flags.0 & bit != 0);
    }
    if now != before {
        rustix::fs::ioctl_setflags(&file, IFlags::from_bits_retain(now.bits()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::sys::{get_xattr, inode_flags};

    /// The older way must do what the newer does, whichever the kernel at hand has.
    #[test]
    fn both_ways_of_setting_flags_agree() {
        let scratch = tempfile::tempdir().expect("tempdir");
        let path = scratch.path().join("file");
        std::fs::write(&path, "x").expect("write");
        let dir = std::fs::File::open(scratch.path()).expect("open");
        let dir = dir.as_fd();
        let nodump = Flags(Flags::NODUMP);
        for (set, now) in [(true, nodump), (false, Flags::default())] {
            let by_ioctl = by_ioctl(dir, c"file", true, now);
            assert_eq!(by_ioctl, Ok(()), "{set}");
            assert_eq!(inode_flags(dir, c"file", true), Ok(now));
        }
        assert_eq!(set_inode_flags(dir, c"file", true, nodump), Ok(()));
        assert_eq!(inode_flags(dir, c"file", true), Ok(nodump));
        let clear = set_inode_flags(dir, c"file", true, Flags::default());
        assert_eq!(clear, Ok(()));
        assert_eq!(inode_flags(dir, c"file", true), Ok(Flags::default()));
    }

    #[test]
    fn modes_and_attributes_are_set_on_the_entry_and_not_behind_a_link() {
        let scratch = tempfile::tempdir().expect("tempdir");
        let path = scratch.path().join("file");
        std::fs::write(&path, "x").expect("write");
        std::os::unix::fs::symlink("file", scratch.path().join("link")).expect("symlink");
        let dir = std::fs::File::open(scratch.path()).expect("open");
        let dir = dir.as_fd();
        assert_eq!(set_mode(dir, c"file", 0o4711), Ok(()));
        assert!(set_mode(dir, c"link", 0o600).is_err(), "a link has no mode");
        let mode = path.metadata().expect("stat").permissions().mode();
        assert_eq!(mode & 0o7777, 0o4711);
        let mut value = Vec::new();
        assert_eq!(set_xattr(dir, c"file", c"user.a", b"v"), Ok(()));
        assert_eq!(get_xattr(dir, c"file", c"user.a", &mut value), Ok(()));
        assert_eq!(value, b"v");
        assert_eq!(remove_xattr(dir, c"file", c"user.a"), Ok(()));
        let gone = get_xattr(dir, c"file", c"user.a", &mut value);
        assert_eq!(gone, Err(Errno::NODATA));
    }
}
