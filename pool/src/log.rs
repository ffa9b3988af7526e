//! Lines of the event log.

use crate::ids::{LeaseId, Millis, SlotId, TemplateKey};
use crate::lease::Supplied;
use serde::{Deserialize, Serialize};

/// Kinds of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the words are the contract's and speak for themselves"
)]
pub enum Kind {
    CreateIntent,
    CreateSettled,
    Specialised,
    Granted,
    Expired,
    Lost,
    Returned,
    Verified,
    Tainted,
    Retired,
    DeleteAsked,
    DeleteConfirmed,
    Shrunk,
    Grown,
    Deferred,
    Canary,
}

/// One line, but for its sequence number, which the writer of the log gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEvent {
    /// When, in the pool's milliseconds.
    pub t: Millis,
    /// What kind of thing happened.
    pub kind: Kind,
    /// To which slot.
    pub slot: Option<SlotId>,
    /// Under which lease.
    pub lease: Option<LeaseId>,
    /// Of which job.
    pub job: Option<String>,
    /// As which template.
    pub template: Option<TemplateKey>,
    /// How supplied.
    pub supply: Option<Supplied>,
    /// Earlier rollouts of the slot.
    pub uses: Option<u32>,
    /// `ok` or `failed` of creates and specialisings, a depth of verifications, `resetting` or `discarded` of ends.
    pub outcome: Option<String>,
    /// Why.
    pub cause: Option<String>,
    /// How long it took: a create, a specialising, a reset, a lease (at its end), the waiting (at its grant).
    pub ms: Option<u64>,
}

impl LogEvent {
    pub(crate) fn new(t: Millis, kind: Kind) -> Self {
        Self {
            t,
            kind,
            slot: None,
            lease: None,
            job: None,
            template: None,
            supply: None,
            uses: None,
            outcome: None,
            cause: None,
            ms: None,
        }
    }
}
