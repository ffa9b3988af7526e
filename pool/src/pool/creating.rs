//! Creates: intended, asked, settled.

use super::{Dirty, Pool, SlotEntry};
use crate::action::Action;
use crate::class::Carries;
use crate::event::Created;
use crate::ids::{ClassId, Nonce, SlotId};
use crate::lease::{Failure, FailureKind, Refusal};
use crate::log::Kind;
use crate::pool::timing::Timer;
use crate::slot::Slot;
use crate::slot::state::{Move, RetireCause, SlotState};

impl Pool {
    /// Writes an intent and asks for the create. Caps are the caller's to check.
    pub(super) fn create(&mut self, class: &ClassId, carries: Carries) {
        let nonce = loop {
            let nonce = Nonce(self.ids.next_hex());
            let slot = nonce.slot();
            if !self.slots.contains_key(&slot) && !self.strays.contains_key(&slot) {
                break nonce;
            }
        };
        let Some(entry) = self.classes.get_mut(class) else {
            return;
        };
        let slot = nonce.slot();
        entry.record.creates += 1;
        entry.slots.insert(slot.clone());
        let resources = entry.record.spec.resources;
        self.usage.slots += 1;
        self.usage.starting += 1;
        self.usage.cpu_milli += resources.cpu_milli;
        self.usage.memory_bytes += resources.memory_bytes;
        let record = Slot {
            id: slot.clone(),
            class: class.clone(),
            carries,
            node: None,
            state: SlotState::Creating { nonce },
            since: self.now,
            created: self.now,
            generation: 0,
            uses: 0,
            verified: None,
            resets_since_walk: 0,
            unwalked: Vec::new(),
        };
        self.slots.insert(slot.clone(), SlotEntry::new(record));
        self.dirty.insert(Dirty::Class(class.clone()));
        self.dirty.insert(Dirty::Slot(slot.clone()));
        self.log_slot(Kind::CreateIntent, &slot, |_| ());
        self.ask_create(&slot);
    }

    /// Asks for a create, for the first time or again: the nonce makes both one.
    pub(super) fn ask_create(&mut self, slot: &SlotId) {
        let again = self.now + self.config.limits.create_again_ms;
        let Some(entry) = self.slots.get_mut(slot) else {
            return;
        };
        let SlotState::Creating { nonce } = &entry.record.state else {
            return;
        };
        let Some(class) = self.classes.get(&entry.record.class) else {
            return;
        };
        entry.asks += 1;
        entry.ask_at = again;
        let action = Action::Create {
            nonce: nonce.clone(),
            slot: slot.clone(),
            class: entry.record.class.clone(),
            carries: entry.record.carries.clone(),
            resources: class.record.spec.resources,
        };
        self.act(action);
        self.arm(again, Timer::Slot(slot.clone()));
    }

    pub(super) fn create_settled(&mut self, nonce: &Nonce, result: Result<Created, Failure>) {
        let slot = nonce.slot();
        let Some(entry) = self.slots.get_mut(&slot) else {
            return;
        };
        let SlotState::Creating { .. } = entry.record.state else {
            return;
        };
        let ms = self.now.saturating_sub(entry.record.created);
        let class = entry.record.class.clone();
        entry.asks = 0;
        entry.settled_seq = self.seq;
        entry.heard = Some(self.now);
        let outcome = if result.is_ok() { "ok" } else { "failed" };
        let cause = result.as_ref().err().map(|failure| failure.cause.clone());
        self.log_slot(Kind::CreateSettled, &slot, |line| {
            line.outcome = Some(outcome.to_owned());
            line.cause = cause;
            line.ms = Some(ms);
        });
        self.unblock();
        match result {
            Ok(created) => self.create_succeeded(&slot, &class, created),
            Err(failure) => {
                self.retire(&slot, RetireCause::CreateFailed(failure.cause.clone()));
                self.create_failed(&class, &failure);
            }
        }
    }

    fn create_succeeded(&mut self, slot: &SlotId, class: &ClassId, created: Created) {
        if let Some(entry) = self.slots.get_mut(slot) {
            entry.record.node = created.node;
        }
        self.shift(slot, Move::Settle);
        self.arm_slot(slot);
        let Some(entry) = self.classes.get_mut(class) else {
            return;
        };
        entry.failures = 0;
        entry.backoff_until = 0;
        entry.last_failure = None;
        if entry.record.draining {
            self.retire(slot, RetireCause::Drained);
        }
    }

    /// Creates of the class pause; those that wait are refused at once when nothing else can serve them.
    fn create_failed(&mut self, class: &ClassId, failure: &Failure) {
        let limits = self.config.limits;
        let Some(entry) = self.classes.get_mut(class) else {
            return;
        };
        entry.failures += 1;
        entry.last_failure = Some(failure.cause.clone());
        let pause = match failure.kind {
            FailureKind::Transient => limits.backoff(entry.failures),
            FailureKind::Permanent => limits.backoff_max_ms,
        };
        entry.backoff_until = self.now + pause;
        self.blocked.insert(class.clone());
        self.arm(self.now + pause, Timer::Class(class.clone()));
        if failure.kind == FailureKind::Permanent && !self.may_serve_later(class) {
            // No pause for those who ask next: they get the reason from a try of their own.
            if let Some(entry) = self.classes.get_mut(class) {
                entry.backoff_until = 0;
            }
            let waiting = self.queue.order(class);
            let waiting: Vec<_> = waiting.map(|waiting| waiting.request.key.clone()).collect();
            for key in waiting {
                let reason = Refusal::CreateFailed {
                    cause: failure.cause.clone(),
                };
                self.refuse(&key, reason);
            }
        }
    }

    /// Whether a slot of the class exists or is on its way that may serve a request yet.
    fn may_serve_later(&self, class: &ClassId) -> bool {
        self.slots_of(class).any(|entry| match entry.record.state {
            SlotState::Creating { .. }
            | SlotState::Blank
            | SlotState::Specialising { .. }
            | SlotState::Idle { .. }
            | SlotState::Growing { .. } => true,
            SlotState::Leased { .. } => self.comes_back(entry, entry.record.uses + 1),
            SlotState::Resetting { worn, .. } => !worn,
            SlotState::Lost { .. } | SlotState::Retiring { .. } | SlotState::Deleted => false,
        })
    }
}
