//! Where sandboxes come from.

use std::fmt::Display;

use innkeeper_test_oracle::Depth;
use innkeeper_test_script::Script;

/// A sandbox that was leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    /// The lease.
    pub id: String,
    /// The place that comes back after a reset.
    pub slot: String,
    /// Earlier rollouts of this slot.
    pub uses: u32,
}

/// What is to be done in a sandbox.
#[derive(Debug, Clone, Copy)]
pub struct Visit<'a> {
    /// How much is observed before anything is acted out.
    pub depth: Depth,
    /// What is acted out then; may be empty.
    pub script: &'a Script,
}

/// What became of a sandbox that was given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// The reset was proven: the only outcome that can be false.
    pub clean: bool,
    /// Why not, where it was not.
    pub cause: String,
    /// The slot does not come back.
    pub retired: bool,
}

/// A pool of sandboxes of one template. Clones share the pool.
pub trait Sandboxes: Clone + Send {
    /// Why a call failed, as a sentence.
    type Error: Display + Send;

    /// Leases a sandbox.
    fn lease(&mut self) -> impl Future<Output = Result<Leased, Self::Error>> + Send;

    /// Observes and then acts out a script in one command; gives all that the command wrote to
    /// standard output, the record first. A command that ended without writing one is no error.
    ///
    /// # Errors
    /// The sandbox ended, or the call broke off before a record came.
    fn visit(
        &mut self,
        leased: &Leased,
        visit: Visit<'_>,
    ) -> impl Future<Output = Result<Vec<u8>, Self::Error>> + Send;

    /// Gives a sandbox back and waits for the verdict, or has it destroyed.
    fn give_back(
        &mut self,
        leased: &Leased,
        discard: bool,
    ) -> impl Future<Output = Result<Returned, Self::Error>> + Send;
}
