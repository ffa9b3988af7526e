//! Observation: reads the raw texts of a sandbox's kernel state and gives them to the normalisers in
//! [`crate::components`].
//!
//! [`inside`] is run by trusted code in a process that has entered the sandbox's namespaces: many files
//! of /proc answer for the namespaces of whoever reads them. [`process`] is run from outside, on the
//! host's /proc. Both take descriptors, never a path of the guest's tree.

mod inside;
mod listeners;
mod proc_dir;
mod process;
mod programs;

pub use inside::{Ahead, InsideScope, InsideView, ahead, inside, message_queues};
pub use proc_dir::{ObserveError, ProcDir, pids, start_time};
pub use process::{Observer, own_init, process};
pub use programs::Programs;

use std::collections::BTreeMap;

use crate::components::{Facts, limits};

/// Facts of the limits of a first process and of control groups, the latter with names that the
/// caller chooses and with their contents.
///
/// # Errors
/// When the limits of the process cannot be read.
pub fn limits(
    proc: &ProcDir,
    pid: u32,
    groups: &BTreeMap<String, String>,
) -> Result<Facts, ObserveError> {
    let path = format!("{pid}/limits");
    let text = proc.text(&path)?;
    limits::facts(&text, groups).ok_or(ObserveError::Form { path })
}

/// Facts of the mounts of a process's mount namespace, read from outside.
///
/// # Errors
/// When they cannot be read.
pub fn mounts(proc: &ProcDir, pid: u32, ids: crate::ids::IdMap) -> Result<Facts, ObserveError> {
    let path = format!("{pid}/mountinfo");
    let text = proc.text(&path)?;
    crate::components::mounts::facts(&text, ids).ok_or(ObserveError::Form { path })
}
