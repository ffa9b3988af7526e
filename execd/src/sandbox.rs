//! What a sandbox is made of, and making one: a kit of namespaces, an upper, the overlay,
//! a group, pid 1.

pub mod device;
pub mod overlay;
pub mod upper;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use thiserror::Error;

use crate::cgroup::{Group, Hierarchy, Limits};
use crate::live::{Defaults, Live};
use crate::spawner::protocol::BuildSpec;
use crate::spawner::{SpawnError, Spawner};
use crate::store::{Store, StoreError};
use upper::Upper;

/// Bytes of `/dev/shm`, as Docker gives.
pub const SHM: u64 = 64 << 20;

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

/// The machine's parts that every sandbox is made with.
#[derive(Debug)]
pub struct Machine {
    /// The spawner.
    pub spawner: Spawner,
    /// The layer store.
    pub store: Store,
    /// Control groups.
    pub groups: Hierarchy,
    /// The tree of `/dev`.
    pub devices: device::Devices,
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
    /// First host id of the slot's range.
    pub base: u32,
    /// Directories of the store, topmost first.
    pub lowers: Vec<String>,
    /// The writable layer.
    pub upper: upper::Kind,
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
    /// The writable layer.
    pub upper: Upper,
    /// The lowers, topmost first, opened unmapped.
    pub lowers: Vec<OwnedFd>,
    /// First host id of the range.
    pub base: u32,
    users: OwnedFd,
    network: Option<OwnedFd>,
}

impl Machine {
    /// Builds a sandbox.
    ///
    /// # Errors
    /// [`BuildError`]; nothing of the sandbox is left then.
    pub async fn build(&self, plan: Plan) -> Result<Sandbox, BuildError> {
        let name = format!("{}.{}", plan.slot, plan.generation);
        let mut kit = self
            .spawner
            .kit(plan.base, plan.own_network)
            .await?
            .into_iter();
        let users = kit.next().ok_or(BuildError::Spawn(SpawnError::Lost))?;
        let network = kit.next();
        let mapped = self.store.mapped(users.as_fd())?;
        let mut lowers = Vec::new();
        let mut seen = Vec::new();
        for path in &plan.lowers {
            lowers.push(self.store.layer(path)?);
            seen.push(mapped.open(path)?);
        }
        let upper = Upper::make(
            &plan.upper,
            &self.store,
            &mapped,
            &name,
            users.as_fd(),
            &lowers,
        )?;
        let overlay = overlay::mount(&seen, &upper, plan.base)?;
        let dev = self
            .devices
            .for_users(users.as_fd())
            .map_err(step("mounting /dev"))?;
        let group = Arc::new(
            self.groups
                .create(&name, plan.limits)
                .map_err(step("making the control group"))?,
        );
        let init = self
            .start(&plan, &group, &overlay, &dev, &users, network.as_ref())
            .await;
        let init = match init {
            Ok(init) => init,
            Err(error) => {
                self.clear_away(&name, upper, overlay, &group);
                return Err(error);
            }
        };
        let live = Live::new(
            &plan.slot,
            plan.generation,
            &self.boot_id,
            plan.defaults,
            init,
            group,
        );
        Ok(Sandbox {
            live: Arc::new(live),
            overlay,
            upper,
            lowers,
            base: plan.base,
            users,
            network,
        })
    }

    async fn start(
        &self,
        plan: &Plan,
        group: &Group,
        overlay: &OwnedFd,
        dev: &OwnedFd,
        users: &OwnedFd,
        network: Option<&OwnedFd>,
    ) -> Result<(i32, OwnedFd), BuildError> {
        let (cgroups, joined) = group
            .joining(None)
            .map_err(step("opening the control group"))?;
        let spec = BuildSpec {
            base: plan.base,
            cgroups,
            network: network.is_some(),
            hostname: HOSTNAME.to_owned(),
            shm_bytes: SHM,
            no_nested_users: true,
        };
        let fds = [overlay, dev, users]
            .into_iter()
            .chain(network)
            .chain(&joined)
            .map(AsFd::as_fd)
            .collect::<Vec<_>>();
        Ok(self.spawner.build(spec, &fds).await?)
    }

    fn clear_away(&self, name: &str, upper: Upper, overlay: OwnedFd, group: &Arc<Group>) {
        let _ = group.kill();
        let group = Arc::clone(group);
        drop_later(move || {
            group.remove();
            drop((upper, overlay));
        });
        self.store.discard(&self.store.upper(name));
    }

    /// Gives up everything of a sandbox whose processes are gone. The upper on disk is
    /// renamed away; mounts and groups go behind the path, since freeing 10,000 dirty
    /// entries takes some 20 ms.
    pub fn dispose(&self, sandbox: Sandbox) {
        self.store.discard(&self.store.upper(&sandbox.live.sandbox));
        drop_later(move || {
            let group = Arc::clone(sandbox.live.group());
            drop(sandbox);
            group.remove();
        });
    }
}

impl Sandbox {
    /// Pid 1's user namespace.
    pub fn users(&self) -> &OwnedFd {
        &self.users
    }

    /// Whether it has a network namespace of its own.
    pub fn has_own_network(&self) -> bool {
        self.network.is_some()
    }
}

/// Runs what is slow and wanted by nobody on the blocking pool.
fn drop_later(work: impl FnOnce() + Send + 'static) {
    tokio::task::spawn_blocking(work);
}
