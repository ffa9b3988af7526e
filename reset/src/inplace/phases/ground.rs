//! What a reset in place does to the machine, as one trait.

use std::time::Instant;

use crate::baseline::Surroundings;
use crate::digest::Digest;
use crate::files::{Depth, FilesReport};
use crate::inplace::Plan;
use crate::layered::Fault;
use crate::tree::Tree;

/// A look at all files: its judgement and the tree.
#[derive(Debug)]
pub struct Scan {
    /// Against the baseline.
    pub report: FilesReport,
    /// What was seen.
    pub tree: Tree,
}

/// The effects of a reset in place. Each blocks until it is done, gives up by `by`, and decides nothing.
/// Each can be repeated.
pub trait Ground {
    /// Makes sure that no call of the returned lease gets through any more.
    fn fence(&mut self, by: Instant) -> Result<(), Fault>;

    /// Kills all of the guest and waits until nothing of it is left.
    fn kill(&mut self, by: Instant) -> Result<(), Fault>;

    /// Removes what outlives processes: ipc objects and the like. What it cannot remove shows in
    /// [`Ground::observe`].
    fn clear(&mut self, by: Instant) -> Result<(), Fault>;

    /// Looks at all files, at least at this depth.
    fn scan(&mut self, depth: Depth, by: Instant) -> Result<Scan, Fault>;

    /// Whether contents can be had for [`Ground::apply`].
    fn holds(&self, content: &Digest) -> bool;

    /// Carries out a plan.
    fn apply(&mut self, plan: &Plan, by: Instant) -> Result<(), Fault>;

    /// Starts the declared services and waits until they are ready.
    fn start_services(&mut self, by: Instant) -> Result<(), Fault>;

    /// Observes everything beside the files.
    fn observe(&mut self, by: Instant) -> Result<Surroundings, Fault>;

    /// Gives the sandbox up for good.
    fn destroy(&mut self);
}
