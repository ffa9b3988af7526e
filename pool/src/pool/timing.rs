//! Deadlines. A timer only says when to look; what is due is read from the state.

use super::{Pool, SlotEntry};
use crate::ids::{ClassId, LeaseId, Millis, RequestKey, SlotId};
use crate::lease::{Failure, FailureKind};
use crate::slot::state::{RetireCause, SlotState};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Class(ClassId),
    Lease(LeaseId),
    Request(RequestKey),
    Slot(SlotId),
}

/// What is the matter with a slot whose time has come.
enum Due {
    AskCreate,
    AskDelete,
    SpecialisingHangs,
    ResetHangs,
    CheckHangs,
    Unused,
}

impl Pool {
    /// Looks at the thing at that time, or earlier if it was to be looked at earlier. One timer for each thing:
    /// whoever looks too early arms it again.
    pub(super) fn arm(&mut self, at: Millis, timer: Timer) {
        let at = at.max(self.now + 1);
        match self.armed.get(&timer) {
            Some(armed) if *armed <= at => return,
            Some(armed) => {
                self.timers.remove(&(*armed, timer.clone()));
            }
            None => {}
        }
        self.armed.insert(timer.clone(), at);
        self.timers.insert((at, timer));
    }

    /// The thing is over.
    pub(super) fn disarm(&mut self, timer: Timer) {
        if let Some(at) = self.armed.remove(&timer) {
            self.timers.remove(&(at, timer));
        }
    }

    /// Looks at a slot when something of it is due.
    pub(super) fn arm_slot(&mut self, slot: &SlotId) {
        let due = self.slots.get(slot).and_then(|entry| self.due(entry));
        if let Some((at, _)) = due {
            self.arm(at, Timer::Slot(slot.clone()));
        }
    }

    pub(super) fn fire_timers(&mut self) {
        while let Some((at, _)) = self.timers.first()
            && *at <= self.now
        {
            let Some((_, timer)) = self.timers.pop_first() else {
                return;
            };
            self.armed.remove(&timer);
            match timer {
                Timer::Class(class) => {
                    self.touched.insert(class);
                }
                Timer::Lease(lease) => self.lease_due(&lease),
                Timer::Request(key) => self.request_due(&key),
                Timer::Slot(slot) => self.slot_due(&slot),
            }
        }
    }

    /// When a slot must be looked at, and for what.
    fn due(&self, entry: &SlotEntry) -> Option<(Millis, Due)> {
        let limits = &self.config.limits;
        let slot = &entry.record;
        match slot.state {
            SlotState::Creating { .. } => Some((entry.ask_at, Due::AskCreate)),
            SlotState::Retiring { .. } => Some((entry.ask_at, Due::AskDelete)),
            SlotState::Specialising { .. } => {
                Some((slot.since + limits.specialise_ms, Due::SpecialisingHangs))
            }
            SlotState::Resetting { .. } => Some((slot.since + limits.reset_ms, Due::ResetHangs)),
            SlotState::Idle { .. } | SlotState::Blank => match entry.checking {
                Some(asked) => Some((asked + limits.health_ms, Due::CheckHangs)),
                None => {
                    let class = self.classes.get(&slot.class)?;
                    let timeout = class.record.spec.supply.idle_timeout_ms;
                    Some((slot.since + timeout, Due::Unused))
                }
            },
            SlotState::Growing { .. }
            | SlotState::Leased { .. }
            | SlotState::Lost { .. }
            | SlotState::Deleted => None,
        }
    }

    fn slot_due(&mut self, slot: &SlotId) {
        let limits = self.config.limits;
        let late = |what: &str, ms: Millis| format!("{what} took longer than {} s", ms / 1000);
        let Some(entry) = self.slots.get(slot) else {
            self.ask_delete(slot);
            return;
        };
        let Some((at, due)) = self.due(entry) else {
            return;
        };
        if at > self.now {
            self.arm(at, Timer::Slot(slot.clone()));
            return;
        }
        match due {
            Due::AskCreate => self.ask_create(slot),
            Due::AskDelete => self.ask_delete(slot),
            Due::SpecialisingHangs => {
                let cause = late("making the sandbox", limits.specialise_ms);
                let failure = Failure {
                    kind: FailureKind::Transient,
                    cause: cause.clone(),
                };
                self.specialise_failed(slot, &failure, RetireCause::SpecialiseFailed(cause));
            }
            Due::ResetHangs => self.tainted(slot, late("the reset", limits.reset_ms)),
            Due::CheckHangs => {
                let cause = late("the health check", limits.health_ms);
                self.retire(slot, RetireCause::Unhealthy(cause));
            }
            // Whether it goes is the class's matter: if it stays, it is looked at again later.
            Due::Unused => {
                let class = entry.record.class.clone();
                let timeout = self
                    .classes
                    .get(&class)
                    .map_or(0, |entry| entry.record.spec.supply.idle_timeout_ms);
                self.arm(
                    self.now + (timeout / 8).max(1000),
                    Timer::Slot(slot.clone()),
                );
                self.touched.insert(class.clone());
                self.overdue.insert(class);
            }
        }
    }

    /// Something was freed that others may have been waiting for.
    pub(super) fn unblock(&mut self) {
        self.touched.append(&mut self.blocked);
    }
}
