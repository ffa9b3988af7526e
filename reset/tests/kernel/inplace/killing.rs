//! Killing to a fixed point, in a pid namespace of its own: `unshare` runs this program again there.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use innkeeper_reset::inplace::{KillError, Own, kill_all};
use innkeeper_reset::observe::{ProcDir, pids, start_time};

use crate::scratch::{as_root, open_dir};
use crate::sys;

/// Set for the inner run.
const INNER: &str = "INNKEEPER_TEST_PID_ONE";

fn in_a_pid_namespace(test: &str, inner: fn()) {
    if std::env::var_os(INNER).is_some() {
        return inner();
    }
    let name = test.rsplit("::").next().unwrap_or(test);
    if !as_root(name) {
        return;
    }
    let program = std::env::current_exe().expect("own program");
    let again = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(program)
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INNER, "1")
        .output()
        .expect("unshare");
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

fn proc() -> ProcDir {
    ProcDir::new(open_dir(Path::new("/proc"))).expect("procfs")
}

fn ourselves(proc: &ProcDir) -> Own {
    let pid = std::process::id();
    let start = start_time(proc, pid).expect("start time");
    Own { pid, start }
}

fn shell(script: &str) {
    let child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    // Nobody waits for it: the kernel reaps what this process's children leave.
    drop(child.expect("sh"));
}

/// Waits until so many strangers run.
fn await_population(proc: &ProcDir, least: usize) {
    let until = Instant::now() + Duration::from_secs(30);
    while pids(proc).expect("pids").len() <= least {
        assert!(Instant::now() < until, "they do not come");
        std::thread::yield_now();
    }
}

#[test]
fn a_fork_storm_ends() {
    in_a_pid_namespace("inplace::killing::a_fork_storm_ends", || {
        sys::reap_no_children();
        let proc = proc();
        // Chains that change their number all the time, of children that outlive their parents; some
        // in sessions of their own. No more of them come: root has no limit of processes.
        let chain = "chain() { sleep 0; (chain &) ; exit; }; chain";
        for _ in 0..8 {
            shell(chain);
            shell(&format!("setsid sh -c '{chain}'"));
        }
        shell("for i in 1 2 3 4 5 6 7 8; do (setsid sleep 1000 &) ; done");
        shell("trap '' TERM INT HUP; sleep 1000 & kill -STOP $!; kill -STOP $$");
        await_population(&proc, 16);
        let own = ourselves(&proc);
        let by = Instant::now() + Duration::from_secs(60);
        let killed = kill_all(&proc, &[own], by).expect("all ended");
        println!("{} signals in {} passes", killed.signals, killed.passes);
        assert!(killed.signals > 16, "{killed:?}");
        assert_eq!(pids(&proc).expect("pids"), [own.pid]);
    });
}

#[test]
fn our_own_are_spared_by_number_and_start_time() {
    in_a_pid_namespace(
        "inplace::killing::our_own_are_spared_by_number_and_start_time",
        || {
            sys::reap_no_children();
            let proc = proc();
            let spawn = || {
                Command::new("sleep")
                    .arg("1000")
                    .spawn()
                    .expect("sleep")
                    .id()
            };
            let (spared, mistaken) = (spawn(), spawn());
            let start = |pid| start_time(&proc, pid).expect("start time");
            let own = [
                ourselves(&proc),
                Own {
                    pid: spared,
                    start: start(spared),
                },
                // As if the number had been given to another.
                Own {
                    pid: mistaken,
                    start: start(mistaken) + 1,
                },
            ];
            let by = Instant::now() + Duration::from_secs(60);
            kill_all(&proc, &own, by).expect("all ended");
            assert_eq!(pids(&proc).expect("pids"), [own[0].pid, spared]);
        },
    );
}

/// A zombie that nobody reaps is somebody left: who knows whose it is.
#[test]
fn a_zombie_that_stays_is_named() {
    in_a_pid_namespace("inplace::killing::a_zombie_that_stays_is_named", || {
        let proc = proc();
        let mut child = Command::new("true").spawn().expect("true");
        let by = Instant::now() + Duration::from_millis(50);
        match kill_all(&proc, &[ourselves(&proc)], by) {
            Err(KillError::Left { pids, .. }) => assert_eq!(pids, [child.id()]),
            other => panic!("{other:?}"),
        }
        child.wait().expect("reaped");
    });
}
