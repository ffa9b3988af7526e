//! Anything may be killed at any moment, while rollouts go on.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use innkeeper_test_cli::Inn;
use innkeeper_test_local::{Groups, children, soak};
use rustix::process::Signal;

use super::death::{Manager, bash, id, kill, lease, nothing_is_left, with_image};
use crate::Shared;

/// A small generator, so that a failure can be had again from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

pub(super) fn storm(_: &Shared) -> Result<(), String> {
    let seed = std::env::var("INNKEEPER_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(u64::from(std::process::id()));
    println!("storm: seed {seed} (INNKEEPER_SEED)");
    let rounds = if soak() { 60 } else { 6 };
    let inn = with_image();
    let manager = Mutex::new(Some(Manager::start(&inn)));
    let first = lease(&inn);
    let groups = Groups::of(&inn);
    inn.line(&format!("return {} --wait", id(&first))).ok();
    let mut random = Random(seed);
    let (stop, done) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 2]);
    thread::scope(|scope| {
        for worker in 0..2 {
            let (inn, stop, done) = (&inn, &stop, &done);
            scope.spawn(move || {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    count += 1;
                    rollout(inn, &format!("{worker}-{count}"), done);
                }
            });
        }
        for _ in 0..rounds {
            // The moment is what is tried out; nothing is awaited.
            thread::sleep(Duration::from_millis(random.below(800)));
            let daemons = inn.daemons();
            let spawners: Vec<_> = daemons
                .iter()
                .flat_map(|daemon| children(*daemon))
                .collect();
            let what = random.below(4);
            if what == 0 || what == 3 {
                manager
                    .lock()
                    .expect("whole")
                    .take()
                    .expect("one runs")
                    .kill();
            }
            let victims = match what {
                1 => daemons,
                2 => spawners,
                3 => [daemons, spawners].concat(),
                _ => Vec::new(),
            };
            for pid in victims {
                kill(pid, Signal::KILL);
            }
            let mut manager = manager.lock().expect("whole");
            if manager.is_none() {
                *manager = Some(Manager::start(&inn));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let [clean, failed] = done.map(AtomicU64::into_inner);
    println!(
        "storm: {rounds} kills, {clean} rollouts came back clean, {failed} were told of a failure"
    );
    inn.until("a lease can be had", || {
        let ran = inn.line("lease t --json --timeout 20s");
        if ran.code == 0 {
            Ok(())
        } else {
            Err(format!("{ran:?}"))
        }
    });
    let manager = manager.into_inner().expect("whole").expect("one runs");
    nothing_is_left(&inn, manager, &groups);
    Ok(())
}

/// One rollout under fire: any call may fail, but what it sees is a fresh sandbox or nothing.
fn rollout(inn: &Inn, request: &str, done: &[AtomicU64; 2]) {
    let ask = || {
        inn.run([
            "lease",
            "t",
            "--json",
            "--timeout",
            "10s",
            "--request-id",
            request,
        ])
    };
    let leased = ask();
    let leased = if leased.code == 0 { leased } else { ask() };
    if leased.code != 0 {
        done[1].fetch_add(1, Ordering::Relaxed);
        return;
    }
    let lease = leased.json();
    let script = "test -e /mark && echo SEEN; cat /testbed/file; echo here > /mark";
    let ran = bash(inn, id(&lease), script);
    assert!(
        !ran.stdout.contains("SEEN"),
        "of an earlier rollout: {lease} {ran:?}"
    );
    let back = inn.line(&format!("return {} --wait --json", id(&lease)));
    let clean = back.code == 0 && back.json()["outcome"] == "clean";
    done[usize::from(!clean)].fetch_add(1, Ordering::Relaxed);
}
