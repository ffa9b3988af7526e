//! Local pods: on a machine without a cluster, a container that holds one execd with no more
//! rights than a default pod gives it.
//!
//! `execd pod` makes one and stays beside it as its parent: [`launch`] puts the container together,
//! [`root`] its tree, [`ids`] its user namespace, and [`home`] is the folder that it has on the
//! machine. When the pod's pid 1 ends the kernel ends all of the pod; what it leaves on disk and in
//! control groups its parent removes, or, if that was killed, the next sweep.

mod home;
mod ids;
mod launch;
mod options;
mod probe;
mod program;
mod root;

use options::{Options, Task};

use std::ffi::OsString;
use std::io;

use thiserror::Error;

/// Why a pod was not made.
#[derive(Debug, Error)]
pub enum PodError {
    /// The command line.
    #[error("{0}; see execd --help")]
    Usage(String),
    /// A step of making it failed.
    #[error("making the pod: {step}")]
    Step {
        /// Which.
        step: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The machine lacks something.
    #[error("{0}")]
    Missing(String),
}

impl PodError {
    /// For `map_err`.
    fn at(step: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let step = step.into();
        move |source| Self::Step { step, source }
    }
}

/// Runs `execd pod` with the words behind it.
///
/// # Errors
/// [`PodError`]; a pod that was made and has ended is none.
pub fn run(words: impl Iterator<Item = OsString>) -> Result<(), PodError> {
    let options = Options::parse(words)?;
    match &options.task {
        Task::Make(pod) => launch::run(&options, pod),
        Task::Sweep => home::sweep(&options),
        Task::Publish(layer) => home::publish(&options, layer),
        Task::Probe => probe::run(options.rights),
    }
}
