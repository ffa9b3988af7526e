//! Kits: what a sandbox needs whatever its template, made ahead. A fresh range of ids with
//! its user namespace, a network namespace, the store and `/dev` seen with those ids, and
//! control groups. Making one takes about as long as all the rest of a build, most of it
//! for the network namespace; a few stand ready, so that no reset waits for it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use super::{BuildError, Root, device, step};
use crate::cgroup::Group;
use crate::spawner::SpawnError;
use crate::spawner::build::IDS;
use crate::store::Mapped;

/// Kits that stand ready. Each keeps a network namespace (some 230 KiB) and five descriptors.
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
    pub(super) network: OwnedFd,
    pub(super) mapped: Mapped,
    pub(super) dev: OwnedFd,
    pub(super) group: Arc<Group>,
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
    /// A kit: one that stands ready, else a new one.
    pub(super) async fn take_kit(&self) -> Result<Kit, BuildError> {
        match self.kits.pop() {
            Some(kit) => Ok(kit),
            None => self.make_kit().await,
        }
    }

    async fn make_kit(&self) -> Result<Kit, BuildError> {
        let base = self.kits.range()?;
        let made = self.assemble(base).await;
        if made.is_err() {
            self.kits.free(base);
        }
        made
    }

    async fn assemble(&self, base: u32) -> Result<Kit, BuildError> {
        let mut namespaces = self.spawner.kit(base).await?.into_iter();
        let (Some(users), Some(network)) = (namespaces.next(), namespaces.next()) else {
            return Err(SpawnError::Lost.into());
        };
        Ok(Kit {
            base,
            mapped: self.store.mapped(users.as_fd())?,
            dev: device::make(users.as_fd()).map_err(step("mounting /dev"))?,
            group: Arc::new(
                self.groups
                    .create(&format!("{base:x}"))
                    .map_err(step("making a control group"))?,
            ),
            users,
            network,
        })
    }

    /// Keeps kits ready for as long as the daemon runs.
    pub async fn keep_kits_ready(&self) {
        loop {
            while !self.kits.is_full() {
                match self.make_kit().await {
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
