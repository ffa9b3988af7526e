//! The reset of a layered sandbox, as phases.
//!
//! ```text
//! Returned -> Fenced -> Killed -> Emptied -> Dropped -> Swapped -> FilesVerified -> ServicesUp -> verdict
//! ```
//!
//! A phase is a value that owns the right to the next step; a step takes it and gives the next phase or
//! ends in [`Tainted`], after the sandbox has been destroyed. What is done to the machine is behind
//! [`Ground`]; the order, the deadlines and the verdict are here.

mod ground;
mod phases;

pub use ground::{Fault, Ground, Step};
pub use phases::{
    Deadlines, Dropped, Emptied, Fenced, FilesVerified, Killed, Plan, Returned, ServicesUp, Swapped,
};

use crate::baseline::{Tainted, Verdict};

/// Runs all phases. A verdict of tainted means that the ground has been told to destroy the sandbox.
pub fn reset<G: Ground>(ground: &mut G, plan: &Plan<'_>) -> Verdict {
    match to_services(ground, plan) {
        Ok(phase) => phase.verify(),
        Err(tainted) => Verdict::Tainted(tainted),
    }
}

fn to_services<'a, G: Ground>(
    ground: &'a mut G,
    plan: &'a Plan<'a>,
) -> Result<ServicesUp<'a, G>, Tainted> {
    let fenced = Returned::new(ground, plan).fence()?;
    let emptied = fenced.kill()?.await_empty()?;
    let swapped = emptied.drop_namespaces()?.swap()?;
    swapped.verify_files()?.start_services()
}
