//! The spawner's watch over the container: every process of the guest that loses its parent
//! becomes the spawner's child, so the last one to end is announced to it.

use std::collections::HashSet;
use std::io;
use std::os::fd::BorrowedFd;

use super::visible;

/// What belongs to the daemon, and who waits until there is nothing else.
#[derive(Debug)]
pub struct Vigil {
    /// The daemon and the spawner, which live as long as this does.
    own: [i32; 2],
    /// Children of the spawner that are the daemon's helpers.
    helpers: HashSet<i32>,
    waiting: Vec<u64>,
}

impl Vigil {
    /// Of the calling process, the spawner.
    pub(super) fn begin() -> Self {
        let daemon = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
        Self {
            own: [daemon, std::process::id() as i32],
            helpers: HashSet::new(),
            waiting: Vec::new(),
        }
    }

    /// A child that is the daemon's.
    pub fn keep(&mut self, helper: i32) {
        self.helpers.insert(helper);
    }

    /// A child that has been waited for.
    pub fn ended(&mut self, pid: i32) {
        self.helpers.remove(&pid);
    }

    /// The request `id` waits until nothing of the guest is left.
    pub fn await_empty(&mut self, id: u64) {
        self.waiting.push(id);
    }

    /// The requests that waited, once nothing of the guest is left.
    ///
    /// # Errors
    /// When /proc cannot be listed.
    pub fn over(&mut self, proc: BorrowedFd<'_>) -> io::Result<Vec<u64>> {
        if self.waiting.is_empty() {
            return Ok(Vec::new());
        }
        let is_own = |pid: &i32| self.own.contains(pid) || self.helpers.contains(pid);
        if visible::pids(proc)?.iter().all(is_own) {
            Ok(std::mem::take(&mut self.waiting))
        } else {
            Ok(Vec::new())
        }
    }
}
