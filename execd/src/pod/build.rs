//! Building a sandbox, in the spawner. A short-lived builder makes all namespaces in one call
//! and puts everything together inside them, with no rights but those over its own user
//! namespace; what it made it hands over as descriptors, and ends. Nothing of ours is left
//! inside that a guest could end.

mod furniture;
mod map;
mod mounted;
mod workdir;

pub use mounted::Root;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use innkeeper_reset::observe::{self, ProcDir};
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde_json::value::RawValue;

use super::killer;
use super::recipe::{Recipe, Seen, Source};
use crate::inside::observe::{Observe, look};
use crate::sliced;
use crate::spawner::build::drop_rights;
use crate::spawner::enter::Failure;
use crate::spawner::wire;
use crate::sys::process::{self, Fork};
use crate::sys::{channel, mount, seccomp::Filter};

/// What was built.
pub struct Assembled {
    /// Pid of the killer.
    pub killer: i32,
    /// A [`Seen`], passed on unread.
    pub seen: Box<RawValue>,
    /// As [`Recipe`] says.
    pub descriptors: Vec<OwnedFd>,
}

type Said<T> = Result<T, Failure>;

/// Builds a sandbox.
///
/// # Errors
/// The step that failed; nothing of the sandbox is left then.
pub fn assemble(
    recipe: &Recipe,
    proc: BorrowedFd<'_>,
    filter: &Filter,
) -> Result<Assembled, Failure> {
    let (ours, theirs) = channel::pair().map_err(Failure::at("making a channel"))?;
    let flags = process::NEW_USER | process::NEW_MOUNT | process::NEW_UTS;
    // A user namespace keeps the limit that its maker had, for all in it together. Root of the
    // machine's own ids is exempt; a pod of such ids has a control group.
    let before = process::soft_limit(libc::RLIMIT_NPROC, recipe.processes)
        .map_err(Failure::at("limiting processes"))?;
    // SAFETY: the spawner has one thread.
    #[allow(unsafe_code)]
    let fork = unsafe { process::fork(flags, None) };
    process::soft_limit(libc::RLIMIT_NPROC, before).map_err(Failure::at("limiting processes"))?;
    let fork = fork.map_err(Failure::at("forking a builder"))?;
    match fork {
        Fork::Child => {
            drop(ours);
            tell(theirs.as_fd(), put_together(recipe, theirs.as_fd(), filter))
        }
        Fork::Parent { pid, pidfd } => {
            drop(theirs);
            let built = map::write(proc, pid, recipe.left_out)
                .map_err(Failure::at("mapping ids"))
                .and_then(|()| {
                    channel::send(ours.as_fd(), b"m", &[]).map_err(Failure::at("mapping ids"))
                })
                .and_then(|()| hear(ours.as_fd()));
            let _ = process::signal(pidfd.as_fd(), libc::SIGKILL);
            let _ = process::wait(pid);
            let (seen, mut descriptors) = built?;
            let (killer, told) = killer::prepare(descriptors[0].as_fd(), recipe.killer)?;
            descriptors.push(told);
            Ok(Assembled {
                killer,
                seen,
                descriptors,
            })
        }
    }
}

/// The builder's last words.
fn tell(channel: BorrowedFd<'_>, built: Said<(Seen, Vec<OwnedFd>)>) -> ! {
    let (said, descriptors): (Said<Seen>, Vec<OwnedFd>) = match built {
        Ok((seen, descriptors)) => (Ok(seen), descriptors),
        Err(failure) => (Err(failure), Vec::new()),
    };
    let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let sent = wire::send(channel, 0, &said, &descriptors);
    process::exit(i32::from(sent.is_err()))
}

fn hear(channel: BorrowedFd<'_>) -> Said<(Box<RawValue>, Vec<OwnedFd>)> {
    match wire::receive::<Said<Box<RawValue>>>(channel) {
        Ok(Some((_, Ok(seen), descriptors))) if !descriptors.is_empty() => Ok((seen, descriptors)),
        Ok(Some((_, Err(failure), _))) => Err(failure),
        Ok(_) => Err(Failure::new("building a sandbox: its builder has ended", 0)),
        Err(error) => Err(Failure::at("building a sandbox")(error)),
    }
}

/// In the builder, from an empty user namespace down to the guest's rights.
fn put_together(
    recipe: &Recipe,
    channel: BorrowedFd<'_>,
    filter: &Filter,
) -> Said<(Seen, Vec<OwnedFd>)> {
    let mut mapped = [0];
    let told = channel::receive_all(channel, &mut mapped, &mut Vec::new());
    if !told.map_err(Failure::at("mapping ids"))? {
        return Err(Failure::new("mapping ids: the spawner has ended", 0));
    }
    process::set_dumpable(false).map_err(Failure::at("closing the builder to tracing"))?;
    process::become_ids(0, 0, &[]).map_err(Failure::at("taking the guest's ids"))?;
    // Not with the others: who makes them owns the message queues of one and the files of
    // /proc/net of the other, and before there were ids that would be nobody.
    process::unshare(process::NEW_IPC).map_err(Failure::at("making an ipc namespace"))?;
    if recipe.own_network {
        process::unshare(process::NEW_NET).map_err(Failure::at("making a network namespace"))?;
    }
    let outside = furniture::Outside::take()?;
    let (root, slices) = match &recipe.source {
        Source::Trees(lowers) => (mounted::make(lowers, recipe)?, None),
        Source::Slices(base) => {
            let (root, slices) = sliced::assemble(base, &recipe.upper)?;
            (root, Some(slices))
        }
    };
    mount::abandon_root_for(root.overlay.as_fd()).map_err(Failure::at("changing the root"))?;
    if let Some(slices) = slices {
        slices.attach()?;
    }
    furniture::place(&outside, recipe)?;
    process::set_hostname(&recipe.hostname).map_err(Failure::at("naming the host"))?;
    if recipe.own_network {
        process::loopback_up().map_err(Failure::at("bringing the loopback up"))?;
    }
    let mut descriptors = namespaces(recipe.own_network)?;
    descriptors.extend([root.overlay, root.upper]);
    drop_rights(filter)?;
    Ok((look_around(recipe)?, descriptors))
}

fn namespaces(own_network: bool) -> Said<Vec<OwnedFd>> {
    let kinds = ["user", "mnt", "ipc", "uts", "net"];
    kinds[..4 + usize::from(own_network)]
        .iter()
        .map(|kind| {
            let path = format!("/proc/thread-self/ns/{kind}");
            openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|e| Failure::at("opening a namespace")(e.into()))
        })
        .collect()
}

/// Nothing of the guest has run here: what this process sees is what the kernel made.
fn look_around(recipe: &Recipe) -> Said<Seen> {
    let wrong = |e: String| Failure::of("observing".to_owned(), std::io::Error::other(e));
    let inside = look(Observe {
        base: 0,
        own_network: recipe.own_network,
    })
    .map_err(wrong)?;
    let limits = || -> Result<_, String> {
        let proc = std::fs::File::open("/proc").map_err(|e| e.to_string())?;
        let proc = ProcDir::new(proc.into()).map_err(|e| e.to_string())?;
        observe::limits(&proc, std::process::id(), &BTreeMap::new()).map_err(|e| e.to_string())
    };
    Ok(Seen {
        inside,
        limits: limits().map_err(wrong)?,
    })
}
