//! What belongs to others: the manager's sockets, the environment of other leases, their files.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::Shared;

/// Looks for a text in everything that can be read, and connects to every socket there is.
const SEARCH: &str = include_str!("search.py");

pub(super) fn of_others(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let base = house.base();
    let word = format!("innkeeper-secret-{}", std::process::id());
    // Its environment, a command's, a file in its upper, and one in memory.
    let secret = json!({"env": {"INNKEEPER_TEST": "secrets", "SECRET": word}, "upper": "disk", "resources": {"disk": "64Mi", "inodes": 5000}});
    let one = house.lease("secrets", &base, &secret);
    let other = house.lease("secrets-other", &base, &json!({}));
    one.bash(&format!(
        "echo {word} >/srv/secret; echo {word} >/dev/shm/secret"
    ))
    .ok();
    let holding = house
        .inn()
        .command([
            "exec",
            &one.id,
            "--env",
            &format!("TOKEN={word}"),
            "--",
            "sleep",
            "infinity",
        ])
        .spawn();
    let mut holding = holding.expect("started");
    house.inn().until("it holds the secret", || {
        match one.bash("pgrep -x sleep").code {
            0 => Ok(()),
            code => Err(code.to_string()),
        }
    });
    let search = |guest: &innkeeper_test_local::Guest<'_>| {
        // In two halves, or it would find itself.
        let (head, tail) = word.split_at(9);
        guest
            .python(&SEARCH.replace("HEAD", head).replace("TAIL", tail))
            .ok()
            .json()
    };
    let own = search(&one);
    let places = own["found"].to_string();
    for place in ["/srv/secret", "/dev/shm/secret", "environ"] {
        assert!(
            places.contains(place),
            "the control: {place} is not in {places}"
        );
    }
    let seen = search(&other);
    assert_eq!(seen["found"], json!([]), "{seen}");
    assert!(seen["read"].as_u64() > Some(1000), "{seen}");
    assert_eq!(seen["connected"], json!([]), "{seen}");
    // Nor does who comes after it in the same slot.
    let slot = one.lease["slot"].clone();
    one.comes_back_clean("swap");
    holding.wait().expect("reaped");
    let plain = json!({"env": {"INNKEEPER_TEST": "secrets", "SECRET": word}, "upper": "disk", "resources": {"disk": "64Mi", "inodes": 5000}});
    let next = house.lease("secrets", &base, &plain);
    assert_eq!(next.lease["slot"], slot);
    let seen = search(&next);
    let places: Vec<_> = seen["found"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|place| place.as_str())
        .collect();
    assert!(
        places.iter().all(|place| place.ends_with("environ")),
        "its own environment only: {places:?}"
    );
    next.comes_back_clean("swap");
    other.comes_back_clean("swap");
    sockets(house.inn().state());
    Ok(())
}

/// The control: on the machine itself the sockets are there and take connections.
fn sockets(state: &Path) {
    let program = "import socket, sys\nfor path in sys.argv[1:]: socket.socket(socket.AF_UNIX).connect(path)\nprint('connected')";
    let paths = ["innkeeper.sock", "execd/execd.sock"].map(|name| state.join(name));
    let ran = Command::new("python3")
        .args(["-IBc", program])
        .args(paths)
        .output()
        .expect("started");
    assert_eq!(ran.stdout, b"connected\n", "the control: {ran:?}");
}
