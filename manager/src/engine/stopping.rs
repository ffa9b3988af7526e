//! How the engine ends: stopped with everything kept, or emptied first.

use innkeeper_pool::{Event, LeaseId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::task::Task;

impl Task {
    /// Begins to give everything up that this life of the manager made.
    pub(super) fn empty(&mut self, reply: oneshot::Sender<usize>) {
        self.closed = true;
        self.emptying.push(reply);
        for (request, waiters) in std::mem::take(&mut self.waiting) {
            drop(waiters);
            self.feed(Event::LeaseCancelled(request));
        }
        for row in self.pool.pools() {
            self.feed(Event::Drain(row.class));
        }
        self.look_at_holders();
    }

    /// While emptying: ends leases of this process and of processes that are gone, and answers
    /// once nothing of this life is left.
    pub(super) fn look_at_holders(&mut self) {
        if self.emptying.is_empty() {
            return;
        }
        let own = std::process::id() as i32;
        let abandoned: Vec<LeaseId> = self
            .holders
            .iter()
            .filter(|(_, pid)| pid.is_none_or(|pid| pid == own || !is_alive(pid)))
            .map(|(lease, _)| lease.clone())
            .collect();
        for lease in abandoned {
            self.discard(lease);
        }
        let slots = self.slot_rows(None);
        // A leased slot that is not of this life was granted by a manager that died: its holder
        // may come back for it.
        let kept = |row: &&innkeeper_pool::SlotRow| {
            row.lease
                .as_ref()
                .is_some_and(|lease| !self.holders.contains_key(lease))
        };
        let left = slots.iter().filter(kept).count();
        if left == slots.len() {
            for reply in std::mem::take(&mut self.emptying) {
                let _ = reply.send(left);
            }
        }
    }

    /// Whether the time to end has come: asked to, and nothing under way or patience over.
    pub(super) fn may_stop(&mut self) -> bool {
        let Some((at, _)) = &self.stopping else {
            return false;
        };
        if !self.under_way.is_empty() && Instant::now() < *at {
            return false;
        }
        if let Some((_, reply)) = self.stopping.take() {
            let _ = reply.send(());
        }
        true
    }
}

fn is_alive(pid: i32) -> bool {
    std::path::Path::new("/proc").join(pid.to_string()).exists()
}
