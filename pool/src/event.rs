//! What the pool is told.

use crate::class::ClassSpec;
use crate::ids::{ClassId, LeaseId, Nonce, RequestKey, SlotId};
use crate::lease::{Failure, LeaseRequest};
use crate::template::{Baseline, Depth};
use serde::{Deserialize, Serialize};

/// Something that happened. Every answer may come twice or late; what no longer fits is ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// Declares a class, or changes its supply.
    Declare(ClassSpec),
    /// Somebody asks for a lease. Answered by exactly one `Grant` or `Refuse`, now or later; a repeat of a
    /// granted request is granted the same lease again, even after its end.
    LeaseRequested(Box<LeaseRequest>),
    /// The last caller of a request is gone. A create that it caused settles all the same. A lease that was
    /// already granted stays (a retry may still fetch it) until it is returned or expires.
    LeaseCancelled(RequestKey),
    /// A create settled: `Ok` when the slot exists and answers, `Err` when it is to be deleted.
    CreateSettled {
        /// Which create.
        nonce: Nonce,
        /// How.
        result: Result<Created, Failure>,
    },
    /// A specialising ended.
    Specialised {
        /// Which slot.
        slot: SlotId,
        /// Which of its generations; another than the present one is ignored.
        generation: u64,
        /// How.
        result: Result<Ready, Failure>,
    },
    /// A health check ended.
    HealthChecked {
        /// Which slot.
        slot: SlotId,
        /// Which of its generations.
        generation: u64,
        /// The reason, when it failed.
        result: Result<(), String>,
    },
    /// A sign of life from a lease's holder (any call on it).
    Heartbeat(LeaseId),
    /// The holder moves `expires`, with a new ttl from now on.
    Renew {
        /// The lease.
        lease: LeaseId,
        /// The new ttl; none keeps the old one.
        ttl_ms: Option<u64>,
    },
    /// The holder returns its lease. Repeats and unknown leases are ignored.
    Returned {
        /// The lease.
        lease: LeaseId,
        /// Destroy the sandbox without a reset.
        discard: bool,
        /// Verify at least this deep.
        verify: Depth,
    },
    /// A reset ended.
    ResetDone {
        /// Which slot.
        slot: SlotId,
        /// The generation that the reset built.
        generation: u64,
        /// How.
        result: ResetResult,
    },
    /// A slot is confirmed gone.
    Deleted(SlotId),
    /// A delete could not be confirmed; it is asked again later.
    DeleteFailed {
        /// Which slot.
        slot: SlotId,
        /// Why.
        cause: String,
    },
    /// A slot vanished or can no longer be trusted.
    SlotLost {
        /// Which slot.
        slot: SlotId,
        /// Why.
        cause: String,
    },
    /// Empty a class: leases in it go on, their slots are deleted afterwards.
    Drain(ClassId),
    /// The first event after [`crate::Pool::restore`]: all slots that exist.
    Adopt(Vec<Reported>),
    /// Only time has passed.
    Tick,
}

/// A slot that was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Created {
    /// The node it landed on, where there are nodes.
    pub node: Option<String>,
}

/// A sandbox that became ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// What was observed. None makes the template single use when it is the first, and ends the slot when a
    /// baseline is on record.
    pub observed: Option<Baseline>,
    /// Why there is nothing that a reset could be compared with, where it is known.
    pub single_use: Option<String>,
    /// How deep.
    pub depth: Depth,
}

/// What a reset found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResetResult {
    /// It ended and observed this. The pool compares with the record and decides.
    Observed {
        /// Digests afterwards.
        observed: Baseline,
        /// How deep.
        depth: Depth,
        /// Whether the sandbox stands ready; else the slot is blank.
        ready: bool,
    },
    /// It failed, or what it found differs.
    Tainted {
        /// Why.
        cause: String,
    },
}

/// A slot that exists, found after a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// Its id.
    pub slot: SlotId,
    /// The generation of what is in it, 0 when nothing ever was.
    pub generation: u64,
}
