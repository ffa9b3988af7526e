//! The mounts of a sandbox beside its overlay, in a container: what the runtime gives is
//! bound, with its masks, since the kernel lets no new /proc be mounted beside a masked one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::pod::recipe::Recipe;
use crate::sandbox::device;
use crate::spawner::build::tree::{self, Masks};
use crate::spawner::enter::Failure;
use crate::sys::mount::{self, Filesystem, NODEV, NOEXEC, NOSUID, RDONLY};

/// What is taken along from the container, as detached mounts.
pub(super) struct Outside {
    proc: OwnedFd,
    sys: OwnedFd,
    devices: Vec<(&'static str, OwnedFd)>,
}

impl Outside {
    /// Takes it, while the container's root is still the root.
    pub(super) fn take() -> Result<Self, Failure> {
        let taken = |path: &str| -> Result<OwnedFd, Failure> {
            clone(path).map_err(|error| Failure::of(format!("binding {path}"), error))
        };
        let mut devices = Vec::new();
        for name in device::names() {
            let node = taken(&format!("/dev/{name}"))?;
            // One by one: a guest's chmod of a node would else outlive its sandbox.
            mount::set_attributes(node.as_fd(), RDONLY, None)
                .map_err(Failure::at("binding a device read only"))?;
            devices.push((name, node));
        }
        Ok(Self {
            proc: taken("/proc")?,
            sys: match new_sys() {
                Ok(new) => new,
                // A masked one lets no new one be mounted.
                Err(_) => taken("/sys")?,
            },
            devices,
        })
    }
}

fn new_sys() -> io::Result<OwnedFd> {
    Filesystem::open(c"sysfs")?.mount(NOSUID | NODEV | NOEXEC | RDONLY)
}

fn clone(path: &str) -> io::Result<OwnedFd> {
    let fd = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    mount::clone_tree(fd.as_fd())
}

/// Places everything below the new root, which is the root by now.
pub(super) fn place(outside: &Outside, recipe: &Recipe) -> Result<(), Failure> {
    let masks = Masks::make().map_err(Failure::at("making the masks"))?;
    attach(&outside.proc, "proc")?;
    tree::hide_in_proc(&masks)?;
    attach(&outside.sys, "sys")?;
    tree::hide_in_sys(&masks)?;
    let dev = device::make_empty().map_err(Failure::at("mounting /dev"))?;
    attach(&dev, "dev")?;
    for (name, node) in &outside.devices {
        let place = tree::open(&format!("dev/{name}"), OFlags::PATH)
            .map_err(Failure::at("opening the place of a device"))?;
        mount::attach(node.as_fd(), place.as_fd()).map_err(Failure::at("binding a device"))?;
    }
    tree::mount_in_dev(0, recipe.shm_bytes)?;
    mount::set_attributes(dev.as_fd(), RDONLY, None).map_err(Failure::at("closing /dev"))
}

fn attach(mounted: &OwnedFd, path: &str) -> Result<(), Failure> {
    let place = tree::directory(path)?;
    mount::attach(mounted.as_fd(), place.as_fd())
        .map_err(|error| Failure::of(format!("mounting /{path}"), error))
}
