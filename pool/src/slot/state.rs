//! The states of a slot and the moves between them.

use crate::ids::{ImageId, LeaseId, Nonce, TemplateKey};
use crate::template::Depth;
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// Where a slot is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum SlotState {
    /// The intent is written; whether the slot exists is not known yet.
    Creating {
        /// What makes the create repeatable.
        nonce: Nonce,
    },
    /// It exists and no sandbox is in it.
    Blank,
    /// A sandbox of the template is being made.
    Specialising {
        /// The template.
        template: TemplateKey,
        /// Its image.
        image: ImageId,
        /// Whether prepare runs: nobody has been this template before.
        first: bool,
    },
    /// A sandbox of the template stands ready, verified, services up.
    Idle {
        /// The template.
        template: TemplateKey,
    },
    /// A shrunk slot gets its resources back for a lease.
    Growing {
        /// The lease it grows for.
        lease: LeaseId,
        /// What it stood ready as.
        template: Option<TemplateKey>,
    },
    /// In use.
    Leased {
        /// By this lease.
        lease: LeaseId,
        /// As this template.
        template: TemplateKey,
    },
    /// It vanished under its lease.
    Lost {
        /// That lease.
        lease: LeaseId,
    },
    /// Put back to its baseline and verified.
    Resetting {
        /// The lease that ended.
        lease: LeaseId,
        /// The template it is put back to.
        template: TemplateKey,
        /// How deep verification must go, at least.
        depth: Depth,
        /// Retired after verification, since its uses are up.
        worn: bool,
    },
    /// To be deleted; counted until the delete is confirmed.
    Retiring {
        /// Why.
        cause: RetireCause,
    },
    /// Confirmed gone.
    Deleted,
}

/// Why a slot ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RetireCause {
    /// Used as often as allowed.
    Worn,
    /// Stood unused for the idle timeout.
    Idle,
    /// Not proven equal to its baseline, for this reason.
    Tainted(String),
    /// The holder asked for its destruction.
    Discarded,
    /// Nothing to verify it against, or its mode does not reuse; which, as text.
    SingleUse(String),
    /// It vanished.
    Lost(String),
    /// Its create failed.
    CreateFailed(String),
    /// It could not be made a sandbox of the template.
    SpecialiseFailed(String),
    /// It was made a sandbox of the template, with other digests than recorded.
    BaselineDiffers(String),
    /// It failed its health check.
    Unhealthy(String),
    /// Its pool is drained.
    Drained,
    /// Its place was needed for a waiting request.
    MadeRoom,
    /// It was found without a record, or not as recorded.
    Unknown(String),
}

impl fmt::Display for RetireCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RetireCause::Worn => f.write_str("worn"),
            RetireCause::Idle => f.write_str("idle"),
            RetireCause::Tainted(why) => write!(f, "tainted: {why}"),
            RetireCause::Discarded => f.write_str("discarded"),
            RetireCause::SingleUse(why) => write!(f, "single use: {why}"),
            RetireCause::Lost(why) => write!(f, "lost: {why}"),
            RetireCause::CreateFailed(why) => write!(f, "create failed: {why}"),
            RetireCause::SpecialiseFailed(why) => write!(f, "specialise failed: {why}"),
            RetireCause::BaselineDiffers(why) => write!(f, "baseline differs: {why}"),
            RetireCause::Unhealthy(why) => write!(f, "unhealthy: {why}"),
            RetireCause::Drained => f.write_str("drained"),
            RetireCause::MadeRoom => f.write_str("made room"),
            RetireCause::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}

/// What can happen to a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// The create settled well.
    Settle,
    /// Make it a sandbox of the template.
    Specialise {
        /// The template.
        template: TemplateKey,
        /// Its image.
        image: ImageId,
        /// Whether prepare runs.
        first: bool,
    },
    /// It is ready.
    Ready,
    /// Give it its resources back.
    Grow {
        /// For this lease.
        lease: LeaseId,
    },
    /// The growth was deferred or refused.
    Defer,
    /// Hand it out.
    Lease {
        /// To this lease.
        lease: LeaseId,
    },
    /// It vanished under its lease.
    Lose,
    /// Put it back.
    Reset {
        /// How deep to verify, at least.
        depth: Depth,
        /// Retire it afterwards.
        worn: bool,
    },
    /// It was put back and proven equal.
    Clean {
        /// Whether its sandbox stands ready; else the slot is blank.
        ready: bool,
    },
    /// End it.
    Retire {
        /// Why.
        cause: RetireCause,
    },
    /// The delete is confirmed.
    Confirm,
}

/// A move that its state does not allow. Only a defect of the pool makes one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("a slot that is {state} cannot make the move {asked:?}")]
pub struct IllegalMove {
    /// The state's word.
    pub state: &'static str,
    /// The move.
    pub asked: Move,
}

impl SlotState {
    /// The word for the state in listings.
    pub fn word(&self) -> &'static str {
        match self {
            SlotState::Creating { .. } => "creating",
            SlotState::Blank => "blank",
            SlotState::Specialising { .. } => "specialising",
            SlotState::Idle { .. } => "idle",
            SlotState::Growing { .. } => "growing",
            SlotState::Leased { .. } => "leased",
            SlotState::Lost { .. } => "lost",
            SlotState::Resetting { .. } => "resetting",
            SlotState::Retiring { .. } => "retiring",
            SlotState::Deleted => "deleted",
        }
    }

    /// The template that a sandbox in it is, or is becoming.
    pub fn template(&self) -> Option<&TemplateKey> {
        match self {
            SlotState::Specialising { template, .. }
            | SlotState::Idle { template }
            | SlotState::Leased { template, .. }
            | SlotState::Resetting { template, .. } => Some(template),
            SlotState::Growing { template, .. } => template.as_ref(),
            SlotState::Creating { .. }
            | SlotState::Blank
            | SlotState::Lost { .. }
            | SlotState::Retiring { .. }
            | SlotState::Deleted => None,
        }
    }

    /// The lease that holds it now.
    pub fn lease(&self) -> Option<&LeaseId> {
        match self {
            SlotState::Leased { lease, .. } | SlotState::Growing { lease, .. } => Some(lease),
            SlotState::Creating { .. }
            | SlotState::Blank
            | SlotState::Specialising { .. }
            | SlotState::Idle { .. }
            | SlotState::Lost { .. }
            | SlotState::Resetting { .. }
            | SlotState::Retiring { .. }
            | SlotState::Deleted => None,
        }
    }

    /// The only way from one state to the next.
    ///
    /// # Errors
    /// The move is not one of this state's.
    pub fn next(&self, asked: Move) -> Result<SlotState, IllegalMove> {
        let illegal = |asked| {
            Err(IllegalMove {
                state: self.word(),
                asked,
            })
        };
        match (self, asked) {
            (SlotState::Deleted, asked) => illegal(asked),
            (SlotState::Retiring { .. }, Move::Confirm) => Ok(SlotState::Deleted),
            // The first cause stands: it is the one that the log has already.
            (SlotState::Retiring { .. }, Move::Retire { .. }) => Ok(self.clone()),
            (
                SlotState::Creating { .. }
                | SlotState::Blank
                | SlotState::Specialising { .. }
                | SlotState::Idle { .. }
                | SlotState::Growing { .. }
                | SlotState::Leased { .. }
                | SlotState::Lost { .. }
                | SlotState::Resetting { .. },
                Move::Retire { cause },
            ) => Ok(SlotState::Retiring { cause }),
            (SlotState::Creating { .. }, Move::Settle) => Ok(SlotState::Blank),
            (
                SlotState::Blank | SlotState::Idle { .. } | SlotState::Growing { .. },
                Move::Specialise {
                    template,
                    image,
                    first,
                },
            ) => Ok(SlotState::Specialising {
                template,
                image,
                first,
            }),
            (SlotState::Specialising { template, .. }, Move::Ready) => Ok(SlotState::Idle {
                template: template.clone(),
            }),
            (SlotState::Blank, Move::Grow { lease }) => Ok(SlotState::Growing {
                lease,
                template: None,
            }),
            (SlotState::Idle { template }, Move::Grow { lease }) => Ok(SlotState::Growing {
                lease,
                template: Some(template.clone()),
            }),
            (
                SlotState::Growing {
                    template: Some(template),
                    ..
                },
                Move::Defer,
            ) => Ok(SlotState::Idle {
                template: template.clone(),
            }),
            (SlotState::Growing { template: None, .. }, Move::Defer) => Ok(SlotState::Blank),
            (
                SlotState::Idle { template }
                | SlotState::Growing {
                    template: Some(template),
                    ..
                },
                Move::Lease { lease },
            ) => Ok(SlotState::Leased {
                lease,
                template: template.clone(),
            }),
            (SlotState::Leased { lease, .. }, Move::Lose) => Ok(SlotState::Lost {
                lease: lease.clone(),
            }),
            (SlotState::Leased { lease, template }, Move::Reset { depth, worn }) => {
                Ok(SlotState::Resetting {
                    lease: lease.clone(),
                    template: template.clone(),
                    depth,
                    worn,
                })
            }
            (SlotState::Resetting { template, .. }, Move::Clean { ready: true }) => {
                Ok(SlotState::Idle {
                    template: template.clone(),
                })
            }
            (SlotState::Resetting { .. }, Move::Clean { ready: false }) => Ok(SlotState::Blank),
            (
                SlotState::Creating { .. }
                | SlotState::Blank
                | SlotState::Specialising { .. }
                | SlotState::Idle { .. }
                | SlotState::Growing { .. }
                | SlotState::Leased { .. }
                | SlotState::Lost { .. }
                | SlotState::Resetting { .. }
                | SlotState::Retiring { .. },
                asked @ (Move::Settle
                | Move::Specialise { .. }
                | Move::Ready
                | Move::Grow { .. }
                | Move::Defer
                | Move::Lease { .. }
                | Move::Lose
                | Move::Reset { .. }
                | Move::Clean { .. }
                | Move::Confirm),
            ) => illegal(asked),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Move, RetireCause, SlotState};
    use crate::template::Depth;

    fn specialise(template: &str) -> Move {
        Move::Specialise {
            template: template.into(),
            image: "i".into(),
            first: false,
        }
    }

    fn lease() -> Move {
        Move::Lease { lease: "l".into() }
    }

    fn reset() -> Move {
        Move::Reset {
            depth: Depth::Swap,
            worn: false,
        }
    }

    fn retire() -> Move {
        Move::Retire {
            cause: RetireCause::Idle,
        }
    }

    fn path(moves: &[Move]) -> Result<&'static str, &'static str> {
        let mut state = SlotState::Creating { nonce: "n".into() };
        for step in moves {
            state = state.next(step.clone()).map_err(|illegal| illegal.state)?;
        }
        Ok(state.word())
    }

    #[test]
    fn a_life_goes_from_create_to_delete() {
        let mut life = vec![Move::Settle, specialise("t"), Move::Ready, lease(), reset()];
        assert_eq!(path(&life), Ok("resetting"));
        life.push(Move::Clean { ready: true });
        assert_eq!(path(&life), Ok("idle"));
        life.extend([specialise("other"), Move::Ready, retire(), Move::Confirm]);
        assert_eq!(path(&life), Ok("deleted"));
    }

    #[test]
    fn a_slot_grows_into_a_lease_or_back_to_where_it_was() {
        let grow = Move::Grow { lease: "l".into() };
        let blank = [Move::Settle, grow.clone()];
        assert_eq!(path(&blank), Ok("growing"));
        assert_eq!(path(&[&blank[..], &[Move::Defer]].concat()), Ok("blank"));
        assert_eq!(
            path(&[&blank[..], &[specialise("t")]].concat()),
            Ok("specialising")
        );
        assert_eq!(path(&[&blank[..], &[lease()]].concat()), Err("growing"));
        let idle = [Move::Settle, specialise("t"), Move::Ready, grow];
        assert_eq!(path(&[&idle[..], &[lease()]].concat()), Ok("leased"));
        assert_eq!(path(&[&idle[..], &[Move::Defer]].concat()), Ok("idle"));
    }

    #[test]
    fn nothing_is_leased_that_is_not_ready_and_nothing_comes_back_without_a_reset() {
        assert_eq!(path(&[lease()]), Err("creating"));
        assert_eq!(path(&[Move::Settle, lease()]), Err("blank"));
        assert_eq!(
            path(&[Move::Settle, specialise("t"), lease()]),
            Err("specialising")
        );
        let held = [Move::Settle, specialise("t"), Move::Ready, lease()];
        for step in [
            lease(),
            Move::Clean { ready: true },
            specialise("t"),
            Move::Ready,
        ] {
            assert_eq!(path(&[&held[..], &[step]].concat()), Err("leased"));
        }
        assert_eq!(
            path(&[&held[..], &[reset(), lease()]].concat()),
            Err("resetting")
        );
        assert_eq!(
            path(&[&held[..], &[Move::Lose, lease()]].concat()),
            Err("lost")
        );
        assert_eq!(
            path(&[&held[..], &[retire(), lease()]].concat()),
            Err("retiring")
        );
    }
}
