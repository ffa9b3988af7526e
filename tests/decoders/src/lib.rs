//! What reads bytes that others wrote, as functions that a fuzzer can call.
//!
//! Each [`Target`] takes any bytes. It must neither panic nor hang, and what it accepts it must
//! read alike when it has written it again. The seeds are what such bytes look like when they are
//! right; a fuzzer starts from them.
//!
//! `fuzz/` has a program for cargo-fuzz for each target. The tests of this crate run all of them
//! over mutated seeds with a stable compiler.

#![forbid(unsafe_code)]

mod grading;
mod images;
mod mutate;
mod protocol;
mod tree;

pub use mutate::Mutator;

/// Something that reads bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, which is that of its program for cargo-fuzz.
    pub name: &'static str,
    /// Reads bytes.
    pub read: fn(&[u8]),
    /// Bytes that are right.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: [Target; 6] = [
    tree::TARGET,
    protocol::TARGET,
    images::TARGET,
    grading::LOGS,
    grading::PATCHES,
    grading::ROWS,
];

/// A target by its name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
