//! The pure pool core: events and a time in, actions out.
//!
//! [`Pool`] holds all classes, slots, leases and templates of one manager. It reads no clock, does no I/O, holds no
//! lock and draws no random numbers. Whoever drives it (the manager, a simulator, a test) does, for one event at a time:
//!
//! 1. `let step = pool.step(now, event)`;
//! 2. write `step.changed` durably, all of it or nothing;
//! 3. perform `step.actions` in order (the slow ones, [`Action::Create`] and its like, in tasks of the driver's own
//!    that no caller can cancel) and write `step.events` to the event log;
//! 4. feed each answer back as an [`Event`], and [`Event::Tick`] at `step.wake_at`.
//!
//! `now` is in milliseconds since any epoch, the same one over restarts; a time that runs backwards stands still.
//!
//! **Answers.** Each slow action names a nonce, or a slot and a generation; an answer that names another than the
//! present one is ignored, so answers may come late and twice. A slow action may be asked twice; the driver makes the
//! two one. A create's answer must come at last: `Ok` when the slot is there, `Err` when the driver gives it up, after
//! which the pool asks for its delete and counts it until that is confirmed.
//!
//! **Requests.** Each [`Event::LeaseRequested`] is answered by one [`Action::Grant`] or [`Action::Refuse`] that names
//! its [`RequestKey`]; a `Refuse` with [`Refusal::Conflict`] in the step of the event answers only that event's
//! caller. Waiting requests are not durable, since their callers' connections are not: a client that asks again with
//! its request id gets the lease that it was granted, or waits again.
//!
//! **Restart.** [`Pool::restore`] takes the journaled records, and [`Event::Adopt`] what exists. Unknown slots are
//! deleted, known ones kept when their generation is the recorded one, unfinished work is asked again. Nothing is
//! handed out or created before `Adopt`. Each live lease gets a full ttl again, within its deadline.
//!
//! **What holds**, tested on random histories with crashes in `tests/invariants.rs`: a slot has at most one lease;
//! nothing is granted unverified after a rollout, over its reuse limit or as another template; every create settles; a
//! repeated request makes no second sandbox; a lease that ends is reset or destroyed; a restart loses no lease and
//! leaks no slot; any failure of a reset destroys; caps count what is in flight; records say what happened.
//!
//! Module map: `event` and `action` are the interface, `record` the durable form, `slot::state` the transition
//! function; `pool::*` has one file per step of a slot's life, `pool::scheduling` and `pool::supplying` the policy.
#![forbid(unsafe_code)]

mod action;
mod bucket;
mod class;
mod config;
mod demand;
mod event;
mod ids;
mod lease;
mod log;
mod pool;
mod queue;
mod record;
#[cfg(feature = "sim")]
pub mod sim;
mod slot;
mod template;

pub use action::{Action, Step};
pub use class::{
    Carries, Carry, Class, ClassSpec, MAX_LISTED, MAX_REUSES, Mode, Replace, Resources, Supply,
};
pub use config::{Budget, Config, JobRule, Limits, Policy};
pub use event::{Created, Event, Ready, Reported, ResetResult};
pub use ids::{
    ClassId, ImageId, JobKey, LeaseId, Millis, Nonce, RequestKey, SlotId, TemplateKey, Tenant,
};
pub use lease::{
    Ended, Failure, FailureKind, How, Lease, LeaseRequest, Outcome, Refusal, Supplied,
};
pub use log::{Kind, LogEvent};
pub use pool::Pool;
pub use pool::views::{PoolRow, SlotRow};
pub use record::Record;
pub use slot::Slot;
pub use slot::state::{IllegalMove, Move, RetireCause, SlotState};
pub use template::{Baseline, Depth, Template, VerifyEvery};
