//! The slots as they really are.

use super::Rng;
use super::work::{Faults, Work};
use crate::action::Action;
use crate::event::{Created, Event, Ready, Reported, ResetResult};
use crate::ids::{LeaseId, Millis, SlotId, TemplateKey};
use crate::lease::{Failure, FailureKind, Lease, Supplied};
use crate::template::{Baseline, Depth};
use std::collections::{BTreeMap, BTreeSet};

/// A slot that exists.
#[derive(Debug, Clone, Default)]
pub struct Real {
    /// Generation of what is in it.
    pub generation: u64,
    /// What is in it.
    pub template: Option<TemplateKey>,
    /// A rollout was in it since it was last put back.
    pub dirty: bool,
    /// Rollouts so far.
    pub rollouts: u32,
    /// Who uses it.
    pub holder: Option<LeaseId>,
}

/// All that exists, and all that is under way.
#[derive(Debug)]
pub struct World {
    /// How it misbehaves from now on.
    pub faults: Faults,
    /// Templates that never become ready.
    pub broken: BTreeSet<TemplateKey>,
    /// What the pool said that is not so.
    pub violations: Vec<String>,
    slots: BTreeMap<SlotId, Real>,
    rng: Rng,
    order: u64,
    work: BTreeMap<(Millis, u64), Work>,
    /// Answers to creates that were carried out: a repeat is the same create.
    creates: BTreeMap<SlotId, Result<Created, Failure>>,
    /// Answers to what was built, by slot and generation.
    built: BTreeMap<(SlotId, u64), Event>,
    leases: BTreeSet<LeaseId>,
}

impl World {
    /// An empty world.
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self {
            faults,
            broken: BTreeSet::new(),
            violations: Vec::new(),
            slots: BTreeMap::new(),
            rng: Rng::new(seed),
            order: 0,
            work: BTreeMap::new(),
            creates: BTreeMap::new(),
            built: BTreeMap::new(),
            leases: BTreeSet::new(),
        }
    }

    /// The digests that a clean sandbox of the template has.
    pub fn baseline(template: &TemplateKey) -> Baseline {
        let components = BTreeMap::from([("files".to_owned(), format!("files-of-{template}"))]);
        Baseline {
            format: 1,
            components,
        }
    }

    /// What exists.
    pub fn slots(&self) -> &BTreeMap<SlotId, Real> {
        &self.slots
    }

    /// Whether the lease's sandbox is there.
    pub fn holds(&self, lease: &Lease) -> bool {
        self.slots
            .get(&lease.slot)
            .is_some_and(|real| real.generation == lease.generation)
    }

    /// What a provider would list.
    pub fn reported(&self) -> Vec<Reported> {
        let found = self.slots.iter();
        found
            .map(|(slot, real)| Reported {
                slot: slot.clone(),
                generation: real.generation,
            })
            .collect()
    }

    /// Puts a slot there that no pool asked for.
    pub fn plant(&mut self, slot: SlotId) {
        self.slots.insert(slot, Real::default());
    }

    /// Kills a slot without a word.
    pub fn kill(&mut self, slot: &SlotId) {
        self.slots.remove(slot);
    }

    /// When something is done next.
    pub fn next_at(&self) -> Option<Millis> {
        self.work.keys().next().map(|(at, _)| *at)
    }

    /// The manager died: what is under way goes on, and nobody hears of it. Holders are those of the records.
    pub fn manager_died<'a>(&mut self, live: impl IntoIterator<Item = &'a Lease>) {
        for work in self.work.values_mut() {
            work.deaf = true;
        }
        let live: Vec<&Lease> = live.into_iter().collect();
        for real in self.slots.values_mut() {
            real.holder = real
                .holder
                .take()
                .filter(|id| live.iter().any(|lease| lease.id == *id));
        }
        for lease in live {
            self.granted(lease);
        }
    }

    /// Begins an action.
    pub fn perform(&mut self, now: Millis, action: &Action) {
        match action {
            Action::Grant { lease, .. } => {
                if lease.live() {
                    self.granted(lease);
                }
            }
            Action::LeaseEnded { lease, slot, .. } => {
                if let Some(real) = self.slots.get_mut(slot) {
                    real.holder = real.holder.take().filter(|holder| holder != lease);
                }
            }
            Action::Refuse { .. } | Action::Settled { .. } | Action::Doubt { .. } => {}
            Action::Create { .. }
            | Action::Specialise { .. }
            | Action::CheckHealth { .. }
            | Action::Reset { .. }
            | Action::Delete { .. } => {
                let times = if self.faults.twice { 2 } else { 1 };
                for _ in 0..times {
                    let at = now + 1 + self.rng.below(self.faults.lag_ms);
                    let deaf = self.rng.chance(self.faults.lose);
                    self.order += 1;
                    let work = Work {
                        action: action.clone(),
                        deaf,
                    };
                    self.work.insert((at, self.order), work);
                }
            }
        }
    }

    /// Holds a grant against the truth.
    fn granted(&mut self, lease: &Lease) {
        // A slot may die between its health check and the grant; then the lease is lost, not wrong.
        let Some(real) = self.slots.get_mut(&lease.slot) else {
            return;
        };
        if real.holder.as_ref() == Some(&lease.id) {
            return;
        }
        let mut wrong = |what: String| {
            self.violations
                .push(format!("{} in {}: {what}", lease.id, lease.slot));
        };
        if !self.leases.insert(lease.id.clone()) {
            wrong("granted again after its end".to_owned());
        }
        if let Some(holder) = &real.holder {
            wrong(format!("still held by {holder}"));
        }
        if real.dirty {
            wrong("not put back since the last rollout".to_owned());
        }
        if real.template.as_ref() != Some(&lease.template) {
            wrong(format!("is {:?}, not {}", real.template, lease.template));
        }
        if real.generation != lease.generation {
            wrong(format!(
                "generation {}, not {}",
                real.generation, lease.generation
            ));
        }
        if real.rollouts != lease.uses || lease.uses > crate::class::MAX_REUSES {
            wrong(format!(
                "{} rollouts, said to be {}",
                real.rollouts, lease.uses
            ));
        }
        if (lease.supply == Supplied::Reused) != (real.rollouts > 0) {
            wrong(format!(
                "supply {:?} after {} rollouts",
                lease.supply, real.rollouts
            ));
        }
        if lease
            .baseline
            .as_ref()
            .is_some_and(|said| *said != Self::baseline(&lease.template))
        {
            wrong("another baseline".to_owned());
        }
        real.dirty = true;
        real.rollouts += 1;
        real.holder = Some(lease.id.clone());
    }

    /// Carries out what is due by `now`, and gives the answers that somebody hears.
    pub fn answers(&mut self, now: Millis) -> Vec<Event> {
        let mut answers = Vec::new();
        while let Some(entry) = self.work.first_entry()
            && entry.key().0 <= now
        {
            let work = entry.remove();
            let Some(answer) = self.carry_out(&work.action) else {
                continue;
            };
            if work.deaf {
                continue;
            }
            if self.faults.twice {
                answers.push(answer.clone());
            }
            answers.push(answer);
        }
        answers
    }

    fn carry_out(&mut self, action: &Action) -> Option<Event> {
        let slot = Work::slot(action)?.clone();
        match action {
            Action::Create { nonce, .. } => {
                let result = match self.creates.get(&slot) {
                    Some(result) => result.clone(),
                    None => self.create(&slot),
                };
                Some(Event::CreateSettled {
                    nonce: nonce.clone(),
                    result,
                })
            }
            Action::Specialise {
                generation,
                template,
                first,
                ..
            } => self.build(&slot, *generation, |world| {
                world.specialise(&slot, *generation, template, *first)
            }),
            Action::Reset {
                generation,
                template,
                depth,
                ..
            } => self.build(&slot, *generation, |world| {
                world.reset(&slot, *generation, template, *depth)
            }),
            Action::CheckHealth { generation, .. } => {
                let sound = self
                    .slots
                    .get(&slot)
                    .is_some_and(|real| real.generation == *generation);
                let result = match sound && !self.rng.chance(self.faults.fail) {
                    true => Ok(()),
                    false => Err("no answer".to_owned()),
                };
                Some(Event::HealthChecked {
                    slot,
                    generation: *generation,
                    result,
                })
            }
            Action::Delete { .. } => {
                if self.rng.chance(self.faults.fail) {
                    return Some(Event::DeleteFailed {
                        slot,
                        cause: "busy".to_owned(),
                    });
                }
                self.slots.remove(&slot);
                Some(Event::Deleted(slot))
            }
            Action::Grant { .. }
            | Action::Refuse { .. }
            | Action::LeaseEnded { .. }
            | Action::Settled { .. }
            | Action::Doubt { .. } => None,
        }
    }

    fn failure(&mut self) -> Failure {
        let kind = match self.rng.chance(500) {
            true => FailureKind::Transient,
            false => FailureKind::Permanent,
        };
        Failure {
            kind,
            cause: "the step failed".to_owned(),
        }
    }

    /// A create that fails may have made the slot all the same.
    fn create(&mut self, slot: &SlotId) -> Result<Created, Failure> {
        let fails = self.rng.chance(self.faults.fail);
        if !fails || self.rng.chance(500) {
            self.slots.insert(slot.clone(), Real::default());
        }
        let result = if fails {
            Err(self.failure())
        } else {
            Ok(Created { node: None })
        };
        self.creates.insert(slot.clone(), result.clone());
        result
    }

    /// The same generation is built once; a repeat gets the same answer.
    fn build(
        &mut self,
        slot: &SlotId,
        generation: u64,
        by: impl FnOnce(&mut Self) -> Event,
    ) -> Option<Event> {
        let key = (slot.clone(), generation);
        if let Some(answer) = self.built.get(&key) {
            return Some(answer.clone());
        }
        if self
            .slots
            .get(slot)
            .is_some_and(|real| real.generation >= generation)
        {
            return None;
        }
        let answer = by(self);
        self.built.insert(key, answer.clone());
        Some(answer)
    }

    fn specialise(
        &mut self,
        slot: &SlotId,
        generation: u64,
        template: &TemplateKey,
        first: bool,
    ) -> Event {
        let fails = self.rng.chance(self.faults.fail) || self.broken.contains(template);
        let differs = !first && self.rng.chance(self.faults.differ);
        let result = match self.slots.get_mut(slot) {
            Some(real) if !fails => {
                real.generation = generation;
                let of = if differs {
                    "something-else".into()
                } else {
                    template.clone()
                };
                let observed = Self::baseline(&of);
                real.template = Some(of);
                let observed = Some(observed);
                Ok(Ready {
                    observed,
                    single_use: None,
                    depth: Depth::Full,
                })
            }
            Some(_) | None => Err(self.failure()),
        };
        Event::Specialised {
            slot: slot.clone(),
            generation,
            result,
        }
    }

    fn reset(
        &mut self,
        slot: &SlotId,
        generation: u64,
        template: &TemplateKey,
        depth: Depth,
    ) -> Event {
        let fails = self.rng.chance(self.faults.fail);
        let differs = self.rng.chance(self.faults.differ);
        let result = match self.slots.get_mut(slot) {
            Some(real) if !fails => {
                real.generation = generation;
                real.dirty = differs;
                let of = if differs {
                    "something-else".into()
                } else {
                    template.clone()
                };
                ResetResult::Observed {
                    observed: Self::baseline(&of),
                    depth,
                    ready: true,
                }
            }
            Some(_) | None => ResetResult::Tainted {
                cause: "the step failed".to_owned(),
            },
        };
        Event::ResetDone {
            slot: slot.clone(),
            generation,
            result,
        }
    }
}
