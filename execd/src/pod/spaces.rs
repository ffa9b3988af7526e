//! The namespaces of one sandbox in a pod, kept alive by descriptors: the guest's root may kill
//! every process in them, and the sandbox goes on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::{Kin, killer, visible::Own};
use crate::spawner::Spawner;
use crate::spawner::protocol::Door;
use crate::sys::process;

/// After this, what is still there is killed again, one by one.
const AGAIN: Duration = Duration::from_millis(250);

/// The namespaces and what ends all in them.
#[derive(Debug)]
pub struct Spaces {
    /// User, mount, ipc, uts and, where it is the sandbox's own, network.
    pub(super) namespaces: Vec<OwnedFd>,
    pub(super) network: bool,
    pub(super) killer: OwnedFd,
    pub(super) spawner: Spawner,
    pub(super) own: Arc<Own>,
}

impl Spaces {
    /// The mark of one command.
    pub fn kin(&self) -> Kin {
        Kin::new(Arc::clone(&self.own))
    }

    /// Pids of all that is the guest's.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn pids(&self) -> io::Result<Vec<i32>> {
        self.own.others()
    }

    /// Kills all of it.
    ///
    /// # Errors
    /// When the killer cannot be told and nothing can be listed either.
    pub fn kill(&self) -> io::Result<()> {
        // It has been told already where this is repeated, and a killer can be killed once it is
        // inside: what it leaves is killed one by one until nothing is left.
        killer::tell(self.killer.as_fd()).or_else(|_| self.kill_each())
    }

    fn kill_each(&self) -> io::Result<()> {
        for pid in self.pids()? {
            // A number that was given to another since is the guest's too: nobody else is here.
            if let Ok(pidfd) = process::pidfd(pid) {
                let _ = process::signal(pidfd.as_fd(), libc::SIGKILL);
            }
        }
        Ok(())
    }

    /// Waits until nothing of the guest is left. Cancel safe.
    ///
    /// # Errors
    /// When the spawner is gone.
    pub async fn empty(&self) -> io::Result<()> {
        loop {
            match tokio::time::timeout(AGAIN, self.spawner.await_empty()).await {
                Ok(done) => return done.map_err(io::Error::other),
                Err(_) => self.kill_each()?,
            }
        }
    }

    /// How many they are.
    pub fn kind(&self) -> Door {
        Door::Spaces {
            network: self.network,
        }
    }

    /// Each of them.
    pub fn door(&self) -> Vec<BorrowedFd<'_>> {
        self.namespaces.iter().map(AsFd::as_fd).collect()
    }
}

/// How often the kernel has killed in this container for want of memory.
pub fn oom_kills() -> u64 {
    let count = |path: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill "))?;
        line.trim().parse().ok()
    };
    count("/sys/fs/cgroup/memory.events")
        .or_else(|| count("/sys/fs/cgroup/memory/memory.oom_control"))
        .unwrap_or(0)
}
