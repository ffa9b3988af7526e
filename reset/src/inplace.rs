//! In place: putting a tree back entry by entry, where there is no layer to throw away.
//!
//! ```text
//! scan -> plan (pure) -> apply (decides nothing) -> scan ... equal -> services -> verify
//! ```
//!
//! Additions go, attributes are set back, and contents come from the [`Stash`], which keeps a copy of
//! every file below the template's restore roots. What cannot be undone taints and is named. Nothing
//! here proves anything: the tree is observed afresh after the last change, and only
//! [`crate::baseline::verify`] makes a proof.
//!
//! What no one can restore is excused: change and birth times, inode numbers, sizes of directories.
//! Access times of files that the guest only read are not put back either; no tree holds them.

mod apply;
mod kill;
mod phases;
mod place;
mod plan;
mod roots;
mod stash;

pub use apply::{ApplyError, apply};
pub use kill::{KillError, Killed, Own, kill_all};
pub use phases::{Deadlines, Ground, Scan, reset};
pub use plan::{Change, Plan, Refusal, Step, Why, plan};
pub use roots::Roots;
pub use stash::{Filled, Stash, StashError};
