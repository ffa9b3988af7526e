//! Sandboxes with no more than a default pod's rights: what guests reach of the daemon that shares
//! their container, what holds them together, and what a reset makes of it.

use innkeeper_test_local::Guest;
use serde_json::{Value, json};

use crate::{Shared, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_guest_cannot_touch_the_daemon", untouched),
    ("eight_rollouts_come_back_clean", eight),
    ("a_guest_that_kills_everything_goes_on", everything),
    ("a_storm_of_forks_is_ended", storm),
    ("a_guest_that_fights_its_end_loses", fight),
    ("a_timeout_ends_what_left_its_command", timeout),
    ("nodes_are_the_containers_and_stay_as_they_are", nodes),
    ("services_come_back_and_are_compared", services),
    ("pids_of_one_pod_are_no_others", pids),
    ("memory_of_one_pod_is_no_others", memory),
    ("a_copied_workdir_can_be_renamed", workdir),
];

const REACH: &str = include_str!("pod/reach.py");

fn untouched(shared: &Shared) -> Result<(), String> {
    let house = shared.pods();
    let guest = house.lease("reach", &house.base(), &json!({}));
    assert_eq!(guest.lease["rights"], "pod", "{}", guest.lease);
    let seen = guest.python(REACH).ok().json();
    let names = |what: &str| -> Vec<String> {
        let list = seen[what].as_array().expect("a list").iter();
        list.map(|name| name.as_str().expect("a name").to_owned())
            .collect()
    };
    let others = names("others");
    assert!(others.len() >= 2, "the daemon is to be seen: {others:?}");
    let control = names("control");
    for what in [
        "stop",
        "limit",
        "score",
        "priority",
        "trace",
        "environment",
        "kill",
    ] {
        assert!(control.iter().any(|c| c == what), "{what}: {control:?}");
    }
    assert_eq!(names("worked"), Vec::<String>::new());
    println!(
        "reach: nothing of the daemon's, {} ways of its own child",
        control.len()
    );
    guest.bash("echo alive").ok();
    guest.comes_back_clean("swap");
    Ok(())
}

/// Everything that a rollout may change, told from outside by the digests alone.
fn eight(shared: &Shared) -> Result<(), String> {
    let house = shared.pods();
    let image = house.base();
    let mut slots = std::collections::BTreeSet::new();
    let mut uses = Vec::new();
    for round in 0..9 {
        let guest = house.lease("eight", &image, &json!({}));
        slots.insert(guest.lease["slot"].to_string());
        uses.push(guest.lease["uses"].clone());
        guest
            .bash(&format!(
                "set -e\n\
                 test ! -e /root/seen; touch /root/seen; rm -rf /usr/share/doc /var/lib/dpkg\n\
                 chown -R 1000:1000 /etc; chmod 600 /tmp; mkdir /opt/new; ln /etc/passwd /opt/new/passwd\n\
                 setcap cap_net_raw+ep /bin/true 2>/dev/null || true\n\
                 python3 -c 'import os; os.setxattr(\"/root/seen\", \"user.round\", b\"{round}\")'\n\
                 (setsid sleep 1000 >/dev/null 2>&1 &); ipcmk -M 4096 >/dev/null\n\
                 echo x > /dev/shm/left"
            ))
            .ok();
        guest.comes_back_clean(["swap", "walk", "full"][round % 3]);
    }
    assert!(uses.iter().any(|uses| uses == 8), "{uses:?} in {slots:?}");
    Ok(())
}

fn everything(shared: &Shared) -> Result<(), String> {
    let house = shared.pods();
    let guest = house.lease("everything", &house.base(), &json!({}));
    for _ in 0..3 {
        guest.bash("kill -9 -1; kill -STOP -1; true");
        guest.bash("echo alive").ok();
    }
    guest.comes_back_clean("swap");
    Ok(())
}

fn storm(shared: &Shared) -> Result<(), String> {
    let house = shared.pods();
    let guest = house.lease("storm", &house.base(), &json!({"resources": {"pids": 400}}));
    // Forks that exit at once, forks that leave their session, and some that only stay.
    let script = "for i in 1 2 3; do\n\
                  (while :; do (setsid sh -c 'sleep 100 & exec sleep 0.01' &) 2>/dev/null; done) >/dev/null 2>&1 &\n\
                  done; sleep 1";
    guest.with(&["--timeout", "5s"], &["bash", "-c", script]);
    guest.comes_back_clean("swap");
    Ok(())
}

/// Its processes ignore what can be ignored and kill whoever comes in.
fn fight(shared: &Shared) -> Result<(), String> {
    let house = shared.pods();
    let guest = house.lease("fight", &house.base(), &json!({}));
    let program = "import os, signal\n\
                   for number in range(1, 65):\n    try: signal.signal(number, signal.SIG_IGN)\n    except (OSError, ValueError): pass\n\
                   if os.fork() == 0:\n    os.setsid()\n    [os.close(n) for n in range(3)]\n    if os.fork() == 0:\n        \
                   while True:\n            for number in (signal.SIGSTOP, signal.SIGKILL):\n                try: os.kill(-1, number)\n                except OSError: pass\n";
    guest.python(program);
    guest.comes_back_clean("swap");
    Ok(())
}

/// What a command started is known whatever session, group and parent it has.
fn timeout(shared: &Shared) -> Result<(), String> {
    let house = shared.pods();
    let guest = house.lease("timeout", &house.base(), &json!({}));
    let elsewhere = "setsid sleep 1234 >/dev/null 2>&1 < /dev/null & disown; sleep 0.1";
    guest.bash(elsewhere).ok();
    let script =
        "(setsid setsid sleep 4321 >/dev/null 2>&1 < /dev/null &); touch /tmp/on; sleep 1000";
    let ran = guest.shown(&["--timeout", "2s"], &["bash", "-c", script]);
    assert_eq!(ran.all["timed_out"], true, "{}", ran.all);
    guest.bash("test -e /tmp/on").ok();
    let left = guest
        .bash("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        .ok()
        .stdout;
    assert!(left.contains("sleep 1234"), "another's process: {left}");
    assert!(!left.contains("sleep 4321"), "left its command: {left}");
    guest.comes_back_clean("swap");
    Ok(())
}

fn nodes(shared: &Shared) -> Result<(), String> {
    let house = shared.pods();
    let look = "stat -c '%n %a %u %g %Y %t:%T' /dev/*; cat /dev/null; head -c 3 /dev/zero | wc -c";
    let guest = house.lease("nodes", &house.base(), &json!({}));
    let before = guest.bash(look).ok().stdout;
    for change in [
        "chmod 600 /dev/null",
        "chown 1:1 /dev/zero",
        "touch /dev/tty",
        "rm -f /dev/full",
    ] {
        let ran = guest.bash(change);
        assert_ne!(ran.code, 0, "{change} worked");
    }
    guest.with(&["-t"], &["bash", "-c", "echo > /dev/tty"]);
    let slot = guest.lease["slot"].clone();
    guest.comes_back_clean("swap");
    let again = house.lease("nodes", &house.base(), &json!({}));
    assert_eq!(again.lease["slot"], slot, "the same pod");
    assert_eq!(again.bash(look).ok().stdout, before);
    again.comes_back_clean("swap");
    Ok(())
}

fn services(shared: &Shared) -> Result<(), String> {
    let house = shared.pods();
    let template = json!({"services": [{
        "name": "web",
        "argv": ["python3", "-m", "http.server", "--directory", "/etc", "8000"],
        "ready": {"tcp": 8000},
    }]});
    for _ in 0..3 {
        let guest = house.lease("services", &house.base(), &template);
        guest
            .python("import urllib.request as r; print(r.urlopen('http://127.0.0.1:8000/hostname').read())")
            .ok();
        guest.bash("kill -9 -1; true");
        guest.comes_back_clean("swap");
    }
    Ok(())
}

/// A pod whose every pid is taken is reset all the same, and its neighbour does not notice.
fn pids(shared: &Shared) -> Result<(), String> {
    let house = shared.pods();
    let more = json!({"resources": {"pids": 128}});
    let hog: Guest<'_> = house.lease("pids", &house.base(), &more);
    let neighbour = house.lease("neighbour", &house.base(), &more);
    let program = "import os, time\n\
                   taken = 0\n\
                   try:\n    while True:\n        pid = os.fork()\n        if pid == 0: time.sleep(10000)\n        taken += 1\n\
                   except OSError as error: print(taken, error.errno, flush=True)\n\
                   os._exit(0)\n";
    let ran = hog.python(program);
    let text = ran.stdout.trim().to_owned();
    assert!(
        text.ends_with(" 11"),
        "EAGAIN is what stops it: {text} {}",
        ran.stderr
    );
    neighbour
        .bash("for i in $(seq 20); do /bin/true & done; wait")
        .ok();
    // Whoever ends leaves room for one; then the next is told why there is none.
    let shells = ["sleep 3 & echo one", "echo two"].map(|script| hog.bash(script));
    for shell in &shells {
        let told = shell.stderr.contains("processes limit") || shell.stderr.contains("fork");
        assert!(shell.code == 0 || told, "{shell:?}");
    }
    let back: Value = hog.give_back("swap");
    assert_eq!(back["outcome"], "clean", "{back}");
    neighbour.comes_back_clean("swap");
    println!(
        "pids: {text} taken; commands then: {:?}",
        shells.map(|shell| shell.code)
    );
    Ok(())
}

/// What takes too much memory ends, and at worst its own slot with it; never is the slot clean by
/// mistake, and its neighbour does not notice.
fn memory(shared: &Shared) -> Result<(), String> {
    let house = shared.pods();
    let more = json!({"resources": {"memory": "512Mi", "disk": "128Mi"}});
    let hog = house.lease("memory", &house.base(), &more);
    let neighbour = house.lease("beside", &house.base(), &more);
    let slot = hog.lease["slot"].clone();
    let ran = hog.python("x = [bytearray(1 << 20) for _ in range(4096)]; print('never')");
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(!ran.stdout.contains("never"), "{ran:?}");
    neighbour.bash("echo alive").ok();
    let back = hog.give_back("swap");
    let outcome = back["outcome"].as_str().unwrap_or_default();
    assert!(["clean", "tainted"].contains(&outcome), "{back}");
    let next = house.lease("memory", &house.base(), &more);
    next.bash("echo alive").ok();
    println!(
        "memory: code {}, {outcome}, the same slot again: {}",
        ran.code,
        next.lease["slot"] == slot
    );
    next.comes_back_clean("swap");
    neighbour.comes_back_clean("swap");
    Ok(())
}

/// An overlay without root's rights cannot rename an image's directory. With a copy it can, and
/// what the copy holds is checked like everything else.
fn workdir(shared: &Shared) -> Result<(), String> {
    let house = shared.pods();
    let rename = "import os, sys\n\
                  try: os.rename('/etc/apt', '/etc/apt-other')\n\
                  except OSError as error: print(error.errno)\n\
                  else: print(len(os.listdir('/etc/apt-other')) > 0)\n";
    for (wish, expected) in [("no", "18"), ("yes", "True"), ("auto", "True")] {
        let template = json!({"workdir": "/etc", "workdir_copy": wish});
        for depth in ["swap", "walk"] {
            let guest = house.lease("workdir", &house.base(), &template);
            assert_eq!(guest.python(rename).ok().stdout.trim(), expected, "{wish}");
            guest.bash("rm -rf /etc/init.d; echo x >> /etc/passwd").ok();
            guest.comes_back_clean(depth);
        }
    }
    Ok(())
}
