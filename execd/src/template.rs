//! A template as this daemon knows it: prepared once, with its baseline.

mod baseline;
mod in_place;
mod leaks;
mod observe;
mod prepare;
mod registry;
mod services;
mod stored;
mod workdir;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use innkeeper_proto::v1::{Network, Resources, TemplateSpec, UpperKind};
use innkeeper_reset::baseline::Baseline;
use innkeeper_reset::tree::Tree;
use thiserror::Error;

use crate::cgroup::Limits;
use crate::live::Defaults;
use crate::replica::ReplicaError;
use crate::sandbox::{BuildError, Machine, upper};
use crate::store::layer_path;

pub use baseline::{First, first_ready};
pub use in_place::{clear, published};
pub use observe::{proven_lowers, surroundings};
pub use registry::Templates;
pub use services::{Running, start};

/// Why a template cannot be made ready.
#[derive(Debug, Error)]
pub enum TemplateError {
    /// The spec asks for what is not to be had.
    #[error("{0}")]
    Invalid(String),
    /// A prepare command failed.
    #[error("prepare command `{command}` {outcome}; its last output: {output}")]
    Prepare {
        /// The command.
        command: String,
        /// How it ended.
        outcome: String,
        /// The end of its output.
        output: String,
    },
    /// HEAD of the workdir is not the base commit.
    #[error("{0}")]
    BaseCommit(String),
    /// A service never became ready.
    #[error("service {name} did not become ready: {reason}")]
    Service {
        /// Its name.
        name: String,
        /// What was last seen.
        reason: String,
    },
    /// Nobody has prepared it and this call may not.
    #[error(
        "what was prepared for template {key} is missing, damaged or of another version here, so nothing can be compared with it: change the template, and it is prepared anew under another key"
    )]
    NotPrepared {
        /// The template key.
        key: String,
    },
    /// A sandbox of it could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Looking at it failed.
    #[error("the baseline could not be captured: {0}")]
    Capture(String),
    /// What it wrote could not be made a layer.
    #[error("the prepared layer cannot be kept")]
    Keep(#[from] ReplicaError),
    /// Its record on disk failed.
    #[error("the prepared template cannot be stored")]
    Store(#[source] std::io::Error),
}

/// A template with its baseline.
#[derive(Debug)]
pub struct Template {
    /// What the manager sent.
    pub spec: TemplateSpec,
    /// Directories of the store, topmost first: the prepared layer, then the image's.
    pub lowers: Vec<String>,
    /// Digests of the lowers, topmost first.
    pub lower_digests: Vec<String>,
    /// (device, inode, change time) of each lower's root when the baseline was captured or
    /// read: a lower that was replaced since then shows.
    pub lower_marks: Vec<Mark>,
    /// What a fresh sandbox is.
    pub baseline: Baseline,
    /// Its merged tree.
    pub tree: Arc<Tree>,
    /// The directory that every sandbox starts with a copy of in its upper, by its path.
    pub copied: Option<Vec<u8>>,
    /// A fresh upper, where it is not empty.
    pub prefilled: Option<Arc<Tree>>,
    /// Answers that the image was seen to hold; none where an earlier version prepared it, which
    /// did not look.
    pub leaks: Option<innkeeper_leaks::Report>,
    /// Why a sandbox of it is single use; none where it can be reset.
    pub single_use: Option<String>,
}

/// Identity of a layer's root directory.
pub type Mark = (u64, u64, i64, i64);

impl Template {
    /// Whether a sandbox has a network namespace of its own.
    pub fn own_network(&self) -> bool {
        own_network(self.spec.network())
    }

    /// Where the writable layer of a sandbox lies.
    ///
    /// # Errors
    /// [`TemplateError::Invalid`] where the sizes do not fit.
    pub fn upper(&self) -> Result<upper::Kind, TemplateError> {
        upper_kind(&self.spec)
    }

    /// Limits of a sandbox's group.
    pub fn limits(&self) -> Limits {
        limits(self.spec.resources.as_ref())
    }

    /// For calls.
    pub fn defaults(&self) -> Defaults {
        defaults(&self.spec)
    }

    /// `hard` where the kernel enforces the disk limit, else `soft`.
    pub fn disk_limit(&self) -> &'static str {
        match upper_kind(&self.spec) {
            Ok(upper::Kind::Memory { .. } | upper::Kind::Image { .. }) => "hard",
            Ok(upper::Kind::Disk) | Err(_) => "soft",
        }
    }
}

/// The identity of each lower's root.
pub fn marks(lowers: &[OwnedFd]) -> std::io::Result<Vec<Mark>> {
    lowers
        .iter()
        .map(|fd| {
            let stat = rustix::fs::fstat(fd)?;
            Ok((
                stat.st_dev as u64,
                stat.st_ino as u64,
                stat.st_ctime as i64,
                stat.st_ctime_nsec as i64,
            ))
        })
        .collect()
}

fn own_network(network: Network) -> bool {
    match network {
        Network::Unspecified | Network::None => true,
        Network::Host | Network::Pod => false,
    }
}

fn defaults(spec: &TemplateSpec) -> Defaults {
    Defaults {
        env: spec.env.iter().map(|v| v.to_vec()).collect(),
        workdir: if spec.workdir.is_empty() {
            b"/".to_vec()
        } else {
            spec.workdir.clone().into_bytes()
        },
        user: spec.user.clone(),
    }
}

/// The image's layers as directories of the store, topmost first; none where the image is the
/// container's own root.
fn image_lowers(machine: &Machine, spec: &TemplateSpec) -> Vec<String> {
    if machine.is_own_image() {
        return Vec::new();
    }
    spec.layers
        .iter()
        .rev()
        .map(|layer| layer_path(layer))
        .collect()
}

/// Processes and threads of a sandbox that asks for no limit of its own: a fork bomb must
/// hurt only itself.
const PIDS: u64 = 4096;
/// Inodes of an upper that asks for no limit.
const INODES: u64 = 1_000_000;
/// Kept free below the memory limit, so that a full upper does not end the sandbox.
const MEMORY_MARGIN: u64 = 256 << 20;
/// The largest upper in memory that is made unasked.
const MEMORY_UPPER: u64 = 16 << 30;

fn limits(resources: Option<&Resources>) -> Limits {
    let r = resources.copied().unwrap_or_default();
    Limits {
        cpu_millis: r.cpu_millis,
        memory_bytes: r.memory_bytes,
        pids: if r.pids == 0 { PIDS } else { r.pids },
    }
}

/// Where the upper lies. A tmpfs is charged to the sandbox's memory, so it must fit below
/// its limit with a margin; `auto` takes the disk where it does not.
fn upper_kind(spec: &TemplateSpec) -> Result<upper::Kind, TemplateError> {
    let r = spec.resources.unwrap_or_default();
    let inodes = if r.inodes == 0 { INODES } else { r.inodes };
    let room = if r.memory_bytes > 0 {
        r.memory_bytes.saturating_sub(MEMORY_MARGIN)
    } else {
        (machine_memory() / 2).min(MEMORY_UPPER)
    };
    let wanted = if r.disk_bytes == 0 {
        room
    } else {
        r.disk_bytes
    };
    let memory = upper::Kind::Memory {
        bytes: wanted,
        inodes,
    };
    let fits = wanted > 0 && wanted <= room;
    match spec.upper() {
        UpperKind::Disk => Ok(on_disk(r.disk_bytes, inodes)),
        UpperKind::Memory if fits => Ok(memory),
        UpperKind::Memory => Err(TemplateError::Invalid(format!(
            "an upper in memory of {wanted} bytes does not fit: it may be at most the memory limit less 256 MiB ({room} bytes); lower `disk`, raise `memory` or set `upper: disk`"
        ))),
        UpperKind::Auto | UpperKind::Unspecified if fits => Ok(memory),
        UpperKind::Auto | UpperKind::Unspecified => Ok(on_disk(r.disk_bytes, inodes)),
    }
}

/// On disk: limited by a file system of its own where a size is asked and one can be made.
fn on_disk(bytes: u64, inodes: u64) -> upper::Kind {
    if bytes > 0 && upper::image::is_possible() {
        upper::Kind::Image { bytes, inodes }
    } else {
        upper::Kind::Disk
    }
}

fn machine_memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit)
}
