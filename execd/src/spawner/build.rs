//! Building a sandbox: its namespaces, its mounts, its pid 1.
//!
//! Mounts are made with the daemon's credentials in a mount namespace that the initial
//! user namespace owns; pid 1 enters its user namespace last. The guest can therefore
//! neither unmount nor remount anything it was given.

pub(crate) mod tree;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde_json::value::RawValue;

use super::enter::Failure;
use super::protocol::BuildSpec;
use super::wire;
use crate::inside::observe::{self, Inside};
use crate::sys::process::{self, Fork};
use crate::sys::{caps, channel, mount, seccomp::Filter};

/// Ids in a sandbox's range.
pub const IDS: u32 = 65_536;

/// A fresh user namespace, owned by the first id of its own range so that the kernel's
/// per-user limits are the sandbox's own, and a network namespace owned by it.
pub fn kit(proc: BorrowedFd<'_>, base: u32) -> Result<Vec<OwnedFd>, Failure> {
    let (ours, theirs) = channel::pair().map_err(Failure::at("making a channel"))?;
    // SAFETY: the spawner has one thread.
    #[allow(unsafe_code)]
    let fork = unsafe { process::fork(0, None) }.map_err(Failure::at("forking"))?;
    match fork {
        Fork::Child => {
            drop(ours);
            let done = kit_child(theirs.as_fd(), base);
            process::exit(i32::from(done.is_err()));
        }
        Fork::Parent { pid, pidfd } => {
            drop(theirs);
            let made = kit_parent(proc, ours.as_fd(), pid, base);
            let _ = process::signal(pidfd.as_fd(), libc::SIGKILL);
            let _ = process::wait(pid);
            made
        }
    }
}

fn kit_child(channel: BorrowedFd<'_>, base: u32) -> io::Result<()> {
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

fn kit_parent(
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

fn write_at(directory: BorrowedFd<'_>, path: &str, bytes: &[u8]) -> io::Result<()> {
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, path, flags, rustix::fs::Mode::empty())?;
    rustix::io::write(&file, bytes)?;
    Ok(())
}

/// Builds a sandbox and answers when its pid 1 is confined: (pid, pidfd, what it saw).
pub fn build(
    spec: &BuildSpec,
    fds: &[OwnedFd],
    filter: &Filter,
) -> Result<(i32, OwnedFd, Box<RawValue>), Failure> {
    if fds.len() != spec.descriptors() {
        return Err(Failure::new(
            "receiving the descriptors of a build",
            libc::EBADMSG,
        ));
    }
    let groups = &fds[4..];
    let v2 = spec.cgroups.v2.then(|| groups[0].as_fd());
    let (ours, theirs) = channel::pair().map_err(Failure::at("making a channel"))?;
    let flags = process::NEW_PID | process::NEW_MOUNT | process::NEW_IPC | process::NEW_UTS;
    // SAFETY: the spawner has one thread.
    #[allow(unsafe_code)]
    let fork = unsafe { process::fork(flags, v2) }.map_err(Failure::at("making namespaces"))?;
    match fork {
        Fork::Child => {
            drop(ours);
            match confine(spec, fds, filter) {
                Ok(seen) => settle(theirs.as_fd(), &seen),
                Err(failure) => {
                    let said: Said<()> = Err(failure);
                    let _ = wire::send(theirs.as_fd(), 0, &said, &[]);
                    process::exit(1);
                }
            }
        }
        Fork::Parent { pid, pidfd } => {
            drop(theirs);
            match hear(ours.as_fd()) {
                Ok(seen) => Ok((pid, pidfd, seen)),
                Err(failure) => {
                    let _ = process::signal(pidfd.as_fd(), libc::SIGKILL);
                    let _ = process::wait(pid);
                    Err(failure)
                }
            }
        }
    }
}

/// What the new pid 1 says: what it saw, or why it was not built.
type Said<T> = Result<T, Failure>;

/// The last words of the new pid 1. It is in its final state before it says that it is
/// ready: whoever observes it may do so at once.
fn settle(channel: BorrowedFd<'_>, seen: &Inside) -> ! {
    let _ = process::move_to(channel, 0);
    let _ = process::close_from(1);
    let said: Said<&Inside> = Ok(seen);
    let _ = wire::send(rustix::stdio::stdin(), 0, &said, &[]);
    let _ = process::close_from(0);
    process::sleep_for_ever()
}

/// Reads what the new pid 1 says.
fn hear(channel: BorrowedFd<'_>) -> Said<Box<RawValue>> {
    match wire::receive::<Said<Box<RawValue>>>(channel) {
        Ok(Some((_, said, _))) => said,
        Ok(None) => Err(Failure::new("building a sandbox: its pid 1 has ended", 0)),
        Err(error) => Err(Failure::at("building a sandbox")(error)),
    }
}

/// In the new pid 1, from the daemon's credentials down to the guest's.
fn confine(spec: &BuildSpec, fds: &[OwnedFd], filter: &Filter) -> Said<Inside> {
    process::set_dumpable(false).map_err(Failure::at("closing pid 1 to tracing"))?;
    process::become_deaf();
    let [overlay, dev, users, network, groups @ ..] = fds else {
        return Err(Failure::new(
            "receiving the descriptors of a build",
            libc::EBADMSG,
        ));
    };
    join(&groups[usize::from(spec.cgroups.v2)..])?;
    process::unshare(process::NEW_CGROUP).map_err(Failure::at("making a cgroup namespace"))?;
    let masks = tree::Masks::make().map_err(Failure::at("making the masks"))?;
    mount::become_root(overlay.as_fd()).map_err(Failure::at("changing the root"))?;
    process::enter(network.as_fd(), process::NEW_NET)
        .map_err(Failure::at("entering the network namespace"))?;
    tree::mount_all(spec, dev.as_fd(), &masks)?;
    process::set_hostname(&spec.hostname).map_err(Failure::at("naming the host"))?;
    process::enter(users.as_fd(), process::NEW_USER)
        .map_err(Failure::at("entering the user namespace"))?;
    process::become_ids(0, 0, &[]).map_err(Failure::at("taking the guest's ids"))?;
    process::die_with_parent().map_err(Failure::at("tying pid 1 to the spawner"))?;
    if spec.no_nested_users {
        write_at(rustix::fs::CWD, "/proc/sys/user/max_user_namespaces", b"0")
            .map_err(Failure::at("closing nested user namespaces"))?;
    }
    drop_rights(filter)?;
    // Nothing of the guest has run here: what this process sees is what the kernel made.
    observe::look(spec.observe)
        .map_err(|e| Failure::of("observing".to_owned(), std::io::Error::other(e)))
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
    caps::set(caps::DOCKER).map_err(Failure::at("setting capabilities"))
}
