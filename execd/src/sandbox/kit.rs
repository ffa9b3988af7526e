//! Kits: what a sandbox needs whatever its template, made ahead. A fresh range of ids with
//! its user namespace, a network namespace, the store and `/dev` seen with those ids,
//! control groups, and a pid 1 that has all but its root. Making one takes some three times
//! as long as all the rest of a build; a few stand ready, so that no reset waits for it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::{BuildError, HOSTNAME, Root, SHM, device, drop_later, step};
use crate::cgroup::Group;
use crate::inside::observe::Observe;
use crate::spawner::build::IDS;
use crate::spawner::protocol::StandBySpec;
use crate::spawner::{SpawnError, Standby};
use crate::store::Mapped;

/// Kits that stand ready. Each keeps a process, a network namespace (some 230 KiB) and six
/// descriptors.
const READY: usize = 4;

/// First host id of all ranges: above what distributions give to users and containers.
const FIRST_ID: u32 = 0x4000_0000;
/// Ranges in use at once, below the kernel's limit of ids.
const RANGES: u64 = 32_000;

/// One kit, used for one sandbox and never again.
#[derive(Debug)]
pub struct Kit {
    /// First host id.
    pub base: u32,
    pub(super) users: OwnedFd,
    pub(super) mapped: Mapped,
    pub(super) group: Arc<Group>,
    pub(super) standby: Standby,
}

/// The kits of a machine.
#[derive(Debug, Default)]
pub struct Kits {
    ready: Mutex<VecDeque<Kit>>,
    taken: Notify,
    next: AtomicU64,
    in_use: Mutex<std::collections::HashSet<u32>>,
}

impl Kits {
    /// A range that no living sandbox has. Ranges go round, so that one comes back as late
    /// as possible.
    fn range(&self) -> Result<u32, BuildError> {
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..RANGES {
            let number = self.next.fetch_add(1, Ordering::Relaxed) % RANGES;
            let base = FIRST_ID + number as u32 * IDS;
            if in_use.insert(base) {
                return Ok(base);
            }
        }
        let full = std::io::Error::other("every range of ids is in use");
        Err(step("taking a range of ids")(full))
    }

    /// Gives a range back once nothing runs with its ids.
    pub(super) fn free(&self, base: u32) {
        self.in_use
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&base);
    }

    fn pop(&self) -> Option<Kit> {
        self.ready
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }

    /// A build is done. Only now is its kit replaced: the spawner does one thing at a time, and
    /// a new kit would have held up the build.
    pub(super) fn used(&self) {
        self.taken.notify_one();
    }

    fn push(&self, kit: Kit) {
        self.ready
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(kit);
    }

    fn is_full(&self) -> bool {
        self.ready
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
            >= READY
    }
}

impl Root {
    /// A kit: one that stands ready, else a new one. Those that stand ready have a network
    /// namespace of their own.
    pub(super) async fn take_kit(&self, own_network: bool) -> Result<Kit, BuildError> {
        match own_network.then(|| self.kits.pop()).flatten() {
            Some(kit) => Ok(kit),
            None => self.make_kit(own_network).await,
        }
    }

    async fn make_kit(&self, own_network: bool) -> Result<Kit, BuildError> {
        let base = self.kits.range()?;
        let made = self.assemble(base, own_network).await;
        if made.is_err() {
            self.kits.free(base);
        }
        made
    }

    async fn assemble(&self, base: u32, own_network: bool) -> Result<Kit, BuildError> {
        let mut namespaces = self.spawner.kit(base).await?.into_iter();
        let (Some(users), Some(network)) = (namespaces.next(), namespaces.next()) else {
            return Err(SpawnError::Lost.into());
        };
        let mapped = self.store.mapped(users.as_fd())?;
        let group = Arc::new(
            self.groups
                .create(&format!("{base:x}"))
                .map_err(step("making a control group"))?,
        );
        let network = own_network.then_some(&network);
        let standby = self.stand_by(base, &users, network, &group).await;
        let standby = standby.inspect_err(|_| {
            let _ = group.kill();
            let group = Arc::clone(&group);
            drop_later(move || group.remove());
        })?;
        Ok(Kit {
            base,
            users,
            mapped,
            group,
            standby,
        })
    }

    /// A pid 1 in a network namespace of its own, or else in the host's.
    async fn stand_by(
        &self,
        base: u32,
        users: &OwnedFd,
        network: Option<&OwnedFd>,
        group: &Group,
    ) -> Result<Standby, BuildError> {
        let dev = device::make(users.as_fd()).map_err(step("mounting /dev"))?;
        let (cgroups, joined) = group
            .joining(None)
            .map_err(step("opening the control group"))?;
        let spec = StandBySpec {
            base,
            cgroups,
            observe: Observe {
                base,
                own_network: network.is_some(),
            },
            hostname: HOSTNAME.to_owned(),
            shm_bytes: SHM,
        };
        let fds = [&dev, users, network.unwrap_or(&self.host_network)]
            .into_iter()
            .chain(&joined)
            .map(AsFd::as_fd)
            .collect::<Vec<_>>();
        Ok(self.spawner.stand_by(spec, &fds).await?)
    }

    /// Keeps kits ready for as long as the daemon runs.
    pub async fn keep_kits_ready(&self) {
        loop {
            while !self.kits.is_full() {
                match self.make_kit(true).await {
                    Ok(kit) => self.kits.push(kit),
                    Err(error) => {
                        tracing::warn!(%error, "no kit could be made ahead");
                        break;
                    }
                }
            }
            self.kits.taken.notified().await;
        }
    }
}
