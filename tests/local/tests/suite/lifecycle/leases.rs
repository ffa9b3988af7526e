//! Request ids, expiry and deadline.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Shared;

fn slots_of<'a>(slots: &'a Value, template: &'a Value) -> impl Iterator<Item = &'a Value> {
    slots
        .as_array()
        .expect("slots")
        .iter()
        .filter(move |slot| slot["template"] == *template)
}

pub(super) fn request_id(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let base = house.base();
    let inn = house.inn();
    let template = json!({"env": {"INNKEEPER_TEST": "request"}, "supply": {"carry": "own"}});
    let template = inn.file("request.json", template.to_string());
    let template = template.to_str().expect("a plain path");
    let line = [
        "lease",
        &base,
        "--json",
        "--template",
        template,
        "--request-id",
        "only",
    ];
    let ask = || inn.run(line).ok().json();
    let leases: Vec<Value> = thread::scope(|scope| {
        let asked: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        asked
            .into_iter()
            .map(|thread| thread.join().expect("an answer"))
            .collect()
    });
    let ids: BTreeSet<_> = leases
        .iter()
        .map(|lease| lease["sandbox"].to_string() + &lease["lease"].to_string())
        .collect();
    assert_eq!(ids.len(), 1, "{leases:?}");
    let slots = inn.line("ps --json").ok().json();
    assert_eq!(
        slots_of(&slots, &leases[0]["template"]).count(),
        1,
        "{slots}"
    );
    // A caller that gave up, and asks again, gets what was made for it.
    let given_up = inn.run([
        "lease",
        &base,
        "--timeout",
        "1ms",
        "--json",
        "--template",
        template,
        "--request-id",
        "hasty",
    ]);
    let lease = inn
        .run([
            "lease",
            &base,
            "--json",
            "--template",
            template,
            "--request-id",
            "hasty",
        ])
        .ok()
        .json();
    assert!(
        given_up.code == 1 || given_up.json()["lease"] == lease["lease"],
        "{given_up:?}"
    );
    for lease in [&leases[0], &lease] {
        let id = lease["lease"].as_str().expect("an id");
        let back = inn.line(&format!("return {id} --wait --json")).ok().json();
        assert_eq!(back["outcome"], "clean", "{back}");
        // Returned twice is returned once.
        let again = inn.line(&format!("return {id} --wait --json"));
        assert!(
            again.code == 1 || again.json()["outcome"] == "clean",
            "{again:?}"
        );
    }
    Ok(())
}

pub(super) fn expiry(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let inn = house.inn();
    let template = json!({"env": {"INNKEEPER_TEST": "expiry"}, "supply": {"carry": "own"}});
    let template = inn.file("expiry.json", template.to_string());
    let line = [
        "lease",
        &house.base(),
        "--json",
        "--template",
        template.to_str().expect("plain"),
        "--ttl",
        "3s",
    ];
    let lease = inn.run(line).ok().json();
    let id = lease["lease"].as_str().expect("an id");
    inn.run(["exec", id, "--", "touch", "/left"]).ok();
    inn.until("it expires and is reset", || {
        let slots = inn.line("ps --json").ok().json();
        let slot = slots_of(&slots, &lease["template"])
            .find(|slot| slot["slot"] == lease["slot"])
            .cloned();
        match slot {
            Some(slot) if slot["state"] == "idle" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    inn.run(["exec", id, "--", "true"]).fails(125, "expired");
    let next = inn.run(line).ok().json();
    assert_eq!(
        (&next["slot"], &next["uses"]),
        (&lease["slot"], &1.into()),
        "{next}"
    );
    let next = next["lease"].as_str().expect("an id");
    inn.run(["exec", next, "--", "test", "!", "-e", "/left"])
        .ok();
    // Calls move the expiry; a command that runs is a call.
    let begun = Instant::now();
    inn.run(["exec", next, "--", "sleep", "4"]).ok();
    assert!(begun.elapsed() > Duration::from_secs(3));
    inn.run(["exec", next, "--", "true"]).ok();
    let kinds = kinds(&inn.line("events --json").ok().stdout, id);
    assert!(
        kinds.contains("expired") && kinds.contains("verified"),
        "{kinds:?}"
    );
    inn.line(&format!("return {next} --wait")).ok();
    Ok(())
}

/// Kinds of the events of a lease.
fn kinds(events: &str, lease: &str) -> BTreeSet<String> {
    let events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let own = events.filter(|event| event["lease"] == lease);
    own.map(|event| event["kind"].as_str().expect("a kind").to_owned())
        .collect()
}

pub(super) fn deadline(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let inn = house.inn();
    let template = json!({"env": {"INNKEEPER_TEST": "deadline"}, "supply": {"carry": "own"}});
    let template = inn.file("deadline.json", template.to_string());
    let line = [
        "lease",
        &house.base(),
        "--json",
        "--template",
        template.to_str().expect("plain"),
        "--max",
        "4s",
    ];
    let lease = inn.run(line).ok().json();
    let id = lease["lease"].as_str().expect("an id");
    let renewed = inn.line(&format!("renew {id} --ttl 2h --json")).ok().json();
    assert_eq!(renewed["deadline"], lease["deadline"]);
    assert!(
        renewed["expires"].as_f64() <= renewed["deadline"].as_f64(),
        "{renewed}"
    );
    // Even a command that runs is ended by it.
    let cut = inn.run(["exec", id, "--", "sleep", "1000"]);
    assert_eq!(cut.code, 125, "{cut:?}");
    inn.until("the deadline ends it", || {
        match inn.line(&format!("renew {id} --ttl 2h")) {
            ran if ran.code == 0 => Err(format!("{ran:?}")),
            _ => Ok(()),
        }
    });
    inn.run(["exec", id, "--", "true"]).fails(125, id);
    Ok(())
}
