//! Verification that cannot be fooled quietly: what is wrong with a baseline is said, and no
//! sandbox is handed out over it; and deeper looks come as often as the template demands.

use std::fs;
use std::path::PathBuf;

use innkeeper_test_cli::{Inn, Rootfs, needs_sandboxes};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn with_image() -> Inn {
    let inn = Inn::new();
    let rootfs = Rootfs::make(&inn.path("rootfs"));
    let folder = rootfs.folder.to_str().unwrap();
    inn.run(["image", "import", folder, "--name", "t"]).ok();
    inn
}

/// Ends manager and daemon, so that nothing of a template is left but what is on disk.
fn end_all(inn: &mut Inn) {
    inn.kill_manager();
    for pid in inn.daemons() {
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
    inn.until("the daemons end", || match &inn.daemons()[..] {
        [] => Ok(()),
        left => Err(format!("{left:?}")),
    });
}

#[test]
fn a_stored_baseline_that_is_not_whole_is_never_compared_with() {
    needs_sandboxes!("a_stored_baseline_that_is_not_whole_is_never_compared_with");
    let mut inn = with_image();
    inn.serve(&[]);
    let lease = inn.line("lease t --json").ok().json();
    let key = lease["template"].as_str().unwrap().to_owned();
    inn.line(&format!(
        "return {} --wait",
        lease["lease"].as_str().unwrap()
    ))
    .ok();
    let prepared = inn.state().join("store/prepared").join(&key);
    let flip = |bytes: &mut Vec<u8>, at: usize| bytes[at] ^= 1;
    let half = |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2);
    type Damage<'a> = &'a dyn Fn(&mut Vec<u8>);
    let cases: [(&str, &str, Option<Damage<'_>>); 9] = [
        ("baseline", "missing", None),
        ("baseline", "empty", Some(&|bytes| bytes.clear())),
        ("baseline", "torn", Some(&half)),
        (
            "baseline",
            "of an older format",
            Some(&|bytes| flip(bytes, 8)),
        ),
        (
            "baseline",
            "changed",
            Some(&|bytes| {
                let at = bytes.len() / 2;
                flip(bytes, at)
            }),
        ),
        ("files", "missing", None),
        (
            "files",
            "changed",
            Some(&|bytes| {
                let at = bytes.len() / 2;
                flip(bytes, at)
            }),
        ),
        ("about", "missing", None),
        ("about", "default", Some(&|bytes| *bytes = b"{}".to_vec())),
    ];
    for (name, what, damage) in cases {
        end_all(&mut inn);
        let file: PathBuf = prepared.join(name);
        let whole = fs::read(&file).unwrap();
        match damage {
            None => fs::remove_file(&file).unwrap(),
            Some(damage) => {
                let mut bytes = whole.clone();
                damage(&mut bytes);
                assert_ne!(bytes, whole);
                fs::write(&file, bytes).unwrap();
            }
        }
        inn.serve(&[]);
        let refused = inn.line("lease t --timeout 30s");
        assert!(refused.code == 1, "{name} {what}: {refused:?}");
        assert!(
            refused
                .stderr
                .contains("missing, damaged or of another version"),
            "{name} {what}: {refused:?}"
        );
        fs::write(&file, whole).unwrap();
    }
    end_all(&mut inn);
    inn.serve(&[]);
    let again = inn.line("lease t --json").ok().json();
    assert_eq!(
        again["baseline"], lease["baseline"],
        "whole again, it is used again"
    );
}

#[test]
fn deeper_looks_come_as_often_as_the_template_says_and_lease_return_event_and_record_agree() {
    needs_sandboxes!(
        "deeper_looks_come_as_often_as_the_template_says_and_lease_return_event_and_record_agree"
    );
    let mut inn = with_image();
    inn.serve(&[]);
    let template = inn.file(
        "t.yaml",
        "image: t\nverify: {walk_every: 3, full_every: 5}\n",
    );
    let template = template.to_str().unwrap();
    let mut returned = Vec::new();
    let mut leased = Vec::new();
    for n in 0..8 {
        let lease = inn
            .run(["lease", "t", "--template", template, "--json"])
            .ok()
            .json();
        let id = lease["lease"].as_str().unwrap();
        // Asking for less than is due changes nothing; asking for more is heeded.
        let depth = if n == 6 { "walk" } else { "swap" };
        let back = inn
            .run(["return", id, "--wait", "--verify", depth, "--json"])
            .ok()
            .json();
        assert_eq!(back["outcome"], "clean", "{back}");
        assert_eq!(
            back["record"]["return"]["verified"], back["verified"],
            "{back}"
        );
        assert_eq!(
            back["record"]["lease"]["verified"], lease["verified"],
            "{back}"
        );
        returned.push(back["verified"].as_str().unwrap().to_owned());
        leased.push(lease["verified"].as_str().unwrap().to_owned());
    }
    // The walks of a slot are counted from its last look of that depth, the fulls over its class.
    assert_eq!(
        returned,
        [
            "swap", "swap", "walk", "swap", "full", "swap", "walk", "swap"
        ]
    );
    // A lease says how its sandbox was seen to be clean before it was granted: the first one is
    // what the baseline was captured from.
    assert_eq!(leased[0], "full");
    assert_eq!(leased[1..], returned[..7]);
    let events = inn.line("events --json").ok().stdout;
    let depths: Vec<_> = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["kind"] == "verified")
        .map(|event| event["outcome"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(depths, returned);
}
