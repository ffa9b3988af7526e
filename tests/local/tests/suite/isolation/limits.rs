//! Limits hold, and what runs into one is told so.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use serde_json::json;

use crate::Shared;

pub(super) fn memory(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let limited = json!({"resources": {"memory": "512Mi", "disk": "128Mi"}});
    let guest = house.lease("memory", &house.base(), &limited);
    let hog = ["/usr/bin/python3", "-IBc", "x = b'x' * (1 << 30)"];
    let small = ["/usr/bin/python3", "-IBc", "x = b'x' * (1 << 28)"];
    guest.with(&[], &small).ok();
    let killed = guest.shown(&[], &hog).all;
    assert_eq!(
        (&killed["oom"], &killed["timed_out"]),
        (&json!(true), &json!(false)),
        "{killed}"
    );
    assert_eq!(
        (&killed["signal"], &killed["exit_code"]),
        (&json!(9), &json!(null)),
        "{killed}"
    );
    let by_shell = guest
        .shown(
            &[],
            &["bash", "-c", "python3 -c \"x = b'x' * (1 << 30)\"; exit $?"],
        )
        .all;
    assert_eq!(
        (&by_shell["oom"], &by_shell["exit_code"]),
        (&json!(true), &json!(137)),
        "{by_shell}"
    );
    let other = guest.shown(&[], &["bash", "-c", "kill -9 $$"]).all;
    assert_eq!(
        (&other["oom"], &other["signal"]),
        (&json!(false), &json!(9)),
        "a kill is no lack of memory: {other}"
    );
    guest.bash("echo alive").ok();
    guest.comes_back_clean("swap");
    Ok(())
}

pub(super) fn processes(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let guest = house.lease(
        "processes",
        &house.base(),
        &json!({"resources": {"pids": 100, "cpu": "1"}}),
    );
    let fork = "import os, time\n\
                n = 0\n\
                try:\n\
                \x20   while n < 500:\n\
                \x20       if os.fork() == 0: time.sleep(600)\n\
                \x20       n += 1\n\
                except OSError as error: print(n, error.errno, flush=True)\n\
                time.sleep(600)\n";
    let argv = ["/usr/bin/python3", "-IBc", fork];
    let shown = guest.shown(&["--timeout", "5s"], &argv);
    assert_eq!(shown.all["timed_out"], true, "{:?}", shown.all);
    let (count, errno) = shown
        .stdout
        .trim()
        .split_once(' ')
        .unwrap_or_else(|| panic!("no limit: {shown:?}"));
    let count: u32 = count.parse().expect("a number");
    assert!((80..100).contains(&count) && errno == "11", "{shown:?}");
    // The timeout has killed the whole tree of it.
    let left = guest.bash("ls -d /proc/[0-9]* | wc -l").ok().stdout;
    assert!(
        left.trim().parse::<u32>().expect("a number") <= 5,
        "{left} are left"
    );
    // A bomb whose leader has ended goes on: what is refused then says why, and the reset ends it.
    let bomb = ["bash", "-c", "bomb() { bomb | bomb & }; bomb; exit 0"];
    guest.with(&["--timeout", "5s"], &bomb).ok();
    let more = guest.with(&[], &["true"]);
    assert!(
        more.code == 0 || more.code == 125 && more.stderr.contains("processes limit (pids)"),
        "{more:?}"
    );
    println!("processes: {count} children before the limit of 100");
    guest.comes_back_clean("swap");
    Ok(())
}

pub(super) fn disk(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let limited = json!({"upper": "memory", "resources": {"memory": "512Mi", "disk": "32Mi", "inodes": 1000}});
    let guest = house.lease("disk", &house.base(), &limited);
    assert_eq!(guest.lease["disk_limit"], "hard");
    guest
        .bash("dd if=/dev/zero of=/srv/large bs=1M count=31 status=none")
        .ok();
    guest
        .bash("dd if=/dev/zero of=/srv/larger bs=1M count=8 status=none")
        .fails(1, "No space left");
    guest
        .bash("rm /srv/larger && dd if=/dev/zero of=/srv/large bs=1M count=16 status=none")
        .ok();
    guest
        .bash("mkdir /srv/many && cd /srv/many && seq 900 | xargs touch")
        .ok();
    guest
        .bash("cd /srv/many && seq 901 2000 | xargs touch")
        .fails(123, "No space left");
    let entries = guest.bash("ls /srv/many | wc -l").ok().stdout;
    assert!(
        entries.trim().parse::<u32>().expect("a number") <= 1000,
        "{entries}"
    );
    guest.comes_back_clean("full");
    let next = house.lease("disk", &house.base(), &limited);
    next.bash("dd if=/dev/zero of=/srv/large bs=1M count=31 status=none")
        .ok();
    next.comes_back_clean("swap");
    // Files in memory that leave the sandbox no memory of its own would end it.
    let greedy = json!({"upper": "memory", "resources": {"memory": "512Mi", "disk": "400Mi"}});
    let file = house.inn().file("greedy.json", greedy.to_string());
    let line = [
        "lease",
        "base",
        "--template",
        file.to_str().expect("a plain path"),
    ];
    let refused = house.inn().run(line);
    assert!(
        [1, 2].contains(&refused.code) && refused.stderr.contains("disk"),
        "{refused:?}"
    );
    println!("disk: {}", refused.stderr.trim());
    Ok(())
}

/// A byte count that neither daemon may hold in memory.
const FLOOD: u64 = 512 << 20;

pub(super) fn flood(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let guest = house.lease("flood", &house.base(), &json!({}));
    let daemon = house.inn().daemons()[0];
    let before = resident(daemon);
    let mut command = house.inn().command([
        "exec",
        &guest.id,
        "--",
        "head",
        "-c",
        &FLOOD.to_string(),
        "/dev/zero",
    ]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut output = child.stdout.take().expect("piped");
    let (mut total, mut block, mut most) = (0, vec![0; 1 << 20], 0);
    loop {
        let length = output.read(&mut block).expect("read");
        if length == 0 {
            break;
        }
        total += length as u64;
        most = most.max(resident(daemon));
    }
    let ended = child.wait_with_output().expect("reaped");
    assert!(ended.status.success());
    let said = String::from_utf8_lossy(&ended.stderr).contains("its end is missing");
    assert!(
        total > FLOOD / 4 && said == (total < FLOOD),
        "{total} bytes, missing ones reported: {said}"
    );
    let grown = most.saturating_sub(before);
    assert!(grown < 128 << 20, "the daemon grew by {grown} bytes");
    println!(
        "flood: {total} of {FLOOD} bytes passed, the daemon grew by at most {} KiB",
        grown >> 10
    );
    // One without an end is ended by its timeout.
    let held = guest.shown(
        &["--timeout", "2s"],
        &["bash", "-c", "exec yes > /dev/null"],
    );
    assert_eq!(held.all["timed_out"], true, "{:?}", held.all);
    guest.comes_back_clean("swap");
    Ok(())
}

/// Resident bytes of a process.
fn resident(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("a line");
    line.trim()
        .trim_end_matches(" kB")
        .parse::<u64>()
        .expect("a number")
        << 10
}
