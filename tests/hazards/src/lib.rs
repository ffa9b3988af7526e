//! Faults that were reported of other systems, brought about in sandboxes of every kind.
//!
//! The recorded ones stay where they are (`hazards` in INNKEEPER_SHARED, else in `../shared`
//! beside the repository); [`neighbours`] are our own, written after them: what somebody else
//! would report next. A sandbox that comes back clean is compared with a fresh one by code
//! that shares nothing with the reset.

mod case;
mod ground;
pub mod neighbours;
mod pair;
mod replay;
mod tally;
mod view;
mod wire;

pub use case::{Case, Reach};
pub use ground::{Ground, IMAGE};
pub use pair::{PAIRS, Pair};
pub use replay::replay;
pub use wire::{Heard, Talk, Wire};
