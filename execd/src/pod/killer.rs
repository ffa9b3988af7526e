//! Killing all of a guest at once, where there is no control group to do it. A process with a
//! reserved id of the guest's user namespace and CAP_KILL sends one signal to all that it may
//! signal: exactly that namespace. The kernel does so under the lock that every fork takes, so
//! no fork can outrun it.
//!
//! It is forked ahead and waits outside, with the daemon's id: a guest that has used up every
//! pid of the container cannot keep it from coming, and cannot touch it before it comes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::spawner::enter::Failure;
use crate::sys::process::{self, Fork};
use crate::sys::{caps, channel};

/// CAP_KILL alone.
const KILL: u64 = 1 << 5;

/// Forks it for a user namespace: its pid and the channel by which it is told. It ends when it
/// has killed, or when the channel closes.
pub(super) fn prepare(users: BorrowedFd<'_>, id: u32) -> Result<(i32, OwnedFd), Failure> {
    let (ours, theirs) = channel::pair().map_err(Failure::at("making a channel"))?;
    // SAFETY: the spawner has one thread.
    #[allow(unsafe_code)]
    let fork = unsafe { process::fork(0, None) }.map_err(Failure::at("forking a killer"))?;
    match fork {
        Fork::Parent { pid, .. } => Ok((pid, ours)),
        Fork::Child => {
            drop(ours);
            let _ = process::close_all_but(&[users, theirs.as_fd()]);
            let killed = await_word(theirs.as_fd(), users, id);
            process::exit(i32::from(killed.is_err()))
        }
    }
}

fn await_word(channel: BorrowedFd<'_>, users: BorrowedFd<'_>, id: u32) -> io::Result<()> {
    let mut word = [0];
    if !channel::receive_all(channel, &mut word, &mut Vec::new())? {
        return Ok(());
    }
    process::set_dumpable(false)?;
    process::enter(users, process::NEW_USER)?;
    process::become_ids(id, id, &[])?;
    caps::set(KILL)?;
    process::kill_all()
}

/// Tells it.
pub(super) fn tell(channel: BorrowedFd<'_>) -> io::Result<()> {
    channel::send(channel, b"k", &[])
}
