//! The invariants, on random histories in a world with lag, lost answers, failures, deaths and crashes of the manager
//! at any step.
//!
//! I2 and I9 are held against the truth by the world itself at each grant (`World::violations`); the others are
//! checked here after every event, and at the end when everything has settled.

#[path = "support/history.rs"]
mod history;
#[path = "support/requests.rs"]
mod support;

use history::{Op, classes, config, faults, op};
use innkeeper_pool::sim::{CrashPoint, Faults, Rng, Run, World};
use innkeeper_pool::{
    Carry, ClassSpec, Config, Depth, Event, LeaseId, Pool, Record, RequestKey, SlotState,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use support::request;

/// A run with what must hold of it so far.
struct Checked {
    run: Run,
    config: Config,
    classes: Vec<ClassSpec>,
    asked: Vec<(RequestKey, usize, u8)>,
    first_lease: BTreeMap<RequestKey, LeaseId>,
}

impl Checked {
    fn new(seed: u64, faults: Faults, small: bool) -> Self {
        let config = config(small);
        Self {
            run: Run::new(config.clone(), World::new(seed, faults)),
            config,
            classes: classes(),
            asked: Vec::new(),
            first_lease: BTreeMap::new(),
        }
    }

    fn ask(&mut self, n: usize, wait_ms: u64, ttl_ms: u64) {
        let (key, class, template) = self.asked[n].clone();
        let spec = self.classes[class].clone();
        // A class that carries its own image has one template.
        let template = match spec.supply.carry {
            Carry::Own => format!("of-{}", spec.id),
            Carry::Listed | Carry::Any => format!("t{template}-{}", spec.id),
        };
        let mut ask = request(&key.id, &template, spec);
        ask.job = format!("job-{}", n % 3);
        ask.wait_until = self.run.now + wait_ms;
        ask.ttl_ms = ttl_ms;
        ask.max_ms = 2 * ttl_ms;
        self.run.feed(Event::LeaseRequested(Box::new(ask)));
    }

    fn live(&self) -> Vec<LeaseId> {
        let live = self.run.pool.leases().filter(|lease| lease.live());
        live.map(|lease| lease.id.clone()).collect()
    }

    fn happen(&mut self, op: &Op) {
        match op {
            Op::Ask {
                class,
                template,
                wait_ms,
                ttl_ms,
            } => {
                let key = support::key(&format!("r{}", self.asked.len()));
                self.asked.push((key, *class, *template));
                self.ask(self.asked.len() - 1, *wait_ms, *ttl_ms);
            }
            Op::AskAgain(n) => {
                if let Some(n) = n.checked_rem(self.asked.len()) {
                    self.ask(n, 1000, 1000);
                }
            }
            Op::Cancel(n) => {
                if let Some(n) = n.checked_rem(self.asked.len()) {
                    let key = self.asked[n].0.clone();
                    self.run.feed(Event::LeaseCancelled(key));
                }
            }
            Op::Return { of, discard } => {
                let live = self.live();
                if let Some(n) = of.checked_rem(live.len()) {
                    let lease = live[n].clone();
                    self.run.feed(Event::Returned {
                        lease,
                        discard: *discard,
                        verify: Depth::Swap,
                    });
                }
            }
            Op::Beat(n) => {
                let live = self.live();
                if let Some(n) = n.checked_rem(live.len()) {
                    self.run.feed(Event::Heartbeat(live[n].clone()));
                }
            }
            Op::Kill { slot, said } => {
                let slots: Vec<_> = self.run.world.slots().keys().cloned().collect();
                if let Some(n) = slot.checked_rem(slots.len()) {
                    let slot = slots[n].clone();
                    self.run.world.kill(&slot);
                    if *said {
                        self.run.feed(Event::SlotLost {
                            slot,
                            cause: "killed".to_owned(),
                        });
                    }
                }
            }
            Op::Plant => {
                let slot = format!("stray-{}", self.run.log.len());
                self.run.world.plant(slot.as_str().into());
            }
            Op::Crash(point) => self.run.crash = Some(*point),
            Op::Drain(n) => self.run.feed(Event::Drain(self.classes[*n].id.clone())),
            Op::Pass(ms) => self.run.advance(*ms),
        }
    }

    fn check(&mut self) {
        assert!(
            self.run.world.violations.is_empty(),
            "I2, I9: {:#?}",
            self.run.world.violations
        );
        let pool = &self.run.pool;
        let mut held = BTreeSet::new();
        for lease in pool.leases().filter(|lease| lease.live()) {
            assert!(held.insert(&lease.slot), "I1: two leases in {}", lease.slot);
            let slot = pool
                .slot(&lease.slot)
                .expect("I6: a live lease has its slot");
            assert_eq!(slot.state.lease(), Some(&lease.id), "I1");
            assert!(
                lease.deadline > self.run.now,
                "I5: {} outlived its deadline",
                lease.id
            );
        }
        for slot in pool.slots() {
            if let Some(lease) = slot.state.lease() {
                assert!(
                    held.contains(&slot.id),
                    "I6: {} is held by {lease}, which is over",
                    slot.id
                );
            }
        }
        for row in pool.pools() {
            assert!(row.slots <= self.config.class_slots, "I8: {row:?}");
        }
        assert!(
            pool.slots().count() as u32 <= self.config.budget.slots.unwrap_or(u32::MAX),
            "I8"
        );
        let starting = pool
            .slots()
            .filter(|slot| matches!(slot.state, SlotState::Creating { .. }));
        assert!(starting.count() as u32 <= self.config.max_starting, "I8");
        for (key, lease) in &self.run.grants {
            // Ended leases are remembered for a while only.
            if pool.lease(&lease.id).is_some() {
                let first = self
                    .first_lease
                    .entry(key.clone())
                    .or_insert_with(|| lease.id.clone());
                if pool.lease(first).is_some() {
                    assert_eq!(first, &lease.id, "I4: {key:?} got two leases");
                }
            }
        }
        self.check_journal();
    }

    /// I6: what was journaled is what is.
    fn check_journal(&self) {
        let journal = self.run.journal.iter().cloned();
        let again = Pool::restore(self.config.clone(), 0, 0, journal);
        let now: Vec<Record> = self.run.pool.records().into_iter().map(timeless).collect();
        let then: Vec<Record> = again.records().into_iter().map(timeless).collect();
        assert_eq!(now, then, "I6: the journal gives another pool");
    }

    /// Everything settles: nothing fails any more, and time passes.
    fn settle(&mut self) {
        self.run.crash = None;
        self.run.world.faults = Faults {
            lag_ms: 50,
            ..Faults::default()
        };
        for _ in 0..40 {
            self.run.advance(60_000);
            self.check();
        }
        let pool = &self.run.pool;
        assert!(
            self.live().is_empty(),
            "I5: every lease ends by its deadline"
        );
        for lease in pool.leases() {
            let outcome = lease
                .ended
                .as_ref()
                .and_then(|ended| ended.outcome.as_ref());
            assert!(
                outcome.is_some(),
                "I5: {} was neither reset nor destroyed",
                lease.id
            );
        }
        for (key, _, _) in &self.asked {
            assert!(!pool.is_waiting(key), "{key:?} waits for ever");
        }
        for slot in pool.slots() {
            assert!(
                matches!(slot.state, SlotState::Idle { .. } | SlotState::Blank),
                "I3: {} never settled: {:?}",
                slot.id,
                slot.state
            );
        }
        // Strays are found when a manager starts.
        self.run.restart();
        for class in self.classes.clone() {
            self.run.feed(Event::Drain(class.id));
        }
        self.run.advance(600_000);
        self.check();
        assert_eq!(
            self.run.pool.slots().count(),
            0,
            "I6: all is deleted and confirmed"
        );
        assert_eq!(self.run.pool.unconfirmed_deletes(), 0);
        assert!(
            self.run.world.slots().is_empty(),
            "I6: nothing is left: {:?}",
            self.run.world.slots()
        );
    }
}

/// Without what a restart moves on purpose, and heartbeats do not journal.
fn timeless(record: Record) -> Record {
    match record {
        Record::Slot(mut slot) => {
            slot.since = 0;
            Record::Slot(slot)
        }
        Record::Lease(mut lease) => {
            lease.expires = 0;
            Record::Lease(lease)
        }
        Record::Class(_)
        | Record::ClassGone { .. }
        | Record::SlotGone { .. }
        | Record::LeaseGone { .. }
        | Record::Template(_) => record,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_invariants_hold_in_every_history(
        seed in any::<u64>(),
        faults in faults(),
        small in any::<bool>(),
        ops in prop::collection::vec(op(), 1..100),
    ) {
        let mut checked = Checked::new(seed, faults, small);
        for op in &ops {
            checked.happen(op);
            checked.check();
        }
        checked.settle();
    }
}

/// One rollout after another with a crash at each step in turn, before and after it is written, so that no step of
/// the saga goes without one.
#[test]
fn a_crash_at_any_step_of_a_rollout_loses_and_leaks_nothing() {
    for at in 0..40 {
        for point in [
            CrashPoint::BeforeJournal,
            CrashPoint::AfterActions(0),
            CrashPoint::AfterActions(1),
        ] {
            let mut checked = Checked::new(
                at,
                Faults {
                    lag_ms: 20,
                    ..Faults::default()
                },
                false,
            );
            checked.asked.push((support::key("r"), 0, 0));
            checked.ask(0, 100_000, 100_000);
            let mut returned = false;
            for fed in 0..400 {
                if fed == at {
                    checked.run.crash = Some(point);
                }
                // A client that got no answer asks again.
                if checked.run.pool.lease_of(&support::key("r")).is_none() {
                    checked.ask(0, 100_000, 100_000);
                }
                checked.run.advance(1);
                checked.check();
                let live = checked.live();
                if let (Some(lease), false) = (live.first(), returned) {
                    let lease = lease.clone();
                    checked.run.feed(Event::Returned {
                        lease: lease.clone(),
                        discard: false,
                        verify: Depth::Swap,
                    });
                    returned = checked
                        .run
                        .pool
                        .lease(&lease)
                        .is_some_and(|lease| !lease.live());
                }
            }
            assert!(returned, "crash {point:?} at {at}");
            checked.settle();
            assert!(checked.run.crashes >= 1);
        }
    }
}

#[test]
fn a_long_history_of_a_busy_pool() {
    let mut rng = Rng::new(42);
    let faults = Faults {
        fail: 20,
        lose: 5,
        differ: 5,
        lag_ms: 500,
        twice: true,
    };
    let mut checked = Checked::new(3, faults, false);
    for _ in 0..1500 {
        let op = match rng.below(4) {
            0 => Op::Ask {
                class: rng.below(6) as usize,
                template: rng.below(3) as u8,
                wait_ms: 60_000,
                ttl_ms: 60_000,
            },
            1 => Op::Return {
                of: rng.below(64) as usize,
                discard: false,
            },
            _ => Op::Pass(rng.below(3000)),
        };
        checked.happen(&op);
        checked.check();
    }
    checked.settle();
    assert!(
        checked.first_lease.len() > 100,
        "it was not a busy pool: {}",
        checked.first_lease.len()
    );
}
