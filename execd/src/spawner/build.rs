//! Building a sandbox: its namespaces, its mounts, its pid 1.
//!
//! Mounts are made with the daemon's credentials in a mount namespace that the initial
//! user namespace owns; pid 1 enters its user namespace last. The guest can therefore
//! neither unmount nor remount anything it was given.
//!
//! Pid 1 is made ahead of need, in two steps. It **stands by** with everything that is the
//! same for every template: namespaces, /proc, /dev and /sys with their masks, host name,
//! and what can be observed of these. It is **dressed** when it gets its root: then it takes
//! the root, enters the user namespace, drops its rights and tells what it sees. The
//! daemon dresses it itself, through a channel of their own; the spawner is not in between.

mod dress;
mod stand;
pub(crate) mod tree;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

pub use dress::{Dress, Said};
pub use stand::stand_by;
pub(super) use tree::PLACES;

use super::enter::Failure;
use crate::sys::{caps, seccomp::Filter};

/// Ids in a sandbox's range.
pub const IDS: u32 = 65_536;

pub(super) fn write_at(directory: BorrowedFd<'_>, path: &str, bytes: &[u8]) -> io::Result<()> {
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, path, flags, rustix::fs::Mode::empty())?;
    rustix::io::write(&file, bytes)?;
    Ok(())
}

/// Joins the v1 cgroups: "0" into `tasks` moves the calling thread alone, which takes no
/// system-wide lock.
pub(super) fn join(tasks: &[OwnedFd]) -> Result<(), Failure> {
    for file in tasks {
        rustix::io::write(file, b"0").map_err(|e| Failure::at("joining a cgroup")(e.into()))?;
    }
    Ok(())
}

/// The filter first, while CAP_SYS_ADMIN in the user namespace is still there.
pub(crate) fn drop_rights(filter: &Filter) -> Result<(), Failure> {
    filter
        .install()
        .map_err(Failure::at("installing the system call filter"))?;
    caps::bound(caps::DOCKER).map_err(Failure::at("bounding capabilities"))?;
    caps::set(caps::permitted_of(caps::DOCKER).map_err(Failure::at("reading capabilities"))?)
        .map_err(Failure::at("setting capabilities"))
}
