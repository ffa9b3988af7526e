//! What a sandbox is made of, and making one: a kit of namespaces, an upper, the overlay,
//! a group, pid 1.

pub mod device;
mod kit;
mod machine;
pub mod overlay;
pub mod upper;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use innkeeper_reset::capture::{CaptureError, Options};
use innkeeper_reset::components::Facts;
use innkeeper_reset::files::{self, FilesReport};
use innkeeper_reset::ids::IdMap;
use innkeeper_reset::tree::Tree;
use thiserror::Error;

use crate::cgroup::{Group, Hierarchy, Limits};
use crate::inside::observe::Inside;
use crate::live::{Defaults, Live};
use crate::sliced;
use crate::spawner::build::IDS;
use crate::spawner::{SpawnError, Spawner};
use crate::store::{Store, StoreError};

pub use kit::Kits;
pub use machine::{Machine, Means};
use upper::Upper;

/// Bytes of `/dev/shm`, as Docker gives.
pub const SHM: u64 = 64 << 20;

/// Before what a sandbox had is freed: the reset that gave it up is then done, and does not
/// share its processor with the freeing.
const QUIET: std::time::Duration = std::time::Duration::from_millis(20);

/// The guest's host name: one for all, since two fresh sandboxes must not differ.
pub const HOSTNAME: &str = "sandbox";

/// Why a sandbox could not be built.
#[derive(Debug, Error)]
pub enum BuildError {
    /// A step on the daemon's side.
    #[error("{step} failed")]
    Step {
        /// What was being done.
        step: &'static str,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
    /// A layer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The overlay came up read only, which the kernel does not report.
    #[error("the overlay came up read only: the upper's file system refuses what an overlay needs")]
    ReadOnly,
    /// The spawner's side.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// For `map_err`.
pub(crate) fn step(step: &'static str) -> impl Fn(std::io::Error) -> BuildError {
    move |source| BuildError::Step { step, source }
}

/// What sandboxes are made with by root, many on one machine.
#[derive(Debug)]
pub struct Root {
    /// The spawner.
    pub spawner: Spawner,
    /// The layer store.
    pub store: Arc<Store>,
    /// Control groups.
    pub groups: Hierarchy,
    /// What is made ahead.
    pub kits: Arc<Kits>,
    /// The host's network namespace, for sandboxes that share it.
    pub host_network: OwnedFd,
    /// Changes with every start of the daemon.
    pub boot_id: String,
}

/// What to build.
#[derive(Debug)]
pub struct Plan {
    /// The slot's name.
    pub slot: String,
    /// The n-th sandbox in it.
    pub generation: u64,
    /// Directories of the store, topmost first.
    pub lowers: Vec<String>,
    /// The writable layer.
    pub upper: upper::Kind,
    /// A directory that is copied into the upper before anything runs, by its path.
    pub copied: Option<Vec<u8>>,
    /// An own network namespace with loopback only; else the host's.
    pub own_network: bool,
    /// Limits of the group.
    pub limits: Limits,
    /// For calls.
    pub defaults: Defaults,
}

/// A built sandbox. Fields that are closed late are here so that teardown of the mounts is
/// not part of pid 1's exit.
#[derive(Debug)]
pub struct Sandbox {
    /// For calls.
    pub live: Arc<Live>,
    /// The merged tree, with nothing mounted below.
    pub overlay: OwnedFd,
    /// The lowers, topmost first, opened unmapped.
    pub lowers: Vec<OwnedFd>,
    /// First id of its range, as this daemon sees ids.
    pub base: u32,
    pub(crate) own_network: bool,
    /// What was seen inside before anything of the guest ran.
    pub seen_at_birth: Inside,
    pub(crate) parts: Parts,
}

/// What of a sandbox depends on whose rights it was made with.
#[derive(Debug)]
pub(crate) enum Parts {
    /// Root's.
    Root {
        /// The writable layer.
        upper: Upper,
        /// Kept so that the range's namespace outlives every process of it.
        _users: OwnedFd,
    },
    /// A pod's or a user's.
    Pod {
        /// The upper directory, with the guest's ids; of slices, the directory of all uppers.
        upper: OwnedFd,
        /// Paths of the slices of its root, of which a small one may have none; None where it is
        /// no such root.
        slices: Option<Vec<Vec<u8>>>,
        /// The limits of its first process, which it read itself.
        limits: Facts,
    },
    /// A container's own, with nothing built around it.
    Plain {
        /// How its root is read.
        options: Options<'static>,
        /// What commands inherit from the daemon's spawner.
        limits: Facts,
    },
}

/// The mounts of a sandbox that is being built.
#[derive(Debug)]
struct Mounts {
    overlay: OwnedFd,
    upper: Upper,
    lowers: Vec<OwnedFd>,
}

impl Root {
    /// Builds a sandbox.
    ///
    /// # Errors
    /// [`BuildError`]; nothing of the sandbox is left then.
    pub async fn build(&self, plan: Plan) -> Result<Sandbox, BuildError> {
        let name = format!("{}.{}", plan.slot, plan.generation);
        let kit = self.take_kit(plan.own_network).await?;
        let (base, group) = (kit.base, Arc::clone(&kit.group));
        let built = self.put_together(&plan, &name, kit).await;
        self.kits.used();
        built.inspect_err(|_| {
            let _ = group.kill();
            self.clear_away(&name, base, group, ());
        })
    }

    async fn put_together(
        &self,
        plan: &Plan,
        name: &str,
        kit: kit::Kit,
    ) -> Result<Sandbox, BuildError> {
        let began = Instant::now();
        let Mounts {
            overlay,
            upper,
            lowers,
        } = self.assemble_mounts(plan, name, &kit)?;
        kit.group
            .limit(plan.limits)
            .map_err(step("limiting the control group"))?;
        let mounted = began.elapsed();
        let init = kit.standby.dress(overlay.as_fd(), true).await?;
        tracing::debug!(name, ?mounted, dressed = ?began.elapsed(), "built");
        let live = Live::new(name, plan, &self.boot_id, (init.pid, init.pidfd), kit.group);
        Ok(Sandbox {
            live: Arc::new(live),
            overlay,
            lowers,
            base: kit.base,
            own_network: plan.own_network,
            seen_at_birth: init.seen,
            parts: Parts::Root {
                upper,
                _users: kit.users,
            },
        })
    }

    fn assemble_mounts(
        &self,
        plan: &Plan,
        name: &str,
        kit: &kit::Kit,
    ) -> Result<Mounts, BuildError> {
        let mut lowers = Vec::new();
        let mut seen = Vec::new();
        for path in &plan.lowers {
            lowers.push(self.store.layer(path)?);
            seen.push(kit.mapped.open(path)?);
        }
        let users = kit.users.as_fd();
        let make = || Upper::make(&plan.upper, &self.store, &kit.mapped, name, users, &lowers);
        let upper = match plan.upper {
            // Copied, and made first where there is none of its size.
            upper::Kind::Image { .. } => tokio::task::block_in_place(make),
            upper::Kind::Memory { .. } | upper::Kind::Disk => make(),
        }?;
        let overlay = overlay::mount(&seen, &upper, kit.base)?;
        Ok(Mounts {
            overlay,
            upper,
            lowers,
        })
    }

    /// Frees what a sandbox had, behind the path.
    fn clear_away<T: Send + 'static>(&self, name: &str, base: u32, group: Arc<Group>, parts: T) {
        self.store.discard(&self.store.upper(name));
        let kits = Arc::clone(&self.kits);
        drop_later(move || {
            drop(parts);
            group.remove();
            kits.free(base);
        });
    }

    /// As [`Machine::release`].
    fn release(&self, sandbox: Sandbox) {
        let (base, group) = (sandbox.base, sandbox.live.group());
        drop(sandbox);
        if let Some(group) = group {
            group.remove();
        }
        self.kits.free(base);
    }

    /// As [`Machine::dispose`].
    fn dispose(&self, sandbox: Sandbox) {
        let name = sandbox.live.sandbox.clone();
        if let Some(group) = sandbox.live.group() {
            self.clear_away(&name, sandbox.base, group, sandbox);
        }
    }
}

impl Sandbox {
    /// Whether it has a network namespace of its own.
    pub fn has_own_network(&self) -> bool {
        self.own_network
    }

    /// Its ids, as this daemon sees them on its mounts.
    pub fn ids(&self) -> IdMap {
        IdMap {
            base: self.base,
            count: IDS,
        }
    }

    /// What the kernel limits its first process to, as it read that itself, where it has ended.
    ///
    /// # Errors
    /// A sentence where its first process lives, and is to be asked.
    pub fn limits_at_birth(&self) -> Result<Facts, String> {
        match &self.parts {
            Parts::Pod { limits, .. } | Parts::Plain { limits, .. } => Ok(limits.clone()),
            Parts::Root { .. } => Err("its limits are to be read afresh".to_owned()),
        }
    }

    /// Paths at which another overlay is part of its root.
    pub fn slices(&self) -> &[Vec<u8>] {
        match &self.parts {
            Parts::Root { .. } | Parts::Plain { .. } => &[],
            Parts::Pod { slices, .. } => slices.as_deref().unwrap_or_default(),
        }
    }

    /// How its merged tree is read.
    pub fn options(&self) -> Options<'static> {
        match &self.parts {
            Parts::Plain { options, .. } => options.clone(),
            Parts::Root { .. } | Parts::Pod { .. } => Options {
                entered: self.slices().to_vec(),
                ..Options::new(self.ids())
            },
        }
    }

    /// Whether it is put back entry by entry.
    pub fn is_in_place(&self) -> bool {
        matches!(self.parts, Parts::Plain { .. })
    }

    /// Compares what was written since it was built with a baseline, naming at most `limit`
    /// differences: after a reset, nothing.
    ///
    /// # Errors
    /// When an upper cannot be read.
    pub fn written(
        &self,
        baseline: &Tree,
        prefilled: Option<&Tree>,
        options: &Options<'_>,
        limit: usize,
    ) -> Result<FilesReport, CaptureError> {
        match &self.parts {
            Parts::Root { upper, .. } => files::upper(upper.raw(), None, baseline, options, limit),
            Parts::Pod { upper, slices, .. } => match slices {
                None => files::upper(upper.as_fd(), prefilled, baseline, options, limit),
                Some(slices) => sliced::written(upper.as_fd(), slices, baseline, options, limit),
            },
            // There is no upper apart: everything is looked at.
            Parts::Plain { options: all, .. } => {
                let options = Options {
                    deadline: options.deadline,
                    ..all.clone()
                };
                let root = self.overlay.as_fd();
                files::scan(root, baseline, None, &options, limit).map(|(report, _)| report)
            }
        }
    }
}

/// Runs what is slow and wanted by nobody on the blocking pool.
fn drop_later(work: impl FnOnce() + Send + 'static) {
    tokio::task::spawn_blocking(|| {
        std::thread::sleep(QUIET);
        work();
    });
}
