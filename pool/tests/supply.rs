//! Supply: how many creates a lease costs, and which slot serves it.

#[path = "support/requests.rs"]
mod support;

use innkeeper_pool::sim::Run;
use innkeeper_pool::{
    Budget, Carry, Config, Depth, Event, Kind, Lease, Mode, Outcome, Policy, Refusal, Replace,
    RetireCause, Supplied,
};
use support::{calm, class, creates, give_back, key, lease, request, supply};

/// So many rollouts of one template, one after the other, each reset before the next.
fn one_by_one(run: &mut Run, mode: Mode, replace: Replace, rollouts: usize) -> Vec<Lease> {
    let class = class("c", supply(mode, replace, Carry::Any));
    let mut leases = Vec::new();
    for n in 0..rollouts {
        let lease = lease(run, request(&format!("r{n}"), "t", class.clone()));
        run.advance(100);
        give_back(run, &lease);
        run.advance(10_000);
        leases.push(lease);
    }
    leases
}

#[test]
fn ten_rollouts_use_one_slot_nine_times_and_the_tenth_a_new_one() {
    let mut run = calm(Config::default(), 10);
    let leases = one_by_one(&mut run, Mode::Reuse, Replace::Ahead, 10);
    let uses: Vec<u32> = leases.iter().map(|lease| lease.uses).collect();
    assert_eq!(uses, [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]);
    assert!(leases[..9].iter().all(|lease| lease.slot == leases[0].slot));
    assert_ne!(leases[9].slot, leases[0].slot);
    assert_eq!(leases[0].supply, Supplied::Fresh);
    assert!(
        leases[1..9]
            .iter()
            .all(|lease| lease.supply == Supplied::Reused && lease.warm)
    );
    assert_eq!(leases[9].supply, Supplied::Warm);
    assert!(
        !leases[9].specialised,
        "the successor stood ready as the template"
    );
    let outcome = &run.outcomes[&leases[8].id];
    assert!(
        matches!(
            outcome,
            Outcome::Clean {
                retired: Some(RetireCause::Worn),
                ..
            }
        ),
        "the ninth return is verified and then worn: {outcome:?}"
    );
    assert!(
        run.world.violations.is_empty(),
        "{:?}",
        run.world.violations
    );
}

#[test]
fn replacing_ahead_costs_a_ninth_of_a_create_and_every_lease_but_the_first_is_warm() {
    let mut run = calm(Config::default(), 4_000);
    let leases = one_by_one(&mut run, Mode::Reuse, Replace::Ahead, 90);
    // Ten slots wear out, and the successor of the last stands ready.
    assert_eq!(creates(&run), 11);
    assert_eq!(leases.iter().filter(|lease| !lease.warm).count(), 1);
}

#[test]
fn replacing_on_loss_creates_once_a_slot_is_worn() {
    let mut run = calm(Config::default(), 10);
    one_by_one(&mut run, Mode::Reuse, Replace::OnLoss, 8);
    assert_eq!(creates(&run), 1);
    one_by_one(&mut run, Mode::Reuse, Replace::OnLoss, 0);
    let class = class("c", supply(Mode::Reuse, Replace::OnLoss, Carry::Any));
    let last = lease(&mut run, request("last", "t", class));
    assert_eq!(last.uses, 8);
    run.advance(1000);
    assert_eq!(
        creates(&run),
        1,
        "its last use has begun, and nothing is lost yet"
    );
    give_back(&mut run, &last);
    run.advance(1000);
    assert_eq!(creates(&run), 2);
}

#[test]
fn replacing_on_lease_creates_at_every_hand_out() {
    for mode in [Mode::Warm, Mode::Reuse] {
        let mut run = calm(Config::default(), 10);
        let leases = one_by_one(&mut run, mode, Replace::OnLease, 10);
        assert_eq!(creates(&run), 11, "{mode:?}");
        let reused = leases.iter().filter(|lease| lease.uses > 0).count();
        assert_eq!(reused > 0, mode == Mode::Reuse);
    }
}

#[test]
fn on_demand_creates_when_asked_and_keeps_nothing() {
    let mut run = calm(Config::default(), 10);
    let leases = one_by_one(&mut run, Mode::OnDemand, Replace::Ahead, 5);
    assert_eq!(creates(&run), 5);
    assert!(leases.iter().all(|lease| lease.supply == Supplied::Fresh));
    assert!(run.world.slots().is_empty());
}

#[test]
fn warm_slots_are_never_used_twice() {
    let mut run = calm(Config::default(), 10);
    let leases = one_by_one(&mut run, Mode::Warm, Replace::Ahead, 5);
    assert!(leases.iter().all(|lease| lease.uses == 0));
    assert!(
        leases[1..]
            .iter()
            .all(|lease| lease.supply == Supplied::Warm)
    );
    assert_eq!(creates(&run), 6);
}

#[test]
fn creates_can_be_counted_from_the_log() {
    let mut run = calm(Config::default(), 10);
    one_by_one(&mut run, Mode::Reuse, Replace::Ahead, 20);
    let count = |kind| run.log.iter().filter(|line| line.kind == kind).count();
    assert_eq!(count(Kind::CreateIntent) as u64, creates(&run));
    assert_eq!(count(Kind::CreateSettled) as u64, creates(&run));
    assert_eq!(count(Kind::Granted), 20);
    assert_eq!(count(Kind::Returned), 20);
    assert_eq!(count(Kind::Verified), 20);
}

#[test]
fn walks_and_full_readings_come_in_their_turn() {
    let mut run = calm(Config::default(), 10);
    let class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Any));
    let mut depths = Vec::new();
    for n in 0..18 {
        let mut ask = request(&format!("r{n}"), "t", class.clone());
        ask.verify.full_every = 10;
        let lease = lease(&mut run, ask);
        give_back(&mut run, &lease);
        run.advance(1000);
        let Outcome::Clean { verified, .. } = &run.outcomes[&lease.id] else {
            panic!("not clean")
        };
        depths.push(*verified);
    }
    use Depth::{Full as F, Swap as S, Walk as W};
    // Walks count per slot (nine uses each), full readings per class.
    assert_eq!(
        depths,
        [S, S, S, W, S, S, S, W, S, F, S, S, S, W, S, S, S, W]
    );
}

#[test]
fn one_slot_serves_many_templates_and_prepare_runs_once_for_each() {
    let mut run = calm(Config::default(), 10);
    let class = class("c", supply(Mode::Reuse, Replace::OnLoss, Carry::Any));
    for n in 0..8 {
        let template = ["a", "b", "c"][n % 3];
        let lease = lease(&mut run, request(&format!("r{n}"), template, class.clone()));
        assert_eq!(lease.uses as usize, n);
        assert!(lease.specialised);
        give_back(&mut run, &lease);
        run.advance(1000);
    }
    assert_eq!(creates(&run), 1);
    assert!(
        run.world.violations.is_empty(),
        "{:?}",
        run.world.violations
    );
}

#[test]
fn others_wait_while_a_template_is_prepared_and_then_follow_its_record() {
    let mut run = calm(Config::default(), 100);
    let class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Any));
    for n in 0..5 {
        run.feed(Event::LeaseRequested(Box::new(request(
            &format!("r{n}"),
            "t",
            class.clone(),
        ))));
    }
    run.advance(1000);
    assert_eq!(run.grants.len(), 5);
    let firsts = run
        .grants
        .values()
        .filter(|lease| lease.generation == 1)
        .count();
    assert_eq!(firsts, 5);
    assert!(run.grants.values().all(|lease| lease.baseline.is_some()));
}

#[test]
fn a_template_that_cannot_be_prepared_refuses_all_who_wait_for_it() {
    let mut run = calm(Config::default(), 100);
    run.world.broken.insert("bad".into());
    let class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Any));
    for n in 0..3 {
        run.feed(Event::LeaseRequested(Box::new(request(
            &format!("r{n}"),
            "bad",
            class.clone(),
        ))));
    }
    run.feed(Event::LeaseRequested(Box::new(request(
        "good", "good", class,
    ))));
    run.advance(2000);
    let refused = run
        .refusals
        .iter()
        .filter(|(_, why)| matches!(why, Refusal::PrepareFailed { .. }));
    assert_eq!(refused.count(), 3);
    assert!(run.grants.contains_key(&key("good")));
}

#[test]
fn an_unused_slot_is_deleted_after_the_idle_timeout() {
    let mut run = calm(Config::default(), 100);
    one_by_one(&mut run, Mode::Reuse, Replace::Ahead, 3);
    assert_eq!(run.world.slots().len(), 1);
    run.advance(250_000);
    assert_eq!(run.world.slots().len(), 1);
    run.advance(500_000);
    assert!(run.world.slots().is_empty());
    assert_eq!(run.pool.slots().count(), 0);
}

#[test]
fn a_listed_slot_serves_what_it_carries_and_makes_room_for_what_it_does_not() {
    let config = Config {
        class_slots: 1,
        ..Config::default()
    };
    let mut run = calm(config, 10);
    let class = class("c", supply(Mode::Reuse, Replace::Ahead, Carry::Listed));
    let a = lease(&mut run, request("a", "a", class.clone()));
    give_back(&mut run, &a);
    run.advance(1000);
    let b = lease(&mut run, request("b", "b", class.clone()));
    assert_ne!(a.slot, b.slot);
    give_back(&mut run, &b);
    run.advance(1000);
    // The second slot was made while both images were known.
    let again = lease(&mut run, request("c", "a", class));
    assert_eq!(again.slot, b.slot);
    assert_eq!(creates(&run), 2);
}

#[test]
fn an_unused_slot_of_one_class_makes_room_for_another() {
    let budget = Budget {
        cpu_milli: Some(1000),
        ..Budget::default()
    };
    let mut run = calm(
        Config {
            budget,
            ..Config::default()
        },
        10,
    );
    let ahead = supply(Mode::Reuse, Replace::Ahead, Carry::Own);
    let a = lease(&mut run, request("a", "a", class("a", ahead.clone())));
    run.feed(Event::LeaseRequested(Box::new(request(
        "b",
        "b",
        class("b", ahead),
    ))));
    run.advance(5000);
    assert!(!run.grants.contains_key(&key("b")), "the budget is spent");
    give_back(&mut run, &a);
    run.advance(5000);
    assert!(run.grants.contains_key(&key("b")));
}

#[test]
fn nothing_stands_ready_ahead_when_the_policy_says_so() {
    let policy = Policy {
        specialise_ahead: false,
        ..Policy::default()
    };
    let mut run = calm(
        Config {
            policy,
            ..Config::default()
        },
        10,
    );
    let leases = one_by_one(&mut run, Mode::Reuse, Replace::Ahead, 10);
    assert!(leases[9].specialised);
}
