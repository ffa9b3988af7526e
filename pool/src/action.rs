//! What the pool wants done.

use crate::class::{Carries, Resources};
use crate::ids::{ClassId, ImageId, LeaseId, Millis, Nonce, RequestKey, SlotId, TemplateKey};
use crate::lease::{How, Lease, Outcome, Refusal};
use crate::log::LogEvent;
use crate::record::Record;
use crate::template::{Baseline, Depth};
use serde::{Deserialize, Serialize};

/// The outcome of one step. Journal `changed` durably, then perform `actions` in order, then write `events`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Records to write or remove, each at most once.
    pub changed: Vec<Record>,
    /// What to do.
    pub actions: Vec<Action>,
    /// Lines of the event log, in order.
    pub events: Vec<LogEvent>,
    /// When to send the next [`crate::Event::Tick`] unless another event comes first.
    pub wake_at: Option<Millis>,
}

/// Something to do. `Create`, `Specialise`, `CheckHealth`, `Reset` and `Delete` are answered by an event and may be
/// asked again (after a restart, or when no answer came): the same nonce, or the same slot and generation, is the
/// same piece of work, and doing it twice must end as doing it once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Make a slot. Answer: `CreateSettled`. Nothing cancels it.
    Create {
        /// What makes a repeat the same create.
        nonce: Nonce,
        /// The slot's id.
        slot: SlotId,
        /// Its class.
        class: ClassId,
        /// Images it must carry.
        carries: Carries,
        /// What it takes.
        resources: Resources,
    },
    /// Drop whatever is in the slot and make a sandbox of the template. Answer: `Specialised`.
    Specialise {
        /// The slot.
        slot: SlotId,
        /// The generation to build.
        generation: u64,
        /// The template.
        template: TemplateKey,
        /// Its image.
        image: ImageId,
        /// Run prepare and record the baseline; else mount the recorded prepare layer.
        first: bool,
        /// What is on record, where something is.
        baseline: Option<Baseline>,
    },
    /// Ask the slot whether it is what it should be. Answer: `HealthChecked`.
    CheckHealth {
        /// The slot.
        slot: SlotId,
        /// The generation that must be there.
        generation: u64,
    },
    /// Answer a request. May repeat for a repeated request; `lease.ended` is set when it is over already.
    Grant {
        /// The request.
        request: RequestKey,
        /// Its lease.
        lease: Box<Lease>,
    },
    /// Answer a request.
    Refuse {
        /// The request.
        request: RequestKey,
        /// Why.
        reason: Refusal,
    },
    /// A lease is over: whatever its token opened is closed before the next action is begun.
    LeaseEnded {
        /// The lease.
        lease: LeaseId,
        /// Its slot.
        slot: SlotId,
        /// How it ended.
        how: How,
    },
    /// Put the slot back and observe it. Answer: `ResetDone`.
    Reset {
        /// The slot.
        slot: SlotId,
        /// The generation to build.
        generation: u64,
        /// The template to be put back to.
        template: TemplateKey,
        /// The lease that ended.
        lease: LeaseId,
        /// How deep to observe, at least.
        depth: Depth,
        /// What must come out.
        baseline: Baseline,
    },
    /// What became of a lease's sandbox; the answer to those who wait for the outcome of a return.
    Settled {
        /// The lease.
        lease: LeaseId,
        /// What became of it.
        outcome: Outcome,
    },
    /// A walk or full reading found what shallower ones since the last good walk did not: mark these leases.
    Doubt {
        /// The slot.
        slot: SlotId,
        /// Leases since the last good walk, the present one last.
        leases: Vec<LeaseId>,
        /// What was found.
        cause: String,
    },
    /// Remove the slot and all that is in it. Answer: `Deleted` once it is certain that nothing is left, else `DeleteFailed`.
    Delete {
        /// The slot.
        slot: SlotId,
        /// Why.
        cause: String,
    },
}
