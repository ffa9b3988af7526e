//! Local pods: a slot of fewer rights is a container of its own, which lives and ends alone.

use std::path::PathBuf;

use innkeeper_test_cli::Inn;
use rustix::process::Signal;
use serde_json::Value;

use crate::lifecycle::death::{Manager, bash, id, kill, with_image};
use crate::{Shared, Test};

mod user;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_pods_sandbox_is_reset_eight_times", eight_resets),
    ("the_end_of_a_pod_is_the_loss_of_its_slot_alone", one_ends),
    ("pods_outlive_their_manager", manager_killed),
    ("pods_without_a_manager_end_themselves", orphans),
    ("what_a_killed_parent_leaves_is_removed", parent_killed),
    ("an_ordinary_user_makes_sandboxes", user::sandboxes),
    ("an_ordinary_user_is_told_what_is_missing", user::missing),
];

const POD: &str = "rights: pod\n";

fn lease(inn: &Inn) -> Value {
    let template = inn.file("pod.yaml", POD);
    let template = template.to_str().expect("a plain path");
    inn.run(["lease", "t", "--template", template, "--json"])
        .ok()
        .json()
}

fn home(inn: &Inn, lease: &Value) -> PathBuf {
    let slot = lease["slot"].as_str().expect("a slot");
    inn.state().join("pods").join(slot)
}

/// A process of the pod's folder: `init` or `parent`.
fn process(inn: &Inn, lease: &Value, which: &str) -> i32 {
    let text = std::fs::read(home(inn, lease).join("pod.json")).expect("a record");
    let record: Value = serde_json::from_slice(&text).expect("JSON");
    let pid = record[which]["pid"].as_i64().expect("a pid");
    i32::try_from(pid).expect("a pid")
}

/// Pods that have a folder.
fn pods(inn: &Inn) -> Vec<String> {
    let entries = std::fs::read_dir(inn.state().join("pods"))
        .into_iter()
        .flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| !name.starts_with('.')).collect()
}

fn eight_resets(_: &Shared) -> Result<(), String> {
    let inn = with_image();
    let _manager = Manager::start(&inn);
    for uses in 0..9 {
        let leased = lease(&inn);
        assert_eq!(leased["uses"], uses, "{leased}");
        let form = ["strategy", "rights", "layout"].map(|field| leased[field].as_str());
        assert_eq!(form, [Some("layered"), Some("pod"), Some("mounted")]);
        bash(
            &inn,
            id(&leased),
            "test ! -e /tmp/left && echo x > /tmp/left && chmod 700 /etc && (sleep 1000 &)",
        )
        .ok();
        let returned = inn.run(["return", id(&leased), "--wait", "--json"]);
        let returned = returned.ok().json();
        assert_eq!(returned["outcome"], "clean", "{returned}");
    }
    Ok(())
}

fn one_ends(_: &Shared) -> Result<(), String> {
    let inn = with_image();
    let _manager = Manager::start(&inn);
    let (one, other) = (lease(&inn), lease(&inn));
    assert_ne!(one["boot_id"], other["boot_id"], "each pod has its own");
    kill(process(&inn, &one, "init"), Signal::KILL);
    inn.until("the lease of the dead pod is lost", || {
        match bash(&inn, id(&one), "true") {
            ran if ran.code == 125 && ran.stderr.contains("lost") => Ok(()),
            ran => Err(format!("{ran:?}")),
        }
    });
    bash(&inn, id(&other), "true").ok();
    inn.until("nothing is left of it", || {
        let left = home(&inn, &one);
        if left.exists() {
            Err(left.display().to_string())
        } else {
            Ok(())
        }
    });
    Ok(())
}

fn manager_killed(_: &Shared) -> Result<(), String> {
    let inn = with_image();
    let manager = Manager::start(&inn);
    let leased = lease(&inn);
    bash(&inn, id(&leased), "echo kept > /tmp/kept").ok();
    manager.kill();
    let _next = Manager::start(&inn);
    let ran = bash(&inn, id(&leased), "cat /tmp/kept").ok();
    assert_eq!(ran.stdout, "kept\n");
    let returned = inn.run(["return", id(&leased), "--wait", "--json"]);
    assert_eq!(returned.ok().json()["outcome"], "clean");
    Ok(())
}

fn orphans(_: &Shared) -> Result<(), String> {
    let inn = with_image();
    let config = inn.file("config.yaml", "orphan_ttl: 1s\n");
    let config = config.to_str().expect("a plain path");
    let manager = Manager::start_with(&inn, &["--config", config]);
    let leased = lease(&inn);
    inn.run(["return", id(&leased), "--wait"]).ok();
    assert!(!pods(&inn).is_empty());
    manager.kill();
    inn.until("every pod has ended and left nothing", || {
        match pods(&inn) {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?}")),
        }
    });
    Ok(())
}

fn parent_killed(_: &Shared) -> Result<(), String> {
    let inn = with_image();
    let _manager = Manager::start(&inn);
    let leased = lease(&inn);
    kill(process(&inn, &leased, "parent"), Signal::KILL);
    bash(&inn, id(&leased), "true").ok();
    inn.run(["return", id(&leased), "--discard", "--wait"]).ok();
    inn.until("nothing is left of it", || {
        let left = home(&inn, &leased);
        if left.exists() {
            Err(left.display().to_string())
        } else {
            Ok(())
        }
    });
    Ok(())
}
