//! The first step: pid 1 with all that does not depend on a template.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use innkeeper_reset::observe::{Ahead, ProcDir};

use super::tree::{self, Masks, Tree};
use super::{Said, dress, join};
use crate::inside::observe;
use crate::spawner::enter::Failure;
use crate::spawner::protocol::StandBySpec;
use crate::spawner::wire;
use crate::sys::process::{self, Fork};
use crate::sys::{channel, seccomp::Filter};

/// A pid 1 that has its namespaces and mounts, still with the daemon's rights and in the
/// spawner's empty root.
pub(super) struct Standing {
    pub(super) tree: Tree,
    pub(super) users: OwnedFd,
    pub(super) proc: ProcDir,
    pub(super) seen: Ahead,
}

/// Makes a pid 1 that stands by: (pid, pidfd, channel to it). It says on the channel when
/// it does, and ends when the channel is closed before it was dressed.
pub fn stand_by(
    spec: &StandBySpec,
    fds: Vec<OwnedFd>,
    filter: &Filter,
) -> Result<(i32, OwnedFd, OwnedFd), Failure> {
    if fds.len() != spec.descriptors() {
        return Err(wrong_descriptors());
    }
    let groups = &fds[3..];
    let v2 = spec.cgroups.v2.then(|| groups[0].as_fd());
    let (ours, theirs) = channel::pair().map_err(Failure::at("making a channel"))?;
    let flags = process::NEW_PID | process::NEW_MOUNT | process::NEW_IPC | process::NEW_UTS;
    // SAFETY: the spawner has one thread.
    #[allow(unsafe_code)]
    let fork = unsafe { process::fork(flags, v2) }.map_err(Failure::at("making namespaces"))?;
    match fork {
        Fork::Child => live(spec, fds, &theirs, filter),
        Fork::Parent { pid, pidfd } => Ok((pid, pidfd, ours)),
    }
}

fn wrong_descriptors() -> Failure {
    Failure::new("receiving the descriptors of a build", libc::EBADMSG)
}

/// The whole life of pid 1.
fn live(spec: &StandBySpec, fds: Vec<OwnedFd>, channel: &OwnedFd, filter: &Filter) -> ! {
    // It may wait for long: nothing of the spawner may stay open through it.
    let own: Vec<_> = fds
        .iter()
        .chain(std::iter::once(channel))
        .map(AsFd::as_fd)
        .collect();
    let stood = process::close_all_but(&own)
        .map_err(Failure::at("closing the spawner's descriptors"))
        .and_then(|()| stand(spec, fds));
    let said: Said<()> = stood.as_ref().map(drop).map_err(Clone::clone);
    let told = wire::send(channel.as_fd(), 0, &said, &[]);
    match (stood, told) {
        (Ok(standing), Ok(())) => dress::wait(standing, channel, filter),
        (Ok(_) | Err(_), _) => process::exit(1),
    }
}

fn stand(spec: &StandBySpec, fds: Vec<OwnedFd>) -> Result<Standing, Failure> {
    process::set_dumpable(false).map_err(Failure::at("closing pid 1 to tracing"))?;
    process::die_with_parent().map_err(Failure::at("tying pid 1 to the spawner"))?;
    process::become_deaf();
    let mut fds = fds.into_iter();
    let (Some(dev), Some(users), Some(network)) = (fds.next(), fds.next(), fds.next()) else {
        return Err(wrong_descriptors());
    };
    let groups: Vec<OwnedFd> = fds.collect();
    join(&groups[usize::from(spec.cgroups.v2)..])?;
    process::unshare(process::NEW_CGROUP).map_err(Failure::at("making a cgroup namespace"))?;
    enter_network(network.as_fd())?;
    let masks = Masks::make().map_err(Failure::at("making the masks"))?;
    let tree = tree::mount_all(spec, dev.as_fd(), &masks)?;
    process::set_hostname(&spec.hostname).map_err(Failure::at("naming the host"))?;
    let observing = |message| Failure::of("observing".to_owned(), std::io::Error::other(message));
    let (proc, seen) = observe::look_ahead(spec.observe).map_err(observing)?;
    Ok(Standing {
        tree,
        users,
        proc,
        seen,
    })
}

/// Before sysfs is mounted: it shows the namespace of whoever mounts it.
fn enter_network(network: BorrowedFd<'_>) -> Result<(), Failure> {
    process::enter(network, process::NEW_NET).map_err(Failure::at("entering the network namespace"))
}
