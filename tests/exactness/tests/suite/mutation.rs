//! Mutations: were a reset to leave something behind, verify would see it, and so would the
//! oracle.

use std::path::{Path, PathBuf};
use std::process::Command;

use innkeeper_test_cli::Inn;
use innkeeper_test_exactness::{FORMS, Fault, Fresh, Look, Moment, Ward, Within};
use innkeeper_test_oracle::outside;
use serde_json::{Value, json};

use crate::Test;
use crate::reuse::service;

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("what_a_reset_leaves_is_seen_by_the_oracle", oracle),
    ("a_layer_that_is_changed_is_seen_by_a_walk", lower),
];

/// A file system of its own for a state directory.
struct Disk(PathBuf);

impl Disk {
    fn mount(point: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(point).map_err(|e| e.to_string())?;
        let point = point.to_owned();
        run(&["mount", "-t", "tmpfs", "-o", "size=1g", "state"], &point)?;
        Ok(Self(point))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Err(why) = run(&["umount"], &self.0) {
            eprintln!("{why}");
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn run(argv: &[&str], last: &Path) -> Result<(), String> {
    let output = Command::new(argv[0])
        .args(&argv[1..])
        .arg(last)
        .output()
        .map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!(
        "{argv:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// What a reset leaves is seen by verify: the daemon is stopped when it begins to look, and the
/// fault is planted. The service makes it look inside anew.
pub(crate) fn verify() -> Result<(), String> {
    let point = std::env::temp_dir().join(format!("innkeeper-exactness-{}", std::process::id()));
    let disk = Disk::mount(&point)?;
    let ward = Ward::on(Inn::with_state(&disk.0.join("state")), FORMS[0])?;
    for fault in Fault::ALL {
        let seen = caught(&ward, fault, "swap")?;
        println!("{fault:?}: verify by swap said: {seen}");
    }
    // A walk sees more than that something was written: it sees what.
    for (fault, what) in [
        (Fault::Xattr, "xattr user.left"),
        (Fault::Mtime, "mtime"),
        (Fault::Mapped, "content"),
    ] {
        let seen = caught(&ward, fault, "walk")?;
        println!("{fault:?}: verify by walk said: {seen}");
        assert_eq!(
            (&seen["path"], &seen["what"]),
            (&"etc/passwd".into(), &what.into()),
            "{fault:?}"
        );
    }
    drop(ward);
    drop(disk);
    Ok(())
}

/// Resets a sandbox with a fault planted before verify begins, and returns the first difference
/// that verify named.
fn caught(ward: &Ward, fault: Fault, depth: &str) -> Result<Value, String> {
    let mut fields = service();
    fields["upper"] = json!("disk");
    let test = format!("{fault:?}-{depth}");
    let template = ward.template(&test, &fields);
    let guest = ward.lease(&test, &template);
    let slot = guest.lease["slot"].as_str().expect("a slot").to_owned();
    // A reset with nothing planted first: what follows is then due to the fault.
    let back = guest.comes_back_clean(depth);
    let guest = ward.lease(&test, &template);
    assert_eq!(
        (&guest.lease["slot"], &guest.lease["uses"]),
        (&Value::from(&*slot), &1.into()),
        "{back}"
    );
    let generation = guest.lease["generation"].as_u64().expect("a number");
    let moment = Moment::of(ward.inn(), &format!("{slot}.{}", generation + 1))?;
    let (mut back, planted) = moment
        .plant(fault, || guest.give_back(depth))
        .expect("planted");
    assert!(
        planted.is_some(),
        "{fault:?}: verify did not begin as it should: {back}"
    );
    assert_eq!(back["outcome"], "tainted", "{fault:?} was not seen: {back}");
    assert_eq!(
        back["differs"][0]["component"],
        fault.component(),
        "{fault:?}: {back}"
    );
    Ok(back["differs"][0].take())
}

/// The oracle sees each of them in a sandbox that verify has passed before.
fn oracle(ward: &Ward) -> Result<(), String> {
    let template = ward.template("faults", &service());
    let (fresh, mut guest) = Fresh::learn(ward, "faults", &template);
    for fault in Fault::ALL {
        guest.give_back("swap");
        guest = ward.lease("faults", &template);
        let within = Within::of(&guest);
        let init = outside::init(&within.namespace).expect("it runs");
        drop(within);
        let planted = fault.plant(init).expect("planted");
        let found = fresh.compare(&Look::at(&guest));
        let (subject, field) = fault.shown();
        let seen = found
            .named(subject, field)
            .unwrap_or_else(|| panic!("{fault:?} was not seen: {found}"));
        println!("{fault:?}: the oracle said: {seen}");
        drop(planted);
    }
    guest.give_back("swap");
    Ok(())
}

/// A layer of the store that is changed behind the daemon's back is seen by the next walk.
fn lower(ward: &Ward) -> Result<(), String> {
    if ward.form().runs_in_the_image() {
        let sentence = "an image this small is copied when its container starts, so that its layers are no lowers";
        return Err(sentence.to_owned());
    }
    let template = ward.template("lower", &json!({}));
    let (fresh, guest) = Fresh::learn(ward, "lower", &template);
    let guest_file = "usr/bin/env";
    let layers = ward.inn().state().join("store/layers");
    let layers = std::fs::read_dir(layers)
        .map_err(|e| e.to_string())?
        .flatten();
    let file = layers
        .map(|layer| layer.path().join("tree").join(guest_file))
        .find(|file| file.is_file());
    let file = file.expect("a layer with the file");
    let before = std::fs::read(&file).expect("read");
    let times = std::fs::metadata(&file)
        .and_then(|meta| meta.modified())
        .expect("a time");
    let put = |bytes: &[u8]| {
        std::fs::write(&file, bytes).expect("written");
        let file = std::fs::File::options()
            .write(true)
            .open(&file)
            .expect("opened");
        file.set_modified(times).expect("set");
    };
    let mut changed = before.clone();
    *changed.last_mut().expect("not empty") ^= 1;
    put(&changed);
    let found = fresh.compare(&Look::at(&guest));
    let back = guest.give_back("walk");
    put(&before);
    assert!(
        found.named("file /usr/bin/env", "sha256").is_some(),
        "the oracle did not see it: {found}"
    );
    assert_eq!(back["outcome"], "tainted", "{back}");
    assert_eq!(back["differs"][0]["component"], "files", "{back}");
    println!("a changed layer: verify said: {}", back["differs"][0]);
    Ok(())
}
