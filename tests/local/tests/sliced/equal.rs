//! A reset sandbox equals a fresh one, and one pod's equals another's.

use innkeeper_test_cli::Rootfs;
use serde_json::{Value, json};

use crate::{Shared, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("eight_rollouts_come_back_clean", eight),
    ("a_removed_root_is_back", removed),
    ("two_pods_of_an_image_are_equal", pods),
    ("nothing_of_the_pod_is_in_a_sandbox", nothing),
    ("an_image_too_small_for_slices_is_one_overlay", small),
];

/// Something of every kind in the root and in a slice.
const CHANGES: &str = r#"set -e
    test ! -e /root/seen; touch /root/seen; rm -rf /usr/share/doc /var/lib/dpkg
    chown -R 1000:1000 /etc; chmod 600 /tmp; chmod 700 /usr; touch /usr /
    mkdir /opt/new; ln /etc/passwd /opt/new/passwd; ln /usr/bin/env /usr/bin/again
    mkfifo /usr/pipe; ln -s nowhere /usr/link; mv /usr/games /usr/moved
    python3 - <<'END'
import mmap, os, socket
os.setxattr('/usr', 'user.note', b'left')
with open('/usr/bin/env', 'r+b') as program:
    mmap.mmap(program.fileno(), 0)[100:104] = b'EVIL'
deep = os.open('/usr', os.O_RDONLY)
for _ in range(300):
    os.mkdir('d', dir_fd=deep)
    deep = os.open('d', os.O_RDONLY, dir_fd=deep)
if os.fork() == 0:
    os.setsid()
    listener = socket.create_server(('127.0.0.1', 8080))
    os.closerange(0, 3)
    listener.accept()
END
    ipcmk -M 4096 >/dev/null; echo x > /dev/shm/left
    for program in 1 2 3; do (setsid sleep 1000 >/dev/null 2>&1 &); done
"#;

fn eight(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let image = house.base();
    let (mut uses, mut leases) = (Vec::new(), Vec::new());
    let mut fresh = None;
    for round in 0..9 {
        let guest = house.lease("sliced-eight", &image, &json!({}));
        assert_eq!(
            (&guest.lease["strategy"], &guest.lease["layout"]),
            (&json!("sliced"), &json!("sliced"))
        );
        uses.push(guest.lease["uses"].clone());
        let now = guest.list();
        match &fresh {
            None => fresh = Some(now),
            Some(fresh) => fresh.assert_equal(&now),
        }
        guest.bash(CHANGES).ok();
        leases.push(guest.id.clone());
        guest.comes_back_clean(["swap", "walk", "full"][round % 3]);
    }
    let times = milliseconds(shared, &leases);
    assert!(uses.iter().any(|uses| uses == 8), "{uses:?}");
    println!("sliced: 9 resets clean, milliseconds of swap, walk, full in turn: {times:.0?}");
    Ok(())
}

/// How long the resets of leases took, as the manager's events have it.
fn milliseconds(shared: &Shared, leases: &[String]) -> Vec<f64> {
    let events = shared.house().inn().state().join("manager/events.jsonl");
    let events = std::fs::read_to_string(events).expect("events");
    events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|event| event["kind"] == "verified")
        .filter(|event| leases.iter().any(|lease| event["lease"] == lease.as_str()))
        .filter_map(|event| event["ms"].as_f64())
        .collect()
}

fn removed(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let image = house.base();
    let guest = house.lease("sliced-removed", &image, &json!({}));
    let (slot, before) = (guest.lease["slot"].clone(), guest.list());
    guest.bash("rm -rf --no-preserve-root / 2>/dev/null");
    assert_ne!(guest.bash("true").code, 0, "there is no shell any more");
    guest.comes_back_clean("swap");
    let again = house.lease("sliced-removed", &image, &json!({}));
    assert_eq!(again.lease["slot"], slot, "the same pod");
    before.assert_equal(&again.list());
    again.comes_back_clean("full");
    Ok(())
}

/// The second is compared in full with what the first recorded, before it is leased.
fn pods(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let image = house.base();
    let lease = || house.lease("sliced-pods", &image, &json!({}));
    let (one, two) = (lease(), lease());
    assert_ne!(one.lease["slot"], two.lease["slot"]);
    assert_eq!(one.lease["baseline"], two.lease["baseline"]);
    one.list().assert_equal(&two.list());
    one.comes_back_clean("swap");
    two.comes_back_clean("swap");
    Ok(())
}

fn nothing(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let guest = house.lease("sliced-nothing", &house.base(), &json!({}));
    let names = guest.bash("ls -a /").ok().stdout;
    assert!(!names.contains("innkeeper"), "{names}");
    let slot = guest.lease["slot"].as_str().expect("a name");
    let found = guest.bash(&format!("grep -rl {slot} /etc /run; true"));
    assert_eq!(found.ok().stdout, "", "the pod's own files");
    guest.comes_back_clean("swap");
    Ok(())
}

fn small(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let rootfs = Rootfs::make(&house.inn().path("small"));
    house.import("small", &rootfs.folder);
    let guest = house.lease("sliced-small", "small", &json!({}));
    let mounts = guest.bash("cat /proc/self/mounts").ok().stdout;
    assert!(!mounts.contains(" /usr "), "{mounts}");
    guest
        .bash("mv /testbed /usr/moved; rm -rf /etc; touch /left; ln /usr/bin/env /env")
        .ok();
    for depth in ["swap", "walk", "full"] {
        let guest = house.lease("sliced-small", "small", &json!({}));
        guest.bash("touch /left /usr/left").ok();
        guest.comes_back_clean(depth);
    }
    guest.comes_back_clean("swap");
    Ok(())
}
