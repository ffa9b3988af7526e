//! Answers that an image holds: seen before the first lease, shown in pool and record, and
//! removed by `image import --scrub` without breaking the task.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use innkeeper_test_cli::{Inn, Rootfs, needs_sandboxes};
use serde_json::Value;

fn git(folder: &Path, line: &str) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
        .args(line.split(' '))
        .current_dir(folder)
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git {line}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// An image whose repository went on after its base commit: a branch, a tag, a reflog, a stash, a
/// packed ref, an alternate, and what a test run left.
fn leaky(inn: &Inn) -> Rootfs {
    let rootfs = Rootfs::make(&inn.path("rootfs"));
    let testbed = rootfs.folder.join("testbed");
    git(&testbed, "tag v1");
    fs::write(testbed.join("file"), "right\n").unwrap();
    git(&testbed, "commit -q -a -m fix");
    git(&testbed, "tag -a -m later v2");
    git(&testbed, "branch next");
    git(&testbed, "gc -q");
    git(&testbed, "reset -q --hard HEAD~1");
    fs::write(testbed.join("file"), "almost\n").unwrap();
    git(&testbed, "stash -q");
    fs::write(
        testbed.join(".git/ORIG_HEAD"),
        git(&testbed, "rev-parse next"),
    )
    .unwrap();
    let lent = rootfs.folder.join("opt/mirror/objects");
    fs::create_dir_all(lent.parent().unwrap()).unwrap();
    fs::rename(testbed.join(".git/objects/pack"), &lent).unwrap();
    fs::create_dir(lent.join("pack")).unwrap();
    for entry in fs::read_dir(&lent).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::rename(entry.path(), lent.join("pack").join(entry.file_name())).unwrap();
        }
    }
    fs::create_dir_all(testbed.join(".git/objects/info")).unwrap();
    fs::write(
        testbed.join(".git/objects/info/alternates"),
        "/opt/mirror/objects\n",
    )
    .unwrap();
    fs::create_dir_all(testbed.join(".pytest_cache/v")).unwrap();
    fs::write(testbed.join("file.rej"), "+right\n").unwrap();
    rootfs
}

fn import(inn: &Inn, rootfs: &Rootfs, name: &str, more: &[&str]) -> Value {
    let folder = rootfs.folder.to_str().unwrap();
    let line = ["image", "import", folder, "--name", name, "--json"];
    inn.run([&line[..], more].concat()).ok().json()
}

/// Leases the image as a task of its base commit, and returns the lease's record.
fn record(inn: &Inn, image: &str, base: &str, script: &str) -> (innkeeper_test_cli::Ran, Value) {
    let text = format!("image: {image}\nworkdir: /testbed\nbase_commit: {base}\n");
    let template = inn.file("template.yaml", text);
    let line = [
        "lease",
        image,
        "--template",
        template.to_str().unwrap(),
        "--json",
    ];
    let lease = inn.run(line).ok().json();
    let id = lease["lease"].as_str().unwrap();
    let ran = inn.run(["exec", id, "--", "sh", "-c", script]);
    let returned = inn.run(["return", id, "--wait", "--json"]).ok().json();
    assert_eq!(returned["outcome"], "clean", "{returned}");
    (ran, returned["record"].clone())
}

#[test]
fn answers_are_seen_before_the_first_lease_and_scrubbed_on_demand() {
    needs_sandboxes!("answers_are_seen_before_the_first_lease_and_scrubbed_on_demand");
    let mut inn = Inn::new();
    let rootfs = leaky(&inn);
    assert_eq!(import(&inn, &rootfs, "leaky", &[])["scrub"], false);
    inn.serve(&[]);
    let peek = "git -c safe.directory='*' log --all --oneline | wc -l; cat file; ls -A";
    let (seen, leaky) = record(&inn, "leaky", &rootfs.base_commit, peek);
    let found = &leaky["leaks"]["found"];
    for kind in [
        "commits",
        "contents",
        "refs",
        "tags",
        "reflog",
        "stashes",
        "heads",
        "alternates",
        "caches",
        "outputs",
    ] {
        assert!(found[kind]["count"].as_u64() > Some(0), "{kind}: {leaky:#}");
    }
    assert!(
        leaky["leaks"]["unread"].as_array().unwrap().is_empty(),
        "{leaky:#}"
    );
    assert!(
        !seen.stdout.starts_with("1\n"),
        "the answer can be read: {seen:?}"
    );
    let pools = inn.line("pools --json").ok().json();
    let row = &pools[0]["leaks"][0];
    assert_eq!(
        (&row["image"], &row["found"]),
        (&"leaky".into(), found),
        "{pools}"
    );
    let shown = inn.line("pools").ok().stdout;
    assert!(
        shown.contains("leaky: ") && shown.contains(" commits"),
        "{shown}"
    );

    // What is known outlives the manager, for records of sandboxes that stood ready before.
    inn.kill_manager();
    inn.serve(&[]);
    let (_, again) = record(&inn, "leaky", &rootfs.base_commit, "true");
    assert_eq!(again["leaks"], leaky["leaks"]);

    assert_eq!(import(&inn, &rootfs, "leaky", &["--scrub"])["scrub"], true);
    let (seen, scrubbed) = record(&inn, "leaky", &rootfs.base_commit, peek);
    let leaks = &scrubbed["leaks"];
    assert_eq!(leaks["found"], serde_json::json!({}), "{scrubbed:#}");
    assert_eq!(leaks["unread"], serde_json::json!([]), "{scrubbed:#}");
    assert_eq!(leaks["base"], rootfs.base_commit.as_str());
    assert_eq!(
        seen.stdout, "1\nwrong\n.git\nconftest.py\nfile\n",
        "{seen:?}"
    );
    let works = "git -c safe.directory='*' status --porcelain; git -c safe.directory='*' describe --tags; git -c safe.directory='*' fsck --full";
    let (seen, _) = record(&inn, "leaky", &rootfs.base_commit, works);
    assert_eq!(seen.stdout, "v1\n", "the tag of the base stays: {seen:?}");
}

#[test]
fn an_image_cannot_lead_the_look_astray() {
    needs_sandboxes!("an_image_cannot_lead_the_look_astray");
    let mut inn = Inn::new();
    let rootfs = Rootfs::make(&inn.path("rootfs"));
    let testbed = rootfs.folder.join("testbed");
    // Objects of the machine, the daemon's own descriptors, and a pipe that nobody fills.
    let alternates = format!(
        "{}/objects\n/proc/self/fd\n/proc/1/root/tmp\n",
        inn.state().display()
    );
    fs::create_dir_all(testbed.join(".git/objects/info")).unwrap();
    fs::write(testbed.join(".git/objects/info/alternates"), alternates).unwrap();
    symlink("/proc/self/fd/3", testbed.join(".git/ORIG_HEAD")).unwrap();
    symlink("/dev/zero", testbed.join(".git/packed-refs")).unwrap();
    symlink("/proc/self/mem", testbed.join(".git/FETCH_HEAD")).unwrap();
    import(&inn, &rootfs, "astray", &[]);
    inn.serve(&[]);
    let (_, record) = record(&inn, "astray", "", "true");
    let leaks = &record["leaks"];
    assert_eq!(leaks["found"], serde_json::json!({}), "{record:#}");
    assert!(
        !leaks["unread"].as_array().unwrap().is_empty(),
        "unknown is not nothing: {record:#}"
    );
}
