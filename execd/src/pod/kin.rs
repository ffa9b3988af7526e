//! All that one command has started, whatever sessions and process groups it made and whoever
//! became its parent: told by the control group namespace that the command got when it came in.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::readlinkat;
use tokio::io::Interest;

use super::visible::{self, Own};
use crate::sys::{process, watch};

/// Looks for what was forked while the last ones were killed. Each finds fewer, unless
/// something forks faster than it is killed; then the sandbox's end will reach it.
const ROUNDS: usize = 50;

/// The mark of one command.
#[derive(Debug)]
pub struct Kin {
    own: Arc<Own>,
    /// 0 until the command runs.
    mark: AtomicU32,
}

impl Kin {
    /// Of a command that has not started yet.
    pub(super) fn new(own: Arc<Own>) -> Self {
        Self {
            own,
            mark: AtomicU32::new(0),
        }
    }

    /// It runs, and carries this mark.
    pub fn marked(&self, mark: u32) {
        self.mark.store(mark, Ordering::Relaxed);
    }

    /// Kills the command and all that it started; before it runs, whoever on his way in has
    /// been stopped.
    pub fn kill(&self) {
        for _ in 0..ROUNDS {
            let Ok(found) = self.opened() else { return };
            if found.is_empty() {
                return;
            }
            for pidfd in found.values() {
                // Already dead is as good.
                let _ = process::signal(pidfd.as_fd(), libc::SIGKILL);
            }
        }
    }

    /// Their pids.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn pids(&self) -> io::Result<Vec<i32>> {
        let others = self.own.others()?;
        Ok(others.into_iter().filter(|pid| self.is_kin(*pid)).collect())
    }

    /// Waits until none is left. Cancel safe.
    pub async fn empty(&self) {
        while let Ok(found) = self.opened() {
            let Some((_, pidfd)) = found.into_iter().next() else {
                return;
            };
            let Ok(ended) = watch::watch(pidfd, Interest::READABLE) else {
                return;
            };
            if let Ok(mut ready) = ended.readable().await {
                ready.retain_ready();
            }
        }
    }

    /// Those that live, each by a descriptor that was opened between two sights of its mark: so
    /// never one that only got the number.
    fn opened(&self) -> io::Result<BTreeMap<i32, OwnedFd>> {
        let open = |pid: i32| Some((pid, process::pidfd(pid).ok()?));
        let opened: BTreeMap<_, _> = self.pids()?.into_iter().filter_map(open).collect();
        Ok(opened
            .into_iter()
            .filter(|(pid, _)| self.is_kin(*pid) && !self.is_dead(*pid))
            .collect())
    }

    fn is_kin(&self, pid: i32) -> bool {
        let link = readlinkat(self.own.proc(), format!("{pid}/ns/cgroup"), Vec::new());
        match (link, self.mark.load(Ordering::Relaxed)) {
            // A process of ours on its way in shows nothing, and stands still for nobody else.
            (Err(_), 0) => self.state(pid) == Some('T'),
            (Err(_), _) | (Ok(_), 0) => false,
            (Ok(link), mark) => link.as_bytes() == format!("cgroup:[{mark}]").as_bytes(),
        }
    }

    fn is_dead(&self, pid: i32) -> bool {
        matches!(self.state(pid), None | Some('Z' | 'X'))
    }

    fn state(&self, pid: i32) -> Option<char> {
        let stat = visible::text(self.own.proc(), &format!("{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.trim_start().chars().next()
    }
}
