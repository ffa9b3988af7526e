//! From records to a pool again, and from a pool to records.

use super::{ClassEntry, Pool, SlotEntry};
use crate::config::Config;
use crate::event::Reported;
use crate::ids::{ClassId, LeaseId, Millis, SlotId};
use crate::pool::timing::Timer;
use crate::record::Record;
use crate::slot::Slot;
use crate::slot::state::{RetireCause, SlotState};
use std::collections::BTreeMap;

impl Pool {
    /// The pool that journaled these records, in order. Hands nothing out and creates nothing before
    /// [`crate::Event::Adopt`], which must be its first event. `seed` must be a new one.
    pub fn restore(
        config: Config,
        seed: u64,
        now: Millis,
        records: impl IntoIterator<Item = Record>,
    ) -> Self {
        let mut pool = Pool::new(config, seed, now);
        pool.adopting = true;
        let mut slots: BTreeMap<SlotId, Slot> = BTreeMap::new();
        for record in records {
            match record {
                Record::Class(class) => {
                    pool.classes
                        .insert(class.spec.id.clone(), ClassEntry::new(class));
                }
                Record::ClassGone { class } => {
                    pool.classes.remove(&class);
                }
                Record::Slot(slot) => {
                    slots.insert(slot.id.clone(), slot);
                }
                Record::SlotGone { slot } => {
                    slots.remove(&slot);
                }
                Record::Lease(lease) => {
                    pool.leases.insert(lease.id.clone(), *lease);
                }
                Record::LeaseGone { lease } => {
                    pool.leases.remove(&lease);
                }
                Record::Template(template) => {
                    pool.templates.insert(template.key.clone(), template);
                }
            }
        }
        for slot in slots.into_values() {
            pool.restore_slot(slot);
        }
        pool.restore_leases();
        let classes: Vec<ClassId> = pool.classes.keys().cloned().collect();
        for class in classes {
            pool.touched.insert(class);
        }
        pool
    }

    fn restore_slot(&mut self, mut slot: Slot) {
        let Some(class) = self.classes.get_mut(&slot.class) else {
            return;
        };
        class.slots.insert(slot.id.clone());
        class.blank += u32::from(slot.state == SlotState::Blank);
        let resources = class.record.spec.resources;
        self.usage.slots += 1;
        self.usage.cpu_milli += resources.cpu_milli;
        self.usage.memory_bytes += resources.memory_bytes;
        match &slot.state {
            SlotState::Creating { .. } => self.usage.starting += 1,
            SlotState::Specialising {
                template,
                first: true,
                ..
            } => {
                self.preparing.insert(template.clone(), slot.id.clone());
            }
            SlotState::Specialising { first: false, .. }
            | SlotState::Blank
            | SlotState::Idle { .. }
            | SlotState::Growing { .. }
            | SlotState::Leased { .. }
            | SlotState::Lost { .. }
            | SlotState::Resetting { .. }
            | SlotState::Retiring { .. }
            | SlotState::Deleted => {}
        }
        // Time limits run from the restart: what was going on is asked again.
        slot.since = self.now;
        let id = slot.id.clone();
        self.slots.insert(id.clone(), SlotEntry::new(slot));
        self.arm_slot(&id);
    }

    fn restore_leases(&mut self) {
        let mut ended: Vec<(Millis, LeaseId)> = Vec::new();
        let mut live = Vec::new();
        for lease in self.leases.values_mut() {
            self.requests
                .insert(lease.request.clone(), lease.id.clone());
            match &lease.ended {
                Some(end) => ended.push((end.at, lease.id.clone())),
                None => {
                    // Nobody could show a sign of life while there was no manager.
                    let again = self.now.saturating_add(lease.ttl_ms).min(lease.deadline);
                    lease.expires = lease.expires.max(again);
                    live.push((lease.granted, lease.id.clone(), lease.expires));
                }
            }
        }
        ended.sort();
        self.ended = ended.into_iter().map(|(_, id)| id).collect();
        live.sort();
        for (_, id, expires) in live {
            self.arm(expires, Timer::Lease(id.clone()));
            let Some(lease) = self.leases.get(&id) else {
                continue;
            };
            self.queue.hold(&lease.job_key());
            let Some(slot) = self.slots.get(&lease.slot) else {
                continue;
            };
            if let Some(class) = self.classes.get_mut(&slot.record.class) {
                class.held += 1;
                class
                    .recent
                    .push_back((lease.template.clone(), lease.image.clone()));
            }
        }
    }

    /// Settles what the records say with what exists.
    pub(super) fn adopt(&mut self, reported: &[Reported]) {
        self.adopting = false;
        let exists: BTreeMap<&SlotId, u64> = reported
            .iter()
            .map(|found| (&found.slot, found.generation))
            .collect();
        let known: Vec<SlotId> = self.slots.keys().cloned().collect();
        for slot in known {
            self.adopt_slot(&slot, exists.get(&slot).copied());
        }
        for found in reported {
            if !self.slots.contains_key(&found.slot) && !self.strays.contains_key(&found.slot) {
                self.strays.insert(found.slot.clone(), 0);
                self.ask_delete(&found.slot);
            }
        }
    }

    fn adopt_slot(&mut self, slot: &SlotId, found: Option<u64>) {
        let Some(entry) = self.slots.get(slot) else {
            return;
        };
        let recorded = entry.record.generation;
        match (&entry.record.state, found) {
            (SlotState::Creating { .. }, Some(_) | None) => self.ask_create(slot),
            (SlotState::Retiring { .. }, Some(_) | None) => self.ask_delete(slot),
            (SlotState::Specialising { .. }, Some(_)) => self.ask_specialise(slot),
            (SlotState::Resetting { .. }, Some(_)) => self.ask_reset(slot),
            (
                SlotState::Blank
                | SlotState::Idle { .. }
                | SlotState::Leased { .. }
                | SlotState::Growing { .. },
                Some(generation),
            ) if generation == recorded => {}
            (
                SlotState::Blank
                | SlotState::Idle { .. }
                | SlotState::Leased { .. }
                | SlotState::Growing { .. }
                | SlotState::Lost { .. },
                Some(generation),
            ) => {
                let cause = format!("found at generation {generation}, recorded {recorded}");
                self.slot_lost(slot, &cause);
            }
            (
                SlotState::Blank
                | SlotState::Specialising { .. }
                | SlotState::Idle { .. }
                | SlotState::Growing { .. }
                | SlotState::Leased { .. }
                | SlotState::Lost { .. }
                | SlotState::Resetting { .. },
                None,
            ) => self.slot_lost(slot, "it was gone after a restart"),
            (SlotState::Deleted, Some(_) | None) => {
                self.retire(slot, RetireCause::Unknown("recorded as deleted".to_owned()));
            }
        }
    }

    /// The whole durable state as records: a journal may be replaced by these.
    pub fn records(&self) -> Vec<Record> {
        let classes = self
            .classes
            .values()
            .map(|entry| Record::Class(entry.record.clone()));
        let templates = self.templates.values().cloned().map(Record::Template);
        let slots = self
            .slots
            .values()
            .map(|entry| Record::Slot(entry.record.clone()));
        let leases = self
            .leases
            .values()
            .map(|lease| Record::Lease(Box::new(lease.clone())));
        classes
            .chain(templates)
            .chain(slots)
            .chain(leases)
            .collect()
    }
}
