//! From a slot that can serve to a lease, and the signs of life of its holder.

use super::{Dirty, Pool};
use crate::action::Action;
use crate::class::{Mode, Replace};
use crate::ids::{LeaseId, RequestKey, SlotId};
use crate::lease::{Lease, Supplied};
use crate::log::Kind;
use crate::pool::timing::Timer;
use crate::queue::Waiting;
use crate::slot::state::{Move, RetireCause, SlotState};

/// Templates remembered per class, for what to carry and what to stand ready as.
const RECENT: usize = 64;

impl Pool {
    /// Sets the slot aside for the request and takes the next step towards its lease.
    pub(super) fn reserve(&mut self, slot: &SlotId, key: &RequestKey) {
        let seq = self.seq;
        let Some(entry) = self.slots.get_mut(slot) else {
            return;
        };
        let Some(waiting) = self.queue.get(key) else {
            return;
        };
        let template = waiting.request.template.clone();
        let image = waiting.request.image.clone();
        entry.reserved = Some(key.clone());
        let (idle, ready) = match &entry.record.state {
            SlotState::Idle { template: ready } => (true, *ready == template),
            SlotState::Blank => (true, false),
            SlotState::Specialising { .. }
            | SlotState::Creating { .. }
            | SlotState::Growing { .. }
            | SlotState::Leased { .. }
            | SlotState::Lost { .. }
            | SlotState::Resetting { .. }
            | SlotState::Retiring { .. }
            | SlotState::Deleted => (false, false),
        };
        self.queue.assign(key, slot.clone());
        if let Some(waiting) = self.queue.get_mut(key) {
            waiting.warm = idle && waiting.seq == seq;
            waiting.specialised = !ready;
        }
        if ready {
            self.check_health(slot);
        } else if idle {
            self.specialise(slot, &template, &image);
        }
    }

    /// Hands out at once what was heard of just now; asks the slot otherwise.
    fn check_health(&mut self, slot: &SlotId) {
        let now = self.now;
        let fresh = self.config.policy.health_fresh_ms;
        let Some(entry) = self.slots.get_mut(slot) else {
            return;
        };
        if entry.heard.is_some_and(|heard| now - heard <= fresh) {
            self.grant_reserved(slot);
        } else if entry.checking.is_none() {
            entry.checking = Some(now);
            let generation = entry.record.generation;
            self.act(Action::CheckHealth {
                slot: slot.clone(),
                generation,
            });
            self.arm_slot(slot);
        }
    }

    pub(super) fn health_checked(
        &mut self,
        slot: &SlotId,
        generation: u64,
        result: Result<(), String>,
    ) {
        let Some(entry) = self.slots.get_mut(slot) else {
            return;
        };
        if entry.record.generation != generation || entry.checking.is_none() {
            return;
        }
        entry.checking = None;
        match result {
            Ok(()) => {
                entry.heard = Some(self.now);
                self.grant_reserved(slot);
            }
            Err(cause) => self.retire(slot, RetireCause::Unhealthy(cause)),
        }
    }

    /// Grants the request that an idle slot is set aside for, if it still waits.
    pub(super) fn grant_reserved(&mut self, slot: &SlotId) {
        let Some(entry) = self.slots.get_mut(slot) else {
            return;
        };
        let SlotState::Idle { template } = &entry.record.state else {
            return;
        };
        let Some(key) = entry.reserved.take() else {
            return;
        };
        let wanted = self
            .queue
            .get(&key)
            .map(|waiting| &waiting.request.template);
        if wanted != Some(template) {
            self.queue.reopen(&key);
            return;
        }
        if let Some(waiting) = self.queue.remove(&key, true) {
            self.grant(slot, waiting);
        }
    }

    fn grant(&mut self, slot: &SlotId, waiting: Waiting) {
        let id = loop {
            let id = LeaseId(format!("l-{}", self.ids.next_hex()));
            if !self.leases.contains_key(&id) {
                break id;
            }
        };
        self.shift(slot, Move::Lease { lease: id.clone() });
        let Some(entry) = self.slots.get_mut(slot) else {
            return;
        };
        entry.record.unwalked.push(id.clone());
        let request = waiting.request;
        let supply = match entry.record.uses {
            0 if entry.settled_seq < waiting.seq => Supplied::Warm,
            0 => Supplied::Fresh,
            _ => Supplied::Reused,
        };
        let usable = self.config.baseline_format;
        let recorded = self.templates.get(&request.template);
        let baseline = recorded.and_then(|template| template.baseline.clone());
        let deadline = self.now.saturating_add(request.max_ms);
        let lease = Lease {
            id: id.clone(),
            request: request.key.clone(),
            slot: slot.clone(),
            generation: entry.record.generation,
            template: request.template.clone(),
            image: request.image.clone(),
            verify: request.verify,
            holder: request.holder.clone(),
            job: request.job.clone(),
            supply,
            specialised: waiting.specialised,
            warm: waiting.warm,
            uses: entry.record.uses,
            baseline: baseline.filter(|baseline| baseline.usable(usable)),
            verified: entry.record.verified,
            granted: self.now,
            ttl_ms: request.ttl_ms,
            expires: self.now.saturating_add(request.ttl_ms).min(deadline),
            deadline,
            ended: None,
        };
        self.disarm(Timer::Request(request.key.clone()));
        self.arm(lease.expires, Timer::Lease(id.clone()));
        self.requests.insert(request.key.clone(), id.clone());
        self.leases.insert(id.clone(), lease.clone());
        self.dirty.insert(Dirty::Lease(id.clone()));
        self.count_grant(&lease);
        let waited = self.now.saturating_sub(waiting.since);
        self.log_lease(Kind::Granted, &id, |line| line.ms = Some(waited));
        self.act(Action::Grant {
            request: request.key,
            lease: Box::new(lease),
        });
    }

    fn count_grant(&mut self, lease: &Lease) {
        let Some(slot) = self.slots.get(&lease.slot) else {
            return;
        };
        let Some(class) = self.classes.get_mut(&slot.record.class) else {
            return;
        };
        class.held += 1;
        class.record.leases += 1;
        class.record.warm += u64::from(lease.warm);
        class
            .recent
            .push_back((lease.template.clone(), lease.image.clone()));
        if class.recent.len() > RECENT {
            class.recent.pop_front();
        }
        let supply = &class.record.spec.supply;
        class.owed += match (supply.mode, supply.replace) {
            (Mode::Warm | Mode::Reuse, Replace::OnLease) => 1,
            (Mode::Warm | Mode::Reuse, Replace::OnLoss | Replace::Ahead) => 0,
            (Mode::OnDemand, Replace::OnLease | Replace::OnLoss | Replace::Ahead) => 0,
        };
        self.dirty
            .insert(Dirty::Class(class.record.spec.id.clone()));
    }

    /// A sign of life, perhaps with a new ttl. Only the new ttl is journaled: a restart gives a full ttl anyway.
    pub(super) fn alive(&mut self, id: &LeaseId, ttl_ms: Option<u64>) {
        let now = self.now;
        let Some(lease) = self.leases.get_mut(id) else {
            return;
        };
        if !lease.live() {
            return;
        }
        let before = lease.expires;
        if let Some(ttl_ms) = ttl_ms {
            lease.ttl_ms = ttl_ms;
            self.dirty.insert(Dirty::Lease(id.clone()));
        }
        lease.expires = now.saturating_add(lease.ttl_ms).min(lease.deadline);
        if lease.expires < before {
            let expires = lease.expires;
            self.arm(expires, Timer::Lease(id.clone()));
        }
    }

    pub(super) fn lease_due(&mut self, id: &LeaseId) {
        let Some(lease) = self.leases.get(id) else {
            return;
        };
        if !lease.live() {
            return;
        }
        if lease.expires <= self.now {
            self.expired(&id.clone());
        } else {
            let expires = lease.expires;
            self.arm(expires, Timer::Lease(id.clone()));
        }
    }
}
