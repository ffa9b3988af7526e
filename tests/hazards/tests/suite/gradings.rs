//! Faults of gradings: a patch, or a rollout before it, that tries to have a say in its verdict.
//!
//! By default the verdict is the harness's own, right or wrong, and what tampers is flagged;
//! `--pristine-runner` takes the tampering out. Each test says which of the two it asserts.

mod course;
mod patches;
mod rollouts;
mod tampering;

use innkeeper_test_hazards::Ground;

/// A test on one way of making sandboxes.
pub(crate) type Test = fn(&Ground);

/// By the recorded fault and what is done.
pub(crate) const TESTS: &[(&str, Test)] = &[
    ("E3-forged-lines", tampering::forged_lines),
    ("E3-forged-lines-at-exit", tampering::forged_at_exit),
    ("E4-hooks-of-the-runner", tampering::hooks),
    ("E4-runner-configured", tampering::configured),
    ("E5-plugin-beside-the-code", tampering::plugin),
    ("E5-runner-replaced", tampering::replaced),
    ("E8-process-that-waits-for-tests", rollouts::waiting_process),
    ("E10-result-planted", rollouts::planted_result),
    ("E11-line-of-python-startup", rollouts::startup_line),
    (
        "E18-same-verdicts-fresh-and-reused",
        rollouts::same_verdicts,
    ),
    ("E12-names-with-spaces", patches::names_with_spaces),
    ("E14-streams-mixed", patches::mixed_streams),
    ("E16-last-newline-lost", patches::lost_newline),
    ("E17-binary-and-line-ends", patches::binary),
];
