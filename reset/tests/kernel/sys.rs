//! The few unsafe things that the tests do.

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// One page of a file, mapped shared.
pub(crate) struct Mapping(*mut u8);

const PAGE: usize = 4096;

impl Mapping {
    pub(crate) fn of(file: &File) -> Self {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let at = unsafe {
            mmap(
                std::ptr::null_mut(),
                PAGE,
                protection,
                MapFlags::SHARED,
                file,
                0,
            )
        };
        Mapping(at.expect("mmap").cast())
    }

    /// Overwrites the first byte.
    pub(crate) fn store(&self, byte: u8) {
        // SAFETY: the page is mapped for as long as this lives.
        unsafe { self.0.write_volatile(byte) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this size, and nothing else refers to it.
        let _ = unsafe { munmap(self.0.cast(), PAGE) };
    }
}

/// A detached copy of a mount with its ids mapped as in a user namespace.
pub(crate) fn id_mapped_clone(mount: BorrowedFd<'_>, user: BorrowedFd<'_>) -> OwnedFd {
    // SAFETY: open_tree gives a new descriptor; mount_setattr reads the structure of the size given.
    unsafe {
        let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_EMPTY_PATH as u32;
        let fd = libc::syscall(libc::SYS_open_tree, mount.as_raw_fd(), c"".as_ptr(), flags);
        assert!(fd >= 0, "open_tree: {}", std::io::Error::last_os_error());
        let clone = OwnedFd::from_raw_fd(fd as i32);
        let attr = libc::mount_attr {
            attr_set: libc::MOUNT_ATTR_IDMAP,
            attr_clr: 0,
            propagation: 0,
            userns_fd: user.as_raw_fd() as u64,
        };
        let result = libc::syscall(
            libc::SYS_mount_setattr,
            clone.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        );
        assert_eq!(
            result,
            0,
            "mount_setattr: {}",
            std::io::Error::last_os_error()
        );
        clone
    }
}

/// Gives the calling thread namespaces of its own, with private mounts and a root of its own, mounted
/// on `root`.
pub(crate) fn own_namespaces(root: &std::ffi::CStr) {
    let done = |what: &str, result: libc::c_int| {
        assert_eq!(result, 0, "{what}: {}", std::io::Error::last_os_error());
    };
    let all = libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::CLONE_NEWNET;
    let private = libc::MS_REC | libc::MS_PRIVATE;
    let none = std::ptr::null();
    // SAFETY: no call touches memory but C strings that outlive it.
    unsafe {
        done("unshare", libc::unshare(all));
        done(
            "private",
            libc::mount(none, c"/".as_ptr(), none, private, none.cast()),
        );
        mount_tmpfs(root);
        done("chroot", libc::chroot(root.as_ptr()));
        done("chdir", libc::chdir(c"/".as_ptr()));
    }
}

/// Makes a System V segment in the calling thread's ipc namespace.
pub(crate) fn make_segment() {
    // SAFETY: the call takes numbers only.
    let id = unsafe { libc::shmget(0x1234, 4096, libc::IPC_CREAT | 0o600) };
    assert!(id >= 0, "shmget: {}", std::io::Error::last_os_error());
}

/// Makes a message queue in the calling thread's ipc namespace.
pub(crate) fn make_queue() {
    // SAFETY: the name is a C string, the attributes are defaults.
    unsafe {
        let mode: libc::mode_t = 0o600;
        let fd = libc::mq_open(c"/left".as_ptr(), libc::O_CREAT | libc::O_RDWR, mode, 0);
        assert!(fd >= 0, "mq_open: {}", std::io::Error::last_os_error());
        libc::close(fd);
    }
}

/// Brings the loopback interface of the calling thread's network namespace up.
pub(crate) fn loopback_up() {
    // SAFETY: the request is zeroed and then filled in; the descriptor is closed again.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0);
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        assert_eq!(libc::ioctl(fd, libc::SIOCSIFFLAGS, &raw const request), 0);
        libc::close(fd);
    }
}

/// Mounts a small tmpfs on a path in the calling thread's mount namespace.
pub(crate) fn mount_tmpfs(at: &std::ffi::CStr) {
    // SAFETY: all arguments are C strings or null.
    let result = unsafe {
        libc::mount(
            c"left".as_ptr(),
            at.as_ptr(),
            c"tmpfs".as_ptr(),
            0,
            std::ptr::null(),
        )
    };
    assert_eq!(result, 0, "mount: {}", std::io::Error::last_os_error());
}

/// From now on the kernel reaps this process's children itself.
pub(crate) fn reap_no_children() {
    // SAFETY: a constant action.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}
