//! Standby slots that come to nothing: the pool pauses before the next, and asks nobody who waits to pause with it.

#[path = "support/requests.rs"]
mod support;

use innkeeper_pool::sim::Run;
use innkeeper_pool::{Carry, ClassSpec, Config, Event, Mode, Refusal, Replace, SlotState};
use support::{calm, class, creates, give_back, key, lease, request, supply};

const TWO_MINUTES: u64 = 120_000;

fn spec() -> ClassSpec {
    class("c", supply(Mode::Reuse, Replace::OnLoss, Carry::Any))
}

/// A class that keeps `level` slots ready as template `t`.
fn standing(level: usize) -> Run {
    let mut run = calm(Config::default(), 10);
    let held: Vec<_> = (0..level)
        .map(|n| lease(&mut run, request(&format!("r{n}"), "t", spec())))
        .collect();
    for lease in &held {
        give_back(&mut run, lease);
    }
    run.advance(1000);
    assert_eq!(ready(&run), level);
    run
}

fn ready(run: &Run) -> usize {
    let idle = |state: &SlotState| matches!(state, SlotState::Idle { .. });
    run.pool.slots().filter(|slot| idle(&slot.state)).count()
}

fn lose_all(run: &mut Run) {
    let slots: Vec<_> = run.world.slots().keys().cloned().collect();
    for slot in slots {
        run.world.kill(&slot);
        run.feed(Event::SlotLost {
            slot,
            cause: "node gone".to_owned(),
        });
    }
}

#[test]
fn a_specialise_that_always_fails_is_tried_a_few_times_and_found_out_when_it_heals() {
    for level in [1, 4] {
        let mut run = standing(level);
        let before = creates(&run);
        run.world.broken.insert("t".into());
        lose_all(&mut run);
        run.advance(TWO_MINUTES);
        let tried = creates(&run) - before;
        // The first fill, and one after each pause: 0.5 s, 1 s, 2 s ... 60 s.
        assert!(
            (3..=12).contains(&tried),
            "{tried} creates at level {level}"
        );
        run.world.broken.clear();
        // Nothing but the pool's own wake-up brings it back.
        run.advance(61_000);
        assert_eq!(ready(&run), level);
    }
}

#[test]
fn later_sandboxes_that_always_differ_are_tried_a_few_times() {
    let mut run = standing(1);
    let before = creates(&run);
    run.world.faults.differ = 1000;
    lose_all(&mut run);
    run.advance(TWO_MINUTES);
    let tried = creates(&run) - before;
    assert!((3..=12).contains(&tried), "{tried} creates");
}

#[test]
fn creates_that_always_fail_are_tried_a_few_times_whether_they_could_heal_or_not() {
    let mut run = standing(1);
    let before = creates(&run);
    run.world.faults.fail = 1000;
    lose_all(&mut run);
    run.advance(TWO_MINUTES);
    let tried = creates(&run) - before;
    assert!((1..=12).contains(&tried), "{tried} creates");
    run.world.faults.fail = 0;
    run.advance(61_000);
    assert_eq!(ready(&run), 1);
}

#[test]
fn who_waits_is_served_or_refused_in_spite_of_the_pause() {
    let mut run = standing(1);
    run.world.broken.insert("t".into());
    lose_all(&mut run);
    run.advance(40_000);
    let asked = run.now;
    run.feed(Event::LeaseRequested(Box::new(request("bad", "t", spec()))));
    run.advance(1000);
    assert!(
        matches!(run.refusals.last(), Some((of, Refusal::SpecialiseFailed { .. })) if *of == key("bad")),
        "{:?}",
        run.refusals
    );
    run.feed(Event::LeaseRequested(Box::new(request(
        "good",
        "u",
        spec(),
    ))));
    let granted = run.until_granted(&key("good"), 1000);
    assert!(granted.is_some_and(|lease| lease.granted <= asked + 2000));
}

#[test]
fn the_step_says_to_wake_at_the_end_of_the_pause() {
    let mut run = standing(1);
    run.world.broken.insert("t".into());
    lose_all(&mut run);
    run.advance(40_000);
    let before = creates(&run);
    let mut wakes = 0;
    while creates(&run) == before {
        let wake_at = run.pool.step(run.now, Event::Tick).wake_at;
        let at = wake_at.expect("the pause has an end");
        assert!(at <= run.now + 60_000, "the pause is what ends next");
        run.now = at;
        run.feed(Event::Tick);
        wakes += 1;
        assert!(wakes < 10, "woken for nothing");
    }
}
