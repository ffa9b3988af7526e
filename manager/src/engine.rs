//! The engine: the one task that owns the pool, and the handle by which everybody else asks it.
//!
//! One turn of the task: an input becomes a pool event; the step's changed records are appended to
//! the journal; its actions are begun, the slow ones as tasks of the engine's own that no caller
//! can cancel; their answers come back as inputs. The task itself never waits for a provider.
//!
//! Commands and files do not pass through the task: [`Handle::route`] reads a table that the task
//! keeps, and the time of a lease's last call is moved on beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use innkeeper_pool::{
    ClassId, Config, Depth, How, Lease, LeaseId, LeaseRequest, Outcome, PoolRow, Refusal,
    RequestKey, SlotRow,
};
use innkeeper_proto::v1;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use crate::events::Events;
use crate::metrics::Metrics;
use crate::provider::Provider;
use crate::records::{Record, Recorder};
use crate::state::StateDir;
use crate::state::journal::Seat;
use crate::state::leaks::Leaks;
use crate::state::templates::Templates;

mod actions;
mod answers;
mod books;
mod clock;
mod recording;
mod restore;
mod stopping;
mod table;
mod task;

pub(crate) use answers::OVERALL;
pub use restore::{Error, start};
use table::Leases;
pub use table::{Call, Ended, Route};
use task::Input;

/// What an engine is made of.
#[derive(Debug)]
pub struct Parts {
    /// The state directory, held for the engine's life.
    pub state: StateDir,
    /// Makes and removes sandboxes.
    pub provider: Arc<dyn Provider>,
    /// Caps and parameters of the pool.
    pub config: Config,
    /// Whether the engine lives inside a command: its leases then end with it.
    pub embedded: bool,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// A lease as it was granted.
#[derive(Debug, Clone)]
pub struct Granted {
    /// The pool's record; `ended` is set where a repeated request's lease is over already.
    pub lease: Lease,
    /// Its sandbox as the provider knows it.
    pub seat: Seat,
}

/// Why there is no lease.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refused {
    /// The pool says no.
    #[error(transparent)]
    Pool(#[from] Refusal),
    /// The journal cannot be written, so nothing new may begin.
    #[error("no lease can be recorded: {0}")]
    Journal(String),
    /// The engine is about to end.
    #[error("the manager is stopping: ask the next one")]
    Stopping,
}

/// How a return went.
#[derive(Debug, Clone)]
pub struct Returned {
    /// The lease as it is now.
    pub lease: Lease,
    /// What the reset said, once there was one.
    pub reset: Option<v1::ResetReply>,
    /// What became of the sandbox; None while the reset runs.
    pub outcome: Option<Outcome>,
    /// The signed record, for those who waited for the outcome.
    pub record: Option<Record>,
}

/// Why a call on a lease is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoLease {
    /// Never known, another tenant's, or forgotten.
    #[error("there is no lease {0}")]
    Unknown(String),
    /// It is over.
    #[error("lease {lease} has ended: {how}")]
    Ended {
        /// The lease.
        lease: String,
        /// How, with its cause.
        how: Ended,
    },
}

/// The word for an end.
pub(crate) fn how_word(how: How) -> &'static str {
    match how {
        How::Returned => "returned",
        How::Expired => "expired",
        How::Lost => "lost",
    }
}

/// A canary's outcome: two gradings of one patch came out alike.
pub(crate) const SAME: &str = "same";

/// A canary's outcome: they did not.
pub(crate) const DIFFERS: &str = "differs";

/// Who asks, as far as it matters after the asking.
#[derive(Debug, Clone, Copy, Default)]
pub struct Caller {
    /// The process at the other end of a local socket.
    pub pid: Option<i32>,
    /// Nobody else knows the request id, so a lease that did not reach its caller is returned.
    pub unnamed: bool,
}

/// Asks the engine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle {
    inputs: mpsc::UnboundedSender<Input>,
    leases: Arc<Leases>,
    templates: Arc<Templates>,
    leaks: Arc<Leaks>,
    provider: Arc<dyn Provider>,
    events: Events,
    recorder: Recorder,
    waiters: Arc<AtomicU64>,
}

/// Tells the engine that a caller stopped waiting, unless the answer arrived.
struct Waiting<'a> {
    handle: &'a Handle,
    request: Option<RequestKey>,
    waiter: u64,
    unnamed: bool,
}

impl Drop for Waiting<'_> {
    /// One message to an unbounded queue: the one thing that a dropped future can still do, and
    /// the engine decides what it means.
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            let (waiter, unnamed) = (self.waiter, self.unnamed);
            self.handle.send(Input::Gone {
                request,
                waiter,
                unnamed,
            });
        }
    }
}

impl Handle {
    fn send(&self, input: Input) {
        // Fails only when the engine is gone; callers then see their answer's channel closed.
        let _ = self.inputs.send(input);
    }

    /// Asks for a lease and waits for the answer.
    ///
    /// Cancel safe in the sense of the pool: a dropped future cancels the request, and a sandbox
    /// being made for it settles all the same.
    pub async fn lease(&self, request: LeaseRequest, caller: Caller) -> Result<Granted, Refused> {
        let waiter = self.waiters.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        let mut waiting = Waiting {
            handle: self,
            request: Some(request.key.clone()),
            waiter,
            unnamed: caller.unnamed,
        };
        self.send(Input::Ask {
            request: Box::new(request),
            caller,
            waiter,
            reply,
        });
        let answer = answer.await;
        waiting.request = None;
        answer.unwrap_or(Err(Refused::Stopping))
    }

    /// Moves a lease's end, with a new ttl where one is given; answers with the lease as it is now.
    pub async fn renew(&self, lease: &str, ttl: Option<Duration>) -> Option<Granted> {
        let (reply, answer) = oneshot::channel();
        let lease = LeaseId(lease.to_owned());
        let ttl_ms = ttl.map(|ttl| ttl.as_millis() as u64);
        self.send(Input::Renew {
            lease,
            ttl_ms,
            reply,
        });
        answer.await.ok().flatten()
    }

    /// Ends a lease. With `wait` the answer comes once it is known what became of the sandbox.
    /// Dropping the future changes nothing: the return goes on. None: no such lease.
    pub async fn give_back(
        &self,
        lease: &str,
        discard: bool,
        verify: Depth,
        wait: bool,
    ) -> Option<Returned> {
        let (reply, answer) = oneshot::channel();
        let lease = LeaseId(lease.to_owned());
        self.send(Input::Return {
            lease,
            discard,
            verify,
            wait,
            reply,
        });
        answer.await.ok().flatten()
    }

    /// Takes what a lease's holder states about the work, for the lease's record. What is stated
    /// first stands; nothing is taken once the lease is over.
    pub fn state(&self, lease: &str, stated: Map<String, Value>) {
        let lease = LeaseId(lease.to_owned());
        self.send(Input::State { lease, stated });
    }

    /// Writes the outcome of a canary into the event log and the metrics: `reused` is the lease
    /// whose grading was compared with one in a fresh sandbox. Nothing where it is forgotten.
    pub fn canary(&self, reused: &str, outcome: &'static str, cause: Option<String>) {
        let lease = LeaseId(reused.to_owned());
        self.send(Input::Canary {
            lease,
            outcome,
            cause,
        });
    }

    /// The signed record of a lease that is over; None where there is none, or none any more.
    pub async fn record(&self, lease: &str) -> Option<Record> {
        let (reply, answer) = oneshot::channel();
        // A caller that has gone needs no answer.
        self.recorder
            .read(lease.to_owned(), |record| drop(reply.send(record)));
        answer.await.ok().flatten()
    }

    /// Where a lease's sandbox is, for a call on it. Counts as a sign of life.
    pub fn route(&self, tenant: &str, lease: &str) -> Result<Route, NoLease> {
        let call = self.leases.call(tenant, lease, self)?;
        Ok(Route { call })
    }

    /// Tells the engine of a sign of life.
    fn heartbeat(&self, lease: LeaseId) {
        self.send(Input::Heartbeat(lease));
    }

    /// All slots of a tenant; None: of all tenants.
    pub async fn slots(&self, tenant: Option<&str>) -> Vec<SlotRow> {
        let (reply, answer) = oneshot::channel();
        self.send(Input::Slots {
            tenant: tenant.map(str::to_owned),
            reply,
        });
        answer.await.unwrap_or_default()
    }

    /// All pools of a tenant; None: of all tenants.
    pub async fn pools(&self, tenant: Option<&str>) -> Vec<PoolRow> {
        let (reply, answer) = oneshot::channel();
        self.send(Input::Pools {
            tenant: tenant.map(str::to_owned),
            reply,
        });
        answer.await.unwrap_or_default()
    }

    /// Begins to empty a tenant's pool; false: there is no such pool.
    pub async fn drain(&self, tenant: &str, class: &str) -> bool {
        let (reply, answer) = oneshot::channel();
        let class = ClassId(class.to_owned());
        self.send(Input::Drain {
            tenant: tenant.to_owned(),
            class,
            reply,
        });
        answer.await.unwrap_or(false)
    }

    /// Refuses new leases, ends those of this process, waits for those of others, and removes all
    /// slots but those of leases that an earlier manager granted. Answers with how many are left.
    pub async fn empty(&self) -> usize {
        let (reply, answer) = oneshot::channel();
        self.send(Input::Empty { reply });
        answer.await.unwrap_or(0)
    }

    /// Ends the task once what is under way has settled, at most within `patience`. Leases stay.
    pub async fn stop(&self, patience: Duration) {
        let (reply, answer) = oneshot::channel();
        self.send(Input::Stop { patience, reply });
        // Closed without an answer means that it has ended already.
        let _ = answer.await;
    }

    /// The event log.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// The known templates.
    pub fn templates(&self) -> &Templates {
        &self.templates
    }

    /// What was seen of answers in templates' images.
    pub fn leaks(&self) -> &Leaks {
        &self.leaks
    }

    /// The provider.
    pub fn provider(&self) -> &Arc<dyn Provider> {
        &self.provider
    }
}

#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod tests;
