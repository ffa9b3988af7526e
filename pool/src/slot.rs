//! A slot: its record, its state, and the one function that moves it from state to state.

pub(crate) mod state;

use crate::class::Carries;
use crate::ids::{ClassId, LeaseId, Millis, SlotId};
use crate::template::Depth;
use serde::{Deserialize, Serialize};
use state::SlotState;

/// The durable record of a slot, from the create intent to the confirmed delete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Its id, for life.
    pub id: SlotId,
    /// Its class, for life.
    pub class: ClassId,
    /// Images it carries.
    pub carries: Carries,
    /// Where it is, once the provider said so.
    pub node: Option<String>,
    /// Its state.
    pub state: SlotState,
    /// When it entered that state.
    pub since: Millis,
    /// When its create was intended.
    pub created: Millis,
    /// Sets of namespaces built in it so far; the sandbox in it is `ID.GENERATION`.
    pub generation: u64,
    /// Rollouts that ended in it.
    pub uses: u32,
    /// How the sandbox in it was last proven equal to its baseline.
    pub verified: Option<Depth>,
    /// Resets since the last one that walked the tree.
    pub resets_since_walk: u32,
    /// Leases since the last good walk: those that a differing walk casts doubt on.
    pub unwalked: Vec<LeaseId>,
}

impl Slot {
    /// The sandbox in it: `SLOT.GENERATION`.
    pub fn sandbox(&self) -> String {
        format!("{}.{}", self.id, self.generation)
    }
}
