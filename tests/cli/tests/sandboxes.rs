//! Leases and what is done with them: the contract's fields and exit codes.

use std::collections::BTreeSet;
use std::fs;

use innkeeper_test_cli::{Inn, Rootfs, needs_sandboxes};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn with_image() -> Inn {
    let mut inn = Inn::new();
    let rootfs = Rootfs::make(&inn.path("rootfs"));
    inn.run([
        "image",
        "import",
        rootfs.folder.to_str().unwrap(),
        "--name",
        "t",
    ])
    .ok();
    inn.serve(&[]);
    inn
}

fn lease(inn: &Inn) -> String {
    let lease = inn.line("lease t --json").ok().json();
    lease["lease"].as_str().unwrap().to_owned()
}

#[track_caller]
fn has_fields(value: &Value, names: &str) {
    let found: BTreeSet<&str> = value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect();
    let missing: Vec<_> = names
        .split(' ')
        .filter(|name| !found.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?} of {value}");
}

#[test]
fn a_lease_from_its_grant_to_its_return() {
    needs_sandboxes!("a_lease_from_its_grant_to_its_return");
    let inn = with_image();
    let first = inn
        .line("lease t --json --job j --request-id r")
        .ok()
        .json();
    has_fields(
        &first,
        "lease slot generation sandbox supply specialised uses strategy rights layout template baseline verified boot_id expires deadline disk_limit resources",
    );
    assert_eq!(
        first["sandbox"],
        format!(
            "{}.{}",
            first["slot"].as_str().unwrap(),
            first["generation"]
        )
    );
    assert_eq!(
        (&first["uses"], &first["strategy"], &first["rights"]),
        (&0.into(), &"layered".into(), &"root".into())
    );
    let again = inn.line("lease t --json --request-id r").ok().json();
    assert_eq!(
        again["lease"], first["lease"],
        "the same request is the same lease"
    );
    let id = first["lease"].as_str().unwrap();
    let renewed = inn.line(&format!("renew {id} --ttl 2h --json")).ok().json();
    assert!(renewed["expires"].as_f64() > first["expires"].as_f64());
    assert_eq!(renewed["deadline"], first["deadline"]);

    let slots = inn.line("ps --json").ok().json();
    let mine = slots
        .as_array()
        .unwrap()
        .iter()
        .find(|slot| slot["lease"] == id)
        .expect("listed");
    has_fields(mine, "slot state template carries lease uses node age_s");
    let pools = inn.line("pools --json").ok().json();
    has_fields(
        &pools[0],
        "class supply slots idle leased creating creates leases warm_share",
    );

    inn.run([
        "exec",
        id,
        "--",
        "sh",
        "-c",
        "echo changed > /testbed/file; touch /new",
    ])
    .ok();
    let back = inn
        .line(&format!("return {id} --wait --verify full --json"))
        .ok()
        .json();
    has_fields(
        &back,
        "outcome uses digest baseline verified components differs retired record",
    );
    assert_eq!(
        (&back["outcome"], &back["verified"]),
        (&"clean".into(), &"full".into()),
        "{back}"
    );
    assert_eq!(
        (&back["digest"], &back["baseline"]),
        (&first["baseline"], &first["baseline"])
    );
    assert!(
        back["components"]
            .as_object()
            .unwrap()
            .values()
            .all(|c| c["equal"] == true),
        "{back}"
    );
    inn.line(&format!("exec {id} -- true")).fails(125, id);

    let second = inn.line("lease t --json").ok().json();
    assert_eq!(
        (&second["supply"], &second["uses"]),
        (&"reused".into(), &1.into()),
        "{second}"
    );
    assert_eq!(second["slot"], first["slot"]);
    let id = second["lease"].as_str().unwrap();
    let seen = inn.run(["exec", id, "--", "sh", "-c", "cat /testbed/file; ls /new"]);
    assert_eq!(
        (seen.code, seen.stdout.as_str()),
        (2, "wrong\n"),
        "{seen:?}"
    );
    let gone = inn
        .line(&format!("return {id} --discard --wait --json"))
        .ok()
        .json();
    assert_eq!(gone["outcome"], "discarded");

    let events = inn.line("events --json").ok();
    let kinds: Vec<Value> = events
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    has_fields(
        &kinds[0],
        "seq t kind slot lease job template supply uses outcome cause ms",
    );
    for kind in [
        "create_intent",
        "create_settled",
        "specialised",
        "granted",
        "returned",
        "verified",
    ] {
        assert!(
            kinds.iter().any(|event| event["kind"] == kind),
            "{kind} is not among the events"
        );
    }
    let later = inn
        .run(["events", "--json", "--since", &kinds[0]["seq"].to_string()])
        .ok();
    let next: Value = serde_json::from_str(later.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(next["seq"], kinds[1]["seq"]);
}

#[test]
fn exit_codes_are_the_commands_own() {
    needs_sandboxes!("exit_codes_are_the_commands_own");
    let inn = with_image();
    let id = lease(&inn);
    let exec = |line: &[&str]| inn.run([&["exec", &id, "--"][..], line].concat());
    assert_eq!(exec(&["true"]).code, 0);
    assert_eq!(exec(&["sh", "-c", "exit 7"]).code, 7);
    assert_eq!(exec(&["sh", "-c", "kill -TERM $$"]).code, 143);
    assert_eq!(exec(&["no-such-program"]).code, 127);
    assert_eq!(exec(&["/etc/passwd"]).code, 126);
    let late = inn.run([
        "exec",
        &id,
        "--timeout",
        "200ms",
        "--",
        "sh",
        "-c",
        "echo begun; sleep 100",
    ]);
    assert_eq!(
        (late.code, late.stdout.as_str()),
        (124, "begun\n"),
        "{late:?}"
    );
    let streams = exec(&["sh", "-c", "echo out; echo err >&2"]);
    assert_eq!(
        (streams.stdout.as_str(), streams.stderr.as_str()),
        ("out\n", "err\n")
    );

    let json = inn.run([
        "exec",
        &id,
        "--json",
        "--",
        "sh",
        "-c",
        r"printf '\377'; echo err >&2; exit 3",
    ]);
    assert_eq!(json.code, 3);
    let document = json.json();
    has_fields(
        &document,
        "exit_code signal timed_out oom pipe_held truncated stderr stdout_b64",
    );
    assert_eq!(
        (
            &document["exit_code"],
            &document["stdout_b64"],
            &document["stderr"]
        ),
        (&3.into(), &"/w==".into(), &"err\n".into())
    );
    let late = inn.run([
        "exec",
        &id,
        "--json",
        "--timeout",
        "200ms",
        "--",
        "sleep",
        "100",
    ]);
    assert_eq!((late.code, &late.json()["timed_out"]), (124, &true.into()));
    let held = inn.run([
        "exec",
        &id,
        "--json",
        "--",
        "sh",
        "-c",
        "sleep 100 & echo done",
    ]);
    assert_eq!(
        (held.code, &held.json()["pipe_held"]),
        (0, &true.into()),
        "{held:?}"
    );
}

#[test]
fn a_deaf_command_ends_with_its_client() {
    needs_sandboxes!("a_deaf_command_ends_with_its_client");
    let inn = with_image();
    let id = lease(&inn);
    let count = |wanted: &str| {
        let script = "for p in /proc/[0-9]*/comm; do cat $p; done 2>/dev/null | grep -c '^sleep$'";
        inn.until("the commands are counted", || {
            let said = inn.run(["exec", &id, "--", "bash", "-c", script]);
            let same = said.stdout.trim() == wanted;
            same.then_some(()).ok_or_else(|| format!("{said:?}"))
        });
    };
    let start = || {
        let script = "trap '' INT TERM; exec sleep 1000";
        let mut command = inn.command(["exec", &id, "--", "bash", "-c", script]);
        let client = command.spawn().expect("started");
        count("1");
        client
    };
    // Killed, it says nothing to the manager any more.
    let mut client = start();
    client.kill().expect("killed");
    client.wait().expect("reaped");
    count("0");
    // Signals that are one too many end the client: some may arrive as one.
    let mut client = start();
    let pid = i32::try_from(client.id()).ok().and_then(Pid::from_raw);
    inn.until("the client ends", || {
        kill_process(pid.expect("a pid"), Signal::TERM).expect("it is there");
        match client.try_wait().expect("a child") {
            Some(status) => {
                assert_eq!(status.code(), Some(128 + 15));
                Ok(())
            }
            None => Err("it runs".to_owned()),
        }
    });
    count("0");
}

#[test]
fn options_of_exec_reach_the_command() {
    needs_sandboxes!("options_of_exec_reach_the_command");
    let inn = with_image();
    let id = lease(&inn);
    let shown = inn
        .run([
            "exec",
            &id,
            "--cwd",
            "/tmp",
            "--env",
            "A=b c",
            "--user",
            "guest",
            "--",
            "sh",
            "-c",
            "pwd; echo $A; id -u",
        ])
        .ok();
    assert_eq!(shown.stdout, "/tmp\nb c\n1000\n");
    let fed = inn
        .fed(&format!("exec {id} -i -- cat"), b"through\x00it")
        .ok();
    assert_eq!(fed.stdout.as_bytes(), b"through\x00it");
    assert_eq!(
        inn.fed(&format!("exec {id} -- cat"), b"not asked for")
            .ok()
            .stdout,
        ""
    );
    let large = vec![b'x'; 3 << 20];
    assert_eq!(
        inn.fed(&format!("exec {id} -i -- wc -c"), &large)
            .ok()
            .stdout
            .trim(),
        (3 << 20).to_string()
    );
    let terminal = inn
        .run(["exec", &id, "-t", "--", "sh", "-c", "tty; stty size"])
        .ok();
    assert!(
        terminal.stdout.contains("/dev/pts/") && terminal.stdout.contains("24 80"),
        "{terminal:?}"
    );
    let arguments = inn
        .run([
            "exec",
            &id,
            "--",
            "sh",
            "-c",
            "printf '%s|' \"$@\"",
            "sh",
            "--json",
            "-t",
            "a  b",
            "",
        ])
        .ok();
    assert_eq!(arguments.stdout, "--json|-t|a  b||");
}

#[test]
fn copies_go_both_ways() {
    needs_sandboxes!("copies_go_both_ways");
    let inn = with_image();
    let id = lease(&inn);
    let tree = inn.path("tree");
    fs::create_dir_all(tree.join("deep/er")).unwrap();
    fs::write(tree.join("deep/er/file"), vec![b'y'; 300_000]).unwrap();
    std::os::unix::fs::symlink("deep/er/file", tree.join("link")).unwrap();
    let copy = |from: &str, to: &str| inn.run(["cp", from, to, "--json"]);
    copy(tree.to_str().unwrap(), &format!("{id}:/tmp")).ok();
    copy(tree.to_str().unwrap(), &format!("{id}:/tmp/other")).ok();
    let seen = inn
        .run([
            "exec",
            &id,
            "--",
            "sh",
            "-c",
            "wc -c < /tmp/tree/link; wc -c < /tmp/other/deep/er/file; stat -c %u /tmp/other",
        ])
        .ok();
    assert_eq!(seen.stdout, "300000\n300000\n0\n");
    let back = inn.path("back");
    let moved = copy(&format!("{id}:/tmp/other"), back.to_str().unwrap())
        .ok()
        .json();
    assert_eq!(
        (&moved["entries"], &moved["bytes"]),
        (&5.into(), &300_000.into()),
        "{moved}"
    );
    assert_eq!(fs::read(back.join("link")).unwrap().len(), 300_000);
    fs::create_dir(inn.path("into")).unwrap();
    copy(
        &format!("{id}:/etc/passwd"),
        inn.path("into").to_str().unwrap(),
    )
    .ok();
    assert!(
        fs::read_to_string(inn.path("into/passwd"))
            .unwrap()
            .contains("guest")
    );
    copy(
        &format!("{id}:/tmp/other/."),
        inn.path("into").to_str().unwrap(),
    )
    .ok();
    assert!(inn.path("into/deep/er/file").is_file());
    copy(&format!("{id}:/not/there"), back.to_str().unwrap()).fails(1, "/not/there");
    copy("/not/there", &format!("{id}:/tmp")).fails(1, "/not/there");
}

#[test]
fn a_killed_manager_loses_no_lease() {
    needs_sandboxes!("a_killed_manager_loses_no_lease");
    let mut inn = with_image();
    let before = inn.line("lease t --json --request-id once").ok().json();
    let id = before["lease"].as_str().unwrap().to_owned();
    inn.run(["exec", &id, "--", "sh", "-c", "echo kept > /kept"])
        .ok();
    let daemons = inn.daemons();
    inn.kill_manager();
    inn.line("ps").fails(69, "innkeeper serve");
    inn.serve(&[]);
    assert_eq!(
        inn.daemons(),
        daemons,
        "the sandboxes' daemon outlives the manager"
    );
    assert_eq!(
        inn.run(["exec", &id, "--", "cat", "/kept"]).ok().stdout,
        "kept\n"
    );
    let after = inn.line("lease t --json --request-id once").ok().json();
    assert_eq!(
        (&after["lease"], &after["sandbox"]),
        (&before["lease"], &before["sandbox"])
    );
    let back = inn.line(&format!("return {id} --wait --json")).ok().json();
    assert_eq!(back["outcome"], "clean", "{back}");
    assert_eq!(inn.stop_manager(), Some(0));
}

#[test]
fn run_needs_no_manager_and_leaves_nothing_behind() {
    needs_sandboxes!("run_needs_no_manager_and_leaves_nothing_behind");
    let inn = Inn::new();
    let rootfs = Rootfs::make(&inn.path("rootfs"));
    inn.run([
        "image",
        "import",
        rootfs.folder.to_str().unwrap(),
        "--name",
        "t",
    ])
    .ok();
    let ran = inn.run(["run", "t", "--", "sh", "-c", "echo inside; exit 5"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (5, "inside\n"), "{ran:?}");
    inn.run(["run", "missing", "--", "true"])
        .fails(125, "missing");
    assert_eq!(
        inn.run(["run", "t", "--timeout", "200ms", "--", "sleep", "100"])
            .code,
        124
    );
    inn.until("the daemon ends with the command", || {
        if inn.daemons().is_empty() {
            Ok(())
        } else {
            Err(format!("{:?} run", inn.daemons()))
        }
    });
    let doctor = inn.line("doctor --json").ok().json();
    has_fields(&doctor["facts"][0], "name ok detail advice");
    let removed = inn.line("image rm t --json").ok().json();
    assert_eq!(
        removed["layers"].as_array().map(Vec::len),
        Some(1),
        "{removed}"
    );
}
