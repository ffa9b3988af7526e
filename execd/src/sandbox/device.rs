//! `/dev`: one read-only tree for all sandboxes, each of which sees it through its own ids.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, Timespec, Timestamps};
use rustix::fs::{makedev, mkdirat, mknodat, symlinkat, utimensat};

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

/// The tree, as a detached mount.
#[derive(Debug)]
pub struct Devices(OwnedFd);

impl Devices {
    /// Makes it.
    ///
    /// # Errors
    /// Without CAP_MKNOD or CAP_SYS_ADMIN.
    pub fn make() -> io::Result<Self> {
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
        for (name, target) in LINKS {
            symlinkat(target, &tree, name)?;
        }
        for name in MOUNT_POINTS {
            mkdirat(&tree, name, Mode::from_raw_mode(0o755))?;
        }
        let names = NODES.iter().map(|node| node.0);
        let names = names.chain(LINKS.iter().map(|link| link.0));
        for name in names.chain(MOUNT_POINTS) {
            set_fixed_times(tree.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        set_fixed_times(tree.as_fd(), "", AtFlags::EMPTY_PATH)?;
        Ok(Self(tree))
    }

    /// A clone in which root's nodes are those of a user namespace's root. Read only: a
    /// guest's chmod of `/dev/null` would outlive it.
    ///
    /// # Errors
    /// When the mount cannot be cloned or mapped.
    pub fn for_users(&self, users: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let clone = mount::clone_mount(self.0.as_fd())?;
        mount::set_attributes(clone.as_fd(), RDONLY | NOSUID | NOEXEC, Some(users))?;
        Ok(clone)
    }
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
