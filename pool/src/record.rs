//! What must survive a restart.

use crate::class::Class;
use crate::ids::{ClassId, LeaseId, SlotId};
use crate::lease::Lease;
use crate::slot::Slot;
use crate::template::Template;
use serde::{Deserialize, Serialize};

/// A change to the durable state. A later record of the same thing replaces the earlier one; replaying a journal of
/// them, in order and in whole steps, gives the pool back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// A class as it is now.
    Class(Class),
    /// A class that was drained.
    ClassGone {
        /// Which.
        class: ClassId,
    },
    /// A slot as it is now.
    Slot(Slot),
    /// A slot whose delete is confirmed.
    SlotGone {
        /// Which.
        slot: SlotId,
    },
    /// A lease as it is now.
    Lease(Box<Lease>),
    /// An ended lease that is no longer remembered.
    LeaseGone {
        /// Which.
        lease: LeaseId,
    },
    /// A template that has been ready. Never removed.
    Template(Template),
}
