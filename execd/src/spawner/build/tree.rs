//! The mounts of a sandbox beside its overlay: /proc with masks, /dev, /sys.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Uid};

use crate::sandbox::device::set_fixed_times;

use crate::spawner::enter::Failure;
use crate::spawner::protocol::StandBySpec;
use crate::sys::mount::{self, Filesystem, NODEV, NOEXEC, NOSUID, RDONLY};
use crate::sys::process;

/// An empty directory and an empty file that hide what lies below them: the sandbox's own,
/// since locks and watches of different sandboxes would meet on shared ones.
pub(crate) struct Masks {
    directory: OwnedFd,
    file: OwnedFd,
    /// The file system that holds them, until they are mounted.
    _tree: OwnedFd,
}

impl Masks {
    /// Makes them.
    pub(crate) fn make() -> io::Result<Self> {
        let fs = Filesystem::open(c"tmpfs")?;
        fs.set(c"size", "4k")?;
        fs.set(c"nr_inodes", "4")?;
        fs.set(c"mode", "0555")?;
        let tree = fs.mount(NOSUID | NODEV | NOEXEC)?;
        rustix::fs::mkdirat(&tree, "d", Mode::from_raw_mode(0o555))?;
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&tree, "f", flags, Mode::from_raw_mode(0o444))?;
        for (name, flags) in [
            ("d", AtFlags::empty()),
            ("f", AtFlags::empty()),
            ("", AtFlags::EMPTY_PATH),
        ] {
            set_fixed_times(tree.as_fd(), name, flags)?;
        }
        mount::set_attributes(tree.as_fd(), RDONLY, None)?;
        let part = |name: &str| {
            rustix::fs::openat(&tree, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        };
        Ok(Self {
            directory: part("d")?,
            file: part("f")?,
            _tree: tree,
        })
    }
}

/// Hidden: facts of the host, and files that act on all of it. Docker's list, and what was
/// found readable or writable beside it. Files that only the host's root may open (kmsg,
/// slabinfo and the like) are closed by the user namespace already, and each mount costs a
/// build 10 microseconds.
const HIDDEN: &[&str] = &[
    "proc/acpi",
    "proc/asound",
    "proc/bus",
    "proc/fs",
    "proc/irq",
    "proc/scsi",
    "proc/keys",
    "proc/key-users",
    "proc/kcore",
    "proc/latency_stats",
    "proc/timer_list",
    "proc/timer_stats",
    "proc/sched_debug",
    "proc/sysrq-trigger",
    "proc/interrupts",
    "proc/kallsyms",
    "proc/config.gz",
    "proc/pressure",
    "proc/locks",
    "proc/partitions",
    "proc/diskstats",
];
const HIDDEN_IN_SYS: &[&str] = &[
    // Block devices name the files behind them, uppers of other sandboxes among them.
    "sys/block",
    "sys/class/block",
    "sys/dev/block",
    "sys/devices/virtual/block",
    "sys/devices/virtual/bdi",
    "sys/fs/ext4",
    "sys/firmware",
    "sys/kernel/debug",
    "sys/devices/virtual/powercap",
    "sys/kernel/security",
];

/// Where the mounts of a sandbox lie, in the spawner's empty root and in any image.
pub(in crate::spawner) const PLACES: [&str; 3] = ["proc", "dev", "sys"];

/// The mounts at [`PLACES`], each with what is mounted below it.
pub(super) struct Tree([OwnedFd; 3]);

impl Tree {
    /// Moves them into the new root.
    pub(super) fn bring_along(&self) -> Result<(), Failure> {
        for (mounted, path) in self.0.iter().zip(PLACES) {
            let target = directory(path)?;
            mount::attach(mounted.as_fd(), target.as_fd())
                .map_err(|error| Failure::of(format!("mounting /{path}"), error))?;
        }
        Ok(())
    }
}

/// Mounts everything, in the root that the caller has.
pub(super) fn mount_all(
    spec: &StandBySpec,
    dev: BorrowedFd<'_>,
    masks: &Masks,
) -> Result<Tree, Failure> {
    let quiet = NOSUID | NODEV | NOEXEC;
    attach(c"proc", quiet, "proc", |_| Ok(()))?;
    hide_in_proc(masks)?;
    let at = directory("dev")?;
    mount::attach(dev, at.as_fd()).map_err(Failure::at("mounting /dev"))?;
    mount_in_dev(spec.base, spec.shm_bytes)?;
    attach(c"sysfs", quiet | RDONLY, "sys", |_| Ok(()))?;
    hide_in_sys(masks)?;
    let [proc, dev, sys] = PLACES.map(directory);
    Ok(Tree([proc?, dev?, sys?]))
}

/// Hides what of /proc is hidden.
pub(crate) fn hide_in_proc(masks: &Masks) -> Result<(), Failure> {
    HIDDEN.iter().try_for_each(|path| hide(path, masks))
}

/// Hides what of /sys is hidden.
pub(crate) fn hide_in_sys(masks: &Masks) -> Result<(), Failure> {
    HIDDEN_IN_SYS.iter().try_for_each(|path| hide(path, masks))
}

/// The file systems below /dev, whose roots belong to the guest's root, the id `base`.
pub(crate) fn mount_in_dev(base: u32, shm_bytes: u64) -> Result<(), Failure> {
    // Whoever creates them owns them.
    process::set_filesystem_ids(base);
    let own = own_mounts(shm_bytes, &(base + 5).to_string());
    process::set_filesystem_ids(0);
    own?;
    attach(c"mqueue", NOSUID | NODEV | NOEXEC, "dev/mqueue", |_| Ok(()))?;
    ["dev/pts", "dev/shm", "dev/mqueue"]
        .into_iter()
        .try_for_each(|path| settle(path, base))
}

fn own_mounts(shm_bytes: u64, terminal_group: &str) -> Result<(), Failure> {
    attach(c"devpts", NOSUID | NOEXEC, "dev/pts", |fs| {
        fs.flag(c"newinstance")?;
        fs.set(c"ptmxmode", "0666")?;
        fs.set(c"mode", "0620")?;
        fs.set(c"gid", terminal_group)
    })?;
    attach(c"tmpfs", NOSUID | NODEV | NOEXEC, "dev/shm", |fs| {
        fs.set(c"size", &shm_bytes.to_string())?;
        fs.set(c"mode", "1777")
    })
}

fn attach(
    kind: &CStr,
    attributes: u64,
    path: &str,
    configure: impl FnOnce(&Filesystem) -> io::Result<()>,
) -> Result<(), Failure> {
    let step = || format!("mounting /{path}");
    let target = directory(path)?;
    let fail = |error| Failure::of(step(), error);
    let fs = Filesystem::open(kind).map_err(fail)?;
    configure(&fs).map_err(fail)?;
    let mounted = fs.mount(attributes).map_err(fail)?;
    mount::attach(mounted.as_fd(), target.as_fd()).map_err(fail)
}

/// Gives the root of a fresh mount to the guest's root, as in any container, and takes the
/// time of this generation off it: a sandbox shows nothing in which it differs from another.
fn settle(path: &str, base: u32) -> Result<(), Failure> {
    let root = directory(path)?;
    let owner = (Uid::from_raw(base), Gid::from_raw(base));
    rustix::fs::chownat(&root, "", Some(owner.0), Some(owner.1), AtFlags::EMPTY_PATH)
        .and_then(|()| set_fixed_times(root.as_fd(), "", AtFlags::EMPTY_PATH))
        .map_err(|error| Failure::of(format!("settling /{path}"), error.into()))
}

/// Opens a directory of the sandbox without following any link: an image may have put one
/// in the place of `/proc`.
pub(crate) fn directory(path: &str) -> Result<OwnedFd, Failure> {
    open(path, OFlags::PATH | OFlags::DIRECTORY)
        .map_err(|error| Failure::of(format!("opening /{path} of the image"), error))
}

pub(crate) fn open(path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let how = ResolveFlags::NO_SYMLINKS;
    let opened = rustix::fs::openat2(
        CWD,
        format!("/{path}"),
        flags | OFlags::CLOEXEC,
        Mode::empty(),
        how,
    )?;
    Ok(opened)
}

fn hide(path: &str, masks: &Masks) -> Result<(), Failure> {
    let fail = |error: io::Error| Failure::of(format!("hiding /{path}"), error);
    let target = match open(path, OFlags::PATH) {
        Ok(fd) => fd,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(fail(error)),
    };
    let stat = rustix::fs::fstat(&target).map_err(|e| fail(e.into()))?;
    let is_directory = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
    let mask = if is_directory {
        &masks.directory
    } else {
        &masks.file
    };
    let mask = mount::clone_mount(mask.as_fd()).map_err(fail)?;
    mount::attach(mask.as_fd(), target.as_fd()).map_err(fail)
}
