//! Supply modes, the settings for replacements, and what slots carry.

use innkeeper_test_local::{Guest, House};
use serde_json::{Value, json};

use crate::Shared;

fn lease<'a>(house: &'a House, test: &str, supply: &Value) -> Guest<'a> {
    house.lease(test, &house.base(), &json!({"supply": supply}))
}

/// Slots that were made ready as a template.
fn slots(house: &House, template: &Value) -> Vec<Value> {
    let slots = house.inn().line("ps --json").ok().json();
    let ours = |slot: &&Value| slot["template"] == *template;
    slots
        .as_array()
        .expect("slots")
        .iter()
        .filter(ours)
        .cloned()
        .collect()
}

#[track_caller]
fn until_idle(house: &House, template: &Value, count: usize) {
    house.inn().until("slots stand idle", || {
        let slots = slots(house, template);
        let idle = slots.iter().filter(|slot| slot["state"] == "idle").count();
        if idle == count && slots.len() == count {
            Ok(())
        } else {
            Err(format!("{slots:?}"))
        }
    });
}

pub(super) fn on_demand(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let supply = json!({"mode": "on-demand", "carry": "own"});
    let mut seen = Vec::new();
    for _ in 0..3 {
        let guest = lease(house, "on-demand", &supply);
        assert_eq!(
            (&guest.lease["supply"], &guest.lease["uses"]),
            (&"fresh".into(), &0.into())
        );
        assert!(!seen.contains(&guest.lease["slot"]), "{seen:?}");
        seen.push(guest.lease["slot"].clone());
        let template = guest.lease["template"].clone();
        guest.give_back("swap");
        until_idle(house, &template, 0);
    }
    Ok(())
}

pub(super) fn warm(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let supply = json!({"mode": "warm", "carry": "own"});
    let first = lease(house, "warm", &supply);
    assert_eq!(
        first.lease["supply"], "fresh",
        "nothing stood ready: {}",
        first.lease
    );
    let (slot, template) = (first.lease["slot"].clone(), first.lease["template"].clone());
    first.give_back("swap");
    until_idle(house, &template, 1);
    let second = lease(house, "warm", &supply);
    assert_eq!(
        (&second.lease["supply"], &second.lease["uses"]),
        (&"warm".into(), &0.into()),
        "{}",
        second.lease
    );
    assert_ne!(
        second.lease["slot"], slot,
        "a slot that was used is not handed out again"
    );
    second.give_back("swap");
    Ok(())
}

pub(super) fn reuse(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    // One reuse, so that a slot's second lease is its last.
    for (replace, at_first, at_last) in [("on-lease", 2, 2), ("ahead", 1, 2), ("on-loss", 1, 1)] {
        let test = format!("reuse-{replace}");
        let supply = json!({"mode": "reuse", "replace": replace, "reuses": 1, "carry": "own"});
        let first = lease(house, &test, &supply);
        let (slot, template) = (first.lease["slot"].clone(), first.lease["template"].clone());
        assert_eq!(
            (&first.lease["supply"], &first.lease["uses"]),
            (&"fresh".into(), &0.into())
        );
        let settle = |expected: usize, when: &str| {
            house.inn().until("the replacement stands", || {
                let slots = slots(house, &template);
                let settled = slots.len() == expected
                    && slots.iter().all(|slot| {
                        ["idle", "leased"]
                            .iter()
                            .any(|state| slot["state"] == *state)
                    });
                if settled {
                    Ok(())
                } else {
                    Err(format!("{replace}, {when}: {slots:?}"))
                }
            });
        };
        settle(at_first, "first lease");
        first.comes_back_clean("swap");
        let second = lease(house, &test, &supply);
        assert_eq!(
            second.lease["slot"], slot,
            "the most used one goes first: {}",
            second.lease
        );
        assert_eq!(
            (&second.lease["supply"], &second.lease["uses"]),
            (&"reused".into(), &1.into())
        );
        if replace != "on-lease" {
            settle(at_last, "last lease");
        }
        let back = second.comes_back_clean("swap");
        assert_eq!(back["retired"], "worn", "{back}");
        let third = lease(house, &test, &supply);
        assert_ne!(third.lease["slot"], slot);
        assert_eq!(third.lease["uses"], 0, "{}", third.lease);
        let expected = if replace == "on-loss" {
            ["fresh", "warm"]
        } else {
            ["warm", "warm"]
        };
        assert!(
            expected
                .iter()
                .any(|supply| third.lease["supply"] == *supply),
            "{replace}: {}",
            third.lease
        );
        third.comes_back_clean("swap");
        println!("reuse: {replace} done");
    }
    Ok(())
}

pub(super) fn carry(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let image = house
        .images("demo/build.sh", &["--only", "boltons__unique-key"])?
        .remove(0);
    let base = house.base();
    // A limit that no other test has gives a pool that no other test uses.
    let any = json!({"resources": {"pids": 333}, "supply": {"carry": "any"}});
    let first = house.lease("any-one", &base, &any);
    let slot = first.lease["slot"].clone();
    let one = first.lease["template"].clone();
    first.comes_back_clean("swap");
    let second = house.lease("any-two", &image, &any);
    assert_ne!(second.lease["template"], one);
    assert_eq!(
        (&second.lease["slot"], &second.lease["specialised"]),
        (&slot, &true.into()),
        "{}",
        second.lease
    );
    assert_eq!(
        (&second.lease["uses"], &second.lease["supply"]),
        (&1.into(), &"reused".into()),
        "{}",
        second.lease
    );
    second.bash("git -C /testbed rev-parse HEAD").ok();
    second.comes_back_clean("full");
    let third = house.lease("any-one", &base, &any);
    assert_eq!(
        (&third.lease["slot"], &third.lease["uses"]),
        (&slot, &2.into()),
        "{}",
        third.lease
    );
    third.bash("test ! -e /testbed/.git").ok();
    third.comes_back_clean("full");

    let own = json!({"resources": {"pids": 334}, "supply": {"carry": "own"}});
    let first = house.lease("own-one", &base, &own);
    let slot = first.lease["slot"].clone();
    first.comes_back_clean("swap");
    let second = house.lease("own-two", &image, &own);
    assert_ne!(
        second.lease["slot"], slot,
        "a slot that carries its own image is none of another"
    );
    assert_eq!(second.lease["uses"], 0);
    second.comes_back_clean("swap");
    Ok(())
}
