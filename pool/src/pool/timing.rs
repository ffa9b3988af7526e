//! Deadlines. A timer only says when to look; what is due is read from the state.

use super::Pool;
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

impl Pool {
    pub(super) fn arm(&mut self, at: Millis, timer: Timer) {
        self.timers.insert((at.max(self.now + 1), timer));
    }

    /// Looks at an unused slot again when its idle timeout is over.
    pub(super) fn arm_idle(&mut self, slot: &SlotId) {
        let Some(entry) = self.slots.get(slot) else {
            return;
        };
        let Some(class) = self.classes.get(&entry.record.class) else {
            return;
        };
        let at = entry.record.since + class.record.spec.supply.idle_timeout_ms;
        self.arm(at, Timer::Slot(slot.clone()));
    }

    pub(super) fn fire_timers(&mut self) {
        while let Some((at, _)) = self.timers.first()
            && *at <= self.now
        {
            let Some((_, timer)) = self.timers.pop_first() else {
                return;
            };
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

    fn slot_due(&mut self, slot: &SlotId) {
        let limits = self.config.limits;
        let late = |what: &str, ms: Millis| format!("{what} took longer than {} s", ms / 1000);
        let Some(entry) = self.slots.get(slot) else {
            self.ask_delete(slot);
            return;
        };
        let spent = self.now.saturating_sub(entry.record.since);
        match entry.record.state {
            SlotState::Creating { .. } if entry.ask_at <= self.now => self.ask_create(slot),
            SlotState::Retiring { .. } if entry.ask_at <= self.now => self.ask_delete(slot),
            SlotState::Specialising { .. } if spent >= limits.specialise_ms => {
                let cause = late("making the sandbox", limits.specialise_ms);
                let failure = Failure {
                    kind: FailureKind::Transient,
                    cause: cause.clone(),
                };
                self.specialise_failed(slot, &failure, RetireCause::SpecialiseFailed(cause));
            }
            SlotState::Resetting { .. } if spent >= limits.reset_ms => {
                self.tainted(slot, late("the reset", limits.reset_ms));
            }
            SlotState::Idle { .. } | SlotState::Blank => match entry.checking {
                Some(since) if since + limits.health_ms <= self.now => {
                    let cause = late("the health check", limits.health_ms);
                    self.retire(slot, RetireCause::Unhealthy(cause));
                }
                Some(_) | None => {
                    self.touched.insert(entry.record.class.clone());
                }
            },
            SlotState::Creating { .. }
            | SlotState::Retiring { .. }
            | SlotState::Specialising { .. }
            | SlotState::Resetting { .. }
            | SlotState::Growing { .. }
            | SlotState::Leased { .. }
            | SlotState::Lost { .. }
            | SlotState::Deleted => {}
        }
    }

    /// Something was freed that others may have been waiting for.
    pub(super) fn unblock(&mut self) {
        self.touched.append(&mut self.blocked);
    }
}
