//! Kill any part at any moment: leases survive the manager, end with a typed error with the
//! daemon, and nothing is left that nobody owns.

use std::process::{Child, Stdio};

use innkeeper_test_cli::{Inn, Rootfs};
use innkeeper_test_local::{Groups, Traces, children};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Shared;

/// A manager that ends with the test, on an inn that others may use meanwhile.
pub(crate) struct Manager<'a> {
    inn: &'a Inn,
    child: Child,
}

impl<'a> Manager<'a> {
    pub(crate) fn start(inn: &'a Inn) -> Self {
        Self::start_with(inn, &[])
    }

    pub(crate) fn start_with(inn: &'a Inn, options: &[&str]) -> Self {
        let mut command = inn.command(["serve"].iter().chain(options));
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

    pub(crate) fn kill(mut self) {
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

pub(crate) fn kill(pid: i32, signal: Signal) {
    // It may have ended by itself.
    let _ = kill_process(Pid::from_raw(pid).expect("a pid"), signal);
}

pub(crate) fn with_image() -> Inn {
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

pub(super) fn lease(inn: &Inn) -> Value {
    inn.line("lease t --json").ok().json()
}

pub(crate) fn id(lease: &Value) -> &str {
    lease["lease"].as_str().expect("an id")
}

pub(crate) fn bash(inn: &Inn, lease: &str, script: &str) -> innkeeper_test_cli::Ran {
    inn.run(["exec", lease, "--", "bash", "-c", script])
}

/// First processes that a daemon may hold ready for sandboxes to come, each with a group in four
/// hierarchies.
const READY: usize = 8;

/// Returns what is leased, retires every slot, and waits until nothing is left of them but
/// what the daemon holds ready; then ends the daemon, and waits until that is gone too.
pub(super) fn nothing_is_left(inn: &Inn, manager: Manager<'_>, groups: &Groups) {
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
            groups: traces.groups.iter().take(4 * READY).cloned().collect(),
            standing: traces.standing.iter().take(READY).copied().collect(),
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

pub(super) fn orphans(_: &Shared) -> Result<(), String> {
    let inn = with_image();
    let config = inn.file("config.yaml", "orphan_ttl: 1s\n");
    let config = config.to_str().expect("a plain path");
    let manager = Manager::start_with(&inn, &["--config", config]);
    let lease = inn.line("lease t --json --max 4s").ok().json();
    let groups = Groups::of(&inn);
    bash(&inn, id(&lease), "(sleep 1000 &) >/dev/null 2>&1").ok();
    manager.kill();
    inn.until("the daemon ends itself", || {
        let (daemons, traces) = (inn.daemons(), Traces::of(&inn, &groups));
        if daemons.is_empty() && traces.is_empty() {
            Ok(())
        } else {
            Err(format!("{daemons:?}, {traces:#?}"))
        }
    });
    let manager = Manager::start_with(&inn, &["--config", config]);
    inn.line(&format!("exec {} -- true", id(&lease)))
        .fails(125, id(&lease));
    let next = self::lease(&inn);
    bash(&inn, id(&next), "true").ok();
    nothing_is_left(&inn, manager, &groups);
    Ok(())
}
