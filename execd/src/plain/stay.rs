//! The hold on a sandbox that is the container itself, and the way into it: none.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use innkeeper_reset::inplace::{self, Killed};
use innkeeper_reset::observe::ProcDir;

use super::Descendants;
use crate::pod::Own;
use crate::spawner::Spawner;
use crate::spawner::enter::Failure;
use crate::sys::process;

/// After this, what is still there is killed again, one by one.
const AGAIN: Duration = Duration::from_millis(250);

/// Where the guest's processes stand when memory runs out: far ahead of the daemon.
const EXPENDABLE: &str = "500";

/// All that is visible and not the daemon's is the guest's.
#[derive(Debug)]
pub struct Stay {
    pub(super) spawner: Spawner,
    pub(super) own: Arc<Own>,
}

impl Stay {
    /// What tells one command's processes from others.
    pub fn descendants(&self) -> Descendants {
        Descendants::new(Arc::clone(&self.own))
    }

    /// Pids of all that is the guest's.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn pids(&self) -> io::Result<Vec<i32>> {
        self.own.others()
    }

    /// Signals all of it once.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn kill(&self) -> io::Result<()> {
        for pid in self.pids()? {
            // A number that was given to another since is the guest's too: nobody else is here.
            if let Ok(pidfd) = process::pidfd(pid) {
                let _ = process::signal(pidfd.as_fd(), libc::SIGKILL);
            }
        }
        Ok(())
    }

    /// Kills all of it to a fixed point. Blocks.
    ///
    /// # Errors
    /// A sentence when somebody is left at the deadline.
    pub fn kill_all(&self, by: Instant) -> Result<Killed, String> {
        let text = |e: &dyn std::error::Error| innkeeper_reset::layered::Fault::of(e).0;
        let proc = self.own.proc().try_clone_to_owned();
        let proc = ProcDir::new(proc.map_err(|e| text(&e))?).map_err(|e| text(&e))?;
        inplace::kill_all(&proc, &self.own.list(), by).map_err(|e| text(&e))
    }

    /// Waits until nothing of the guest is left. Where the spawner is gone, which nobody outlives,
    /// everything is killed once more: then this daemon ends, and with it all of the container. Cancel
    /// safe.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub async fn empty(&self) -> io::Result<()> {
        loop {
            match tokio::time::timeout(AGAIN, self.spawner.await_empty()).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(_)) => return self.kill(),
                Err(_) => self.kill()?,
            }
        }
    }
}

/// Makes the calling process the guest's root where it is. Nothing of the guest can trace it or look
/// into it until it executes a program.
///
/// # Errors
/// When the kernel refuses.
pub fn enter() -> Result<(), Failure> {
    process::set_dumpable(false).map_err(Failure::at("closing the entrant to tracing"))?;
    // Only the order of the kernel's victims depends on it.
    let _ = std::fs::write("/proc/self/oom_score_adj", EXPENDABLE);
    process::become_ids(0, 0, &[]).map_err(Failure::at("taking the guest's ids"))
}
