//! Work in progress: what was asked, when it will be done, and whether anybody will hear of it.

use crate::action::Action;
use crate::ids::{Millis, SlotId};
use serde::{Deserialize, Serialize};

/// How the world misbehaves; chances in a thousand for each piece of work. The default never does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    /// The step fails.
    pub fail: u32,
    /// The step happens, and its answer is lost.
    pub lose: u32,
    /// A reset or a later specialising ends with other digests.
    pub differ: u32,
    /// Longest that a step takes.
    pub lag_ms: Millis,
    /// Every action is performed twice and every answer given twice.
    pub twice: bool,
}

/// One action under way.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) action: Action,
    /// Nobody waits for the answer any more.
    pub(super) deaf: bool,
}

impl Work {
    /// The slot that slow work is done on; none for what is done at once.
    pub(super) fn slot(action: &Action) -> Option<&SlotId> {
        match action {
            Action::Create { slot, .. }
            | Action::Specialise { slot, .. }
            | Action::CheckHealth { slot, .. }
            | Action::Reset { slot, .. }
            | Action::Delete { slot, .. } => Some(slot),
            Action::Grant { .. }
            | Action::Refuse { .. }
            | Action::LeaseEnded { .. }
            | Action::Settled { .. }
            | Action::Doubt { .. } => None,
        }
    }
}
