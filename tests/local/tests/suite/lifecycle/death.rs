//! Kill any part at any moment: leases survive the manager, end with a typed error with the
//! daemon, and nothing is left that nobody owns.

use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use innkeeper_test_cli::{Inn, Rootfs};
use innkeeper_test_local::{Groups, Traces, children, soak};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Shared;

/// A manager that ends with the test, on an inn that others may use meanwhile.
struct Manager<'a> {
    inn: &'a Inn,
    child: Child,
}

impl<'a> Manager<'a> {
    fn start(inn: &'a Inn) -> Self {
        let mut command = inn.command(["serve"]);
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let manager = Self { inn, child };
        inn.until("the manager answers", || match inn.line("ps --json") {
            ran if ran.code == 0 => Ok(()),
            ran => Err(format!("{ran:?}")),
        });
        manager
    }

    fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }
}

impl Drop for Manager<'_> {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            kill(i32::try_from(self.child.id()).expect("a pid"), Signal::TERM);
            let _ = self.child.wait();
        }
        let _ = self.inn;
    }
}

fn kill(pid: i32, signal: Signal) {
    // It may have ended by itself.
    let _ = kill_process(Pid::from_raw(pid).expect("a pid"), signal);
}

fn with_image() -> Inn {
    let inn = Inn::new();
    let tree = Rootfs::make(&inn.path("rootfs"));
    inn.run([
        "image",
        "import",
        tree.folder.to_str().expect("a plain path"),
        "--name",
        "t",
    ])
    .ok();
    inn
}

fn lease(inn: &Inn) -> Value {
    inn.line("lease t --json").ok().json()
}

fn id(lease: &Value) -> &str {
    lease["lease"].as_str().expect("an id")
}

fn bash(inn: &Inn, lease: &str, script: &str) -> innkeeper_test_cli::Ran {
    inn.run(["exec", lease, "--", "bash", "-c", script])
}

/// Groups that a daemon may hold ready for sandboxes to come, in four hierarchies.
const READY: usize = 4 * 8;

/// Returns what is leased, retires every slot, and waits until nothing is left of them but
/// what the daemon holds ready; then ends the daemon, and waits until that is gone too.
fn nothing_is_left(inn: &Inn, manager: Manager<'_>, groups: &Groups) {
    inn.until("all leases end", || {
        let slots = inn.line("ps --json").ok().json();
        let leased: Vec<_> = slots
            .as_array()
            .expect("slots")
            .iter()
            .filter_map(|slot| slot["lease"].as_str())
            .collect();
        for lease in &leased {
            inn.line(&format!("return {lease} --discard"));
        }
        if leased.is_empty() {
            Ok(())
        } else {
            Err(slots.to_string())
        }
    });
    for pool in inn
        .line("pools --json")
        .ok()
        .json()
        .as_array()
        .expect("pools")
    {
        inn.run(["drain", pool["class"].as_str().expect("a name")])
            .ok();
    }
    inn.until("nothing is left", || {
        let slots = inn.line("ps --json").ok().json();
        let traces = Traces::of(inn, groups);
        let ready = Traces {
            groups: traces.groups.iter().take(READY).cloned().collect(),
            ..Traces::default()
        };
        let done = slots.as_array().is_some_and(Vec::is_empty) && traces == ready;
        if done {
            Ok(())
        } else {
            Err(format!("{slots}, {traces:#?}"))
        }
    });
    drop(manager);
    for daemon in inn.daemons() {
        kill(daemon, Signal::TERM);
    }
    inn.until("the daemon takes all with it", || {
        let (daemons, traces) = (inn.daemons(), Traces::of(inn, groups));
        if daemons.is_empty() && traces.is_empty() {
            Ok(())
        } else {
            Err(format!("{daemons:?}, {traces:#?}"))
        }
    });
}

pub(super) fn manager(_: &Shared) -> Result<(), String> {
    let inn = with_image();
    let manager = Manager::start(&inn);
    let leases = [lease(&inn), lease(&inn)];
    let groups = Groups::of(&inn);
    for lease in &leases {
        bash(
            &inn,
            id(lease),
            "echo kept > /kept; (sleep 1000 & echo $! > /pid) >/dev/null 2>&1",
        )
        .ok();
    }
    let mut running = inn.command([
        "exec",
        id(&leases[0]),
        "--",
        "bash",
        "-c",
        "echo begun > /begun; sleep 1000",
    ]);
    let mut running = running.stderr(Stdio::null()).spawn().expect("started");
    inn.until("a command runs", || {
        match bash(&inn, id(&leases[0]), "cat /begun") {
            ran if ran.code == 0 => Ok(()),
            ran => Err(format!("{ran:?}")),
        }
    });
    let daemons = inn.daemons();
    let before = Traces::of(&inn, &groups);
    manager.kill();
    assert_eq!(
        running.wait().expect("reaped").code(),
        Some(125),
        "its outcome is not known"
    );
    inn.line(&format!("exec {} -- true", id(&leases[0])))
        .fails(69, "serve");

    let manager = Manager::start(&inn);
    assert_eq!(inn.daemons(), daemons);
    for lease in &leases {
        let seen = bash(&inn, id(lease), "cat /kept && kill -0 $(cat /pid)").ok();
        assert_eq!(seen.stdout, "kept\n");
    }
    let after = Traces::of(&inn, &groups);
    assert!(
        after.groups.is_subset(&before.groups),
        "{after:#?} {before:#?}"
    );
    for lease in &leases {
        let back = inn
            .line(&format!("return {} --wait --json", id(lease)))
            .ok()
            .json();
        assert_eq!(
            (&back["outcome"], &back["digest"]),
            (&"clean".into(), &lease["baseline"]),
            "{back}"
        );
    }
    println!(
        "manager: {} leases went on, {} groups",
        leases.len(),
        before.groups.len()
    );
    nothing_is_left(&inn, manager, &groups);
    Ok(())
}

pub(super) fn daemon(_: &Shared) -> Result<(), String> {
    ends_with(|daemon| daemon)
}

pub(super) fn spawner(_: &Shared) -> Result<(), String> {
    ends_with(|daemon| {
        let children = children(daemon);
        assert_eq!(children.len(), 1, "the spawner alone");
        children[0]
    })
}

/// Kills the daemon or its spawner while two leases run, one of them a command.
fn ends_with(victim: impl Fn(i32) -> i32) -> Result<(), String> {
    let inn = with_image();
    let manager = Manager::start(&inn);
    let leases = [lease(&inn), lease(&inn)];
    let groups = Groups::of(&inn);
    let old = Traces::of(&inn, &groups);
    let daemon = inn.daemons()[0];
    let spawner = children(daemon)[0];
    let mut running = inn.command(["exec", id(&leases[0]), "--", "sleep", "1000"]);
    let running = running.stderr(Stdio::piped()).spawn().expect("started");
    kill(victim(daemon), Signal::KILL);
    let ended = running.wait_with_output().expect("reaped");
    assert_eq!(
        ended.status.code(),
        Some(125),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    inn.until("another daemon runs", || match inn.daemons()[..] {
        [other] if other != daemon => Ok(()),
        ref others => Err(format!("{others:?}")),
    });
    for lease in &leases {
        // The next call says so, and every later one.
        for _ in 0..2 {
            let ran = inn
                .line(&format!("exec {} -- true", id(lease)))
                .fails(125, id(lease));
            assert!(
                ran.stderr.contains("lost") || ran.stderr.contains("gone"),
                "{ran:?}"
            );
        }
    }
    let next = lease(&inn);
    assert_ne!(next["boot_id"], leases[0]["boot_id"]);
    assert_eq!(next["uses"], 0, "{next}");
    bash(&inn, id(&next), "true").ok();
    let still: Vec<_> = old
        .processes
        .iter()
        .chain([&daemon, &spawner])
        .filter(|pid| is_of_a_sandbox(**pid))
        .collect();
    assert!(still.is_empty(), "{still:?} of the old daemon still run");
    let back = inn
        .line(&format!("return {} --wait --json", id(&next)))
        .ok()
        .json();
    assert_eq!(back["outcome"], "clean", "{back}");
    nothing_is_left(&inn, manager, &groups);
    Ok(())
}

fn is_of_a_sandbox(pid: i32) -> bool {
    let name = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    [&b"sandbox-init"[..], b"sleep", b"execd"]
        .iter()
        .any(|known| name.windows(known.len()).any(|part| part == *known))
}

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
