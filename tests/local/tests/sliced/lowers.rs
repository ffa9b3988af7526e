//! What lies below the slices is the pod's own root. Should anything change there, a walk says so.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{Shared, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_file_changed_below_a_slice_is_found", changed),
    ("a_slice_that_was_replaced_is_found_at_once", replaced),
    ("a_file_changed_in_the_template_is_found", template),
];

/// The root of a slot's pod, as its pid 1 sees it.
fn root(shared: &Shared, lease: &Value) -> PathBuf {
    let slot = lease["slot"].as_str().expect("a name");
    let record = shared.house().inn().state().join("pods").join(slot);
    let text = fs::read_to_string(record.join("pod.json")).expect("a record");
    let record: Value = serde_json::from_str(&text).expect("JSON");
    PathBuf::from(format!("/proc/{}/root", record["init"]["pid"]))
}

fn tainted(shared: &Shared, test: &str, depth: &str, change: impl Fn(PathBuf)) -> String {
    let house = shared.house();
    let image = house.base();
    let guest = house.lease(test, &image, &json!({}));
    change(root(shared, &guest.lease));
    let back = guest.give_back(depth);
    assert_eq!(back["outcome"], "tainted", "{back}");
    back.to_string()
}

fn changed(shared: &Shared) -> Result<(), String> {
    let back = tainted(shared, "sliced-changed", "walk", |root| {
        fs::write(root.join("usr/share/planted"), "p").expect("write");
    });
    assert!(back.contains("planted"), "{back}");
    Ok(())
}

fn replaced(shared: &Shared) -> Result<(), String> {
    let back = tainted(shared, "sliced-replaced", "swap", |root| {
        fs::write(root.join("usr/planted"), "p").expect("write");
    });
    assert!(back.contains("not the directory"), "{back}");
    Ok(())
}

fn template(shared: &Shared) -> Result<(), String> {
    let back = tainted(shared, "sliced-template", "walk", |root| {
        let passwd = root.join(".innkeeper/state/template/etc/passwd");
        fs::write(passwd, "root::0:0::/:/bin/sh\n").expect("write");
    });
    assert!(back.contains("passwd"), "{back}");
    Ok(())
}
