//! The writable layer of one rollout: a tmpfs of its own, a file system of its own in a
//! file, or a directory of the store. It holds canonical ids; the sandbox sees it id-mapped.

pub mod image;

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, Uid, mkdirat, openat};

use super::{BuildError, step};
use crate::store::{Mapped, Store};
use crate::sys::mount::{self, Filesystem, NODEV};

/// Where it lies and how large it may grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A tmpfs: both limits are hard.
    Memory {
        /// Bytes.
        bytes: u64,
        /// Inodes.
        inodes: u64,
    },
    /// An ext4 file system in a file of the store: both limits are hard.
    Image {
        /// Bytes.
        bytes: u64,
        /// Inodes.
        inodes: u64,
    },
    /// A directory of the store: no limit is enforced by the kernel here.
    Disk,
}

/// An upper and the work directory beside it.
#[derive(Debug)]
pub struct Upper {
    /// For the overlay: mapped.
    pub(super) mapped: OwnedFd,
    pub(super) work: OwnedFd,
    /// For reading: unmapped, so with the ids of the guest.
    raw: OwnedFd,
    /// The tmpfs and its mapped clone. A detached mount is dissolved when its descriptor
    /// closes, and then no overlay takes it; later they keep the tmpfs alive until it is
    /// dropped, behind the path.
    _mounts: Vec<OwnedFd>,
    volatile: bool,
}

impl Upper {
    /// Makes an empty upper whose root looks like the topmost lower's: the merged root
    /// shows the upper's attributes.
    pub(super) fn make(
        kind: &Kind,
        store: &Store,
        mapped: &Mapped,
        name: &str,
        users: BorrowedFd<'_>,
        lowers: &[OwnedFd],
    ) -> Result<Self, BuildError> {
        // An image may come without mount points; a prepared layer has them.
        let upper = match kind {
            Kind::Memory { bytes, inodes } => Self::in_memory(*bytes, *inodes, users, lowers)
                .map_err(step("making the upper in memory")),
            Kind::Image { bytes, inodes } => {
                Self::in_image(store, name, *bytes, *inodes, users, lowers)
                    .map_err(step("making the upper in a disk image"))
            }
            Kind::Disk => Self::on_disk(store, mapped, name, lowers),
        }?;
        make_mount_points(upper.raw(), lowers).map_err(step("making mount points"))?;
        Ok(upper)
    }

    fn in_memory(
        bytes: u64,
        inodes: u64,
        users: BorrowedFd<'_>,
        lowers: &[OwnedFd],
    ) -> io::Result<Self> {
        let fs = Filesystem::open(c"tmpfs")?;
        fs.set(c"size", &bytes.to_string())?;
        // Its root, the upper, the work directory and the overlay's own.
        fs.set(c"nr_inodes", &(inodes + 5).to_string())?;
        fs.set(c"mode", "0700")?;
        let tree = fs.mount(NODEV)?;
        Self::of_own(tree, false, users, lowers)
    }

    fn in_image(
        store: &Store,
        name: &str,
        bytes: u64,
        inodes: u64,
        users: BorrowedFd<'_>,
        lowers: &[OwnedFd],
    ) -> io::Result<Self> {
        let directory = store.upper(name);
        fs::create_dir(&directory)?;
        let file = directory.join("image");
        let tree = image::mount(&store.blanks(), &file, bytes, inodes + 16)?;
        Self::of_own(tree, true, users, lowers)
    }

    /// An upper in a file system of its own.
    fn of_own(
        tree: OwnedFd,
        volatile: bool,
        users: BorrowedFd<'_>,
        lowers: &[OwnedFd],
    ) -> io::Result<Self> {
        make_pair(tree.as_fd(), lowers)?;
        let raw = open_directory(tree.as_fd(), "u")?;
        let clone = mount::clone_mount(tree.as_fd())?;
        mount::set_attributes(clone.as_fd(), 0, Some(users))?;
        Ok(Self {
            mapped: open_directory(clone.as_fd(), "u")?,
            work: open_directory(clone.as_fd(), "w")?,
            raw,
            _mounts: vec![tree, clone],
            volatile,
        })
    }

    fn on_disk(
        store: &Store,
        mapped: &Mapped,
        name: &str,
        lowers: &[OwnedFd],
    ) -> Result<Self, BuildError> {
        let path = store.upper(name);
        let make = || -> io::Result<OwnedFd> {
            fs::create_dir(&path)?;
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
            let directory = openat(CWD, &path, flags, Mode::empty())?;
            make_pair(directory.as_fd(), lowers)?;
            open_directory(directory.as_fd(), "u")
        };
        let raw = make().map_err(step("making the upper on disk"))?;
        // A mount of its own, in which the upper has the same name in every sandbox: the guest
        // reads that name in its mountinfo, and `name` would tell it how often its slot was used.
        let directory = mapped.open(&format!("uppers/{name}"))?;
        let own = || -> io::Result<Self> {
            let clone = mount::clone_mount(directory.as_fd())?;
            Ok(Self {
                mapped: open_directory(clone.as_fd(), "u")?,
                work: open_directory(clone.as_fd(), "w")?,
                raw,
                _mounts: vec![clone],
                volatile: true,
            })
        };
        own().map_err(step("mounting the upper on disk"))
    }

    /// The upper directory, with the guest's ids.
    pub fn raw(&self) -> BorrowedFd<'_> {
        self.raw.as_fd()
    }

    /// Whether syncs may be left out: a crash of the machine discards it anyway.
    pub(super) fn is_volatile(&self) -> bool {
        self.volatile
    }
}

pub(crate) fn make_pair(directory: BorrowedFd<'_>, lowers: &[OwnedFd]) -> io::Result<()> {
    mkdirat(directory, "u", Mode::from_raw_mode(0o755))?;
    mkdirat(directory, "w", Mode::from_raw_mode(0o700))?;
    if let Some(top) = lowers.first() {
        let upper = open_directory(directory, "u")?;
        copy_attributes(top.as_fd(), upper.as_fd())?;
    }
    Ok(())
}

pub(crate) fn open_directory(at: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat(at, name, flags, Mode::empty())?)
}

/// Owner, mode, extended attributes and times of a directory.
pub(crate) fn copy_attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    let stat = rustix::fs::fstat(from)?;
    let owner = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    rustix::fs::fchown(to, Some(owner.0), Some(owner.1))?;
    rustix::fs::fchmod(to, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    let mut names = vec![0u8; 64 * 1024];
    let length = rustix::fs::flistxattr(from, &mut names)?;
    for name in names[..length].split(|b| *b == 0).filter(|n| !n.is_empty()) {
        // The overlay's own marks belong to the layer, not to the tree.
        if name.starts_with(b"trusted.overlay.") || name.starts_with(b"user.overlay.") {
            continue;
        }
        let mut value = vec![0u8; 64 * 1024];
        let n = rustix::fs::fgetxattr(from, name, &mut value)?;
        rustix::fs::fsetxattr(to, name, &value[..n], rustix::fs::XattrFlags::empty())?;
    }
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: stat.st_mtime as _,
            tv_nsec: stat.st_mtime_nsec as _,
        },
        last_modification: Timespec {
            tv_sec: stat.st_mtime as _,
            tv_nsec: stat.st_mtime_nsec as _,
        },
    };
    rustix::fs::futimens(to, &times)?;
    Ok(())
}

/// Makes the sandbox's mount points in a fresh upper where no lower has them.
///
/// # Errors
/// When a directory cannot be made.
pub(crate) fn make_mount_points(upper: BorrowedFd<'_>, lowers: &[OwnedFd]) -> io::Result<()> {
    for name in ["proc", "sys", "dev"] {
        if !exists(lowers, name)? {
            mkdirat(upper, name, Mode::from_raw_mode(0o755))?;
        }
    }
    Ok(())
}

/// Whether an overlay of these lowers shows the name: the topmost layer that knows it
/// decides, and a whiteout says no.
fn exists(lowers: &[OwnedFd], name: &str) -> io::Result<bool> {
    for lower in lowers {
        match rustix::fs::statat(lower, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => {}
            other => {
                let stat = other?;
                let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
                return Ok(!(kind.is_char_device() && stat.st_rdev == 0));
            }
        }
    }
    Ok(false)
}
