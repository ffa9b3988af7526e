//! Code of ours that runs inside a sandbox with the guest's rights: file calls, tar
//! streams, furnishing and observing. The spawner forks it, it enters the sandbox, drops
//! to the guest's root and does one call; a path is then resolved by the kernel inside the
//! sandbox, so neither links nor `..` can lead out of it.
//!
//! The answer goes back as JSON over a channel that the daemon made. Data goes through
//! the descriptors of the call, in constant memory.

pub mod clear;
pub mod files;
pub mod furnish;
pub mod observe;
pub mod processes;
mod scan;
pub mod tree;

use std::os::fd::OwnedFd;

use innkeeper_reset::components::processes::ProcessView;
use serde::{Deserialize, Serialize};

/// One call. The descriptors it takes are named at each variant.
#[derive(Debug, Serialize, Deserialize)]
pub enum Call {
    /// A file call of `files`.
    File(files::FileCall),
    /// A tar stream of `tree`: one descriptor, a pipe to read from or write to.
    Tree(tree::TreeCall),
    /// Writes the sandbox's private files; at first ready only.
    Furnish(furnish::Furnish),
    /// Reads what of the sandbox's kernel objects only an inmate can see.
    Observe(observe::Observe),
    /// Looks for answers that the image holds; at first ready only, before anything of the guest
    /// has run there.
    Scan(innkeeper_leaks::Question),
    /// Reads processes: the pid of each and the service it belongs to.
    Processes(Vec<(u32, String)>),
    /// Removes ipc objects that outlive their processes.
    Clear,
    /// Asks a service whether it is ready.
    Probe(observe::Probe),
}

/// What a call answers.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// Of `File` and `Tree`.
    File(files::FileAnswer),
    /// Of `Furnish`.
    Furnished,
    /// Of `Observe`.
    Observed(Box<observe::Inside>),
    /// Of `Scan`.
    Scanned(Box<innkeeper_leaks::Report>),
    /// Of `Processes`.
    Processes(Vec<ProcessView>),
    /// Of `Clear`.
    Cleared,
    /// Of `Probe`.
    Ready,
    /// The call failed: errno (0 where there is none) and a sentence.
    Failed {
        /// errno, or 0.
        errno: i32,
        /// What failed, for people.
        message: String,
    },
}

/// Does one call. Runs in a forked, single-threaded process that exits after it.
pub fn run(call: Call, descriptors: Vec<OwnedFd>) -> Answer {
    match call {
        Call::File(call) => files::run(call, descriptors),
        Call::Tree(call) => tree::run(call, descriptors),
        Call::Furnish(call) => furnish::run(&call),
        Call::Observe(call) => observe::run(call),
        Call::Scan(question) => scan::run(&question),
        Call::Processes(list) => processes::run(&list),
        Call::Clear => clear::run(),
        Call::Probe(call) => observe::probe(&call),
    }
}
