//! The end of a slot: retired, deleted, confirmed; and pools that are emptied.

use super::{Dirty, Pool, SlotEntry};
use crate::action::Action;
use crate::ids::{ClassId, SlotId};
use crate::lease::{Failure, FailureKind, Refusal};
use crate::log::Kind;
use crate::pool::timing::Timer;
use crate::slot::state::{Move, RetireCause, SlotState};

impl Pool {
    /// Ends a slot in whatever state it is. A request that it was meant for goes back to its place in the queue.
    pub(super) fn retire(&mut self, slot: &SlotId, cause: RetireCause) {
        let Some(entry) = self.slots.get_mut(slot) else {
            return;
        };
        if let SlotState::Retiring { .. } = entry.record.state {
            return;
        }
        let reserved = entry.reserved.take();
        entry.checking = None;
        entry.asks = 0;
        if let SlotState::Specialising {
            template,
            first: true,
            ..
        } = &entry.record.state
        {
            let template = template.clone();
            self.preparing.remove(&template);
            for key in self.queue.of_template(&template) {
                if let Some(waiting) = self.queue.get(&key) {
                    self.touched.insert(waiting.request.class.id.clone());
                }
            }
        }
        if let Some(key) = reserved {
            self.queue.reopen(&key);
        }
        self.count_fruitless(slot, &cause);
        let text = cause.to_string();
        self.log_slot(Kind::Retired, slot, |line| line.cause = Some(text));
        self.shift(slot, Move::Retire { cause });
        self.ask_delete(slot);
    }

    /// Standby of the class pauses when a slot ends that came to nothing: another one is likely to end the same
    /// way. What a slot that served before dies of says nothing about new ones.
    fn count_fruitless(&mut self, slot: &SlotId, cause: &RetireCause) {
        let Some(entry) = self.slots.get(slot) else {
            return;
        };
        let fruitless = match cause {
            RetireCause::CreateFailed(_)
            | RetireCause::SpecialiseFailed(_)
            | RetireCause::BaselineDiffers(_) => true,
            RetireCause::Tainted(_) | RetireCause::Unhealthy(_) => entry.record.uses == 0,
            // Slots that stood ready go in numbers when their node does, and new ones are wanted at once.
            RetireCause::Lost(_) => {
                matches!(entry.record.state, SlotState::Specialising { .. })
            }
            RetireCause::Worn
            | RetireCause::Idle
            | RetireCause::Discarded
            | RetireCause::SingleUse(_)
            | RetireCause::Drained
            | RetireCause::MadeRoom
            | RetireCause::Unknown(_) => false,
        };
        if fruitless && let Some(class) = self.classes.get_mut(&entry.record.class) {
            class.fruitless = class.fruitless.saturating_add(1);
            class.standby_after = self.now + self.config.limits.backoff(class.fruitless);
        }
    }

    /// Asks for a delete, for the first time or again.
    pub(super) fn ask_delete(&mut self, slot: &SlotId) {
        let again = self.now + self.config.limits.delete_again_ms;
        let cause = match self.slots.get_mut(slot) {
            Some(entry) => {
                let SlotState::Retiring { cause } = &entry.record.state else {
                    return;
                };
                entry.asks += 1;
                entry.ask_at = again;
                cause.to_string()
            }
            None => {
                let Some(asks) = self.strays.get_mut(slot) else {
                    return;
                };
                *asks += 1;
                "unknown: no record of it".to_owned()
            }
        };
        let text = cause.clone();
        self.log_slot(Kind::DeleteAsked, slot, |line| line.cause = Some(text));
        self.act(Action::Delete {
            slot: slot.clone(),
            cause,
        });
        self.arm(again, Timer::Slot(slot.clone()));
    }

    pub(super) fn deleted(&mut self, slot: &SlotId) {
        if self.strays.remove(slot).is_some() {
            self.disarm(Timer::Slot(slot.clone()));
            self.log_slot(Kind::DeleteConfirmed, slot, |_| ());
            return;
        }
        let Some(entry) = self.slots.get(slot) else {
            return;
        };
        let SlotState::Retiring { .. } = entry.record.state else {
            // Gone although nobody asked.
            self.slot_lost(slot, "it was deleted by somebody else");
            return;
        };
        let ms = self.now.saturating_sub(entry.record.since);
        let class = entry.record.class.clone();
        self.log_slot(Kind::DeleteConfirmed, slot, |line| line.ms = Some(ms));
        self.disarm(Timer::Slot(slot.clone()));
        self.shift(slot, Move::Confirm);
        self.slots.remove(slot);
        self.usage.slots -= 1;
        if let Some(entry) = self.classes.get_mut(&class) {
            entry.slots.remove(slot);
            self.usage.cpu_milli -= entry.record.spec.resources.cpu_milli;
            self.usage.memory_bytes -= entry.record.spec.resources.memory_bytes;
        }
        self.unblock();
        self.finish_drain(&class);
    }

    pub(super) fn delete_failed(&mut self, slot: &SlotId, cause: &str) {
        let asks = match (self.slots.get(slot), self.strays.get(slot)) {
            (Some(entry), _) => entry.asks,
            (None, Some(asks)) => *asks,
            (None, None) => return,
        };
        let at = self.now + self.config.limits.backoff(asks);
        if let Some(entry) = self.slots.get_mut(slot) {
            let SlotState::Retiring { .. } = entry.record.state else {
                return;
            };
            entry.ask_at = at;
        }
        if let Some(class) = self.slots.get(slot).map(|entry| entry.record.class.clone())
            && let Some(class) = self.classes.get_mut(&class)
        {
            class.last_failure = Some(cause.to_owned());
        }
        self.arm(at, Timer::Slot(slot.clone()));
    }

    pub(super) fn slot_lost(&mut self, slot: &SlotId, cause: &str) {
        let Some(entry) = self.slots.get(slot) else {
            return;
        };
        match entry.record.state.clone() {
            // Whether the create comes to anything is its answer's to say.
            SlotState::Creating { .. } | SlotState::Retiring { .. } | SlotState::Deleted => return,
            SlotState::Leased { lease, .. } => self.lose_lease(&lease, cause),
            SlotState::Resetting { .. } => {
                self.tainted(slot, format!("the slot was lost: {cause}"));
                return;
            }
            SlotState::Specialising { .. } => {
                let cause = format!("the slot was lost: {cause}");
                self.count_try(
                    slot,
                    &Failure {
                        kind: FailureKind::Transient,
                        cause,
                    },
                );
            }
            // A slot that grows is reserved, not leased yet.
            SlotState::Blank
            | SlotState::Idle { .. }
            | SlotState::Growing { .. }
            | SlotState::Lost { .. } => {}
        }
        self.retire(slot, RetireCause::Lost(cause.to_owned()));
    }

    pub(super) fn drain(&mut self, class: &ClassId) {
        let Some(entry) = self.classes.get_mut(class) else {
            return;
        };
        entry.record.draining = true;
        self.dirty.insert(Dirty::Class(class.clone()));
        for key in self.queue.of_class(class) {
            self.refuse(&key, Refusal::Draining);
        }
        let over: Vec<SlotId> = self
            .slots_of(class)
            .filter(|entry| match entry.record.state {
                SlotState::Blank | SlotState::Specialising { .. } | SlotState::Idle { .. } => true,
                SlotState::Creating { .. }
                | SlotState::Growing { .. }
                | SlotState::Leased { .. }
                | SlotState::Lost { .. }
                | SlotState::Resetting { .. }
                | SlotState::Retiring { .. }
                | SlotState::Deleted => false,
            })
            .map(|entry| entry.record.id.clone())
            .collect();
        for slot in over {
            self.retire(&slot, RetireCause::Drained);
        }
        self.finish_drain(class);
    }

    /// A drained class without slots is forgotten, so that the next request for it starts anew.
    fn finish_drain(&mut self, class: &ClassId) {
        let done = self
            .classes
            .get(class)
            .is_some_and(|entry| entry.record.draining && entry.slots.is_empty());
        if done {
            self.classes.remove(class);
            self.blocked.remove(class);
            self.dirty.insert(Dirty::Class(class.clone()));
        }
    }

    pub(super) fn slots_of(&self, class: &ClassId) -> impl Iterator<Item = &SlotEntry> {
        let slots = self
            .classes
            .get(class)
            .into_iter()
            .flat_map(|entry| &entry.slots);
        slots.filter_map(|slot| self.slots.get(slot))
    }
}
