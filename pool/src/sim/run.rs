//! Drives a pool in a world: the journal, the answers, the time, and crashes of the manager.

use super::World;
use crate::action::{Action, Step};
use crate::config::Config;
use crate::event::Event;
use crate::ids::{LeaseId, Millis, RequestKey};
use crate::lease::{Lease, Outcome, Refusal};
use crate::log::LogEvent;
use crate::pool::Pool;
use crate::record::Record;
use crate::slot::state::SlotState;
use std::collections::BTreeMap;

/// Where in a step the manager dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPoint {
    /// Nothing of the step was written.
    BeforeJournal,
    /// The step was written, and so many of its actions were performed.
    AfterActions(usize),
}

/// A pool in a world.
#[derive(Debug)]
pub struct Run {
    /// The pool.
    pub pool: Pool,
    /// Its world.
    pub world: World,
    /// The time.
    pub now: Millis,
    /// All that was journaled.
    pub journal: Vec<Record>,
    /// All lines of the event log.
    pub log: Vec<LogEvent>,
    /// The last grant of each request.
    pub grants: BTreeMap<RequestKey, Lease>,
    /// Refused requests.
    pub refusals: Vec<(RequestKey, Refusal)>,
    /// What became of ended leases.
    pub outcomes: BTreeMap<LeaseId, Outcome>,
    /// Dies in the next step.
    pub crash: Option<CrashPoint>,
    /// Times that it died.
    pub crashes: u64,
    config: Config,
    wake_at: Option<Millis>,
}

impl Run {
    /// A new pool in a world.
    pub fn new(config: Config, world: World) -> Self {
        Self {
            pool: Pool::new(config.clone(), 1, 0),
            world,
            now: 0,
            journal: Vec::new(),
            log: Vec::new(),
            grants: BTreeMap::new(),
            refusals: Vec::new(),
            outcomes: BTreeMap::new(),
            crash: None,
            crashes: 0,
            config,
            wake_at: None,
        }
    }

    /// Feeds one event, and does what the pool says.
    pub fn feed(&mut self, event: Event) {
        let step = self.pool.step(self.now, event);
        match self.crash.take() {
            None => self.perform(step, usize::MAX),
            Some(CrashPoint::AfterActions(done)) => {
                self.perform(step, done);
                self.restart();
            }
            Some(CrashPoint::BeforeJournal) => self.restart(),
        }
    }

    fn perform(&mut self, step: Step, most: usize) {
        self.journal.extend(step.changed);
        self.log.extend(step.events);
        self.wake_at = step.wake_at;
        for action in step.actions.iter().take(most) {
            self.world.perform(self.now, action);
            self.watch_first(action);
            match action {
                Action::Grant { request, lease } => {
                    self.grants.insert(request.clone(), (**lease).clone());
                }
                Action::Refuse { request, reason } => {
                    self.refusals.push((request.clone(), reason.clone()));
                }
                Action::Settled { lease, outcome } => {
                    self.outcomes.insert(lease.clone(), outcome.clone());
                }
                Action::Create { .. }
                | Action::Specialise { .. }
                | Action::CheckHealth { .. }
                | Action::LeaseEnded { .. }
                | Action::Reset { .. }
                | Action::Doubt { .. }
                | Action::Delete { .. } => {}
            }
        }
    }

    /// Prepare runs once for each template: never beside another, never again once it is on record.
    fn watch_first(&mut self, action: &Action) {
        let Action::Specialise {
            slot,
            template,
            first: true,
            ..
        } = action
        else {
            return;
        };
        let beside = self.pool.slots().any(|other| match &other.state {
            SlotState::Specialising {
                template: t,
                first: true,
                ..
            } => t == template && other.id != *slot,
            SlotState::Specialising { first: false, .. }
            | SlotState::Creating { .. }
            | SlotState::Blank
            | SlotState::Idle { .. }
            | SlotState::Growing { .. }
            | SlotState::Leased { .. }
            | SlotState::Lost { .. }
            | SlotState::Resetting { .. }
            | SlotState::Retiring { .. }
            | SlotState::Deleted => false,
        });
        if beside || self.pool.template(template).is_some() {
            self.world
                .violations
                .push(format!("{template} is prepared twice, now in {slot}"));
        }
    }

    /// The manager dies, and another one starts from the journal.
    pub fn restart(&mut self) {
        self.crashes += 1;
        let seed = 1 + self.crashes * 1_000_003;
        let journal = self.journal.iter().cloned();
        self.pool = Pool::restore(self.config.clone(), seed, self.now, journal);
        // As a manager would compact it.
        self.journal = self.pool.records();
        self.world
            .manager_died(self.pool.leases().filter(|lease| lease.live()));
        let reported = self.world.reported();
        self.feed(Event::Adopt(reported));
    }

    /// Lets time pass to `until`, with every answer and wake-up in its place.
    pub fn advance_to(&mut self, until: Millis) {
        loop {
            let next = [self.world.next_at(), self.wake_at];
            let next = next.into_iter().flatten().min().filter(|at| *at <= until);
            let Some(at) = next else { break };
            self.now = self.now.max(at);
            let answers = self.world.answers(self.now);
            if answers.is_empty() {
                self.feed(Event::Tick);
            }
            for answer in answers {
                self.feed(answer);
            }
        }
        self.now = self.now.max(until);
    }

    /// Lets so much time pass.
    pub fn advance(&mut self, ms: Millis) {
        self.advance_to(self.now + ms);
    }

    /// Lets time pass until the request has a live lease, or `within` is over.
    pub fn until_granted(&mut self, request: &RequestKey, within: Millis) -> Option<Lease> {
        let end = self.now + within;
        loop {
            if let Some(lease) = self.pool.lease_of(request) {
                return Some(lease.clone());
            }
            if self.now >= end {
                return None;
            }
            self.advance(1);
        }
    }
}
