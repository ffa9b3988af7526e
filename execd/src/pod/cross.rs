//! Into a sandbox of a pod.

use std::os::fd::{AsFd, OwnedFd};

use crate::spawner::enter::Failure;
use crate::sys::process;

/// Where the guest's processes stand when memory runs out: far ahead of the daemon.
const EXPENDABLE: &str = "500";

/// Takes the calling process, which nothing of the guest can trace or look into, into the
/// namespaces behind a door: user first, since that one gives the right to the others. Gives
/// the mark that it and all that it starts carry from now on, a control group namespace of
/// its own: the guest's filter lets nobody leave one, and all of them look the same.
pub fn cross(door: &[OwnedFd]) -> Result<u32, Failure> {
    process::set_dumpable(false).map_err(Failure::at("closing the entrant to tracing"))?;
    // Only the order of the kernel's victims depends on it.
    let _ = std::fs::write("/proc/self/oom_score_adj", EXPENDABLE);
    let [users, others @ ..] = door else {
        return Err(Failure::new(
            "receiving the door of a sandbox",
            libc::EBADMSG,
        ));
    };
    let entering = Failure::at("entering the namespaces");
    process::enter(users.as_fd(), process::NEW_USER).map_err(&entering)?;
    process::become_ids(0, 0, &[]).map_err(Failure::at("taking the guest's ids"))?;
    let mark = mark().map_err(Failure::at("marking a command"))?;
    let kinds = [
        process::NEW_MOUNT,
        process::NEW_IPC,
        process::NEW_UTS,
        process::NEW_NET,
    ];
    for (namespace, kind) in others.iter().zip(kinds) {
        process::enter(namespace.as_fd(), kind).map_err(&entering)?;
    }
    Ok(mark)
}

fn mark() -> std::io::Result<u32> {
    process::unshare(process::NEW_CGROUP)?;
    let namespace = rustix::fs::stat("/proc/thread-self/ns/cgroup")?;
    u32::try_from(namespace.st_ino)
        .map_err(|_| std::io::Error::from(std::io::ErrorKind::InvalidData))
}
