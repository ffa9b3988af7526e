//! execd in a container, with no rights but those that a container runtime gives a default
//! pod: no CAP_SYS_ADMIN, no control groups of its own, one slot.
//!
//! What root does with the machine's rights is done here in a user namespace that every
//! sandbox brings along: it owns the sandbox's mounts, so nothing has to be asked of the host.
//! Its map leaves one id out, which is the daemon's own (`leave`): guest and daemon share the
//! kernel's view of ids, and a guest that cannot name the daemon's id can neither signal nor
//! trace nor starve it. One more id is reserved for killing (`killer`).
//!
//! `rights` finds out what the container allows, `assemble` is the daemon's side of a build
//! and `build` the spawner's, `cross` brings a process in. There is no pid namespace: the
//! container's /proc is masked, and then the kernel lets no new one be mounted. So processes
//! are told apart by what they cannot shed: all that is visible and not the daemon's is the
//! guest's (`visible`), and a command's descendants carry its control group namespace (`kin`).

mod assemble;
mod build;
mod cross;
mod facts;
mod killer;
mod kin;
mod leave;
mod recipe;
mod rights;
mod run;
mod settle;
mod spaces;
mod vigil;
mod visible;

pub use assemble::Pod;
pub use build::{Root, assemble};
pub use cross::cross;
pub use facts::facts;
pub use kin::Kin;
pub use leave::{Ids, leave};
pub use recipe::{Recipe, Seen, Upper};
pub use rights::Standing;
pub use run::{Options, Socket, run};
pub use settle::settle;
pub use spaces::{Spaces, oom_kills};
pub use vigil::Vigil;
pub use visible::{Own, text};

/// How the image comes to the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Read-only trees of a store, apart from the container's own root: one whole overlay.
    Mounted,
    /// The container's own root, by one overlay for each large directory.
    Sliced,
    /// The container's own root as it is.
    Plain,
}

impl Layout {
    /// From the word on a command line.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "mounted" => Some(Self::Mounted),
            "sliced" => Some(Self::Sliced),
            "plain" => Some(Self::Plain),
            _ => None,
        }
    }

    /// The strategy that goes with it.
    pub fn strategy(self) -> &'static str {
        match self {
            Self::Mounted => "layered",
            Self::Sliced => "sliced",
            Self::Plain => "in-place",
        }
    }
}
