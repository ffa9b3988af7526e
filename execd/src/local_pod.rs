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

/// Runs a program as root of a user namespace with a pod's ids, so that what it writes is a pod's
/// to read. Returns only on failure of its own.
///
/// # Errors
/// [`PodError`].
pub fn run_with_ids(words: impl Iterator<Item = OsString>) -> Result<(), PodError> {
    let words: Vec<OsString> = words.collect();
    let (program, rest) = words
        .split_first()
        .ok_or_else(|| PodError::Usage("a program is missing".to_owned()))?;
    let mut command = std::process::Command::new(program);
    command.args(rest);
    let status = ids::status_within(move || {
        use std::os::unix::process::CommandExt;
        Err(command.exec())
    })?;
    std::process::exit(status)
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
