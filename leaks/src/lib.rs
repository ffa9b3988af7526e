//! Looks for answers that a task's image holds: what its git repository keeps beyond the base
//! commit (the fix is in the history that came after it), and leftovers of earlier test runs.
//!
//! Images are hostile. Nothing of an image is run, so its git cannot lie; every path is resolved
//! below a root by the kernel; only regular files are read, none in whole unless it is bounded;
//! every count has a limit, and a search ends at its deadline. What could not be read is reported
//! as [`Report::unread`]: unknown is not the same as nothing.
#![forbid(unsafe_code)]

mod git;
mod ground;
mod leftovers;
mod report;
mod scan;

pub use ground::{Error, Ground};
pub use report::{Finding, Kind, Report};
pub use scan::{Question, scan};
