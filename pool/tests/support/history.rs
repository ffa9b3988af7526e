//! What random histories are made of.

use crate::support::{class, supply};
use innkeeper_pool::sim::{CrashPoint, Faults};
use innkeeper_pool::{Budget, Carry, ClassSpec, Config, Limits, Mode, Replace};
use proptest::prelude::*;

/// What happens in a history.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Ask {
        class: usize,
        template: u8,
        wait_ms: u64,
        ttl_ms: u64,
    },
    AskAgain(usize),
    Cancel(usize),
    Return {
        of: usize,
        discard: bool,
    },
    Beat(usize),
    Kill {
        slot: usize,
        said: bool,
    },
    Plant,
    Crash(CrashPoint),
    Drain(usize),
    Pass(u64),
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let any_index = 0..64usize;
    prop_oneof![
        8 => (0..6usize, 0..3u8, 1..60_000u64, 1..120_000u64)
            .prop_map(|(class, template, wait_ms, ttl_ms)| Op::Ask { class, template, wait_ms, ttl_ms }),
        2 => any_index.clone().prop_map(Op::AskAgain),
        2 => any_index.clone().prop_map(Op::Cancel),
        8 => (any_index.clone(), prop::bool::weighted(0.1))
            .prop_map(|(of, discard)| Op::Return { of, discard }),
        1 => any_index.clone().prop_map(Op::Beat),
        1 => (any_index.clone(), any::<bool>()).prop_map(|(slot, said)| Op::Kill { slot, said }),
        1 => Just(Op::Plant),
        2 => prop_oneof![
            Just(CrashPoint::BeforeJournal),
            (0..4usize).prop_map(CrashPoint::AfterActions)
        ].prop_map(Op::Crash),
        1 => (0..6usize).prop_map(Op::Drain),
        10 => prop_oneof![0..20u64, 0..2000u64, 0..200_000u64].prop_map(Op::Pass),
    ]
}

pub(crate) fn faults() -> impl Strategy<Value = Faults> {
    prop_oneof![
        2 => Just(Faults { lag_ms: 50, ..Faults::default() }),
        3 => (0..200u32, 0..200u32, 0..100u32, 1..5000u64, any::<bool>()).prop_map(
            |(fail, lose, differ, lag_ms, twice)| Faults { fail, lose, differ, lag_ms, twice }
        ),
    ]
}

pub(crate) fn classes() -> Vec<ClassSpec> {
    let settings = [
        (Mode::Reuse, Replace::Ahead, Carry::Any),
        (Mode::Reuse, Replace::OnLoss, Carry::Own),
        (Mode::Reuse, Replace::Ahead, Carry::Listed),
        (Mode::Reuse, Replace::OnLease, Carry::Any),
        (Mode::Warm, Replace::OnLease, Carry::Any),
        (Mode::OnDemand, Replace::Ahead, Carry::Listed),
    ];
    let named = settings.iter().enumerate();
    named
        .map(|(n, (mode, replace, carry))| {
            class(&format!("class-{n}"), supply(*mode, *replace, *carry))
        })
        .collect()
}

pub(crate) fn config(small: bool) -> Config {
    let slots = if small { 3 } else { 9 };
    Config {
        budget: Budget {
            slots: Some(slots),
            cpu_milli: Some(8000),
            memory_bytes: None,
        },
        class_slots: if small { 2 } else { 6 },
        max_starting: 3,
        creates_per_s: 2.0,
        create_burst: 4,
        ended_leases: 16,
        limits: Limits {
            specialise_ms: 300_000,
            ..Limits::default()
        },
        ..Config::default()
    }
}
