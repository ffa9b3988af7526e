//! Searching for false cleans.
//!
//! A [`Run`] leases sandboxes, has hostile scripts acted out in them, and returns them. What a later
//! lease of the same slot sees before anything acts in it is what the reset left; the oracle, which
//! shares nothing with the reset, compares that with fresh sandboxes. A difference after a reset
//! that was called clean is a false clean: its script is cut down ([`Shrinker`]) and saved
//! ([`Failure`]) with the line that repeats it.
//!
//! Scripts are drawn ([`draw`]) from a seed and the number of the iteration alone, so that one
//! iteration can be had again without the others. Where sandboxes come from is behind
//! [`Sandboxes`]; this crate speaks to no manager itself.

#![forbid(unsafe_code)]

mod dice;
mod draw;
mod failure;
mod judge;
mod run;
mod sandboxes;
mod shrink;
mod tally;
mod world;

pub use draw::draw;
pub use failure::Failure;
pub use judge::{Judge, Unfit};
pub use run::{Progress, Run, RunError, Source, Wish};
pub use sandboxes::{Leased, Returned, Sandboxes, Visit};
pub use shrink::Shrinker;
pub use tally::Tally;
pub use world::World;
