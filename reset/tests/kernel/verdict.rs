//! The verification: whatever is not proven is tainted.

use std::os::fd::AsFd;

use innkeeper_reset::baseline::{Baseline, Cause, Observation, Verdict, verify};
use innkeeper_reset::components::{Component, Facts};
use innkeeper_reset::digest::Digest;
use innkeeper_reset::files::{self, Depth};
use innkeeper_reset::tree::Tree;

use crate::ground::{baseline, facts, surroundings};
use crate::scratch::{open_dir, options, tree};

/// A directory, its tree, and an observation of it that is equal to the baseline.
fn equal() -> (tempfile::TempDir, Tree, Baseline, Observation) {
    let dir = tempfile::tempdir().expect("tempdir");
    std::fs::write(dir.path().join("f"), "f").expect("write");
    let tree = tree(dir.path());
    let files = files::full(open_dir(dir.path()).as_fd(), &tree, &options(), 10).expect("readable");
    let baseline = baseline(&tree);
    let observation = Observation {
        files: Some(files),
        surroundings: surroundings(),
    };
    (dir, tree, baseline, observation)
}

fn cause(baseline: &Baseline, observation: &Observation) -> Cause {
    match verify(baseline, observation, Depth::Walk) {
        Verdict::Clean(_) => panic!("a false clean of {observation:?}"),
        Verdict::Tainted(tainted) => tainted.cause,
    }
}

#[test]
fn equal_is_clean() {
    let (_dir, _, baseline, observation) = equal();
    for depth in [Depth::Swap, Depth::Walk, Depth::Full] {
        let Verdict::Clean(clean) = verify(&baseline, &observation, depth) else {
            panic!("not clean")
        };
        assert_eq!(
            (clean.depth(), clean.digest()),
            (Depth::Full, baseline.digest())
        );
    }
}

#[test]
fn the_disk_form_of_a_baseline() {
    let (_dir, _, baseline, observation) = equal();
    let stored = baseline.encode().expect("encode");
    let again = Baseline::decode(&stored).expect("decode");
    assert_eq!(again, baseline);
    assert!(verify(&again, &observation, Depth::Full).is_clean());
    for at in 0..stored.len() {
        let mut hurt = stored.clone();
        hurt[at] ^= 0x20;
        assert!(Baseline::decode(&hurt).is_err(), "byte {at}");
    }
    let older = Baseline {
        version: 0,
        ..baseline
    };
    assert!(Baseline::decode(&older.encode().expect("encode")).is_err());
}

#[test]
fn a_baseline_that_proves_nothing() {
    let (_dir, _, good, observation) = equal();
    let mut bad: Vec<Baseline> = vec![
        Baseline {
            version: 0,
            ..good.clone()
        },
        Baseline {
            version: 2,
            ..good.clone()
        },
        Baseline {
            template_key: String::new(),
            ..good.clone()
        },
        Baseline {
            lowers: Vec::new(),
            ..good.clone()
        },
        Baseline {
            lowers: vec![String::new()],
            ..good.clone()
        },
        Baseline {
            components: Default::default(),
            ..good.clone()
        },
        Baseline {
            facts: Default::default(),
            ..good.clone()
        },
    ];
    for component in Component::ALL {
        let mut without = good.clone();
        without.components.remove(&component);
        bad.push(without);
        let mut zero = good.clone();
        zero.components.insert(component, Digest::ZERO);
        bad.push(zero);
        if component != Component::Files {
            let mut without = good.clone();
            without.facts.remove(&component);
            bad.push(without);
            let mut empty = good.clone();
            empty.facts.insert(component, Facts::new());
            empty
                .components
                .insert(component, Facts::new().digest(component));
            bad.push(empty);
        }
    }
    for baseline in bad {
        assert!(
            matches!(cause(&baseline, &observation), Cause::Baseline(_)),
            "{baseline:?}"
        );
    }
}

#[test]
fn both_empty_is_not_equal() {
    let (_dir, _, mut baseline, mut observation) = equal();
    let nothing = Facts::new();
    baseline
        .components
        .insert(Component::Ipc, nothing.digest(Component::Ipc));
    baseline.facts.insert(Component::Ipc, nothing.clone());
    observation
        .surroundings
        .facts
        .insert(Component::Ipc, nothing);
    cause(&baseline, &observation);
}

#[test]
fn what_was_not_observed_taints() {
    let (_dir, _, baseline, good) = equal();
    let files = Observation {
        files: None,
        ..good.clone()
    };
    assert!(matches!(
        cause(&baseline, &files),
        Cause::Unobserved(Component::Files, _)
    ));
    for component in Component::ALL {
        let mut failed = good.clone();
        failed
            .surroundings
            .failed
            .insert(component, "took too long".into());
        assert_eq!(
            cause(&baseline, &failed),
            Cause::Unobserved(component, "took too long".into())
        );
        if component != Component::Files {
            let mut missing = good.clone();
            missing.surroundings.facts.remove(&component);
            assert!(
                matches!(cause(&baseline, &missing), Cause::Unobserved(c, _) if c == component)
            );
        }
    }
    let mut forged = good.clone();
    forged
        .surroundings
        .facts
        .insert(Component::Files, facts("x", 1)[&Component::Ipc].clone());
    cause(&baseline, &forged);
}

#[test]
fn another_template_and_other_layers_taint() {
    let (_dir, _, baseline, good) = equal();
    let mut other = good.clone();
    other.surroundings.template_key = "another".into();
    assert_eq!(cause(&baseline, &other), Cause::Template);
    let mut fewer = good.clone();
    fewer.surroundings.lowers.pop();
    assert_eq!(cause(&baseline, &fewer), Cause::Lowers);
    let mut turned = good;
    turned.surroundings.lowers.reverse();
    assert_eq!(cause(&baseline, &turned), Cause::Lowers);
}

#[test]
fn less_thorough_than_demanded_taints() {
    let (dir, tree, baseline, mut observation) = equal();
    let walk = files::walk(open_dir(dir.path()).as_fd(), &tree, None, &options(), 10);
    observation.files = Some(walk.expect("readable"));
    assert!(verify(&baseline, &observation, Depth::Walk).is_clean());
    let Verdict::Tainted(tainted) = verify(&baseline, &observation, Depth::Full) else {
        panic!("clean")
    };
    assert_eq!(
        tainted.cause,
        Cause::Depth {
            wanted: Depth::Full,
            done: Depth::Walk
        }
    );
}

#[test]
fn a_difference_is_named() {
    let (dir, tree, baseline, mut observation) = equal();
    std::fs::write(dir.path().join("f"), "g").expect("write");
    let files = files::walk(open_dir(dir.path()).as_fd(), &tree, None, &options(), 10);
    observation.files = Some(files.expect("readable"));
    observation.surroundings.facts = facts("changed", 1);
    let Verdict::Tainted(tainted) = verify(&baseline, &observation, Depth::Walk) else {
        panic!("clean")
    };
    assert_eq!(tainted.cause, Cause::Differs(Component::Files));
    let named: Vec<_> = tainted
        .differences
        .iter()
        .map(|d| (d.component, d.path.as_slice()))
        .collect();
    assert!(
        named.contains(&(Component::Files, b"f"))
            && named.contains(&(Component::Kernel, b"kernel/hostname"))
    );
    let sentence = "kernel kernel/hostname: value was sandbox, is changed";
    assert!(tainted.differences.iter().any(|d| d.sentence() == sentence));
}

#[test]
fn a_report_on_another_tree_proves_nothing() {
    let (_dir, _, baseline, mut observation) = equal();
    let (_other_dir, _, _, other) = {
        let (dir, _, baseline, observation) = equal();
        std::fs::write(dir.path().join("g"), "g").expect("write");
        let tree = tree(dir.path());
        let files =
            files::full(open_dir(dir.path()).as_fd(), &tree, &options(), 10).expect("readable");
        (
            dir,
            tree,
            baseline,
            Observation {
                files: Some(files),
                ..observation
            },
        )
    };
    observation.files = other.files;
    assert_eq!(
        cause(&baseline, &observation),
        Cause::Differs(Component::Files)
    );
}
