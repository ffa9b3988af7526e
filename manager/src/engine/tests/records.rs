//! Records say what happened: invariant I9, also under faults and restarts.

use innkeeper_records::{PublicKey, check};
use serde_json::{Value, json};

use super::*;

/// A record as a stranger checks it: with the public key alone.
fn checked(world: &World, record: &str) -> Value {
    let key = PublicKey::read(&world.path().join("attest.pub")).unwrap();
    check(record.as_bytes(), &key).unwrap().record.into()
}

async fn kept(world: &World, handle: &Handle, lease: &LeaseId) -> Value {
    checked(world, &handle.record(lease.as_str()).await.unwrap())
}

#[tokio::test]
async fn supply_uses_and_digests_are_those_of_the_lease() {
    let world = World::new();
    let handle = world.start().await;
    for n in 0..10_u32 {
        let granted = lease(&handle, &format!("r{n}")).await.unwrap().lease;
        let returned = give_back(&handle, &granted.id).await;
        let record = checked(&world, &returned.record.unwrap());
        let (was, back) = (&record["lease"], &record["return"]);
        let reused = n % 9 != 0;
        assert_eq!(was["uses"], n % 9, "{record}");
        assert_eq!(was["supply"] == "reused", reused, "{record}");
        assert_eq!(was["sandbox"], granted.sandbox());
        assert_eq!(was["slot"], granted.slot.as_str());
        assert_eq!(was["template"], granted.template.as_str());
        assert_eq!(
            (&was["boot_id"], &was["strategy"]),
            (&json!("boot-1"), &json!("layered"))
        );
        assert_eq!(
            (&back["outcome"], &back["how"]),
            (&json!("clean"), &json!("returned"))
        );
        assert_eq!(back["digest"], was["baseline"], "{record}");
        let files = &back["components"]["files"];
        assert_eq!(
            (&files["digest"], &files["equal"]),
            (&was["components"]["files"], &json!(true))
        );
        assert!(back["components"].get("all").is_none() && was["components"].get("all").is_none());
        assert_eq!(
            back["verified"],
            if n % 9 % 4 == 3 { "walk" } else { "swap" },
            "{record}"
        );
        assert_eq!(back["retired"].is_null(), n != 8, "{record}");
        assert_eq!(record["image"]["digest"], "sha256:1");
        assert_eq!(record["versions"]["platform"], "fake");
        assert_eq!(record["kind"], "return");
    }
}

#[tokio::test]
async fn every_fault_is_on_record_as_what_it_was() {
    for (fault, outcome, why) in [
        (Some(Fault::Bad), "tainted", "left behind /x"),
        (Some(Fault::Refused), "tainted", "the fake refuses"),
        (Some(Fault::AnswerLost), "tainted", "the answer was lost"),
        (None, "discarded", "discarded"),
    ] {
        let world = World::new();
        let handle = world.start().await;
        let granted = lease(&handle, "r").await.unwrap().lease;
        let id = granted.id.as_str();
        world.fake.fail(Op::Reset, fault);
        let discard = fault.is_none();
        let returned = handle
            .give_back(id, discard, Depth::Swap, true)
            .await
            .unwrap();
        let record = checked(&world, &returned.record.unwrap());
        let back = &record["return"];
        assert_eq!(back["outcome"], outcome, "{record}");
        assert!(back["retired"].as_str().unwrap().contains(why), "{record}");
        assert!(
            back["digest"].is_null(),
            "a digest that nobody proved: {record}"
        );
        let again = handle
            .give_back(id, false, Depth::Full, true)
            .await
            .unwrap();
        assert_eq!(
            checked(&world, &again.record.unwrap()),
            record,
            "a repeat gets the same"
        );
    }
}

#[tokio::test]
async fn a_lost_sandbox_has_a_record_and_names_no_daemon_that_did_not_hold_it() {
    let world = World::new();
    let handle = world.start().await;
    let granted = lease(&handle, "r").await.unwrap().lease;
    world.fake.restart();
    until_slots(&handle, |slots| {
        slots.iter().all(|slot| slot.lease.is_none())
    })
    .await;
    let record = kept(&world, &handle, &granted.id).await;
    assert_eq!(record["return"]["how"], "lost", "{record}");
    assert_eq!(record["return"]["outcome"], "discarded");
    assert_eq!(record["lease"]["boot_id"], "boot-1");
    assert!(record["versions"]["platform"].is_null(), "{record}");
}

#[tokio::test]
async fn what_a_holder_states_is_signed_once_and_as_its_word() {
    let world = World::new();
    let handle = world.start().await;
    let granted = lease(&handle, "r").await.unwrap().lease;
    let stated = |verdict: &str| json!({ "verdict": verdict }).as_object().unwrap().clone();
    handle.state(granted.id.as_str(), stated("resolved"));
    handle.state(granted.id.as_str(), stated("unresolved"));
    let returned = give_back(&handle, &granted.id).await;
    let record = checked(&world, &returned.record.unwrap());
    assert_eq!(
        (&record["kind"], &record["verdict"]),
        (&json!("grading"), &json!("resolved"))
    );
    assert_eq!(record["stated_by_holder"], json!(["verdict"]));
    handle.state(granted.id.as_str(), stated("unresolved"));
    assert_eq!(kept(&world, &handle, &granted.id).await, record);
}

#[tokio::test]
async fn a_record_that_a_killed_manager_owed_is_made_by_the_next() {
    let world = World::new();
    let handle = world.start().await;
    let first = lease(&handle, "first").await.unwrap().lease;
    let record = give_back(&handle, &first.id).await.record.unwrap();
    let second = lease(&handle, "second").await.unwrap().lease;
    give_back(&handle, &second.id).await;
    drop(handle);
    let file = world.path().join(format!("records/{}.json", second.id));
    until(|| StateDir::open(world.path()).is_ok()).await;
    std::fs::remove_file(&file).unwrap();

    let handle = world.start().await;
    let made = kept(&world, &handle, &second.id).await;
    assert_eq!(made["lease"]["uses"], 1, "{made}");
    assert_eq!(made["return"]["outcome"], "clean");
    assert_eq!(made["return"]["digest"], made["lease"]["baseline"]);
    assert_eq!(made["return"]["components"]["files"]["equal"], true);
    assert!(
        made["return"]["reset_us"].is_null(),
        "only the dead one knew: {made}"
    );
    let kept = handle.record(first.id.as_str()).await.unwrap();
    assert_eq!(kept, record, "what was signed is not signed again");
    assert_eq!(handle.record("l-nobody").await, None);
}

#[tokio::test]
async fn a_manager_with_a_damaged_key_does_not_start() {
    let world = World::new();
    drop(world.start().await);
    until(|| StateDir::open(world.path()).is_ok()).await;
    std::fs::write(world.path().join("attest.key"), "").unwrap();
    let parts = Parts {
        state: StateDir::open(world.path()).unwrap(),
        provider: Arc::clone(&world.fake) as Arc<dyn Provider>,
        config: Config::default(),
        embedded: false,
        metrics: Arc::default(),
    };
    let error = super::start(parts).await.unwrap_err().to_string();
    assert!(
        error.contains("attest.key holds no ed25519 private key"),
        "{error}"
    );
}
