//! The reset: failing, crashing, lying and repeating at each step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use innkeeper_reset::baseline::{Cause, Verdict};
use innkeeper_reset::components::Component;
use innkeeper_reset::files::Depth;
use innkeeper_reset::layered::{Deadlines, Plan, Returned, Step, reset};

use crate::ground::{Slot, Trouble, baseline};
use crate::scratch::as_root;

fn run(slot: &mut Slot, depth: Depth) -> Verdict {
    let baseline = baseline(&slot.tree);
    reset(
        slot,
        &Plan {
            baseline: &baseline,
            depth,
            deadlines: Deadlines::default(),
        },
    )
}

fn assert_clean(slot: &Slot, verdict: &Verdict, depth: Depth) {
    let Verdict::Clean(clean) = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(clean.depth(), depth);
    assert_eq!(clean.digest(), baseline(&slot.tree).digest());
    assert_eq!(clean.digests().len(), Component::ALL.len());
    assert!(!slot.destroyed);
    assert!(slot.guests.is_empty() && slot.generation > 1);
    assert_eq!(slot.services, Some(slot.generation));
}

fn cause(verdict: Verdict) -> Cause {
    match verdict {
        Verdict::Clean(clean) => panic!("a false clean: {clean:?}"),
        Verdict::Tainted(tainted) => tainted.cause,
    }
}

#[test]
fn a_healthy_reset_is_clean_at_every_depth() {
    if !as_root("a_healthy_reset_is_clean_at_every_depth") {
        return;
    }
    for depth in [Depth::Swap, Depth::Walk, Depth::Full] {
        let mut slot = Slot::returned(Trouble::None);
        let verdict = run(&mut slot, depth);
        assert_clean(&slot, &verdict, depth);
    }
}

#[test]
fn a_failure_at_any_step_taints_and_destroys() {
    if !as_root("a_failure_at_any_step_taints_and_destroys") {
        return;
    }
    for step in Step::ALL {
        let mut slot = Slot::returned(Trouble::Fails(step));
        let cause = cause(run(&mut slot, Depth::Swap));
        assert_eq!(
            cause,
            Cause::Step(step.name(), "it was told to fail".into())
        );
        assert!(slot.destroyed);
    }
}

#[test]
fn a_crash_at_any_step_is_made_good_by_starting_again() {
    if !as_root("a_crash_at_any_step_is_made_good_by_starting_again") {
        return;
    }
    for step in Step::ALL {
        for trouble in [Trouble::CrashesBefore(step), Trouble::CrashesAfter(step)] {
            let mut slot = Slot::returned(trouble);
            let crashed = catch_unwind(AssertUnwindSafe(|| run(&mut slot, Depth::Swap)));
            assert!(crashed.is_err(), "{trouble:?}");
            slot.trouble = Trouble::None;
            let verdict = run(&mut slot, Depth::Swap);
            assert_clean(&slot, &verdict, Depth::Swap);
        }
    }
}

#[test]
fn every_step_can_be_done_twice() {
    if !as_root("every_step_can_be_done_twice") {
        return;
    }
    let mut slot = Slot::returned(Trouble::Twice);
    let verdict = run(&mut slot, Depth::Full);
    assert_clean(&slot, &verdict, Depth::Full);
}

#[test]
fn a_step_that_only_says_it_worked_is_found_out() {
    if !as_root("a_step_that_only_says_it_worked_is_found_out") {
        return;
    }
    // Fencing shows in nothing that is compared here, and waiting has nothing to do after a kill.
    let lies = Step::ALL
        .into_iter()
        .filter(|step| !matches!(step, Step::Fence | Step::AwaitEmpty));
    for step in lies {
        let mut slot = Slot::returned(Trouble::Lies(step));
        let cause = cause(run(&mut slot, Depth::Walk));
        assert!(slot.destroyed, "{step:?}");
        match step {
            Step::DiscardUpper => assert_eq!(cause, Cause::Differs(Component::Files)),
            Step::DropNamespaces => assert_eq!(cause, Cause::Differs(Component::Kernel)),
            Step::StartServices => assert_eq!(cause, Cause::Differs(Component::Processes)),
            Step::ObserveFiles => {
                assert_eq!(
                    cause,
                    Cause::Depth {
                        wanted: Depth::Walk,
                        done: Depth::Swap
                    }
                );
            }
            Step::Fence | Step::Kill | Step::AwaitEmpty | Step::Build | Step::Observe => {}
        }
    }
}

#[test]
fn late_is_tainted_even_when_it_worked() {
    if !as_root("late_is_tainted_even_when_it_worked") {
        return;
    }
    let zero = Duration::ZERO;
    let usual = Deadlines::default();
    let late = [
        (
            Step::Fence,
            Deadlines {
                short: zero,
                ..usual
            },
        ),
        (
            Step::AwaitEmpty,
            Deadlines {
                empty: zero,
                ..usual
            },
        ),
        (
            Step::Build,
            Deadlines {
                build: zero,
                ..usual
            },
        ),
        (
            Step::ObserveFiles,
            Deadlines {
                files: zero,
                ..usual
            },
        ),
        (
            Step::StartServices,
            Deadlines {
                services: zero,
                ..usual
            },
        ),
        (
            Step::Observe,
            Deadlines {
                observe: zero,
                ..usual
            },
        ),
    ];
    for (step, deadlines) in late {
        let mut slot = Slot::returned(Trouble::None);
        let baseline = baseline(&slot.tree);
        let verdict = reset(
            &mut slot,
            &Plan {
                baseline: &baseline,
                depth: Depth::Swap,
                deadlines,
            },
        );
        assert_eq!(cause(verdict), Cause::Late(step.name()));
        assert!(slot.destroyed);
    }
}

#[test]
fn the_phases_can_be_walked_one_by_one() {
    if !as_root("the_phases_can_be_walked_one_by_one") {
        return;
    }
    let mut slot = Slot::returned(Trouble::None);
    let baseline = baseline(&slot.tree);
    let plan = Plan {
        baseline: &baseline,
        depth: Depth::Swap,
        deadlines: Deadlines::default(),
    };
    let killed = Returned::new(&mut slot, &plan)
        .fence()
        .and_then(|phase| phase.kill());
    let swapped = killed
        .and_then(|phase| phase.await_empty())
        .and_then(|phase| phase.drop_namespaces())
        .and_then(|phase| phase.swap());
    let up = swapped
        .and_then(|phase| phase.verify_files())
        .and_then(|phase| phase.start_services());
    assert!(up.expect("no trouble").verify().is_clean());
}
