//! Ids that no map has, control groups, and processes beyond the pid namespace. The same program
//! runs on the machine itself, where it works.

use std::process::Command;

use serde_json::{Value, json};

use crate::Shared;

/// Prints {name: errno}, 0 for what worked. Its arguments: a pid of the host, `control`.
const HOLES: &str = include_str!("holes.py");

pub(super) fn holes(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let guest = house.lease("holes", &house.base(), &json!({}));
    let daemon = house.inn().daemons()[0].to_string();
    let inside = guest
        .python(&HOLES.replace("HOST_PID", &daemon))
        .ok()
        .json();
    let worked: Vec<_> = by_name(&inside).filter(|(_, errno)| *errno <= 0).collect();
    assert!(worked.is_empty(), "inside, this worked: {worked:?}");
    guest.comes_back_clean("swap");
    let program = HOLES.replace("HOST_PID", &daemon);
    // In namespaces of its own, so that nothing of it stays.
    let own = [
        "--mount",
        "--propagation",
        "private",
        "--cgroup",
        "--",
        "python3",
        "-IBc",
        &program,
    ];
    let ran = Command::new("unshare").args(own).output().expect("started");
    let outside: Value =
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let refused: Vec<_> = by_name(&outside).filter(|(_, errno)| *errno != 0).collect();
    let all = by_name(&outside).count();
    assert!(
        refused.len() * 2 < all,
        "the control: outside, this was refused: {refused:?}"
    );
    println!(
        "holes: {all} refused inside, {} of them work outside",
        all - refused.len()
    );
    Ok(())
}

fn by_name(document: &Value) -> impl Iterator<Item = (&str, i64)> {
    let entries = document.as_object().expect("an object").iter();
    entries.map(|(name, errno)| (name.as_str(), errno.as_i64().expect("a number")))
}
