//! What people see of a pool: listings, and look-ups for the driver.

use super::Pool;
use crate::class::{Carries, Class, Mode};
use crate::ids::{ClassId, LeaseId, Millis, RequestKey, SlotId, TemplateKey};
use crate::lease::Lease;
use crate::slot::Slot;
use crate::slot::state::SlotState;
use crate::template::Template;
use serde::{Deserialize, Serialize};

/// One line of `ps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRow {
    /// Its id.
    pub slot: SlotId,
    /// The word for its state.
    pub state: String,
    /// What it is or is becoming.
    pub template: Option<TemplateKey>,
    /// Images that it carries; the one word `any` for all of its machine's store.
    pub carries: Vec<String>,
    /// Who holds it.
    pub lease: Option<LeaseId>,
    /// Rollouts that ended in it.
    pub uses: u32,
    /// Where it is.
    pub node: Option<String>,
    /// Seconds since its create was intended.
    pub age_s: u64,
}

/// One line of `pools`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolRow {
    /// The class.
    pub class: ClassId,
    /// Supply mode.
    pub supply: Mode,
    /// Slots that are not confirmed gone, those in flight included.
    pub slots: u32,
    /// Unused ones, ready or blank.
    pub idle: u32,
    /// Held ones.
    pub leased: u32,
    /// Creates in flight.
    pub creating: u32,
    /// Create intents so far.
    pub creates: u64,
    /// Leases so far.
    pub leases: u64,
    /// Share of the leases for which a slot stood idle as they were asked for; none before the first.
    pub warm_share: Option<f64>,
}

fn carries_words(carries: &Carries) -> Vec<String> {
    match carries {
        Carries::Any => vec!["any".to_owned()],
        Carries::Images(images) => images.iter().map(ToString::to_string).collect(),
    }
}

impl Pool {
    /// All slots that are not confirmed gone.
    pub fn ps(&self, now: Millis) -> Vec<SlotRow> {
        let rows = self.slots.values().map(|entry| {
            let slot = &entry.record;
            SlotRow {
                slot: slot.id.clone(),
                state: slot.state.word().to_owned(),
                template: slot.state.template().cloned(),
                carries: carries_words(&slot.carries),
                lease: slot.state.lease().cloned(),
                uses: slot.uses,
                node: slot.node.clone(),
                age_s: now.saturating_sub(slot.created) / 1000,
            }
        });
        rows.collect()
    }

    /// All classes.
    pub fn pools(&self) -> Vec<PoolRow> {
        let rows = self.classes.iter().map(|(id, entry)| {
            let count = |of: fn(&SlotState) -> bool| {
                self.slots_of(id)
                    .filter(|entry| of(&entry.record.state))
                    .count() as u32
            };
            let class = &entry.record;
            PoolRow {
                class: id.clone(),
                supply: class.spec.supply.mode,
                slots: entry.slots.len() as u32,
                idle: count(|state| matches!(state, SlotState::Idle { .. } | SlotState::Blank)),
                leased: count(|state| state.lease().is_some()),
                creating: count(|state| matches!(state, SlotState::Creating { .. })),
                creates: class.creates,
                leases: class.leases,
                warm_share: (class.leases > 0).then(|| class.warm as f64 / class.leases as f64),
            }
        });
        rows.collect()
    }

    /// A lease, live or remembered.
    pub fn lease(&self, id: &LeaseId) -> Option<&Lease> {
        self.leases.get(id)
    }

    /// The lease that a request was granted, live or remembered.
    pub fn lease_of(&self, request: &RequestKey) -> Option<&Lease> {
        self.requests
            .get(request)
            .and_then(|id| self.leases.get(id))
    }

    /// All leases, ended ones that are remembered included.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    /// A slot that is not confirmed gone.
    pub fn slot(&self, id: &SlotId) -> Option<&Slot> {
        self.slots.get(id).map(|entry| &entry.record)
    }

    /// All of them.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.values().map(|entry| &entry.record)
    }

    /// A class.
    pub fn class(&self, id: &ClassId) -> Option<&Class> {
        self.classes.get(id).map(|entry| &entry.record)
    }

    /// A template that has been ready.
    pub fn template(&self, key: &TemplateKey) -> Option<&Template> {
        self.templates.get(key)
    }

    /// Whether the request waits for a slot.
    pub fn is_waiting(&self, request: &RequestKey) -> bool {
        self.queue.get(request).is_some()
    }

    /// Deletes that are asked and not confirmed, those of slots without a record included.
    pub fn unconfirmed_deletes(&self) -> usize {
        let retiring = |slot: &&Slot| matches!(slot.state, SlotState::Retiring { .. });
        self.slots().filter(retiring).count() + self.strays.len()
    }
}
