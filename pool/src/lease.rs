//! A lease: the right to use one sandbox for one rollout.

use crate::class::ClassSpec;
use crate::ids::{ImageId, JobKey, LeaseId, Millis, RequestKey, SlotId, TemplateKey};
use crate::slot::state::RetireCause;
use crate::template::{Baseline, Depth, VerifyEvery};
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// A request for a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRequest {
    /// Tenant and the client's id; a repeat of both is the same request.
    pub key: RequestKey,
    /// The template asked for. The key has the tenant in it.
    pub template: TemplateKey,
    /// Its image.
    pub image: ImageId,
    /// How often resets of it must look deeper.
    pub verify: VerifyEvery,
    /// The class that serves it; declared by this request where it is not known yet.
    pub class: ClassSpec,
    /// Who holds the lease, for people.
    pub holder: String,
    /// The job that it belongs to, empty for none.
    pub job: String,
    /// How long the lease lasts without a sign of life.
    pub ttl_ms: u64,
    /// How long it lasts at most.
    pub max_ms: u64,
    /// When the caller stops waiting.
    pub wait_until: Millis,
}

impl LeaseRequest {
    pub(crate) fn job_key(&self) -> JobKey {
        JobKey {
            tenant: self.key.tenant.clone(),
            job: self.job.clone(),
        }
    }
}

/// How a lease came by its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Supplied {
    /// The slot was created after the request came.
    Fresh,
    /// The slot was there before and had never been used.
    Warm,
    /// The slot had been used and verified.
    Reused,
}

/// How a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// By its holder.
    Returned,
    /// No sign of life until `expires`, or `deadline` passed.
    Expired,
    /// Its sandbox vanished.
    Lost,
}

/// What became of the sandbox after its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// Proven equal to its baseline.
    Clean {
        /// How deep.
        verified: Depth,
        /// What was observed, equal to the record.
        observed: Baseline,
        /// Why the slot ends all the same.
        retired: Option<RetireCause>,
    },
    /// Not proven equal; the slot is destroyed.
    Tainted {
        /// Why.
        cause: String,
    },
    /// Destroyed without a reset.
    Discarded {
        /// Why.
        retired: RetireCause,
    },
}

/// The end of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// How it ended.
    pub how: How,
    /// When.
    pub at: Millis,
    /// What became of the sandbox; none while the reset runs.
    pub outcome: Option<Outcome>,
}

/// The durable record of a lease, kept for a while after its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its id.
    pub id: LeaseId,
    /// The request that it answers.
    pub request: RequestKey,
    /// The slot.
    pub slot: SlotId,
    /// The generation of the slot that is its sandbox.
    pub generation: u64,
    /// The template.
    pub template: TemplateKey,
    /// Its image.
    pub image: ImageId,
    /// How often its resets must look deeper.
    pub verify: VerifyEvery,
    /// Who holds it.
    pub holder: String,
    /// The job, empty for none.
    pub job: String,
    /// How it was supplied.
    pub supply: Supplied,
    /// Whether the slot was specialised for this lease, not ready as the template before.
    pub specialised: bool,
    /// Whether a slot that could serve stood idle as the lease was asked for.
    pub warm: bool,
    /// Earlier rollouts of the slot, 0 to 8.
    pub uses: u32,
    /// Digests that the sandbox is known to have; none makes it single use.
    pub baseline: Option<Baseline>,
    /// How deep they were last checked in this slot.
    pub verified: Option<Depth>,
    /// When it was granted.
    pub granted: Millis,
    /// How far `expires` moves with each sign of life.
    pub ttl_ms: u64,
    /// It ends here unless there is a sign of life before. Never after `deadline`. Not journaled on
    /// heartbeats: a restart gives every lease a full ttl again.
    pub expires: Millis,
    /// It ends here whatever happens.
    pub deadline: Millis,
    /// Set at its end.
    pub ended: Option<Ended>,
}

impl Lease {
    pub(crate) fn job_key(&self) -> JobKey {
        JobKey {
            tenant: self.request.tenant.clone(),
            job: self.job.clone(),
        }
    }

    /// Whether it still holds its slot.
    pub fn live(&self) -> bool {
        self.ended.is_none()
    }

    /// The sandbox: `SLOT.GENERATION`.
    pub fn sandbox(&self) -> String {
        format!("{}.{}", self.slot, self.generation)
    }
}

/// Whether trying again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// It may go away by itself.
    Transient,
    /// It will not.
    Permanent,
}

/// A step that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Whether trying again can help.
    pub kind: FailureKind,
    /// The cause, a sentence for people.
    pub cause: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)
    }
}

/// Why a request gets no lease.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Refusal {
    /// `wait_until` passed.
    #[error(
        "no sandbox was free in time{}: allow more slots, or wait longer with --timeout",
        because(last)
    )]
    TimedOut {
        /// How the last create or specialising of the class failed, if one did.
        last: Option<String>,
    },
    /// The caller gave up.
    #[error("the request was cancelled")]
    Cancelled,
    /// The pool is being emptied.
    #[error("the pool is being drained: ask again once it is empty")]
    Draining,
    /// One slot of the class exceeds the whole budget.
    #[error(
        "one sandbox of this template needs more {what} than the whole budget has: lower its resources or raise the budget"
    )]
    TooLarge {
        /// slots, cpu or memory.
        what: String,
    },
    /// The same request id was used with another template, or the class is another tenant's.
    #[error("the request id is already in use for something else: choose a new one")]
    Conflict,
    /// Creates fail.
    #[error("no sandbox could be created: {cause}")]
    CreateFailed {
        /// The provider's reason.
        cause: String,
    },
    /// The first sandbox of the template failed to become ready.
    #[error("the template could not be prepared: {cause}")]
    PrepareFailed {
        /// What failed.
        cause: String,
    },
    /// Slots failed to become the template.
    #[error("no sandbox of the template could be made: {cause}")]
    SpecialiseFailed {
        /// What failed last.
        cause: String,
    },
}

fn because(last: &Option<String>) -> String {
    last.as_ref().map_or_else(String::new, |cause| {
        format!(" (the last failure was: {cause})")
    })
}

impl Refusal {
    /// Whether asking again can help.
    pub fn kind(&self) -> FailureKind {
        match self {
            Refusal::TimedOut { .. } | Refusal::Cancelled | Refusal::Draining => {
                FailureKind::Transient
            }
            Refusal::TooLarge { .. }
            | Refusal::Conflict
            | Refusal::CreateFailed { .. }
            | Refusal::PrepareFailed { .. }
            | Refusal::SpecialiseFailed { .. } => FailureKind::Permanent,
        }
    }
}
