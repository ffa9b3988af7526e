//! Observation of real namespaces and processes.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use innkeeper_reset::components::network::Scope;
use innkeeper_reset::components::{Component, processes};
use innkeeper_reset::ids::IdMap;
use innkeeper_reset::observe::{
    InsideScope, InsideView, ObserveError, ProcDir, inside, limits, message_queues, mounts,
    own_init, pids, process,
};
use rustix::fs::{Mode, OFlags, openat};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::scratch::{Mounted, as_root, c_name, open_dir};
use crate::sys;

const SCOPE: InsideScope = InsideScope {
    ids: IdMap::CANONICAL,
    entered_user_namespace: false,
    network: Scope::Own,
};

fn proc() -> ProcDir {
    ProcDir::new(open_dir(Path::new("/proc"))).expect("procfs")
}

/// Runs `change` and then the reader in fresh namespaces, which go away with the thread. Its root is a
/// file system of its own, so that what others mount on this machine does not show.
fn seen_after(change: impl FnOnce(&ProcDir) -> Option<TcpListener> + Send) -> InsideView {
    let dir = tempfile::tempdir().expect("tempdir");
    let root = c_name(dir.path().to_str().expect("utf-8"));
    let reader = || {
        let proc = proc();
        sys::own_namespaces(&root);
        let _kept = change(&proc);
        let queues = message_queues().expect("mqueue");
        inside(&proc, queues.as_fd(), SCOPE).expect("readable")
    };
    std::thread::scope(|scope| scope.spawn(reader).join().expect("reader"))
}

#[test]
fn two_fresh_ones_are_equal_and_every_leaving_shows() {
    if !as_root("two_fresh_ones_are_equal_and_every_leaving_shows") {
        return;
    }
    let fresh = seen_after(|_| None);
    assert_eq!(seen_after(|_| None), fresh);
    assert_eq!(fresh.facts[&Component::Mounts].iter().count(), 1);
    let components: Vec<_> = fresh.facts.keys().copied().collect();
    assert_eq!(
        components,
        [
            Component::Mounts,
            Component::Ipc,
            Component::Network,
            Component::Kernel
        ]
    );

    type Leave = fn(&ProcDir) -> Option<TcpListener>;
    let leavings: [(Component, &str, Leave); 6] = [
        (Component::Kernel, "kernel/hostname", |_| {
            rustix::system::sethostname(b"changed").expect("sethostname");
            None
        }),
        (Component::Kernel, "kernel/shmmni", |proc| {
            let (path, write) = ("sys/kernel/shmmni", OFlags::WRONLY);
            let file = openat(proc.as_fd(), path, write, Mode::empty()).expect("open");
            rustix::io::write(file, b"1234").expect("sysctl");
            None
        }),
        (Component::Ipc, "shm", |_| {
            sys::make_segment();
            None
        }),
        (Component::Ipc, "queues", |_| {
            sys::make_queue();
            None
        }),
        (Component::Network, "tcp", |_| {
            sys::loopback_up();
            Some(TcpListener::bind("127.0.0.1:4321").expect("bind"))
        }),
        (Component::Mounts, "/left", |_| {
            std::fs::create_dir("/left").expect("mkdir");
            sys::mount_tmpfs(c"/left");
            None
        }),
    ];
    for (component, key, leave) in leavings {
        let seen = seen_after(leave);
        let found = fresh.facts[&component].diff(&seen.facts[&component], component, 100);
        assert!(
            found.iter().any(|d| d.path == key.as_bytes()),
            "{key}: {found:?}"
        );
        for other in components.iter().filter(|other| **other != component) {
            assert_eq!(
                seen.facts[other], fresh.facts[other],
                "{key} shows in {other}"
            );
        }
    }
}

#[test]
fn only_a_procfs_is_read() {
    if as_root("only_a_procfs_is_read") {
        let forged = ProcDir::new(open_dir(&Mounted::tmpfs().path()));
        assert!(matches!(forged, Err(ObserveError::NoProc)));
    }
}

#[test]
fn a_process_with_all_that_is_compared() {
    if !as_root("a_process_with_all_that_is_compared") {
        return;
    }
    let proc = proc();
    let own = std::process::id();
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let view = process(&proc, own, "test", IdMap::CANONICAL).expect("readable");
    let place = format!("tcp {}", listener.local_addr().expect("address"));
    assert!(view.listeners.contains(&place), "{:?}", view.listeners);
    let program = std::fs::read("/proc/self/exe").expect("program");
    assert_eq!(
        view.exe_digest.as_bytes(),
        blake3::hash(&program).as_bytes()
    );
    assert_eq!(view.uids, ["0"; 4]);
    assert!(view.status.contains_key("CapBnd") && view.limits.contains_key("Max open files"));
    assert!(!view.zombie);

    let init = own_init(&proc, own, "test", IdMap::CANONICAL).expect("readable");
    assert!(init.exe.is_empty() && init.env.is_empty() && init.status == view.status);

    let outside = process(&proc, own, "test", IdMap::at(100_000)).expect("readable");
    assert_eq!(
        outside.uids, ["host 0"; 4],
        "an id that is not the sandbox's shows as such"
    );
    assert!(pids(&proc).expect("list").contains(&own));
    assert!(
        limits(&proc, own, &BTreeMap::new())
            .expect("limits")
            .get("process Max open files")
            .is_some()
    );
    assert!(
        !mounts(&proc, own, IdMap::CANONICAL)
            .expect("mounts")
            .is_empty()
    );
}

#[test]
fn what_a_service_is_decides_its_facts() {
    if !as_root("what_a_service_is_decides_its_facts") {
        return;
    }
    type Configure = fn(&mut Command) -> &mut Command;
    let proc = proc();
    let view = |configure: Configure| {
        let mut command = Command::new("sleep");
        let mut child = configure(command.arg("1000").env_clear())
            .spawn()
            .expect("sleep");
        let view = process(&proc, child.id(), "sleeper", IdMap::CANONICAL);
        child.kill().expect("kill");
        child.wait().expect("wait");
        view.expect("readable")
    };
    let plain = view(|command| command);
    assert_eq!(plain.argv, ["sleep", "1000"]);
    assert_eq!(
        view(|command| command),
        plain,
        "pid and start time do not show"
    );
    let changes: [(&str, Configure); 4] = [
        ("env", |command| command.env("A", "B")),
        ("argv", |command| command.arg("1")),
        ("cwd", |command| command.current_dir("/proc")),
        ("uids", |command| {
            std::os::unix::process::CommandExt::uid(command, 1)
        }),
    ];
    let facts = processes::facts(std::slice::from_ref(&plain));
    for (what, configure) in changes {
        let other = processes::facts(&[view(configure)]);
        let found = facts.diff(&other, Component::Processes, 100);
        let key = format!("sleeper/1 {what}");
        assert!(
            found.iter().any(|d| d.path == key.as_bytes()),
            "{what}: {found:?}"
        );
    }
    let two = processes::facts(&[plain.clone(), plain]);
    assert_eq!(two.get("processes"), Some("2"));
}

#[test]
fn a_zombie_is_one_and_the_dead_are_an_error() {
    if !as_root("a_zombie_is_one_and_the_dead_are_an_error") {
        return;
    }
    let proc = proc();
    let mut child = Command::new("true").spawn().expect("true");
    let pid = Pid::from_child(&child);
    let dead = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid), dead).expect("waitid");
    assert!(
        process(&proc, child.id(), "x", IdMap::CANONICAL)
            .expect("readable")
            .zombie
    );
    child.wait().expect("wait");
    assert!(process(&proc, child.id(), "x", IdMap::CANONICAL).is_err());
}
