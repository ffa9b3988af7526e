//! Whether a reset sandbox can be told from a fresh one.
//!
//! [`inside::observe`] runs in the sandbox (the program `innkeeper-guest` calls it) and records
//! all that a guest can observe; [`Noise::learn`] finds in what fresh sandboxes differ among
//! themselves, as far as a committed list excuses it; [`compare`] names every other difference.
//! Nothing here is shared with the crate that resets and verifies: the two must not err alike.

#![deny(unsafe_code)]

mod compare;
mod files;
mod ids;
pub mod inside;
mod ipc;
mod mounts;
mod noise;
pub mod outside;
mod processes;
mod record;
mod sys;
mod tables;
mod text;
mod tree;

pub use compare::{Difference, compare};
pub use noise::{Noise, Pattern, Unexcused, When};
pub use record::{Record, RecordError, Subject};

/// How much is observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Everything, but contents of large files only by size and times.
    Light,
    /// Everything.
    Full,
}
