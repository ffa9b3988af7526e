//! Signed records of leases that are over: what each sandbox was, and what became of it.
//!
//! [`facts`] gathers what the engine knows, [`Recorder`] signs it, keeps it and finds it again.
//! The private key is in the recorder and nowhere else.

use std::sync::Arc;

pub mod facts;
mod keep;
mod recorder;

pub use keep::KEPT;
pub use recorder::{Error, Recorder};

/// The text of a signed record: one JSON object.
pub type Record = Arc<str>;
