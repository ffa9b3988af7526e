//! Which slot serves which request.

use super::{Pool, SlotEntry};
use crate::ids::{ClassId, ImageId, RequestKey, SlotId, TemplateKey};
use crate::slot::state::SlotState;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

impl Pool {
    /// Looks at every touched class until nothing changes any more: serve, create for those that wait, then
    /// keep supply at its level.
    pub(super) fn schedule(&mut self) {
        if self.adopting {
            return;
        }
        while !self.touched.is_empty() {
            let touched = std::mem::take(&mut self.touched);
            for class in &touched {
                self.note_demand(class);
                self.assign(class);
                self.stand_ready(class);
            }
            // Those that wait longest come first where room is short; standby comes after all of them.
            let waiting = self.queue.open_classes();
            for class in waiting.iter().filter(|class| touched.contains(*class)) {
                self.create_for_waiting(class);
            }
            for class in &touched {
                self.keep_level(class);
                if self.overdue.remove(class) {
                    self.trim(class);
                }
            }
        }
    }

    fn note_demand(&mut self, class: &ClassId) {
        // Requests over their job's cap are no demand: nothing could be handed to them.
        let assigned = self.queue.in_class(class) - self.queue.open_in(class);
        let demand = assigned + self.queue.eligible(class);
        let Some(entry) = self.classes.get_mut(class) else {
            return;
        };
        let window = entry.record.spec.supply.idle_timeout_ms;
        entry.peak.note(self.now, window, entry.held + demand);
    }

    fn assign(&mut self, class: &ClassId) {
        if self
            .classes
            .get(class)
            .is_none_or(|entry| entry.record.draining)
        {
            return;
        }
        if self.queue.open_in(class) == 0 {
            return;
        }
        for (slot, key) in self.matches(class) {
            // The first to specialise for a new template makes the others of it wait for the record.
            let template = self
                .queue
                .get(&key)
                .map(|waiting| &waiting.request.template);
            let ready = self
                .slots
                .get(&slot)
                .and_then(|entry| entry.record.state.template());
            if template == ready
                || template.is_some_and(|template| !self.preparing.contains_key(template))
            {
                self.reserve(&slot, &key);
            }
        }
    }

    /// First whoever finds a slot that is its template already, then whoever needs one specialised.
    fn matches(&self, class: &ClassId) -> Vec<(SlotId, RequestKey)> {
        let mut standing = Standing::of(self, class);
        let mut matches = Vec::new();
        let mut served = BTreeSet::new();
        for waiting in self.queue.order(class) {
            if standing.none_ready() {
                break;
            }
            if let Some(slot) = standing.take_ready(&waiting.request.template) {
                served.insert(waiting.seq);
                matches.push((slot, waiting.request.key.clone()));
            }
        }
        let mut begun = BTreeSet::new();
        for waiting in self.queue.order(class) {
            if standing.none_other() {
                break;
            }
            let template = &waiting.request.template;
            let prepared = self.templates.contains_key(template);
            let elsewhere = self.preparing.contains_key(template) || begun.contains(template);
            if served.contains(&waiting.seq) || (!prepared && elsewhere) {
                continue;
            }
            let carries = |slot: &SlotId| {
                let carries = self.slots.get(slot).map(|entry| &entry.record.carries);
                carries.is_some_and(|carries| carries.holds(&waiting.request.image))
            };
            if let Some(slot) = standing.take_other(carries) {
                begun.insert(template);
                matches.push((slot, waiting.request.key.clone()));
            }
        }
        matches
    }

    /// Makes blank slots that nobody waits for ready as the templates that were asked for most.
    fn stand_ready(&mut self, class: &ClassId) {
        let Some(entry) = self.classes.get(class) else {
            return;
        };
        if !self.config.policy.specialise_ahead || entry.record.draining || entry.recent.is_empty()
        {
            return;
        }
        if entry.blank == 0 || self.queue.open_in(class) > 0 {
            return;
        }
        let unused =
            |entry: &&SlotEntry| entry.record.state == SlotState::Blank && entry.reserved.is_none();
        let blank = self.slots_of(class).filter(unused);
        let blank: Vec<SlotId> = blank.map(|entry| entry.record.id.clone()).collect();
        for slot in blank {
            if let Some((template, image)) = self.likeliest(class, &slot) {
                self.specialise(&slot, &template, &image);
            }
        }
    }

    /// The prepared template with the most recent leases for each slot that stands or is becoming ready as it.
    fn likeliest(&self, class: &ClassId, slot: &SlotId) -> Option<(TemplateKey, ImageId)> {
        let carries = &self.slots.get(slot)?.record.carries;
        let mut ready: BTreeMap<&TemplateKey, usize> = BTreeMap::new();
        for entry in self.slots_of(class) {
            if let SlotState::Idle { template } | SlotState::Specialising { template, .. } =
                &entry.record.state
            {
                *ready.entry(template).or_insert(0) += 1;
            }
        }
        let mut asked: BTreeMap<&TemplateKey, (usize, usize, &ImageId)> = BTreeMap::new();
        for (order, (template, image)) in self.classes.get(class)?.recent.iter().enumerate() {
            if self.templates.contains_key(template) && carries.holds(image) {
                let seen = asked.entry(template).or_insert((0, order, image));
                *seen = (seen.0 + 1, order, image);
            }
        }
        // Compared as fractions: leases per slot once one more stands ready; the latest asked for wins ties.
        let slots = |template: &TemplateKey| ready.get(template).copied().unwrap_or(0) + 1;
        let best =
            asked
                .into_iter()
                .max_by(|(a, (a_leases, a_order, _)), (b, (b_leases, b_order, _))| {
                    (a_leases * slots(b))
                        .cmp(&(b_leases * slots(a)))
                        .then(a_order.cmp(b_order))
                });
        best.map(|(template, (_, _, image))| (template.clone(), image.clone()))
    }
}

/// Slots of a class that nobody has and nobody is meant to get.
struct Standing {
    /// Ready or becoming ready, by template, the best last.
    ready: BTreeMap<TemplateKey, Vec<SlotId>>,
    /// Those that may be made another template, the best first.
    other: Vec<SlotId>,
    taken: BTreeSet<SlotId>,
}

impl Standing {
    fn of(pool: &Pool, class: &ClassId) -> Self {
        let mut ready: BTreeMap<TemplateKey, Vec<_>> = BTreeMap::new();
        let mut other = Vec::new();
        for entry in pool
            .slots_of(class)
            .filter(|entry| entry.reserved.is_none())
        {
            let slot = &entry.record;
            let id = slot.id.clone();
            match &slot.state {
                SlotState::Idle { template } => {
                    let rank = (true, slot.uses, Reverse(slot.since), id.clone());
                    ready.entry(template.clone()).or_default().push(rank);
                    other.push((Reverse(slot.uses), true, slot.since, id));
                }
                SlotState::Specialising { template, .. } => {
                    let rank = (false, slot.uses, Reverse(slot.since), id);
                    ready.entry(template.clone()).or_default().push(rank);
                }
                SlotState::Blank => other.push((Reverse(slot.uses), false, slot.since, id)),
                SlotState::Creating { .. }
                | SlotState::Growing { .. }
                | SlotState::Leased { .. }
                | SlotState::Lost { .. }
                | SlotState::Resetting { .. }
                | SlotState::Retiring { .. }
                | SlotState::Deleted => {}
            }
        }
        other.sort();
        let best_last = |mut slots: Vec<(bool, u32, Reverse<u64>, SlotId)>| {
            slots.sort();
            slots.into_iter().map(|(_, _, _, id)| id).collect()
        };
        Self {
            ready: ready
                .into_iter()
                .map(|(key, slots)| (key, best_last(slots)))
                .collect(),
            other: other.into_iter().map(|(_, _, _, id)| id).collect(),
            taken: BTreeSet::new(),
        }
    }

    fn none_ready(&self) -> bool {
        self.ready.is_empty()
    }

    /// Slots that were taken as ready ones may still be listed among the others.
    fn none_other(&mut self) -> bool {
        self.other.retain(|slot| !self.taken.contains(slot));
        self.taken.clear();
        self.other.is_empty()
    }

    fn take_ready(&mut self, template: &TemplateKey) -> Option<SlotId> {
        let slots = self.ready.get_mut(template)?;
        let slot = slots.pop();
        if slots.is_empty() {
            self.ready.remove(template);
        }
        self.taken.extend(slot.clone());
        slot
    }

    fn take_other(&mut self, fits: impl Fn(&SlotId) -> bool) -> Option<SlotId> {
        let at = self.other.iter().position(fits)?;
        Some(self.other.remove(at))
    }
}
