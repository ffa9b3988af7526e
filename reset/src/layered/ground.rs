//! What a reset does to the machine, as one trait.

use std::fmt;
use std::time::Instant;

use crate::baseline::Surroundings;
use crate::files::{Depth, FilesReport};

/// The steps of a reset, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// No call of the returned lease gets through any more.
    Fence,
    /// Everything of the guest is killed.
    Kill,
    /// Nothing of it is left.
    AwaitEmpty,
    /// Its namespaces are given up.
    DropNamespaces,
    /// Its writes are given up.
    DiscardUpper,
    /// A fresh upper, mount and namespaces.
    Build,
    /// The files are looked at.
    ObserveFiles,
    /// The services are started and ready.
    StartServices,
    /// Everything else is looked at.
    Observe,
}

impl Step {
    /// All steps in order.
    pub const ALL: [Step; 9] = [
        Step::Fence,
        Step::Kill,
        Step::AwaitEmpty,
        Step::DropNamespaces,
        Step::DiscardUpper,
        Step::Build,
        Step::ObserveFiles,
        Step::StartServices,
        Step::Observe,
    ];

    /// The words used in a cause.
    pub fn name(self) -> &'static str {
        match self {
            Step::Fence => "fencing the lease",
            Step::Kill => "killing the guest",
            Step::AwaitEmpty => "waiting until nothing of the guest is left",
            Step::DropNamespaces => "dropping the namespaces",
            Step::DiscardUpper => "discarding the upper",
            Step::Build => "building the next generation",
            Step::ObserveFiles => "observing the files",
            Step::StartServices => "starting the services",
            Step::Observe => "observing the sandbox",
        }
    }
}

/// Why a step failed, in words for people. There is nothing to branch on: every fault taints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault(pub String);

impl Fault {
    /// An error with all its sources in one line.
    pub fn of(error: &dyn std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            text.push_str(": ");
            text.push_str(&error.to_string());
            source = error.source();
        }
        Fault(text)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The effects of a reset, for one slot. Each blocks until it is done, gives up by `by`, and decides
/// nothing. Each can be repeated: after a crash the reset starts from the beginning.
pub trait Ground {
    /// Raises the generation, so that no token of the returned lease opens anything.
    fn fence(&mut self, by: Instant) -> Result<(), Fault>;

    /// Kills all of the guest, without waiting.
    fn kill(&mut self, by: Instant) -> Result<(), Fault>;

    /// Waits until no process of the guest is left, zombies and helpers that entered included.
    fn await_empty(&mut self, by: Instant) -> Result<(), Fault>;

    /// Gives up the descriptors that keep the namespaces and mounts alive.
    fn drop_namespaces(&mut self, by: Instant) -> Result<(), Fault>;

    /// Puts the upper out of reach; it may be freed later.
    fn discard_upper(&mut self, by: Instant) -> Result<(), Fault>;

    /// Makes the next generation: a fresh upper, the overlay, new namespaces, no services yet.
    fn build(&mut self, by: Instant) -> Result<(), Fault>;

    /// Checks the files of the next generation, at least at this depth.
    fn observe_files(&mut self, depth: Depth, by: Instant) -> Result<FilesReport, Fault>;

    /// Starts the declared services and waits until they are ready.
    fn start_services(&mut self, by: Instant) -> Result<(), Fault>;

    /// Observes everything beside the files.
    fn observe(&mut self, by: Instant) -> Result<Surroundings, Fault>;

    /// Destroys the sandbox for good. It cannot fail: what resists is the ground's to go on with.
    fn destroy(&mut self);
}
