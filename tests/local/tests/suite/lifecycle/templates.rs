//! Services, prepare, and what makes a template single use.

use std::collections::BTreeSet;
use std::thread;

use serde_json::json;

use crate::Shared;

pub(super) fn services(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let base = house.base();
    let server = |port: &str| {
        json!([
            "/usr/bin/python3",
            "-IBm",
            "http.server",
            "--bind",
            "127.0.0.1",
            port
        ])
    };
    let template = json!({
        "workdir": "/srv",
        "services": [
            {"name": "by-http", "argv": server("8001"), "ready": {"http": "http://127.0.0.1:8001/"}},
            {"name": "by-tcp", "argv": server("8002"), "user": "nobody", "cwd": "/tmp", "ready": {"tcp": 8002}},
            {"name": "by-argv", "argv": ["bash", "-c", "touch /run/up; exec sleep infinity"], "env": {"MARK": "set"},
             "ready": {"argv": ["test", "-e", "/run/up"]}},
        ],
    });
    let up = "curl -sf http://127.0.0.1:8001/ >/dev/null && curl -sf http://127.0.0.1:8002/ >/dev/null && test -e /run/up && pgrep -cx sleep";
    let mut slot = None;
    for uses in 0..3 {
        let guest = house.lease("services", &base, &template);
        assert_eq!(guest.lease["uses"], uses, "{}", guest.lease);
        assert_eq!(
            slot.get_or_insert(guest.lease["slot"].clone()),
            &guest.lease["slot"]
        );
        assert_eq!(guest.bash(up).ok().stdout, "1\n");
        let owner = guest
            .bash("stat -c %U /proc/$(pgrep -f 'http.server.*[8]002')")
            .ok()
            .stdout;
        assert_eq!(owner, "nobody\n");
        // What a rollout does to services does not outlive it.
        guest.bash("pkill -f [h]ttp.server.*8001; pkill -x sleep; rm /run/up; echo changed > /srv/index.html; true").ok();
        guest.bash(up).fails(7, "");
        let back = guest.comes_back_clean(["swap", "walk", "full"][uses]);
        assert_eq!(back["components"]["processes"]["equal"], true, "{back}");
        assert_eq!(back["components"]["network"]["equal"], true, "{back}");
    }
    // A service that never gets ready is an error that names it.
    let never = json!({"services": [{"name": "shy", "argv": ["false"], "ready": {"tcp": 9}}]});
    let file = house.inn().file("never.json", never.to_string());
    let ran = house.inn().run([
        "lease",
        &base,
        "--timeout",
        "5s",
        "--template",
        file.to_str().expect("plain"),
    ]);
    assert_eq!(ran.code, 1, "{ran:?}");
    println!(
        "services: came back {} times; one that fails: {}",
        3,
        ran.stderr.trim()
    );
    Ok(())
}

pub(super) fn differing_service(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let argv = ["bash", "-c", "exec -a idle-$RANDOM$RANDOM sleep infinity"];
    let template = json!({"services": [{"name": "odd", "argv": argv}]});
    let guest = house.lease("differing", &house.base(), &template);
    let back = guest.give_back("swap");
    assert_eq!(back["outcome"], "tainted", "{back}");
    assert_eq!(back["differs"][0]["component"], "processes", "{back}");
    assert_eq!(back["components"]["files"]["equal"], true, "{back}");
    println!("differing: {}", back["differs"][0]);
    Ok(())
}

pub(super) fn prepare(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let base = house.base();
    let script = "date +%N > /srv/stamp; head -c 8 /dev/urandom | base64 >> /srv/stamp; mkdir /srv/made; chown nobody /srv/made";
    let template = json!({"prepare": [["bash", "-c", script], ["touch", "/srv/made/more"]]});
    let guests: Vec<_> = thread::scope(|scope| {
        let lease = || house.lease("prepare", &base, &template);
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(lease)).collect();
        asked
            .into_iter()
            .map(|thread| thread.join().expect("a lease"))
            .collect()
    });
    let seen = |values: Vec<String>| values.into_iter().collect::<BTreeSet<_>>();
    let slots = seen(
        guests
            .iter()
            .map(|guest| guest.lease["slot"].to_string())
            .collect(),
    );
    let baselines = seen(
        guests
            .iter()
            .map(|guest| guest.lease["baseline"].to_string())
            .collect(),
    );
    let look = "cat /srv/stamp; stat -c '%U %y' /srv/made /srv/made/more";
    let stamps = seen(
        guests
            .iter()
            .map(|guest| guest.bash(look).ok().stdout)
            .collect(),
    );
    assert_eq!(
        (slots.len(), baselines.len(), stamps.len()),
        (8, 1, 1),
        "{slots:?} {baselines:?} {stamps:?}"
    );
    println!("prepare: 8 slots, baseline {baselines:?}");
    for guest in guests {
        guest.comes_back_clean("swap");
    }
    // A command that fails is told with what it said.
    let failing = json!({"prepare": [["bash", "-c", "echo no luck; exit 3"]]});
    let file = house.inn().file("failing.json", failing.to_string());
    let line = [
        "lease",
        &base,
        "--timeout",
        "20s",
        "--template",
        file.to_str().expect("plain"),
    ];
    let ran = house.inn().run(line).fails(1, "no luck");
    println!("prepare: one that fails: {}", ran.stderr.trim());
    Ok(())
}

pub(super) fn leftover(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let template =
        json!({"prepare": [["bash", "-c", "setsid sleep 1234 >/dev/null 2>&1 & exit 0"]]});
    let guest = house.lease("leftover", &house.base(), &template);
    let slot = guest.lease["slot"].clone();
    assert_eq!(
        guest.bash("pgrep -c sleep").code,
        1,
        "what prepare left does not run in a sandbox"
    );
    let back = guest.give_back("swap");
    let why = back["retired"].as_str().unwrap_or_default();
    assert!(
        why.contains("single use") && why.contains("sleep"),
        "{back}"
    );
    let next = house.lease("leftover", &house.base(), &template);
    assert_ne!(next.lease["slot"], slot);
    assert_eq!(
        (&next.lease["uses"], next.lease["supply"] == "reused"),
        (&0.into(), false),
        "{}",
        next.lease
    );
    println!("leftover: {why}");
    next.give_back("swap");
    Ok(())
}

pub(super) fn host_network(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let template = json!({"network": "host"});
    let guest = house.lease("host-network", &house.base(), &template);
    guest
        .bash(&format!("exec 3<>/dev/tcp/127.0.0.1/{port}"))
        .ok();
    let slot = guest.lease["slot"].clone();
    let back = guest.give_back("swap");
    let why = back["retired"].as_str().unwrap_or_default();
    assert!(why.contains("single use"), "{back}");
    let next = house.lease("host-network", &house.base(), &template);
    assert_ne!(next.lease["slot"], slot);
    next.give_back("swap");
    println!("host network: {why}");
    Ok(())
}
