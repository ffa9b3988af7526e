//! Mounts by descriptor: nothing here touches the daemon's own mount namespace, since
//! every mount there would slow each later clone and exit.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::check;

/// Mount attributes, as in mount_setattr(2).
pub const RDONLY: u64 = 0x1;
pub const NOSUID: u64 = 0x2;
pub const NODEV: u64 = 0x4;
pub const NOEXEC: u64 = 0x8;
const IDMAP: u64 = 0x0010_0000;

const FSOPEN_CLOEXEC: u32 = 1;
const FSMOUNT_CLOEXEC: u32 = 1;
const FSCONFIG_SET_FLAG: u32 = 0;
const FSCONFIG_SET_STRING: u32 = 1;
const FSCONFIG_SET_FD: u32 = 5;
const FSCONFIG_CMD_CREATE: u32 = 6;
const OPEN_TREE_CLONE: u32 = 1;
const MOVE_MOUNT_F_EMPTY_PATH: u32 = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH: u32 = 0x40;

/// A file system that is being configured: fsopen(2).
#[derive(Debug)]
pub struct Filesystem(OwnedFd);

impl Filesystem {
    /// Opens a context for a file system type such as `tmpfs`.
    pub fn open(kind: &CStr) -> io::Result<Self> {
        // SAFETY: the string is NUL terminated and outlives the call.
        let fd = check(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) })?;
        // SAFETY: the kernel has just given us this descriptor.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Sets `key=value`.
    pub fn set(&self, key: &CStr, value: &str) -> io::Result<()> {
        let value = CString::new(value)?;
        self.config(FSCONFIG_SET_STRING, key.as_ptr(), value.as_ptr().cast(), 0)
    }

    /// Sets a flag without a value.
    pub fn flag(&self, key: &CStr) -> io::Result<()> {
        self.config(FSCONFIG_SET_FLAG, key.as_ptr(), std::ptr::null(), 0)
    }

    /// Sets `key` to an open file, such as a layer of an overlay (Linux 6.13).
    pub fn set_fd(&self, key: &CStr, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.config(
            FSCONFIG_SET_FD,
            key.as_ptr(),
            std::ptr::null(),
            fd.as_raw_fd(),
        )
    }

    /// Creates the superblock and returns a detached mount of it.
    pub fn mount(self, attributes: u64) -> io::Result<OwnedFd> {
        self.create()?;
        self.finish(attributes)
    }

    /// As [`Self::mount`], but creates the superblock with the file system ids `id`: what an overlay
    /// makes in its work directory then belongs to the sandbox's root. Without this an
    /// overlay over an id-mapped upper comes up read only, and says nothing.
    pub fn mount_as(self, id: u32, attributes: u64) -> io::Result<OwnedFd> {
        // SAFETY: these change this thread's file system ids only, and are undone below.
        unsafe {
            libc::syscall(libc::SYS_setfsgid, id);
            libc::syscall(libc::SYS_setfsuid, id);
        }
        let created = self.create();
        // SAFETY: as above.
        unsafe {
            libc::syscall(libc::SYS_setfsuid, 0);
            libc::syscall(libc::SYS_setfsgid, 0);
        }
        created?;
        self.finish(attributes)
    }

    fn create(&self) -> io::Result<()> {
        self.config(FSCONFIG_CMD_CREATE, std::ptr::null(), std::ptr::null(), 0)
            .map_err(|error| self.explain(error))
    }

    fn finish(self, attributes: u64) -> io::Result<OwnedFd> {
        // SAFETY: plain integers.
        let fd = check(unsafe {
            libc::syscall(
                libc::SYS_fsmount,
                self.0.as_raw_fd(),
                FSMOUNT_CLOEXEC,
                attributes,
            )
        })?;
        // SAFETY: the kernel has just given us this descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    /// The kernel's own words about a failure stand in the context's message queue.
    fn explain(&self, error: io::Error) -> io::Error {
        let mut buffer = [0u8; 1024];
        // SAFETY: the buffer is ours and as long as said.
        let n = unsafe { libc::read(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len()) };
        if n <= 2 {
            return error;
        }
        let words = String::from_utf8_lossy(&buffer[2..n as usize])
            .trim()
            .to_owned();
        io::Error::new(error.kind(), format!("{error} ({words})"))
    }

    fn config(
        &self,
        command: u32,
        key: *const libc::c_char,
        value: *const libc::c_void,
        aux: i32,
    ) -> io::Result<()> {
        // SAFETY: key and value are NUL terminated or null, as the command wants them.
        check(unsafe {
            libc::syscall(
                libc::SYS_fsconfig,
                self.0.as_raw_fd(),
                command,
                key,
                value,
                aux,
            )
        })
        .map(drop)
    }
}

/// A detached copy of the mount that `fd` lies on, rooted at `fd`: open_tree(2).
pub fn clone_mount(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    open_tree(fd, 0)
}

/// As [`clone_mount`], with all that is mounted below.
pub fn clone_tree(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    open_tree(fd, libc::AT_RECURSIVE as u32)
}

fn open_tree(fd: BorrowedFd<'_>, flags: u32) -> io::Result<OwnedFd> {
    let flags = flags | OPEN_TREE_CLONE | libc::O_CLOEXEC as u32 | libc::AT_EMPTY_PATH as u32;
    // SAFETY: the path is the empty string.
    let fd =
        check(unsafe { libc::syscall(libc::SYS_open_tree, fd.as_raw_fd(), c"".as_ptr(), flags) })?;
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Sets attributes of a detached mount, and its id map when `users` is given:
/// mount_setattr(2).
pub fn set_attributes(
    mount: BorrowedFd<'_>,
    attributes: u64,
    users: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let attr = libc::mount_attr {
        attr_set: attributes | if users.is_some() { IDMAP } else { 0 },
        attr_clr: 0,
        propagation: 0,
        userns_fd: users.map_or(0, |fd| fd.as_raw_fd() as u64),
    };
    // SAFETY: the structure is as long as said and outlives the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &attr,
            std::mem::size_of::<libc::mount_attr>(),
        )
    })
    .map(drop)
}

/// Attaches a detached mount at the directory or file that `target` has open.
pub fn attach(mount: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    // SAFETY: both paths are empty strings.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            target.as_raw_fd(),
            c"".as_ptr(),
            flags,
        )
    })
    .map(drop)
}

/// Attaches a detached mount over `/` and makes it this process's root. `..` from the
/// topmost mount on `/` never leads below it.
pub fn become_root(mount: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: constant paths.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            c"/".as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    })?;
    // SAFETY: a descriptor and a constant path.
    unsafe {
        check(i64::from(libc::fchdir(mount.as_raw_fd())))?;
        check(i64::from(libc::chroot(c".".as_ptr())))?;
    }
    Ok(())
}

/// Leaves every mount of this process's namespace behind: a detached mount becomes the
/// root and the old root is let go. Only for a namespace of one's own.
pub fn abandon_root_for(mount: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: constant paths and descriptors.
    unsafe {
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        check(i64::from(libc::mount(
            std::ptr::null(),
            c"/".as_ptr(),
            std::ptr::null(),
            flags,
            std::ptr::null(),
        )))?;
        check(libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            c"/".as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        ))?;
        check(i64::from(libc::fchdir(mount.as_raw_fd())))?;
        check(libc::syscall(
            libc::SYS_pivot_root,
            c".".as_ptr(),
            c".".as_ptr(),
        ))?;
        check(i64::from(libc::umount2(c".".as_ptr(), libc::MNT_DETACH)))?;
        check(i64::from(libc::chdir(c"/".as_ptr())))?;
    }
    Ok(())
}

/// Whether the file system came up read only, which an overlay does silently.
pub fn is_read_only(mount: BorrowedFd<'_>) -> io::Result<bool> {
    let stat = rustix::fs::fstatvfs(mount.as_fd())?;
    Ok(stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}
