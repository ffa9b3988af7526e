//! Killing everything but our own, where there is no group and no namespace to kill at once.
//!
//! Each pass over /proc opens every stranger by a pidfd and signals it through that. The first pass
//! stops instead: a stopped process forks no more, yet counts against the limit of processes. It is over
//! when two passes in a row find nobody.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::observe::{ObserveError, ProcDir, pids, start_time};

/// Passes without a stranger that end the killing.
const QUIET: u32 = 2;

/// How long one pass waits for those that it killed before the next looks again: what becomes of a
/// zombie is its parent's to say, and nothing tells.
const PAUSE: Duration = Duration::from_millis(5);

/// A process that is not to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Own {
    /// Process id.
    pub pid: u32,
    /// Start time as `/proc/PID/stat` gives it: another process of this number is a stranger.
    pub start: u64,
}

/// What a killing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Killed {
    /// Signals sent; a process that resists gets one in each pass.
    pub signals: u64,
    /// Passes over /proc.
    pub passes: u32,
}

/// Why it is not known that everything has ended.
#[derive(Debug, thiserror::Error)]
pub enum KillError {
    /// /proc cannot be read.
    #[error("processes cannot be listed")]
    List(#[source] ObserveError),
    /// A process cannot be signalled.
    #[error("process {pid} cannot be killed")]
    Signal {
        /// Its number.
        pid: u32,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// Somebody is left at the deadline.
    #[error("processes are left after {passes} passes: {pids:?}")]
    Left {
        /// The first of them.
        pids: Vec<u32>,
        /// Passes made.
        passes: u32,
    },
}

/// Kills every process that `proc` shows and that is not `own`, and waits until none is left, zombies
/// included. The caller is in the pid namespace of `proc`, and among `own`.
///
/// # Errors
/// When somebody cannot be killed, or is left at the deadline.
pub fn kill_all(proc: &ProcDir, own: &[Own], by: Instant) -> Result<Killed, KillError> {
    let mut done = Killed::default();
    let mut quiet = 0;
    while quiet < QUIET {
        let signal = if done.passes == 0 {
            Signal::STOP
        } else {
            Signal::KILL
        };
        let strangers = pass(proc, own, signal)?;
        done.passes += 1;
        done.signals += strangers.len() as u64;
        if strangers.is_empty() {
            quiet += 1;
            continue;
        }
        quiet = 0;
        if Instant::now() > by {
            let pids = strangers.iter().take(10).map(|(pid, _)| *pid).collect();
            let passes = done.passes;
            return Err(KillError::Left { pids, passes });
        }
        if signal == Signal::KILL {
            let pidfds: Vec<OwnedFd> = strangers.into_iter().map(|(_, pidfd)| pidfd).collect();
            await_ends(&pidfds);
        }
    }
    Ok(done)
}

/// Signals all strangers, and gives them.
fn pass(proc: &ProcDir, own: &[Own], signal: Signal) -> Result<Vec<(u32, OwnedFd)>, KillError> {
    let mut strangers = Vec::new();
    for pid in pids(proc).map_err(KillError::List)? {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some(number) = number else { continue };
        let failed = |source| KillError::Signal { pid, source };
        // Opened before its start time is read: while this process lives, the number is its own.
        let pidfd = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => continue,
            Err(error) => return Err(failed(error)),
        };
        let start = match start_time(proc, pid) {
            Ok(start) => start,
            Err(ObserveError::Call {
                source: Errno::NOENT | Errno::SRCH,
                ..
            }) => continue,
            Err(error) => return Err(KillError::List(error)),
        };
        if own.contains(&Own { pid, start }) {
            continue;
        }
        match pidfd_send_signal(&pidfd, signal) {
            Ok(()) => strangers.push((pid, pidfd)),
            // It has been reaped since.
            Err(Errno::SRCH) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(strangers)
}

/// Waits until all have ended, for one pause at most.
fn await_ends(pidfds: &[OwnedFd]) {
    let until = Instant::now() + PAUSE;
    let mut left: Vec<PollFd<'_>> = pidfds
        .iter()
        .map(|pidfd| PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN))
        .collect();
    loop {
        let time = until.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(time) else {
            return;
        };
        if left.is_empty() || time.is_zero() {
            break;
        }
        // An interruption is as good as a timeout: the next pass looks for itself.
        let _ = poll(&mut left, Some(&timeout));
        left.retain(|pidfd| pidfd.revents().is_empty());
    }
    std::thread::yield_now();
}
