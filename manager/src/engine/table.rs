//! The leases as calls see them: where the sandbox is, whether the lease still stands.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use innkeeper_pool::{How, Lease, LeaseId, Outcome};
use innkeeper_proto::v1;
use tokio_util::sync::CancellationToken;

use super::{Handle, NoLease, how_word};
use crate::state::journal::Seat;

/// Signs of life reach the pool at most this often per ttl: more would only cost the engine time.
const BEATS_PER_TTL: u32 = 10;

/// How a lease ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Returned, expired or lost.
    pub how: How,
    /// Why it was lost.
    pub cause: Option<String>,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(how_word(self.how))?;
        match &self.cause {
            Some(cause) => write!(f, " ({cause})"),
            None => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Entry {
    lease: LeaseId,
    tenant: String,
    sandbox: v1::SandboxRef,
    ttl_ms: AtomicU64,
    /// Calls that run now.
    active: AtomicUsize,
    /// When the pool last heard of it, in milliseconds since `epoch`.
    beat_ms: AtomicU64,
    epoch: Instant,
    ended: Mutex<Option<Ended>>,
    over: CancellationToken,
}

/// All leases that the pool remembers.
#[derive(Debug, Default)]
pub(super) struct Leases {
    map: RwLock<HashMap<LeaseId, Arc<Entry>>>,
}

/// A lease's sandbox and the call that goes to it.
#[derive(Debug)]
pub struct Route {
    /// Held for as long as the call runs: the lease does not expire under it.
    pub call: Call,
}

impl Route {
    /// The sandbox as the provider knows it.
    pub fn sandbox(&self) -> v1::SandboxRef {
        self.call.entry.sandbox.clone()
    }
}

/// A running call on a lease.
#[derive(Debug)]
pub struct Call {
    entry: Arc<Entry>,
    handle: Handle,
}

impl Call {
    /// Resolves when the lease is over. Cancel safe.
    pub async fn over(&self) {
        self.entry.over.cancelled().await;
    }

    /// The error of a call whose lease is over; None while it stands.
    pub fn ended(&self) -> Option<NoLease> {
        let ended = self
            .entry
            .ended
            .lock()
            .unwrap_or_else(|lock| lock.into_inner());
        let how = ended.clone()?;
        Some(NoLease::Ended {
            lease: self.entry.lease.to_string(),
            how,
        })
    }
}

impl Drop for Call {
    /// The end of a call is a sign of life too. One atomic and one message, nothing that waits.
    fn drop(&mut self) {
        self.entry.active.fetch_sub(1, Ordering::Relaxed);
        self.entry.beat(&self.handle);
    }
}

impl Entry {
    /// Whether the pool has not heard of it for a share of its ttl; then it counts as heard.
    fn due(&self) -> bool {
        let now = self.epoch.elapsed().as_millis() as u64;
        let pause = self.ttl_ms.load(Ordering::Relaxed) / u64::from(BEATS_PER_TTL);
        let last = self.beat_ms.load(Ordering::Relaxed);
        now.saturating_sub(last) >= pause
            && self
                .beat_ms
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    fn beat(&self, handle: &Handle) {
        if self.due() {
            handle.heartbeat(self.lease.clone());
        }
    }
}

impl Leases {
    /// Adds a lease, or replaces what is known of it.
    pub(super) fn put(&self, lease: &Lease, seat: &Seat) {
        let over = CancellationToken::new();
        let ended = lease.ended.as_ref().map(|ended| {
            over.cancel();
            let outcome = ended.outcome.as_ref().filter(|_| ended.how == How::Lost);
            Ended {
                how: ended.how,
                cause: outcome.and_then(lost_cause),
            }
        });
        let entry = Entry {
            lease: lease.id.clone(),
            tenant: lease.request.tenant.to_string(),
            sandbox: v1::SandboxRef {
                slot: lease.slot.to_string(),
                generation: seat.built,
            },
            ttl_ms: AtomicU64::new(lease.ttl_ms),
            active: AtomicUsize::new(0),
            beat_ms: AtomicU64::new(0),
            epoch: Instant::now(),
            ended: Mutex::new(ended),
            over,
        };
        self.write().insert(lease.id.clone(), Arc::new(entry));
    }

    /// Whether a lease is in the table and stands.
    pub(super) fn stands(&self, lease: &LeaseId) -> bool {
        self.get(lease)
            .is_some_and(|entry| !entry.over.is_cancelled())
    }

    /// Takes a new ttl.
    pub(super) fn set_ttl(&self, lease: &LeaseId, ttl_ms: u64) {
        if let Some(entry) = self.get(lease) {
            entry.ttl_ms.store(ttl_ms, Ordering::Relaxed);
        }
    }

    /// Ends a lease: every call on it ends with a typed error.
    pub(super) fn end(&self, lease: &LeaseId, how: How) {
        if let Some(entry) = self.get(lease) {
            let mut ended = entry.ended.lock().unwrap_or_else(|lock| lock.into_inner());
            *ended = Some(Ended { how, cause: None });
            drop(ended);
            entry.over.cancel();
        }
    }

    /// Adds what became of its sandbox.
    pub(super) fn settle(&self, lease: &LeaseId, outcome: &Outcome) {
        if let Some(entry) = self.get(lease) {
            let mut ended = entry.ended.lock().unwrap_or_else(|lock| lock.into_inner());
            if let Some(ended) = ended.as_mut().filter(|ended| ended.how == How::Lost) {
                ended.cause = lost_cause(outcome);
            }
        }
    }

    /// Forgets a lease.
    pub(super) fn forget(&self, lease: &LeaseId) {
        self.write().remove(lease);
    }

    /// Begins a call on a lease.
    pub(super) fn call(&self, tenant: &str, lease: &str, handle: &Handle) -> Result<Call, NoLease> {
        // Another tenant's lease gets the same words as none, so that ids cannot be probed.
        let unknown = || NoLease::Unknown(lease.to_owned());
        let entry = self
            .get(&LeaseId(lease.to_owned()))
            .filter(|entry| entry.tenant == tenant)
            .ok_or_else(unknown)?;
        entry.active.fetch_add(1, Ordering::Relaxed);
        let call = Call {
            entry,
            handle: handle.clone(),
        };
        match call.ended() {
            Some(ended) => Err(ended),
            None => {
                call.entry.beat(handle);
                Ok(call)
            }
        }
    }

    /// Leases with running calls whose sign of life is due.
    pub(super) fn due(&self) -> Vec<LeaseId> {
        self.map
            .read()
            .unwrap_or_else(|lock| lock.into_inner())
            .values()
            .filter(|entry| entry.active.load(Ordering::Relaxed) > 0 && !entry.over.is_cancelled())
            .filter(|entry| entry.due())
            .map(|entry| entry.lease.clone())
            .collect()
    }

    fn get(&self, lease: &LeaseId) -> Option<Arc<Entry>> {
        self.map
            .read()
            .unwrap_or_else(|lock| lock.into_inner())
            .get(lease)
            .cloned()
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, HashMap<LeaseId, Arc<Entry>>> {
        self.map.write().unwrap_or_else(|lock| lock.into_inner())
    }
}

/// How often [`Leases::due`] must be asked so that no running call's lease expires.
pub(super) const LOOK: Duration = Duration::from_millis(200);

fn lost_cause(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Clean { .. } => None,
        Outcome::Tainted { cause } => Some(cause.clone()),
        Outcome::Discarded { retired } => Some(match retired {
            innkeeper_pool::RetireCause::Lost(cause) => cause.clone(),
            other => other.to_string(),
        }),
    }
}
