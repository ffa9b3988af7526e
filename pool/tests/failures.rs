//! What goes wrong, one thing at a time, and what the pool does about it.

#[path = "support/requests.rs"]
mod support;

use innkeeper_pool::sim::Run;
use innkeeper_pool::{
    Action, Baseline, Carry, Config, Created, Depth, Event, Failure, FailureKind, How, JobKey,
    JobRule, Lease, Mode, Nonce, Outcome, Pool, Ready, Refusal, Replace, Reported, ResetResult,
    RetireCause, SlotId, SlotState, Step,
};
use std::collections::BTreeMap;
use support::{calm, class, give_back, key, lease, request, supply};

fn reuse() -> innkeeper_pool::ClassSpec {
    class("c", supply(Mode::Reuse, Replace::OnLoss, Carry::Any))
}

fn ask(run: &mut Run, id: &str, template: &str) {
    run.feed(Event::LeaseRequested(Box::new(request(
        id,
        template,
        reuse(),
    ))));
}

fn baseline(files: &str) -> Baseline {
    Baseline {
        format: 1,
        components: BTreeMap::from([("files".to_owned(), files.to_owned())]),
    }
}

/// A pool whose answers the test gives by hand.
struct Hand {
    pool: Pool,
    now: u64,
}

impl Hand {
    fn new(config: Config) -> Self {
        Self {
            pool: Pool::new(config, 1, 0),
            now: 0,
        }
    }

    fn feed(&mut self, event: Event) -> Step {
        self.now += 1;
        self.pool.step(self.now, event)
    }

    fn ask(&mut self, id: &str) -> Step {
        self.feed(Event::LeaseRequested(Box::new(request(id, "t", reuse()))))
    }

    /// The nonce of the only create that was asked.
    fn nonce(step: &Step) -> Nonce {
        let nonces = step.actions.iter().filter_map(|action| {
            if let Action::Create { nonce, .. } = action {
                Some(nonce.clone())
            } else {
                None
            }
        });
        let nonces: Vec<Nonce> = nonces.collect();
        assert_eq!(nonces.len(), 1, "{step:?}");
        nonces[0].clone()
    }

    fn settle(&mut self, nonce: &Nonce) -> Step {
        self.feed(Event::CreateSettled {
            nonce: nonce.clone(),
            result: Ok(Created { node: None }),
        })
    }

    fn ready(&mut self, slot: &SlotId, generation: u64) -> Step {
        let result = Ok(Ready {
            observed: Some(baseline("x")),
            single_use: None,
            depth: Depth::Full,
        });
        self.feed(Event::Specialised {
            slot: slot.clone(),
            generation,
            result,
        })
    }

    fn put_back(&mut self, slot: &SlotId, generation: u64, files: &str, depth: Depth) -> Step {
        let result = ResetResult::Observed {
            observed: baseline(files),
            depth,
            ready: true,
        };
        self.feed(Event::ResetDone {
            slot: slot.clone(),
            generation,
            result,
        })
    }

    /// A slot with a lease, made for request `id`.
    fn leased(&mut self, id: &str) -> Lease {
        let step = self.ask(id);
        let nonce = Self::nonce(&step);
        self.settle(&nonce);
        self.ready(&nonce.slot(), 1);
        self.pool.lease_of(&key(id)).cloned().expect("granted")
    }

    fn give_back(&mut self, lease: &Lease) -> Step {
        self.feed(Event::Returned {
            lease: lease.id.clone(),
            discard: false,
            verify: Depth::Swap,
        })
    }

    fn state(&self, slot: &SlotId) -> Option<&SlotState> {
        self.pool.slot(slot).map(|slot| &slot.state)
    }
}

fn deletes(step: &Step, slot: &SlotId) -> bool {
    step.actions
        .iter()
        .any(|action| matches!(action, Action::Delete { slot: s, .. } if s == slot))
}

#[test]
fn a_failed_create_is_deleted_and_counted_until_that_is_confirmed() {
    let mut hand = Hand::new(Config {
        class_slots: 1,
        ..Config::default()
    });
    let step = hand.ask("r");
    let nonce = Hand::nonce(&step);
    let failure = Failure {
        kind: FailureKind::Transient,
        cause: "timeout".to_owned(),
    };
    let step = hand.feed(Event::CreateSettled {
        nonce: nonce.clone(),
        result: Err(failure),
    });
    assert!(deletes(&step, &nonce.slot()));
    hand.now += 100_000;
    let step = hand.feed(Event::Tick);
    assert!(
        !step
            .actions
            .iter()
            .any(|action| matches!(action, Action::Create { .. }))
    );
    let step = hand.feed(Event::Deleted(nonce.slot()));
    Hand::nonce(&step);
}

#[test]
fn a_create_that_cannot_heal_refuses_with_its_reason() {
    let mut hand = Hand::new(Config::default());
    let step = hand.ask("r");
    let failure = Failure {
        kind: FailureKind::Permanent,
        cause: "image not found".to_owned(),
    };
    let nonce = Hand::nonce(&step);
    let step = hand.feed(Event::CreateSettled {
        nonce,
        result: Err(failure),
    });
    let reason = Refusal::CreateFailed {
        cause: "image not found".to_owned(),
    };
    assert!(step.actions.contains(&Action::Refuse {
        request: key("r"),
        reason
    }));
}

#[test]
fn a_create_without_an_answer_is_asked_again_by_the_same_nonce() {
    let mut hand = Hand::new(Config::default());
    let step = hand.ask("r");
    let nonce = Hand::nonce(&step);
    hand.now = step.wake_at.expect("there is something to wake for");
    let step = hand.feed(Event::Tick);
    assert_eq!(Hand::nonce(&step), nonce);
}

#[test]
fn an_unconfirmed_delete_is_asked_again_with_growing_pauses() {
    let mut hand = Hand::new(Config::default());
    let lease = hand.leased("r");
    hand.feed(Event::Returned {
        lease: lease.id,
        discard: true,
        verify: Depth::Swap,
    });
    let mut pauses = Vec::new();
    for _ in 0..4 {
        hand.feed(Event::DeleteFailed {
            slot: lease.slot.clone(),
            cause: "busy".to_owned(),
        });
        let asked = hand.now;
        while !deletes(&hand.feed(Event::Tick), &lease.slot) {
            hand.now += 99;
            assert!(hand.now < asked + 1_000_000, "never asked again");
        }
        pauses.push(hand.now - asked);
    }
    assert!(
        pauses.is_sorted() && pauses[3] >= 4 * pauses[0],
        "{pauses:?}"
    );
    assert_eq!(hand.pool.unconfirmed_deletes(), 1);
    hand.feed(Event::Deleted(lease.slot));
    assert_eq!(hand.pool.unconfirmed_deletes(), 0);
}

#[test]
fn a_late_answer_of_an_earlier_reset_says_nothing_about_the_present_one() {
    let mut hand = Hand::new(Config::default());
    let first = hand.leased("a");
    hand.give_back(&first);
    hand.put_back(&first.slot, 2, "x", Depth::Swap);
    hand.ask("b");
    let step = hand.feed(Event::HealthChecked {
        slot: first.slot.clone(),
        generation: 2,
        result: Ok(()),
    });
    assert!(
        step.actions
            .iter()
            .any(|action| matches!(action, Action::Grant { .. }))
    );
    let second = hand.pool.lease_of(&key("b")).cloned().expect("granted");
    hand.give_back(&second);
    hand.put_back(&first.slot, 2, "x", Depth::Full);
    assert!(matches!(
        hand.state(&first.slot),
        Some(SlotState::Resetting { .. })
    ));
    hand.put_back(&first.slot, 3, "x", Depth::Swap);
    assert!(matches!(
        hand.state(&first.slot),
        Some(SlotState::Idle { .. })
    ));
    // Nor does that of an earlier health check.
    hand.ask("c");
    let slot = first.slot;
    hand.feed(Event::HealthChecked {
        slot: slot.clone(),
        generation: 2,
        result: Ok(()),
    });
    assert!(hand.pool.lease_of(&key("c")).is_none());
    hand.feed(Event::HealthChecked {
        slot,
        generation: 3,
        result: Ok(()),
    });
    assert!(hand.pool.lease_of(&key("c")).is_some());
}

#[test]
fn anything_but_the_recorded_digests_at_the_asked_depth_taints() {
    for (files, depth) in [("y", Depth::Full), ("", Depth::Full), ("x", Depth::Walk)] {
        let mut hand = Hand::new(Config::default());
        let lease = hand.leased("r");
        hand.feed(Event::Returned {
            lease: lease.id.clone(),
            discard: false,
            verify: Depth::Full,
        });
        let step = hand.put_back(&lease.slot, 2, files, depth);
        assert!(deletes(&step, &lease.slot), "{files} {depth:?}");
        let outcome = hand
            .pool
            .lease(&lease.id)
            .and_then(|lease| lease.ended.clone());
        let outcome = outcome.and_then(|ended| ended.outcome);
        assert!(
            matches!(outcome, Some(Outcome::Tainted { .. })),
            "{outcome:?}"
        );
    }
}

#[test]
fn a_walk_that_differs_casts_doubt_on_all_since_the_last_good_one() {
    let mut hand = Hand::new(Config::default());
    let first = hand.leased("a");
    hand.give_back(&first);
    hand.put_back(&first.slot, 2, "x", Depth::Swap);
    hand.ask("b");
    hand.feed(Event::HealthChecked {
        slot: first.slot.clone(),
        generation: 2,
        result: Ok(()),
    });
    let second = hand.pool.lease_of(&key("b")).cloned().expect("granted");
    hand.feed(Event::Returned {
        lease: second.id.clone(),
        discard: false,
        verify: Depth::Walk,
    });
    let step = hand.put_back(&first.slot, 3, "y", Depth::Walk);
    let doubted = step.actions.iter().find_map(|action| {
        if let Action::Doubt { leases, .. } = action {
            Some(leases.clone())
        } else {
            None
        }
    });
    assert_eq!(doubted, Some(vec![first.id, second.id]));
}

#[test]
fn a_later_sandbox_with_other_digests_is_retired_and_the_request_served_elsewhere() {
    let mut hand = Hand::new(Config::default());
    hand.leased("a");
    let nonce = Hand::nonce(&hand.ask("b"));
    let step = hand.settle(&nonce);
    assert!(step.actions.iter().any(|action| {
        matches!(
            action,
            Action::Specialise {
                first: false,
                baseline: Some(_),
                ..
            }
        )
    }));
    let result = Ok(Ready {
        observed: Some(baseline("y")),
        single_use: None,
        depth: Depth::Full,
    });
    let step = hand.feed(Event::Specialised {
        slot: nonce.slot(),
        generation: 1,
        result,
    });
    assert!(deletes(&step, &nonce.slot()));
    assert!(matches!(
        hand.state(&nonce.slot()),
        Some(SlotState::Retiring {
            cause: RetireCause::BaselineDiffers(_)
        })
    ));
    let next = Hand::nonce(&step);
    hand.settle(&next);
    hand.ready(&next.slot(), 1);
    assert!(hand.pool.lease_of(&key("b")).is_some());
}

#[test]
fn a_template_whose_later_sandboxes_never_match_refuses_after_some_tries() {
    let mut run = calm(Config::default(), 10);
    let held = lease(&mut run, request("a", "t", reuse()));
    run.world.faults.differ = 1000;
    ask(&mut run, "b", "t");
    run.advance(60_000);
    assert!(
        matches!(run.refusals.last(), Some((key, Refusal::SpecialiseFailed { .. })) if key.id == "b"),
        "{:?}",
        run.refusals
    );
    assert!(run.pool.lease(&held.id).is_some_and(Lease::live));
}

#[test]
fn a_slot_that_fails_its_health_check_is_replaced_under_the_request() {
    let mut run = calm(Config::default(), 10);
    let first = lease(&mut run, request("a", "t", reuse()));
    give_back(&mut run, &first);
    run.advance(1000);
    run.world.kill(&first.slot);
    let second = lease(&mut run, request("b", "t", reuse()));
    assert_ne!(second.slot, first.slot);
    assert!(!second.warm);
    assert!(
        run.world.violations.is_empty(),
        "{:?}",
        run.world.violations
    );
}

#[test]
fn a_reset_or_a_check_that_hangs_has_failed() {
    let mut hand = Hand::new(Config::default());
    let lease = hand.leased("a");
    hand.give_back(&lease);
    hand.now += 300_000;
    let step = hand.feed(Event::Tick);
    assert!(deletes(&step, &lease.slot));

    let mut hand = Hand::new(Config::default());
    let lease = hand.leased("a");
    hand.give_back(&lease);
    hand.put_back(&lease.slot, 2, "x", Depth::Swap);
    let step = hand.ask("b");
    assert!(
        step.actions
            .iter()
            .any(|action| matches!(action, Action::CheckHealth { .. }))
    );
    hand.now += 10_000;
    let step = hand.feed(Event::Tick);
    assert!(deletes(&step, &lease.slot));
    Hand::nonce(&step);
}

#[test]
fn a_slot_lost_under_its_lease_ends_the_lease() {
    let mut run = calm(Config::default(), 10);
    let held = lease(&mut run, request("a", "t", reuse()));
    run.world.kill(&held.slot);
    run.feed(Event::SlotLost {
        slot: held.slot.clone(),
        cause: "node gone".to_owned(),
    });
    let ended = run
        .pool
        .lease(&held.id)
        .and_then(|lease| lease.ended.clone());
    assert_eq!(ended.map(|ended| ended.how), Some(How::Lost));
    run.advance(1000);
    assert!(run.pool.slot(&held.slot).is_none());
}

#[test]
fn a_restart_keeps_leases_deletes_strangers_and_gives_up_what_changed() {
    let mut run = calm(Config::default(), 10);
    let kept = lease(&mut run, request("a", "t", reuse()));
    let gone = lease(&mut run, request("b", "t", reuse()));
    let changed = lease(&mut run, request("c", "t", reuse()));
    run.world.kill(&gone.slot);
    run.world.plant("stranger".into());
    run.advance(1_000_000);
    let records = run.pool.records();
    let mut pool = Pool::restore(Config::default(), 99, run.now, records);
    let reported = run
        .world
        .reported()
        .into_iter()
        .map(|found| match found.slot == changed.slot {
            true => Reported {
                generation: found.generation + 1,
                ..found
            },
            false => found,
        });
    let step = pool.step(run.now, Event::Adopt(reported.collect()));
    assert!(deletes(&step, &"stranger".into()));
    assert!(deletes(&step, &gone.slot));
    assert!(deletes(&step, &changed.slot));
    let how = |lease: &Lease| {
        pool.lease(&lease.id)
            .and_then(|lease| lease.ended.as_ref())
            .map(|ended| ended.how)
    };
    assert_eq!(
        (how(&kept), how(&gone), how(&changed)),
        (None, Some(How::Lost), Some(How::Lost))
    );
    let again = pool.lease(&kept.id).expect("kept");
    assert_eq!(
        again.expires,
        run.now + kept.ttl_ms,
        "nobody could show a sign of life meanwhile"
    );
    assert_eq!(again.deadline, kept.deadline);
}

#[test]
fn nothing_is_handed_out_before_it_is_known_what_exists() {
    let mut run = calm(Config::default(), 10);
    let held = lease(&mut run, request("a", "t", reuse()));
    give_back(&mut run, &held);
    run.advance(1000);
    let mut pool = Pool::restore(Config::default(), 99, run.now, run.pool.records());
    let asked = request("b", "t", reuse());
    let step = pool.step(run.now, Event::LeaseRequested(Box::new(asked)));
    assert_eq!(step.actions, []);
    let step = pool.step(run.now, Event::Adopt(run.world.reported()));
    let slot = held.slot;
    assert_eq!(
        step.actions,
        [Action::CheckHealth {
            slot,
            generation: 2
        }]
    );
}

#[test]
fn another_tenant_gets_nothing_of_it() {
    let mut run = calm(Config::default(), 10);
    lease(&mut run, request("a", "t", reuse()));
    let mut other = request("a", "t", reuse());
    other.key.tenant = "other".into();
    run.feed(Event::LeaseRequested(Box::new(other.clone())));
    assert_eq!(run.refusals, [(other.key, Refusal::Conflict)]);
}

#[test]
fn a_job_holds_no_more_than_its_cap() {
    let job = JobKey {
        tenant: "default".into(),
        job: "j".to_owned(),
    };
    let jobs = vec![(
        job,
        JobRule {
            weight: 1,
            cap: Some(2),
        },
    )];
    let mut run = calm(
        Config {
            jobs,
            ..Config::default()
        },
        10,
    );
    for n in 0..5 {
        let mut asked = request(&format!("r{n}"), "t", reuse());
        asked.job = "j".to_owned();
        run.feed(Event::LeaseRequested(Box::new(asked)));
    }
    run.advance(5000);
    assert_eq!(run.grants.len(), 2);
    assert_eq!(
        support::creates(&run),
        2,
        "what may not be granted is no demand"
    );
    let first = run.grants[&key("r0")].clone();
    give_back(&mut run, &first);
    run.advance(5000);
    assert_eq!(run.grants.len(), 3);
}

#[test]
fn a_slot_lost_while_it_is_prepared_makes_another_the_first() {
    let mut hand = Hand::new(Config::default());
    let nonce = Hand::nonce(&hand.ask("r"));
    hand.settle(&nonce);
    let step = hand.feed(Event::SlotLost {
        slot: nonce.slot(),
        cause: "gone".to_owned(),
    });
    let next = Hand::nonce(&step);
    let step = hand.settle(&next);
    assert!(
        step.actions
            .iter()
            .any(|action| matches!(action, Action::Specialise { first: true, .. }))
    );
}

#[test]
fn a_prepare_whose_caller_has_gone_holds_up_nobody() {
    let mut hand = Hand::new(Config::default());
    let step = hand.ask("a");
    let nonce = Hand::nonce(&step);
    hand.settle(&nonce);
    assert!(
        matches!(
            hand.state(&nonce.slot()),
            Some(SlotState::Specialising { first: true, .. })
        ),
        "its template was never ready before"
    );
    hand.feed(Event::LeaseCancelled(key("a")));
    let other = request("b", "other", reuse());
    let step = hand.feed(Event::LeaseRequested(Box::new(other)));
    let second = Hand::nonce(&step);
    assert_ne!(second.slot(), nonce.slot());
}
