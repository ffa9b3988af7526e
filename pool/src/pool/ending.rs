//! The end of a lease, and the reset that follows it.

use super::{Dirty, Pool, SlotEntry};
use crate::action::Action;
use crate::class::Mode;
use crate::event::ResetResult;
use crate::ids::{LeaseId, SlotId};
use crate::lease::{Ended, How, Outcome};
use crate::log::Kind;
use crate::pool::timing::Timer;
use crate::slot::state::{Move, RetireCause, SlotState};
use crate::template::{Baseline, Depth};

impl Pool {
    pub(super) fn returned(&mut self, id: &LeaseId, discard: bool, verify: Depth) {
        self.end_lease(id, How::Returned, discard, verify);
    }

    pub(super) fn expired(&mut self, id: &LeaseId) {
        self.end_lease(id, How::Expired, false, Depth::Swap);
    }

    fn end_lease(&mut self, id: &LeaseId, how: How, discard: bool, verify: Depth) {
        let Some(slot) = self.close_lease(id, how) else {
            return;
        };
        let against = if discard {
            Some(RetireCause::Discarded)
        } else {
            self.reason_to_end(&slot)
        };
        let kind = match how {
            How::Returned => Kind::Returned,
            How::Expired => Kind::Expired,
            How::Lost => Kind::Lost,
        };
        let outcome = if against.is_some() {
            "discarded"
        } else {
            "resetting"
        };
        self.log_end(kind, id, outcome, None);
        match against {
            Some(cause) => {
                self.settle(
                    id,
                    Outcome::Discarded {
                        retired: cause.clone(),
                    },
                );
                self.retire(&slot, cause);
            }
            None => self.begin_reset(&slot, id, verify),
        }
    }

    fn log_end(&mut self, kind: Kind, id: &LeaseId, outcome: &str, cause: Option<String>) {
        let granted = self.leases.get(id).map_or(self.now, |lease| lease.granted);
        let ms = self.now.saturating_sub(granted);
        self.log_lease(kind, id, |line| {
            line.outcome = Some(outcome.to_owned());
            line.cause = cause;
            line.ms = Some(ms);
        });
    }

    /// The slot vanished under its lease.
    pub(super) fn lose_lease(&mut self, id: &LeaseId, cause: &str) {
        let Some(slot) = self.close_lease(id, How::Lost) else {
            return;
        };
        self.log_end(Kind::Lost, id, "discarded", Some(cause.to_owned()));
        self.settle(
            id,
            Outcome::Discarded {
                retired: RetireCause::Lost(cause.to_owned()),
            },
        );
        self.shift(&slot, Move::Lose);
    }

    /// Marks a live lease as ended and counts the rollout. Before anything else is asked of the slot, so that
    /// the actions begin with closing what the lease opened.
    fn close_lease(&mut self, id: &LeaseId, how: How) -> Option<SlotId> {
        let lease = self.leases.get_mut(id)?;
        if !lease.live() {
            return None;
        }
        lease.ended = Some(Ended {
            how,
            at: self.now,
            outcome: None,
        });
        let slot = lease.slot.clone();
        let job = lease.job_key();
        self.dirty.insert(Dirty::Lease(id.clone()));
        self.ended.push_back(id.clone());
        self.queue.release(&job);
        if self.queue.capped(&job) {
            self.touched.extend(self.queue.open_classes());
        }
        self.disarm(Timer::Lease(id.clone()));
        self.act(Action::LeaseEnded {
            lease: id.clone(),
            slot: slot.clone(),
            how,
        });
        let entry = self.slots.get_mut(&slot)?;
        entry.record.uses += 1;
        if let Some(class) = self.classes.get_mut(&entry.record.class) {
            class.held -= 1;
        }
        self.forget_old_leases();
        Some(slot)
    }

    fn forget_old_leases(&mut self) {
        let mut kept = 0;
        while self.ended.len() - kept > self.config.ended_leases {
            let Some(id) = self.ended.pop_front() else {
                return;
            };
            let ended = self.leases.get(&id).and_then(|lease| lease.ended.as_ref());
            if ended.is_some_and(|ended| ended.outcome.is_none()) {
                // Its reset still runs, and will want to write the outcome.
                self.ended.push_back(id);
                kept += 1;
                continue;
            }
            if let Some(lease) = self.leases.remove(&id) {
                self.requests.remove(&lease.request);
            }
            self.dirty.insert(Dirty::Lease(id));
        }
    }

    /// Why a slot whose lease ended cannot be reset, if so.
    fn reason_to_end(&self, slot: &SlotId) -> Option<RetireCause> {
        let entry = self.slots.get(slot)?;
        let class = &self.classes.get(&entry.record.class)?.record;
        let single = |why: &str| Some(RetireCause::SingleUse(why.to_owned()));
        if class.draining {
            return Some(RetireCause::Drained);
        }
        if !class.spec.resettable {
            return single(
                "its class is used once: strategy none, or network host without reuse_host_network",
            );
        }
        match class.spec.supply.mode {
            Mode::OnDemand => return single("supply mode on-demand"),
            Mode::Warm => return single("supply mode warm"),
            Mode::Reuse => {}
        }
        if class.spec.reuses() == 0 {
            return single("no reuse allowed");
        }
        match entry.record.state.template() {
            Some(template) if self.template_usable(template) => None,
            Some(template) => {
                let known = self.templates.get(template);
                let why = known.and_then(|known| known.single_use.as_deref());
                single(why.unwrap_or("no baseline on record"))
            }
            None => single("no baseline on record"),
        }
    }

    /// Whether the slot will serve again once `uses` rollouts have ended in it.
    pub(super) fn comes_back(&self, entry: &SlotEntry, uses: u32) -> bool {
        let Some(class) = self.classes.get(&entry.record.class) else {
            return false;
        };
        uses <= class.record.spec.reuses() && self.reason_to_end(&entry.record.id).is_none()
    }

    fn begin_reset(&mut self, slot: &SlotId, id: &LeaseId, verify: Depth) {
        let Some(lease) = self.leases.get(id) else {
            return;
        };
        let every = lease.verify;
        let Some(entry) = self.slots.get_mut(slot) else {
            return;
        };
        let Some(class) = self.classes.get(&entry.record.class) else {
            return;
        };
        let full = class.record.resets_since_full + 1 >= every.full_every;
        let walk = entry.record.resets_since_walk + 1 >= every.walk_every;
        let due = match (full, walk) {
            (true, true | false) => Depth::Full,
            (false, true) => Depth::Walk,
            (false, false) => Depth::Swap,
        };
        let depth = due.max(verify);
        let worn = entry.record.uses > class.record.spec.reuses();
        entry.record.generation += 1;
        entry.record.verified = None;
        self.shift(slot, Move::Reset { depth, worn });
        self.ask_reset(slot);
    }

    pub(super) fn ask_reset(&mut self, slot: &SlotId) {
        let Some(entry) = self.slots.get(slot) else {
            return;
        };
        let SlotState::Resetting {
            lease,
            template,
            depth,
            ..
        } = &entry.record.state
        else {
            return;
        };
        let known = self
            .templates
            .get(template)
            .and_then(|known| known.baseline.clone());
        let Some(baseline) = known else { return };
        let action = Action::Reset {
            slot: slot.clone(),
            generation: entry.record.generation,
            template: template.clone(),
            lease: lease.clone(),
            depth: *depth,
            baseline,
        };
        self.act(action);
        self.arm_slot(slot);
    }

    pub(super) fn reset_done(&mut self, slot: &SlotId, generation: u64, result: ResetResult) {
        let Some(entry) = self.slots.get(slot) else {
            return;
        };
        let SlotState::Resetting {
            template,
            depth: asked,
            ..
        } = &entry.record.state
        else {
            return;
        };
        if entry.record.generation != generation {
            return;
        }
        match result {
            ResetResult::Tainted { cause } => self.tainted(slot, cause),
            ResetResult::Observed {
                observed,
                depth,
                ready,
            } => {
                let known = self
                    .templates
                    .get(template)
                    .and_then(|known| known.baseline.as_ref());
                if depth < *asked {
                    let cause = format!("observed at depth {}, not {}", depth.word(), asked.word());
                    self.tainted(slot, cause);
                } else if !self.template_usable(template) || known != Some(&observed) {
                    self.tainted(slot, "its digests differ from the baseline".to_owned());
                } else {
                    self.clean(slot, observed, depth, ready);
                }
            }
        }
    }

    fn clean(&mut self, slot: &SlotId, observed: Baseline, depth: Depth, ready: bool) {
        let now = self.now;
        let Some(entry) = self.slots.get_mut(slot) else {
            return;
        };
        let SlotState::Resetting { lease, worn, .. } = entry.record.state.clone() else {
            return;
        };
        let Some(class) = self.classes.get_mut(&entry.record.class) else {
            return;
        };
        let ms = now.saturating_sub(entry.record.since);
        entry.record.verified = Some(depth);
        entry.heard = Some(now);
        if depth >= Depth::Walk {
            entry.record.resets_since_walk = 0;
            entry.record.unwalked.clear();
        } else {
            entry.record.resets_since_walk += 1;
        }
        if depth == Depth::Full {
            class.record.resets_since_full = 0;
        } else {
            class.record.resets_since_full += 1;
        }
        let retired = match (worn, class.record.draining) {
            (true, true | false) => Some(RetireCause::Worn),
            (false, true) => Some(RetireCause::Drained),
            (false, false) => None,
        };
        self.dirty
            .insert(Dirty::Class(class.record.spec.id.clone()));
        self.log_lease(Kind::Verified, &lease, |line| {
            line.outcome = Some(depth.word().to_owned());
            line.ms = Some(ms);
        });
        self.settle(
            &lease,
            Outcome::Clean {
                verified: depth,
                observed,
                retired: retired.clone(),
            },
        );
        match retired {
            Some(cause) => self.retire(slot, cause),
            None => {
                self.shift(slot, Move::Clean { ready });
                self.arm_slot(slot);
            }
        }
    }

    /// Any failure of a reset ends the slot.
    pub(super) fn tainted(&mut self, slot: &SlotId, cause: String) {
        let Some(entry) = self.slots.get(slot) else {
            return;
        };
        let SlotState::Resetting { lease, depth, .. } = entry.record.state.clone() else {
            return;
        };
        let ms = self.now.saturating_sub(entry.record.since);
        let leases = entry.record.unwalked.clone();
        let outcome = Outcome::Tainted {
            cause: cause.clone(),
        };
        let line_cause = cause.clone();
        self.log_lease(Kind::Tainted, &lease, |line| {
            line.outcome = Some(depth.word().to_owned());
            line.cause = Some(line_cause);
            line.ms = Some(ms);
        });
        self.settle(&lease, outcome);
        if depth >= Depth::Walk && leases.len() > 1 {
            self.act(Action::Doubt {
                slot: slot.clone(),
                leases,
                cause: cause.clone(),
            });
        }
        self.retire(slot, RetireCause::Tainted(cause));
    }

    fn settle(&mut self, id: &LeaseId, outcome: Outcome) {
        if let Some(ended) = self
            .leases
            .get_mut(id)
            .and_then(|lease| lease.ended.as_mut())
        {
            ended.outcome = Some(outcome.clone());
            self.dirty.insert(Dirty::Lease(id.clone()));
        }
        self.act(Action::Settled {
            lease: id.clone(),
            outcome,
        });
    }
}
