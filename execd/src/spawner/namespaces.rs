//! Namespaces made ahead: a user namespace and a network namespace that it owns.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::build::{IDS, write_at};
use super::enter::Failure;
use crate::sys::channel;
use crate::sys::process::{self, Fork};

/// A fresh user namespace, owned by the first id of its own range so that the kernel's
/// per-user limits are the sandbox's own, and a network namespace owned by it.
pub(super) fn make(proc: BorrowedFd<'_>, base: u32) -> Result<Vec<OwnedFd>, Failure> {
    let (ours, theirs) = channel::pair().map_err(Failure::at("making a channel"))?;
    // SAFETY: the spawner has one thread.
    #[allow(unsafe_code)]
    let fork = unsafe { process::fork(0, None) }.map_err(Failure::at("forking"))?;
    match fork {
        Fork::Child => {
            drop(ours);
            let done = child(theirs.as_fd(), base);
            process::exit(i32::from(done.is_err()));
        }
        Fork::Parent { pid, pidfd } => {
            drop(theirs);
            let made = parent(proc, ours.as_fd(), pid, base);
            let _ = process::signal(pidfd.as_fd(), libc::SIGKILL);
            let _ = process::wait(pid);
            made
        }
    }
}

fn child(channel: BorrowedFd<'_>, base: u32) -> io::Result<()> {
    process::become_ids(base, base, &[])?;
    process::unshare(process::NEW_USER)?;
    channel::send(channel, b"u", &[])?;
    let mut mapped = [0];
    channel::receive_all(channel, &mut mapped, &mut Vec::new())?;
    process::unshare(process::NEW_NET)?;
    process::loopback_up()?;
    channel::send(channel, b"n", &[])?;
    // The parent opens the namespaces, then ends us.
    channel::receive_all(channel, &mut mapped, &mut Vec::new())?;
    Ok(())
}

fn parent(
    proc: BorrowedFd<'_>,
    channel: BorrowedFd<'_>,
    pid: i32,
    base: u32,
) -> Result<Vec<OwnedFd>, Failure> {
    let mut byte = [0];
    let mut none = Vec::new();
    let mut hear = |step: &'static str| match channel::receive_all(channel, &mut byte, &mut none) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::new(step, 0)),
        Err(error) => Err(Failure::at(step)(error)),
    };
    hear("making a user namespace")?;
    let map = format!("0 {base} {IDS}\n");
    for file in ["uid_map", "gid_map"] {
        write_at(proc, &format!("{pid}/{file}"), map.as_bytes())
            .map_err(Failure::at("mapping ids"))?;
    }
    channel::send(channel, b"m", &[]).map_err(Failure::at("mapping ids"))?;
    hear("making a network namespace")?;
    ["user", "net"]
        .iter()
        .map(|kind| {
            let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
            rustix::fs::openat(
                proc,
                format!("{pid}/ns/{kind}"),
                flags,
                rustix::fs::Mode::empty(),
            )
            .map_err(|e| Failure::at("opening a namespace")(e.into()))
        })
        .collect()
}
