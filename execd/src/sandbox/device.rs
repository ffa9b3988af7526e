//! `/dev`: a read-only tree of its own for every sandbox life. Shared nodes would carry one
//! guest's traces to the next: a write to a terminal sets the time of `/dev/tty` even on a
//! read-only mount, and locks and watches meet on the node.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::fs::{makedev, mkdirat, mknodat, openat, symlinkat, utimensat};

use crate::sys::mount::{self, Filesystem, NOEXEC, NOSUID, RDONLY};

/// The devices of a container of Docker: name, major, minor.
const NODES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];
const LINKS: [(&str, &str); 6] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
    ("core", "/proc/kcore"),
];
const MOUNT_POINTS: [&str; 3] = ["pts", "shm", "mqueue"];

/// Makes the tree for the ids of a user namespace, as a detached mount: root's nodes are
/// those of the namespace's root. Read only: a guest may not change what programs expect.
///
/// # Errors
/// Without CAP_MKNOD or CAP_SYS_ADMIN.
pub fn make(users: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let fs = Filesystem::open(c"tmpfs")?;
    fs.set(c"mode", "0755")?;
    fs.set(c"size", "64k")?;
    let tree = fs.mount(NOSUID | NOEXEC)?;
    for (name, major, minor) in NODES {
        let mode = Mode::from_raw_mode(0o666);
        mknodat(
            &tree,
            name,
            FileType::CharacterDevice,
            mode,
            makedev(major, minor),
        )?;
        rustix::fs::chmodat(&tree, name, mode, AtFlags::empty())?;
    }
    finish(tree.as_fd())?;
    mount::set_attributes(tree.as_fd(), RDONLY | NOSUID | NOEXEC, Some(users))?;
    Ok(tree)
}

/// Names of the devices.
pub fn names() -> impl Iterator<Item = &'static str> {
    NODES.iter().map(|node| node.0)
}

/// Makes the tree with empty files in the place of the devices, for one who may make no
/// devices and binds others' there. Writable until that is done.
///
/// # Errors
/// The kernel's.
pub fn make_empty() -> io::Result<OwnedFd> {
    let fs = Filesystem::open(c"tmpfs")?;
    fs.set(c"mode", "0755")?;
    fs.set(c"size", "64k")?;
    let tree = fs.mount(NOSUID | NOEXEC)?;
    for name in names() {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        openat(&tree, name, flags, Mode::from_raw_mode(0o666))?;
    }
    finish(tree.as_fd())?;
    Ok(tree)
}

/// Sets the times of the container's own devices to the same moment as always, where they are
/// the container's to change.
pub fn settle_nodes() {
    for name in names() {
        let path = format!("/dev/{name}");
        // A user's container has the machine's nodes, and their times are the machine's.
        let _ = set_fixed_times(CWD, &path, AtFlags::SYMLINK_NOFOLLOW);
    }
}

/// All but the devices, and the times of everything.
fn finish(tree: BorrowedFd<'_>) -> io::Result<()> {
    for (name, target) in LINKS {
        symlinkat(target, tree, name)?;
    }
    for name in MOUNT_POINTS {
        mkdirat(tree, name, Mode::from_raw_mode(0o755))?;
    }
    let names = names().chain(LINKS.iter().map(|link| link.0));
    for name in names.chain(MOUNT_POINTS) {
        set_fixed_times(tree, name, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    set_fixed_times(tree, "", AtFlags::EMPTY_PATH)?;
    Ok(())
}

/// Sets the times of an entry that every sandbox has to the same moment, whatever the daemon
/// or the generation that made it.
///
/// # Errors
/// The kernel's.
pub fn set_fixed_times(at: BorrowedFd<'_>, name: &str, flags: AtFlags) -> rustix::io::Result<()> {
    let moment = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: moment,
        last_modification: moment,
    };
    utimensat(at, name, &times, flags)
}
