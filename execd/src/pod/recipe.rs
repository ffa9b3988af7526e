//! What the daemon asks its spawner to build, and what comes back.

use std::path::PathBuf;

use innkeeper_reset::components::Facts;
use serde::{Deserialize, Serialize};

use crate::inside::observe::Inside;
use crate::sliced::Base;

/// A sandbox to build.
///
/// Descriptors of the answer: the namespaces (user, mount, ipc, uts and, where it is the
/// sandbox's own, network), the merged tree, the upper, the killer's channel.
#[derive(Debug, Serialize, Deserialize)]
pub struct Recipe {
    /// What its root is made from.
    pub source: Source,
    /// The writable layer.
    pub upper: Upper,
    /// A directory that is copied into the upper, by its path in the sandbox.
    pub copied: Option<Vec<u8>>,
    /// A network namespace of its own; else the container's.
    pub own_network: bool,
    /// Processes that the sandbox may have, where nothing but the kernel's limit per user bounds
    /// them: beside the container's own, the daemon's are counted too.
    pub processes: u64,
    /// The daemon's id, which the guest's map leaves out.
    pub left_out: u32,
    /// The id for killing.
    pub killer: u32,
    /// Name of the host, as the guest sees it.
    pub hostname: String,
    /// Bytes of `/dev/shm`.
    pub shm_bytes: u64,
}

/// What the root of a sandbox is made from, by paths in the container.
#[derive(Debug, Serialize, Deserialize)]
pub enum Source {
    /// Directories, topmost first.
    Trees(Vec<PathBuf>),
    /// The container's own root.
    Slices(Base),
}

/// The writable layer of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Upper {
    /// A tmpfs in the sandbox's own mount namespace, which goes with it.
    Memory {
        /// Bytes.
        bytes: u64,
        /// Inodes.
        inodes: u64,
    },
    /// A directory that holds `u` and `w`; of slices, an empty one that the guest's root owns.
    Directory(PathBuf),
}

/// What the builder saw before anything of the guest ran.
#[derive(Debug, Serialize, Deserialize)]
pub struct Seen {
    /// Kernel objects.
    pub inside: Inside,
    /// What it was limited to.
    pub limits: Facts,
}
