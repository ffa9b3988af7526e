//! A fault from its lease to the comparison of the sandbox that comes after it.

use innkeeper_test_local::{Guest, Listing};
use serde_json::{Value, json};

use crate::case::{Case, Reach};
use crate::ground::Ground;
use crate::view::{View, has_groups};

/// Where the script lies while it runs: a name of its own, as some search for names of scripts.
const SCRIPT: &str = "/run/hazard";

/// What the first sandbox of each template writes anew, so that only its time is the template's own.
const OF_TEMPLATE: [&str; 4] = ["/etc", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf"];

/// Brings the fault about, gives the sandbox back, and then either it equals a fresh one in
/// everything that can be seen, or it is gone.
///
/// # Panics
/// When the sandbox is called clean and a difference is left, when a tainted one is still there,
/// or when the fault was not brought about.
pub fn replay(ground: &Ground, case: &Case) {
    let test = format!("{}-{}", ground.pair, case.id);
    let guest = ground.lease(&test, &resources(&case.id));
    let before = View::of(&guest);
    let fresh = ground.fresh.updated(&guest.list_only(&OF_TEMPLATE));
    bring_about(ground, &guest, case);

    let slot = guest.lease["slot"].clone();
    let returned = guest.give_back("swap");
    match returned["outcome"].as_str() {
        Some("clean") => {
            let next = ground.lease(&test, &resources(&case.id));
            assert_eq!(
                (&next.lease["slot"], &next.lease["uses"]),
                (&slot, &json!(1)),
                "another sandbox than the one that was reset"
            );
            let mut left = before.differences(&View::of(&next));
            // In place, `/` is a disk of the machine, on which others write as well.
            left.retain(|found| !(ground.pair.is_in_place() && found.starts_with("free ")));
            assert!(left.is_empty(), "called clean, and differs: {left:#?}");
            compare(&fresh, &next.list());
            next.discard();
            ground.tally.clean(&case.id);
        }
        Some("tainted") => {
            is_destroyed(ground, &slot);
            ground.tally.tainted(&case.id, cause(&returned));
        }
        other => panic!("{other:?}: {returned}"),
    }
}

fn bring_about(ground: &Ground, guest: &Guest<'_>, case: &Case) {
    let script = ground
        .house
        .inn()
        .file(&format!("script-{}-{}", ground.pair, case.id), &case.script);
    guest.bring(&script, SCRIPT);
    let ran = guest.with(&["--timeout", "10m"], &["bash", SCRIPT]);
    assert!(
        ![124, 125].contains(&ran.code),
        "the script was not run to its end: {ran:?}"
    );
    let checked = || guest.bash(&case.check);
    match case.reach {
        Reach::Open => {
            let checked = checked();
            assert_eq!(
                checked.code, 0,
                "the fault is not there: {checked:?} after {ran:?}"
            );
        }
        Reach::Forbidden => {
            let checked = checked();
            assert_ne!(
                checked.code, 0,
                "a guest had a right it must not have: {checked:?} after {ran:?}"
            );
        }
        Reach::Unseen => {}
    }
}

fn compare(fresh: &Listing, now: &Listing) {
    let left = fresh.differences(now);
    assert!(
        left.is_empty(),
        "called clean, and files differ:\n{}",
        left.join("\n")
    );
}

fn is_destroyed(ground: &Ground, slot: &Value) {
    let slot = slot.as_str().expect("a slot");
    ground.house.inn().until("the tainted sandbox is gone", || {
        let listed = ground.house.inn().line("ps --json").ok().json();
        let shown = listed
            .as_array()
            .into_iter()
            .flatten()
            .any(|one| one["slot"] == slot);
        if shown || has_groups(slot) {
            Err(format!("{slot} is still there: {listed}"))
        } else {
            Ok(())
        }
    });
}

/// The first differences, or why the slot ended.
fn cause(returned: &Value) -> String {
    let differs = returned["differs"].as_array().into_iter().flatten();
    let shown: Vec<_> = differs.take(3).map(Value::to_string).collect();
    if shown.is_empty() {
        returned["retired"].to_string()
    } else {
        shown.join(", ")
    }
}

/// What two of them would use up is kept small.
fn resources(id: &str) -> Value {
    match id {
        "A18" => {
            json!({"resources": {"memory": "1Gi", "disk": "64Mi", "inodes": 20_000, "pids": 512}})
        }
        "A19" => {
            json!({"resources": {"memory": "3Gi", "disk": "2Gi", "inodes": 400_000, "pids": 512}})
        }
        _ => json!({}),
    }
}
