//! Commands: how they end, what comes out, and how many there may be.

use std::io::Read;
use std::process::Stdio;

use innkeeper_test_hazards::Ground;
use innkeeper_test_local::soak;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{comes_back, lease, with};

pub(super) fn background(ground: &Ground) {
    let guest = lease(ground, "C2");
    let limit = ["--timeout", "1s"];
    let held = guest
        .shown(&limit, &["sh", "-c", "sleep infinity & exit 0"])
        .all;
    let seen = (&held["exit_code"], &held["timed_out"], &held["pipe_held"]);
    assert_eq!(seen, (&json!(0), &json!(false), &json!(true)), "{held}");
    let late = guest
        .shown(&limit, &["sh", "-c", "sleep infinity; exit 0"])
        .all;
    let seen = (&late["exit_code"], &late["timed_out"]);
    assert_eq!(seen, (&Value::Null, &json!(true)), "{late}");
    comes_back(guest);
}

pub(super) fn last_bytes(ground: &Ground) {
    let guest = lease(ground, "C4");
    let line = ["exec", &guest.id, "--", "seq", "1", "2000000"];
    let mut command = ground.house.inn().command(line);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("started");
    let (mut output, mut all) = (child.stdout.take().expect("piped"), Vec::new());
    // A slow link takes little at a time.
    let mut piece = [0; 512];
    loop {
        let got = output.read(&mut piece).expect("read");
        if got == 0 {
            break;
        }
        all.extend_from_slice(&piece[..got]);
    }
    assert!(child.wait().expect("reaped").success());
    assert_eq!(all.len(), 14_888_896);
    assert!(all.ends_with(b"\n1999999\n2000000\n"));
    drop(guest);

    let times = if soak() { 500 } else { 100 };
    with(ground, "C4-short", async |wire| {
        for _ in 0..times {
            let heard = wire.run(&["printf", "X"]).await.expect("run");
            assert_eq!((heard.bytes.as_slice(), heard.code()), (b"X".as_slice(), 0));
        }
    });
}

pub(super) fn large_argument(ground: &Ground) {
    with(ground, "C10", async |wire| {
        let word = format!(": {}", "A".repeat(200_000));
        let heard = wire.run(&["sh", "-c", &word]).await.expect("a last frame");
        let finished = heard.finished.as_ref().expect("a last frame");
        assert!(
            finished.not_started.contains("argument too long"),
            "{finished:?}"
        );
        // Below the kernel's 128 KiB for one word.
        let word = format!(": {}", "A".repeat(120_000));
        assert_eq!(wire.run(&["sh", "-c", &word]).await.expect("run").code(), 0);
    });
    // A file of any size has nothing to do with arguments.
    let guest = lease(ground, "C10-file");
    let bytes: u64 = if soak() { 900 << 20 } else { 96 << 20 };
    let file = ground
        .house
        .inn()
        .file(&format!("{}-large", ground.pair), []);
    let made = std::fs::OpenOptions::new().write(true).open(&file);
    made.and_then(|file| file.set_len(bytes))
        .expect("a file with a hole");
    guest.bring(&file, "/fx/large");
    let size = guest.bash("stat -c %s /fx/large").ok().stdout;
    assert_eq!(size.trim(), bytes.to_string());
    comes_back(guest);
}

pub(super) fn verbatim(ground: &Ground) {
    let guest = lease(ground, "C11");
    let words = ["a b", "c\"d", "$HOME", "e\nf", "*", "", "\\", "-n", "`id`"];
    let argv = [&["printf", "[%s]"], &words[..]].concat();
    let shown = guest.with(&[], &argv).ok().stdout;
    assert_eq!(shown, words.map(|word| format!("[{word}]")).concat());
    for value in ["x=1\ny;z", "", "=", " lead and trail ", "$(id)"] {
        let shown = guest.with(&["--env", &format!("K={value}")], &["printenv", "K"]);
        assert_eq!(shown.ok().stdout, format!("{value}\n"));
    }
    comes_back(guest);
}

pub(super) fn unread_input(ground: &Ground) {
    let guest = lease(ground, "C14");
    let line = format!("exec {} -i -- head -c 1", guest.id);
    let ran = ground.house.inn().fed(&line, &vec![0; 100_000_000]).ok();
    assert_eq!(ran.stdout.len(), 1);
    guest.bash("echo alive").ok();
    comes_back(guest);
}

pub(super) fn no_directory(ground: &Ground) {
    let guest = lease(ground, "C18");
    guest.bash("mkdir /wd; cd /wd; rmdir /wd; ! /bin/pwd").ok();
    let ran = guest.with(&["--cwd", "/wd"], &["/bin/sh", "-c", "true"]);
    assert!([126, 127].contains(&ran.code), "{ran:?}");
    assert!(
        ran.stderr.contains("/wd") && !ran.stderr.contains("/bin/sh"),
        "{ran:?}"
    );
    guest.with(&[], &["/bin/sh", "-c", "true"]).ok();
    comes_back(guest);
}

pub(super) fn many_streams(ground: &Ground) {
    with(ground, "C29", async |wire| {
        let wait = "echo up; while [ ! -e /run/go ]; do sleep .2; done";
        let mut talks = Vec::new();
        for _ in 0..150 {
            let mut talk = wire
                .start(wire.command(&["sh", "-c", wait]))
                .await
                .expect("started");
            assert_eq!(talk.some().await.expect("it is up").bytes, b"up\n");
            talks.push(talk);
        }
        // Answered while all of them run.
        let heard = wire.run(&["echo", "hi"]).await.expect("run");
        assert_eq!(heard.bytes, b"hi\n");
        wire.write("/run/go", b"").await.expect("written");
        for mut talk in talks {
            assert_eq!(talk.rest().await.expect("its end").code(), 0);
        }
    });
}

pub(super) fn many_callers(ground: &Ground) {
    with(ground, "C30", async |wire| {
        for _ in 0..if soak() { 20 } else { 3 } {
            let mut calls = JoinSet::new();
            for number in 0..50 {
                let wire = wire.clone();
                calls.spawn(async move {
                    let script = format!(
                        "sleep 0.$((RANDOM%3)); echo id{number}; exit {}",
                        number % 7
                    );
                    let heard = wire.run(&["bash", "-c", &script]).await.expect("run");
                    assert_eq!(heard.bytes, format!("id{number}\n").as_bytes());
                    assert_eq!(heard.code(), number % 7);
                });
            }
            while let Some(call) = calls.join_next().await {
                call.expect("its own output and its own code");
            }
        }
    });
}
