//! The second step: a root, the guest's ids and rights, a look around.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use serde::{Deserialize, Serialize};

use super::stand::Standing;
use super::{drop_rights, write_at};
use crate::inside::observe::Inside;
use crate::spawner::enter::Failure;
use crate::spawner::wire;
use crate::sys::{mount, process, seccomp::Filter};

/// What pid 1 gets beside the descriptor of its overlay.
#[derive(Debug, Serialize, Deserialize)]
pub struct Dress {
    /// Write zero to max_user_namespaces.
    pub no_nested_users: bool,
}

/// What pid 1 says: what it saw, or why it was not built.
pub type Said<T> = Result<T, Failure>;

/// Waits for the root, takes it, and stays pid 1 for ever.
pub(super) fn wait(standing: Standing, channel: &OwnedFd, filter: &Filter) -> ! {
    let Ok(Some((_, call, fds))) = wire::receive::<Dress>(channel.as_fd()) else {
        process::exit(0);
    };
    let overlay = fds.into_iter().next();
    let overlay = overlay.ok_or_else(|| Failure::new("receiving the overlay", libc::EBADMSG));
    match overlay.and_then(|overlay| confine(standing, &call, overlay.as_fd(), filter)) {
        Ok(seen) => settle(channel.as_fd(), &seen),
        Err(failure) => {
            let said: Said<()> = Err(failure);
            let _ = wire::send(channel.as_fd(), 0, &said, &[]);
            process::exit(1);
        }
    }
}

/// From the daemon's credentials down to the guest's.
fn confine(
    standing: Standing,
    call: &Dress,
    overlay: BorrowedFd<'_>,
    filter: &Filter,
) -> Said<Inside> {
    mount::become_root(overlay).map_err(Failure::at("changing the root"))?;
    standing.tree.bring_along()?;
    process::enter(standing.users.as_fd(), process::NEW_USER)
        .map_err(Failure::at("entering the user namespace"))?;
    process::become_ids(0, 0, &[]).map_err(Failure::at("taking the guest's ids"))?;
    // Said again, since the kernel forgets it when ids change.
    process::die_with_parent().map_err(Failure::at("tying pid 1 to the spawner"))?;
    if call.no_nested_users {
        write_at(standing.proc.as_fd(), "sys/user/max_user_namespaces", b"0")
            .map_err(Failure::at("closing nested user namespaces"))?;
    }
    drop_rights(filter)?;
    // Nothing of the guest has run here: what this process sees is what the kernel made.
    standing
        .seen
        .complete(&standing.proc)
        .map_err(|e| Failure::of("observing".to_owned(), std::io::Error::other(e)))
}

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
