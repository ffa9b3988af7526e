//! The task: takes inputs, steps the pool, journals, and begins actions.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use innkeeper_pool::{
    ClassId, Depth, Event, LeaseId, LeaseRequest, LogEvent, Pool, PoolRow, RequestKey, SlotId,
    SlotRow, Step,
};
use innkeeper_proto::v1;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::clock::Clock;
use super::table::{LOOK, Leases};
use super::{Caller, Granted, Refused, Returned};
use crate::events::EventLog;
use crate::metrics::Metrics;
use crate::provider::{self, Provider, Standing};
use crate::records::Recorder;
use crate::state::StateDir;
use crate::state::journal::{Journal, Seat};
use crate::state::leaks::Leaks as SeenLeaks;
use crate::state::templates::Templates;

/// What the task is told.
pub(super) enum Input {
    Ask {
        request: Box<LeaseRequest>,
        caller: Caller,
        waiter: u64,
        reply: oneshot::Sender<Result<Granted, Refused>>,
    },
    Gone {
        request: RequestKey,
        waiter: u64,
        unnamed: bool,
    },
    Renew {
        lease: LeaseId,
        ttl_ms: Option<u64>,
        reply: oneshot::Sender<Option<Granted>>,
    },
    Return {
        lease: LeaseId,
        discard: bool,
        verify: Depth,
        wait: bool,
        reply: oneshot::Sender<Option<Returned>>,
    },
    Canary {
        lease: LeaseId,
        outcome: &'static str,
        cause: Option<String>,
    },
    State {
        lease: LeaseId,
        stated: Map<String, Value>,
    },
    Heartbeat(LeaseId),
    Slots {
        tenant: Option<String>,
        reply: oneshot::Sender<Vec<SlotRow>>,
    },
    Pools {
        tenant: Option<String>,
        reply: oneshot::Sender<Vec<PoolRow>>,
    },
    Drain {
        tenant: String,
        class: ClassId,
        reply: oneshot::Sender<bool>,
    },
    Empty {
        reply: oneshot::Sender<usize>,
    },
    Stop {
        patience: Duration,
        reply: oneshot::Sender<()>,
    },
    Done(Done),
}

/// The answer of a slow action.
pub(super) enum Done {
    Created {
        nonce: innkeeper_pool::Nonce,
        result: Result<String, provider::Error>,
    },
    Specialised {
        slot: SlotId,
        generation: u64,
        result: Result<v1::SpecialiseReply, provider::Error>,
    },
    Checked {
        slot: SlotId,
        generation: u64,
        result: Result<(), String>,
    },
    Reset {
        slot: SlotId,
        generation: u64,
        lease: LeaseId,
        result: Result<v1::ResetReply, provider::Error>,
    },
    Deleted {
        slot: SlotId,
        result: Result<(), provider::Error>,
    },
}

/// A piece of work that is under way; asked again meanwhile, it is not begun a second time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Work {
    Create(SlotId),
    Specialise(SlotId, u64),
    Check(SlotId, u64),
    Reset(SlotId, u64),
    Delete(SlotId),
}

/// A caller that waits for a lease.
pub(super) struct Waiter {
    pub(super) number: u64,
    pub(super) caller: Caller,
    pub(super) since: Instant,
    pub(super) reply: oneshot::Sender<Result<Granted, Refused>>,
}

pub(super) struct Task {
    /// Held for its lock.
    pub(super) _state: StateDir,
    pub(super) clock: Clock,
    pub(super) pool: Pool,
    pub(super) journal: Journal,
    pub(super) log: EventLog,
    pub(super) metrics: Arc<Metrics>,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) standing: watch::Receiver<Standing>,
    pub(super) templates: Arc<Templates>,
    pub(super) seen_leaks: Arc<SeenLeaks>,
    pub(super) leases: Arc<Leases>,
    pub(super) inputs: mpsc::UnboundedReceiver<Input>,
    /// For the tasks of slow actions; weak, so that the engine ends with its last handle.
    pub(super) answers: mpsc::WeakUnboundedSender<Input>,
    pub(super) seats: HashMap<SlotId, Seat>,
    /// Whose slots these are.
    pub(super) owners: HashMap<SlotId, String>,
    pub(super) changed_seats: BTreeSet<SlotId>,
    pub(super) under_way: HashSet<Work>,
    pub(super) waiting: HashMap<RequestKey, Vec<Waiter>>,
    pub(super) returning: HashMap<LeaseId, Vec<oneshot::Sender<Option<Returned>>>>,
    /// What resets said, for as long as their leases are remembered.
    pub(super) resets: HashMap<LeaseId, v1::ResetReply>,
    /// What holders stated about their work, until the records are made.
    pub(super) stated: HashMap<LeaseId, Map<String, Value>>,
    pub(super) recorder: Recorder,
    /// Leases granted in this life, by the process that holds them where it is known.
    pub(super) holders: HashMap<LeaseId, Option<i32>>,
    /// Lives inside a command.
    pub(super) embedded: bool,
    /// What the daemon was told of the latest end of a lease.
    pub(super) held_until: u64,
    /// Takes no more requests.
    pub(super) closed: bool,
    pub(super) emptying: Vec<oneshot::Sender<usize>>,
    pub(super) stopping: Option<(Instant, oneshot::Sender<()>)>,
    pub(super) wake: Option<Instant>,
}

impl Task {
    /// Runs until it is stopped or its last handle is dropped.
    pub(super) async fn run(mut self) {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let wake = self.wake;
            let stop_at = self.stopping.as_ref().map(|(at, _)| *at);
            tokio::select! {
                input = self.inputs.recv() => match input {
                    Some(input) => self.take(input),
                    None => return,
                },
                changed = self.standing.changed() => match changed {
                    Ok(()) => self.standing_changed(),
                    Err(_) => return,
                },
                () = until(wake) => self.feed(Event::Tick),
                _ = look.tick() => self.look(),
                () = until(stop_at) => {}
            }
            if self.may_stop() {
                return;
            }
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Ask {
                request,
                caller,
                waiter,
                reply,
            } => {
                self.ask(
                    *request,
                    Waiter {
                        number: waiter,
                        caller,
                        since: Instant::now(),
                        reply,
                    },
                );
            }
            Input::Gone {
                request,
                waiter,
                unnamed,
            } => self.gone(&request, waiter, unnamed),
            Input::Renew {
                lease,
                ttl_ms,
                reply,
            } => {
                self.feed(Event::Renew {
                    lease: lease.clone(),
                    ttl_ms,
                });
                if let Some(ttl_ms) = ttl_ms {
                    self.leases.set_ttl(&lease, ttl_ms);
                }
                // A caller that has gone needs no answer; so with every reply below.
                let _ = reply.send(self.pool.lease(&lease).cloned().map(|l| self.granted(l)));
            }
            Input::Return {
                lease,
                discard,
                verify,
                wait,
                reply,
            } => {
                self.give_back(lease, discard, verify, wait, reply);
            }
            Input::Canary {
                lease,
                outcome,
                cause,
            } => self.canary(&lease, outcome, cause),
            Input::State { lease, stated } => self.state(lease, stated),
            Input::Heartbeat(lease) => self.feed(Event::Heartbeat(lease)),
            Input::Slots { tenant, reply } => {
                let _ = reply.send(self.slot_rows(tenant.as_deref()));
            }
            Input::Pools { tenant, reply } => {
                let _ = reply.send(self.pool_rows(tenant.as_deref()));
            }
            Input::Drain {
                tenant,
                class,
                reply,
            } => {
                let own = self.pool.class(&class).is_some() && self.is_of(&class, Some(&tenant));
                if own {
                    self.feed(Event::Drain(class));
                }
                let _ = reply.send(own);
            }
            Input::Empty { reply } => self.empty(reply),
            Input::Stop { patience, reply } => {
                self.stopping = Some((Instant::now() + patience, reply));
            }
            Input::Done(done) => self.done(done),
        }
    }

    /// One turn: step, journal, act, log.
    pub(super) fn feed(&mut self, event: Event) {
        let now = self.clock.now();
        let Step {
            changed,
            actions,
            events,
            wake_at,
        } = self.pool.step(now, event);
        self.own(&changed);
        let gone = self.forget_gone(&changed);
        let seats = self.seat_records();
        if let Err(error) = self.journal.step(changed, seats) {
            // What may begin all the same, and what may not, is decided per action.
            tracing::error!(%error, "the journal cannot be written: no new leases meanwhile");
        }
        for action in actions {
            self.act(action);
        }
        for event in &events {
            self.write_event(event);
        }
        for slot in gone {
            self.owners.remove(&slot);
        }
        self.wake = wake_at.map(|at| Instant::now() + self.clock.until(at));
        if self.journal.is_long() {
            let seats = self.all_seats();
            if let Err(error) = self.journal.shorten(self.pool.records(), seats) {
                tracing::error!(%error, "the journal cannot be shortened");
            }
        }
    }

    pub(super) fn write_event(&mut self, event: &LogEvent) {
        self.metrics.count(event);
        self.log_event(event);
    }

    /// Writes an event that counts nothing.
    pub(super) fn log_event(&mut self, event: &LogEvent) {
        let tenant = self.tenant_of(event);
        if let Err(error) = self.log.write(event, tenant.as_deref()) {
            tracing::error!(%error, "the event log cannot be written; its lines wait in memory");
        }
    }

    /// Signs of life of long calls, and of those who hold leases while this manager empties itself.
    fn look(&mut self) {
        for lease in self.leases.due() {
            self.feed(Event::Heartbeat(lease));
        }
        self.look_at_holders();
        self.hold_daemons();
    }

    /// Tells the daemons until when leases may need it without a manager. Those of a manager inside
    /// a command end with it.
    fn hold_daemons(&mut self) {
        let live = self.pool.leases().filter(|lease| lease.live());
        let until = live.map(|lease| lease.deadline).max().unwrap_or(0);
        if until != self.held_until && !self.embedded {
            self.held_until = until;
            self.provider.hold(until);
        }
    }

    /// A daemon ended or was started: no sandbox of one that no longer runs is left.
    pub(super) fn standing_changed(&mut self) {
        let standing = self.standing.borrow_and_update();
        let slots: Vec<SlotId> = self
            .seats
            .iter()
            .filter(|(_, seat)| !standing.boots.contains(&seat.boot_id))
            .map(|(slot, _)| slot.clone())
            .collect();
        drop(standing);
        for slot in slots {
            self.feed(Event::SlotLost {
                slot,
                cause: "execd ended".to_owned(),
            });
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
