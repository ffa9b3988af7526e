//! Requests and leases: who gets one, how it lasts, how it ends.

#[path = "support/requests.rs"]
mod support;

use innkeeper_pool::{
    Budget, Carry, Config, Depth, Event, How, Lease, LogEvent, Mode, Outcome, Record, Refusal,
    Replace, RetireCause, SlotState, Supplied,
};
use support::{calm, class, creates, give_back, key, lease, request, supply};

#[test]
fn a_deeper_verification_can_be_asked_for() {
    let mut run = calm(Config::default(), 10);
    let class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Any));
    let lease = lease(&mut run, request("r", "t", class));
    run.feed(Event::Returned {
        lease: lease.id.clone(),
        discard: false,
        verify: Depth::Full,
    });
    run.advance(1000);
    assert!(matches!(
        run.outcomes[&lease.id],
        Outcome::Clean {
            verified: Depth::Full,
            ..
        }
    ));
}

#[test]
fn a_cancelled_request_leaves_an_idle_slot_behind() {
    let mut run = calm(Config::default(), 100);
    let class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Any));
    run.feed(Event::LeaseRequested(Box::new(request(
        "gone",
        "t",
        class.clone(),
    ))));
    run.feed(Event::LeaseCancelled(key("gone")));
    run.advance(1000);
    let states: Vec<_> = run.pool.slots().map(|slot| slot.state.clone()).collect();
    assert_eq!(states, [SlotState::Blank], "the create settled");
    let lease = lease(&mut run, request("next", "t", class));
    assert!(lease.warm);
    assert_eq!(lease.supply, Supplied::Warm);
    assert_eq!(creates(&run), 1);
}

#[test]
fn the_same_request_has_the_same_lease_also_after_its_end() {
    let mut run = calm(Config::default(), 10);
    let class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Any));
    let first = lease(&mut run, request("r", "t", class.clone()));
    run.feed(Event::LeaseRequested(Box::new(request(
        "r",
        "t",
        class.clone(),
    ))));
    assert_eq!(run.grants[&key("r")].id, first.id);
    give_back(&mut run, &first);
    run.advance(1000);
    run.feed(Event::LeaseRequested(Box::new(request(
        "r",
        "t",
        class.clone(),
    ))));
    let again = &run.grants[&key("r")];
    assert_eq!(again.id, first.id);
    assert!(again.ended.is_some());
    run.feed(Event::LeaseRequested(Box::new(request(
        "r", "other", class,
    ))));
    assert_eq!(run.refusals.last(), Some(&(key("r"), Refusal::Conflict)));
}

#[test]
fn signs_of_life_move_the_expiry_and_never_the_deadline() {
    let mut run = calm(Config::default(), 10);
    let class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Any));
    let mut ask = request("r", "t", class);
    ask.ttl_ms = 1000;
    ask.max_ms = 2500;
    let lease = lease(&mut run, ask);
    run.advance_to(lease.granted + 900);
    run.feed(Event::Heartbeat(lease.id.clone()));
    run.advance_to(lease.granted + 1800);
    assert!(run.pool.lease(&lease.id).is_some_and(Lease::live));
    run.feed(Event::Renew {
        lease: lease.id.clone(),
        ttl_ms: Some(60_000),
    });
    run.advance_to(lease.deadline - 1);
    assert!(run.pool.lease(&lease.id).is_some_and(Lease::live));
    run.advance(1000);
    let ended = run
        .pool
        .lease(&lease.id)
        .and_then(|lease| lease.ended.clone());
    assert_eq!(
        ended.as_ref().map(|ended| (ended.how, ended.at)),
        Some((How::Expired, lease.deadline))
    );
    assert!(
        matches!(run.outcomes[&lease.id], Outcome::Clean { .. }),
        "an expired lease is reset"
    );
}

#[test]
fn what_exceeds_the_budget_is_refused_at_once() {
    let budget = Budget {
        memory_bytes: Some(1 << 20),
        ..Budget::default()
    };
    let mut run = calm(
        Config {
            budget,
            ..Config::default()
        },
        10,
    );
    let class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Any));
    run.feed(Event::LeaseRequested(Box::new(request("r", "t", class))));
    assert_eq!(
        run.refusals[0].1,
        Refusal::TooLarge {
            what: "memory".to_owned()
        }
    );
}

#[test]
fn a_request_that_waited_long_enough_is_refused() {
    let mut run = calm(
        Config {
            max_starting: 1,
            ..Config::default()
        },
        100_000,
    );
    let class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Any));
    let mut ask = request("r", "t", class);
    ask.wait_until = 5;
    run.feed(Event::LeaseRequested(Box::new(ask)));
    run.advance_to(5);
    assert_eq!(run.refusals[0].1, Refusal::TimedOut { last: None });
}

#[test]
fn a_drained_pool_refuses_empties_and_begins_anew() {
    let mut run = calm(Config::default(), 10);
    let class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Any));
    let held = lease(&mut run, request("r", "t", class.clone()));
    run.feed(Event::Drain("c".into()));
    run.feed(Event::LeaseRequested(Box::new(request(
        "s",
        "t",
        class.clone(),
    ))));
    assert_eq!(run.refusals[0].1, Refusal::Draining);
    assert!(run.pool.lease(&held.id).is_some_and(Lease::live));
    give_back(&mut run, &held);
    run.advance(1000);
    assert!(run.world.slots().is_empty());
    assert!(run.pool.pools().is_empty());
    lease(&mut run, request("u", "t", class));
}

#[test]
fn a_job_of_twice_the_weight_gets_twice_the_turns() {
    let config = Config {
        class_slots: 1,
        jobs: vec![(
            innkeeper_pool::JobKey {
                tenant: "default".into(),
                job: "big".to_owned(),
            },
            innkeeper_pool::JobRule {
                weight: 2,
                cap: None,
            },
        )],
        ..Config::default()
    };
    let mut run = calm(config, 10);
    let class = class("c", supply(Mode::Reuse, Replace::OnLoss, Carry::Any));
    for n in 0..30 {
        for job in ["big", "small"] {
            let mut ask = request(&format!("{job}{n}"), "t", class.clone());
            ask.job = job.to_owned();
            run.feed(Event::LeaseRequested(Box::new(ask)));
        }
    }
    let mut served = Vec::new();
    while served.len() < 30 {
        run.advance(1);
        let live: Vec<Lease> = run
            .pool
            .leases()
            .filter(|lease| lease.live())
            .cloned()
            .collect();
        for lease in live {
            give_back(&mut run, &lease);
            served.push(lease.job);
        }
    }
    assert_eq!(served.iter().filter(|job| *job == "big").count(), 20);
}

#[test]
fn a_class_without_a_verified_reset_is_single_use() {
    let mut run = calm(Config::default(), 10);
    let mut class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Any));
    class.resettable = false;
    let held = lease(&mut run, request("r", "t", class));
    give_back(&mut run, &held);
    run.advance(1000);
    assert!(matches!(
        run.outcomes[&held.id],
        Outcome::Discarded {
            retired: RetireCause::SingleUse(_)
        }
    ));
    assert!(!run.world.slots().contains_key(&held.slot));
}

#[test]
fn a_discarded_sandbox_is_destroyed() {
    let mut run = calm(Config::default(), 10);
    let class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Any));
    let held = lease(&mut run, request("r", "t", class));
    run.feed(Event::Returned {
        lease: held.id.clone(),
        discard: true,
        verify: Depth::Swap,
    });
    run.advance(1000);
    assert_eq!(
        run.outcomes[&held.id],
        Outcome::Discarded {
            retired: RetireCause::Discarded
        }
    );
    assert!(!run.world.slots().contains_key(&held.slot));
    assert_eq!(run.world.slots().len(), 1, "and replaced");
}

#[test]
fn an_unusable_baseline_means_single_use() {
    // The digests of the world are of format 1.
    let mut run = calm(
        Config {
            baseline_format: 2,
            ..Config::default()
        },
        10,
    );
    let class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Any));
    let held = lease(&mut run, request("r", "t", class.clone()));
    assert_eq!(held.baseline, None);
    give_back(&mut run, &held);
    run.advance(1000);
    assert!(!run.world.slots().contains_key(&held.slot));
    let next = lease(&mut run, request("s", "t", class));
    assert_ne!(next.slot, held.slot);
}

#[test]
fn records_and_log_lines_survive_json() {
    let mut run = calm(Config::default(), 10);
    let class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Listed));
    let held = lease(&mut run, request("a", "t", class.clone()));
    give_back(&mut run, &held);
    run.advance(1000);
    let held = lease(&mut run, request("b", "t", class.clone()));
    run.feed(Event::Returned {
        lease: held.id,
        discard: true,
        verify: Depth::Swap,
    });
    lease(&mut run, request("c", "u", class));
    run.feed(Event::Drain("c".into()));
    for record in run.journal.iter().chain(&run.pool.records()) {
        let text = serde_json::to_string(record).expect("a record becomes JSON");
        let again: Record = serde_json::from_str(&text).expect("and a record again");
        assert_eq!(&again, record, "{text}");
    }
    for line in &run.log {
        let text = serde_json::to_string(line).expect("a line becomes JSON");
        assert_eq!(
            &serde_json::from_str::<LogEvent>(&text).expect("and a line again"),
            line
        );
    }
}
