//! Managers that end, and daemons: what is kept, what is lost, what is removed.

use super::*;

#[tokio::test]
async fn a_restart_keeps_leases_and_leaks_nothing() {
    let world = World::new();
    let handle = world.start().await;
    let kept = lease(&handle, "kept").await.unwrap();
    let sandbox = route(&handle, &kept.lease.id).unwrap().sandbox();
    world.fake.hold(Op::Create);
    let asking = tokio::spawn({
        let handle = handle.clone();
        async move { lease(&handle, "under way").await }
    });
    until(|| world.fake.calls(Op::Create) == 2).await;
    asking.abort();
    let _ = asking.await;
    drop(handle);
    world.fake.stray("s-nobody");
    world.fake.release(Op::Create);

    let handle = world.start().await;
    assert_eq!(route(&handle, &kept.lease.id).unwrap().sandbox(), sandbox);
    until(|| !world.fake.slots().contains(&"s-nobody".to_owned())).await;
    let again = lease(&handle, "kept").await.unwrap();
    assert_eq!(again.lease.id, kept.lease.id);
    assert_eq!(again.seat.boot_id, "boot-1");
    let settled = |slots: &[SlotRow]| slots.iter().all(|slot| slot.state != "creating");
    until_slots(&handle, settled).await;
    let rows = handle.slots(None).await;
    let known: Vec<_> = rows.iter().map(|row| row.slot.to_string()).collect();
    assert_eq!(known, world.fake.slots(), "every slot has a record");
    let returned = give_back(&handle, &kept.lease.id).await;
    assert!(
        matches!(returned.outcome, Some(Outcome::Clean { .. })),
        "{:?}",
        returned.outcome
    );
    assert_eq!(
        world.fake.prepared(),
        1,
        "the baseline outlived the manager"
    );
}

#[tokio::test]
async fn a_reset_cut_by_a_restart_is_never_clean() {
    let world = World::new();
    let handle = world.start().await;
    let granted = lease(&handle, "r").await.unwrap();
    world.fake.hold(Op::Reset);
    handle
        .give_back(granted.lease.id.as_str(), false, Depth::Swap, false)
        .await
        .unwrap();
    until(|| world.fake.calls(Op::Reset) == 1).await;
    drop(handle);
    // The daemon finishes the reset; its answer reaches nobody.
    world.fake.release(Op::Reset);
    let handle = world.start().await;
    let returned = give_back(&handle, &granted.lease.id).await;
    let next = lease(&handle, "next").await.unwrap();
    if matches!(returned.outcome, Some(Outcome::Clean { .. })) {
        assert_eq!(next.lease.slot, granted.lease.slot);
    } else {
        assert_ne!(next.lease.slot, granted.lease.slot);
    }
    let slot = granted.lease.slot.to_string();
    until(|| next.lease.slot.0 == slot || !world.fake.slots().contains(&slot)).await;
}

#[tokio::test]
async fn the_daemons_end_loses_its_leases_with_a_typed_error() {
    let world = World::new();
    let handle = world.start().await;
    let granted = lease(&handle, "r").await.unwrap();
    let running = route(&handle, &granted.lease.id).unwrap();
    world.fake.restart();
    running.call.over().await;
    until(|| {
        let error = route(&handle, &granted.lease.id).unwrap_err().to_string();
        let lease = &granted.lease.id;
        error == format!("lease {lease} has ended: lost (execd ended)")
    })
    .await;
    let next = lease(&handle, "next").await.unwrap();
    assert_eq!(next.seat.boot_id, "boot-1x");
}

#[tokio::test]
async fn the_daemon_is_held_for_as_long_as_a_lease_may_last() {
    let world = World::new();
    let handle = world.start().await;
    let granted = lease(&handle, "r").await.unwrap();
    until(|| world.fake.held_until() == granted.lease.deadline).await;
    give_back(&handle, &granted.lease.id).await;
    until(|| world.fake.held_until() == 0).await;
}

#[tokio::test]
async fn emptying_removes_everything_of_this_life() {
    let world = World::new();
    let handle = world.start_as(true).await;
    let caller = Caller {
        pid: Some(std::process::id() as i32),
        unnamed: true,
    };
    let held = handle
        .lease(request(&handle, "a", "make", "default"), caller)
        .await
        .unwrap();
    let free = lease(&handle, "b").await.unwrap();
    give_back(&handle, &free.lease.id).await;
    assert_eq!(handle.empty().await, 0);
    assert!(world.fake.slots().is_empty());
    let mut reader = handle.events().read(0);
    let lines = std::iter::from_fn(|| reader.next_written().unwrap());
    assert!(
        lines
            .into_iter()
            .all(|line| line.tenant.as_deref() == Some("default"))
    );
    assert!(route(&handle, &held.lease.id).is_err());
    assert!(matches!(lease(&handle, "c").await, Err(Refused::Stopping)));
}

#[tokio::test]
async fn leases_of_a_command_that_was_killed_end_with_its_successor() {
    let world = World::new();
    let handle = world.start_as(true).await;
    let granted = lease(&handle, "a").await.unwrap();
    drop(handle);
    let handle = world.start().await;
    until(|| route(&handle, &granted.lease.id).is_err()).await;
    let slot = granted.lease.slot.to_string();
    until(|| !world.fake.slots().contains(&slot)).await;
}

#[tokio::test]
async fn stopping_waits_for_what_is_under_way() {
    let world = World::new();
    let handle = world.start().await;
    let granted = lease(&handle, "a").await.unwrap();
    world.fake.hold(Op::Reset);
    handle
        .give_back(granted.lease.id.as_str(), false, Depth::Swap, false)
        .await
        .unwrap();
    until(|| world.fake.calls(Op::Reset) == 1).await;
    let stopping = tokio::spawn({
        let handle = handle.clone();
        async move { handle.stop(Duration::from_secs(600)).await }
    });
    world.fake.release(Op::Reset);
    stopping.await.unwrap();
    drop(handle);
    let handle = world.start().await;
    let returned = give_back(&handle, &granted.lease.id).await;
    assert!(
        matches!(returned.outcome, Some(Outcome::Clean { .. })),
        "{:?}",
        returned.outcome
    );
}
