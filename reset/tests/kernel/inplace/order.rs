//! The phases over a ground that behaves: their order, and what each failure ends in.

use std::time::{Duration, Instant};

use innkeeper_reset::baseline::{Baseline, Captured, Cause, Surroundings, Verdict};
use innkeeper_reset::components::{Component, Facts};
use innkeeper_reset::digest::Digest;
use innkeeper_reset::files::{self, Depth};
use innkeeper_reset::inplace::{Deadlines, Ground, Plan, Scan, apply, reset};
use innkeeper_reset::layered::Fault;

use super::{Kept, Place, in_place, soon};
use crate::scratch::{as_root, one_of_everything, open_dir};
use std::fs;
use std::os::fd::AsFd;

/// A real tree and a real restore; the rest of the machine answers as the baseline says.
struct Fake {
    place: Place,
    kept: Kept,
    fail_at: &'static str,
    late_at: &'static str,
    forgetful: bool,
    done: Vec<&'static str>,
}

impl Fake {
    fn step(&mut self, name: &'static str, by: Instant) -> Result<(), Fault> {
        self.done.push(name);
        if self.late_at == name {
            while Instant::now() <= by {
                std::thread::yield_now();
            }
        }
        if self.fail_at == name {
            return Err(Fault(format!("{name} was refused")));
        }
        Ok(())
    }
}

impl Ground for Fake {
    fn fence(&mut self, by: Instant) -> Result<(), Fault> {
        self.step("fence", by)
    }

    fn kill(&mut self, by: Instant) -> Result<(), Fault> {
        self.step("kill", by)
    }

    fn clear(&mut self, by: Instant) -> Result<(), Fault> {
        self.step("clear", by)
    }

    fn scan(&mut self, _depth: Depth, by: Instant) -> Result<Scan, Fault> {
        self.step("scan", by)?;
        let root = open_dir(&self.place.path());
        let scan = files::scan(root.as_fd(), &self.kept.tree, None, &in_place(), 20);
        let (report, tree) = scan.map_err(|e| Fault::of(&e))?;
        Ok(Scan { report, tree })
    }

    fn holds(&self, content: &Digest) -> bool {
        self.kept.stash.holds(content)
    }

    fn apply(&mut self, plan: &Plan, by: Instant) -> Result<(), Fault> {
        self.step("apply", by)?;
        if self.forgetful {
            return Ok(());
        }
        let root = open_dir(&self.place.path());
        apply(root.as_fd(), plan, &self.kept.stash, soon()).map_err(|e| Fault::of(&e))
    }

    fn start_services(&mut self, by: Instant) -> Result<(), Fault> {
        self.step("services", by)
    }

    fn observe(&mut self, by: Instant) -> Result<Surroundings, Fault> {
        self.step("observe", by)?;
        Ok(surroundings())
    }

    fn destroy(&mut self) {
        self.done.push("destroy");
    }
}

fn surroundings() -> Surroundings {
    let facts = Component::ALL
        .into_iter()
        .filter(|c| *c != Component::Files);
    let fact = |component| {
        let mut facts = Facts::new();
        facts.put("seen", "yes");
        (component, facts)
    };
    Surroundings {
        template_key: "template".into(),
        lowers: vec!["image".into()],
        facts: facts.map(fact).collect(),
        ..Surroundings::default()
    }
}

fn fake() -> (Fake, Baseline) {
    let place = Place::tmpfs();
    one_of_everything(&place.path(), false);
    let kept = Kept::all(&place.path());
    let seen = surroundings();
    let baseline = Baseline::new(
        seen.template_key,
        seen.lowers,
        kept.tree.root(),
        seen.facts,
        Captured::default(),
    );
    fs::write(place.path().join("file"), "another").expect("write");
    let fake = Fake {
        place,
        kept,
        fail_at: "",
        late_at: "",
        forgetful: false,
        done: Vec::new(),
    };
    (fake, baseline)
}

fn run(fake: &mut Fake, baseline: &Baseline) -> Verdict {
    let deadlines = Deadlines {
        fence: Duration::from_millis(20),
        ..Deadlines::default()
    };
    let tree = fake.kept.tree.clone();
    reset(fake, baseline, &tree, Depth::Swap, &deadlines)
}

#[test]
fn the_order_is_kept_and_the_depth_is_never_a_swap() {
    if !as_root("the_order_is_kept_and_the_depth_is_never_a_swap") {
        return;
    }
    let (mut fake, baseline) = fake();
    let verdict = run(&mut fake, &baseline);
    let Verdict::Clean(clean) = &verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(clean.depth(), Depth::Full);
    let order = [
        "fence", "kill", "clear", "scan", "apply", "scan", "services", "observe",
    ];
    assert_eq!(fake.done, order);
    assert!(run(&mut fake, &baseline).is_clean(), "twice");
}

#[test]
fn every_failure_taints_and_gives_the_sandbox_up() {
    if !as_root("every_failure_taints_and_gives_the_sandbox_up") {
        return;
    }
    for step in [
        "fence", "kill", "clear", "scan", "apply", "services", "observe",
    ] {
        let (mut fake, baseline) = fake();
        fake.fail_at = step;
        let verdict = run(&mut fake, &baseline);
        let Verdict::Tainted(tainted) = &verdict else {
            panic!("{step}: {verdict:?}");
        };
        let said = format!("{step} was refused");
        assert!(
            tainted.cause.to_string().ends_with(&said),
            "{}",
            tainted.cause
        );
        assert_eq!(fake.done.last(), Some(&"destroy"), "{step}");
        assert_eq!(fake.done[fake.done.len() - 2], step);
    }
}

#[test]
fn a_step_that_is_late_taints() {
    if !as_root("a_step_that_is_late_taints") {
        return;
    }
    let (mut fake, baseline) = fake();
    fake.late_at = "fence";
    let Verdict::Tainted(tainted) = run(&mut fake, &baseline) else {
        panic!("late and clean");
    };
    assert!(
        matches!(tainted.cause, Cause::Late(_)),
        "{:?}",
        tainted.cause
    );
}

#[test]
fn a_restore_that_restores_nothing_is_never_clean() {
    if !as_root("a_restore_that_restores_nothing_is_never_clean") {
        return;
    }
    let (mut fake, baseline) = fake();
    fake.forgetful = true;
    let Verdict::Tainted(tainted) = run(&mut fake, &baseline) else {
        panic!("forgotten and clean");
    };
    assert_eq!(tainted.cause, Cause::Differs(Component::Files));
    assert!(tainted.differences.iter().any(|d| d.path == b"file"));
    assert!(!fake.done.contains(&"services"), "{:?}", fake.done);
}

#[test]
fn what_is_not_undoable_names_its_path() {
    if !as_root("what_is_not_undoable_names_its_path") {
        return;
    }
    let (mut fake, baseline) = fake();
    let apart = tempfile::tempdir().expect("tempdir");
    fake.kept.stash =
        innkeeper_reset::inplace::Stash::new(open_dir(apart.path()).as_fd()).expect("stash");
    let Verdict::Tainted(tainted) = run(&mut fake, &baseline) else {
        panic!("contents from nowhere");
    };
    assert!(
        tainted.cause.to_string().contains("/file is not undoable"),
        "{}",
        tainted.cause
    );
    assert_eq!(fake.done.last(), Some(&"destroy"));
}
