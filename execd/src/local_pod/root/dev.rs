//! The /dev of a pod.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, chmod, makedev, mknodat};
use rustix::mount::{MountFlags, mount, mount_bind};

use super::{Rights, folder, step, tmpfs};
use crate::local_pod::PodError;

/// Name, major and minor, as runtimes make them.
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

/// Mounts it below `at`.
pub(super) fn mount_all(at: &Path, rights: Rights) -> Result<(), PodError> {
    let dev = at.join("dev");
    tmpfs(&dev, "mode=0755,size=64k", MountFlags::NOSUID)?;
    for node in NODES {
        match rights {
            Rights::Pod => make(&dev, node)?,
            // Nobody but root makes nodes; the machine's are shown instead.
            Rights::User => show(&dev, node.0)?,
        }
    }
    for (name, target) in LINKS {
        symlink(target, dev.join(name)).map_err(PodError::at(format!("linking /dev/{name}")))?;
    }
    for name in ["pts", "shm", "mqueue"] {
        folder(&dev.join(name))?;
    }
    let quiet = MountFlags::NOSUID | MountFlags::NOEXEC;
    let terminals = c"newinstance,ptmxmode=0666,mode=0620,gid=5";
    mount("devpts", dev.join("pts"), "devpts", quiet, Some(terminals))
        .map_err(step("mounting /dev/pts"))?;
    let quiet = quiet | MountFlags::NODEV;
    tmpfs(&dev.join("shm"), "mode=1777,size=65536k", quiet)?;
    mount("mqueue", dev.join("mqueue"), "mqueue", quiet, None).map_err(step("mounting /dev/mqueue"))
}

fn make(dev: &Path, (name, major, minor): (&str, u32, u32)) -> Result<(), PodError> {
    let path = dev.join(name);
    let mode = Mode::from_raw_mode(0o666);
    mknodat(
        CWD,
        &path,
        FileType::CharacterDevice,
        mode,
        makedev(major, minor),
    )
    .and_then(|()| chmod(&path, mode))
    .map_err(step(format!("making /dev/{name}")))
}

fn show(dev: &Path, name: &str) -> Result<(), PodError> {
    let path = dev.join(name);
    File::create(&path).map_err(PodError::at(format!("making /dev/{name}")))?;
    mount_bind(Path::new("/dev").join(name), &path).map_err(step(format!("binding /dev/{name}")))
}
