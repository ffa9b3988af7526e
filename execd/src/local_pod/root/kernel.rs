//! /proc and /sys of a pod, masked as containerd masks them. In a user namespace below, the masks
//! are locked: no guest can take them off, and none can mount a /proc without them.

use std::path::Path;

use rustix::mount::{MountFlags, mount, mount_bind, mount_remount};

use super::{Rights, step, tmpfs};
use crate::local_pod::PodError;

/// Hidden. Source: the default masked paths of containerd's oci/spec.go.
const HIDDEN: [&str; 13] = [
    "proc/acpi",
    "proc/asound",
    "proc/interrupts",
    "proc/kcore",
    "proc/keys",
    "proc/latency_stats",
    "proc/timer_list",
    "proc/timer_stats",
    "proc/sched_debug",
    "proc/scsi",
    "sys/firmware",
    "sys/devices/virtual/powercap",
    "sys/devices/system/cpu/cpu0/thermal_throttle",
];
/// Read only. Source: as above.
const CLOSED: [&str; 5] = [
    "proc/bus",
    "proc/fs",
    "proc/irq",
    "proc/sys",
    "proc/sysrq-trigger",
];

/// Mounts both below `at`.
pub(super) fn mount_all(at: &Path, rights: Rights) -> Result<(), PodError> {
    let quiet = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", at.join("proc"), "proc", quiet, None).map_err(step("mounting /proc"))?;
    let closed = quiet | MountFlags::RDONLY;
    let mounted = mount("sysfs", at.join("sys"), "sysfs", closed, None);
    match (mounted, rights) {
        (Ok(()), _) => Ok(()),
        // A user who shares the machine's network may not mount its sysfs, only show it.
        (Err(_), Rights::User) => rustix::mount::mount_bind_recursive("/sys", at.join("sys"))
            .map_err(step("binding /sys")),
        (Err(errno), Rights::Pod) => Err(step("mounting /sys")(errno)),
    }
}

/// Hides what a pod must not see and closes what it must not write.
pub(super) fn mask(at: &Path) -> Result<(), PodError> {
    for path in CLOSED {
        let target = at.join(path);
        if target.exists() {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            mount_bind(&target, &target)
                .and_then(|()| {
                    let flags = MountFlags::BIND | MountFlags::RDONLY | flags;
                    mount_remount(&target, flags, "")
                })
                .map_err(step(format!("closing /{path}")))?;
        }
    }
    for path in HIDDEN {
        let target = at.join(path);
        if target.is_dir() {
            tmpfs(&target, "size=0,mode=0555", MountFlags::RDONLY)?;
        } else if target.exists() {
            mount_bind(at.join("dev/null"), &target).map_err(step(format!("hiding /{path}")))?;
        }
    }
    Ok(())
}
