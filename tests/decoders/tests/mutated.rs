//! All targets over mutated seeds, with a stable compiler and no instrumentation.

use innkeeper_test_decoders::{Mutator, TARGETS, Target};

/// Cases of each target in a long run, and the part of them that a short run takes.
const LONG: u64 = 200_000;
const PART: u64 = 100;

fn run(name: &str, cost: u64) {
    let target = innkeeper_test_decoders::target(name).expect("a target");
    let soak = std::env::var("INNKEEPER_SOAK").is_ok_and(|value| value == "1");
    let cases = LONG / cost / if soak { 1 } else { PART };
    for seed in (target.seeds)() {
        (target.read)(&seed);
    }
    let mut mutator = Mutator::new(1, (target.seeds)());
    for case in 0..cases {
        let bytes = mutator.bytes();
        guarded(target, case, &bytes);
    }
    println!("{name}: {cases} mutated inputs");
}

/// Names the case that a panic comes from, so that it can be made a test of its own.
fn guarded(target: Target, case: u64, bytes: &[u8]) {
    let read = std::panic::catch_unwind(|| (target.read)(bytes));
    if read.is_err() {
        panic!("{} panicked at case {case} on {bytes:?}", target.name);
    }
}

#[test]
fn tree() {
    run("tree", 1);
}

#[test]
fn protocol() {
    run("protocol", 1);
}

#[test]
fn layer() {
    // Each makes two stores.
    run("layer", 10);
}

#[test]
fn logs() {
    run("logs", 2);
}

#[test]
fn patches() {
    run("patches", 1);
}

#[test]
fn rows() {
    run("rows", 4);
}

#[test]
fn every_target_has_a_program_for_cargo_fuzz() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    for Target { name, .. } in TARGETS {
        assert!(folder.join(format!("{name}.rs")).is_file(), "{name}");
    }
}
