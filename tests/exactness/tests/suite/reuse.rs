//! Fresh against reset.

use innkeeper_test_exactness::{Fresh, Look, Ward};
use serde_json::{Value, json};

use crate::Test;
use crate::rollout::{Rollout, honest, nasty, nothing};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("after_nothing", |ward| {
        after(ward, "nothing", &json!({}), &[nothing])
    }),
    ("after_an_honest_rollout", |ward| {
        after(ward, "honest", &json!({}), &[honest])
    }),
    ("after_a_nasty_one", |ward| {
        after(ward, "nasty", &json!({}), &[nasty])
    }),
    ("with_a_service", |ward| {
        after(ward, "service", &service(), &[honest, nasty])
    }),
    ("with_a_prepared_layer", |ward| {
        after(ward, "prepared", &prepared(), &[honest, nasty])
    }),
    ("with_limits", |ward| {
        after(ward, "limits", &limits(), &[honest, nasty])
    }),
    ("with_an_upper_on_disk", |ward| {
        after(ward, "disk", &json!({"upper": "disk"}), &[honest, nasty])
    }),
    ("after_eight_reuses", |ward| {
        after(
            ward,
            "eight",
            &json!({}),
            &[
                nothing, honest, nasty, honest, nasty, nothing, nasty, honest,
            ],
        )
    }),
];

/// What a prepare leaves: files with attributes, a hole, links, times of long ago.
fn prepared() -> Value {
    let script = r#"
        set -e
        mkdir -p /opt/made && cd /opt/made
        echo one > one && ln one two && ln -s one three && mkfifo four
        truncate -s 1M hole && chown -R 1000:1000 . && chmod 2755 .
        setfattr -n user.made -v yes one || true
        setfacl -m u:1000:rwx one || true
        touch -d 1999-01-01 one /etc/passwd
        rm /testbed/conftest.py
    "#;
    json!({"prepare": [["bash", "-c", script]]})
}

/// Limits of everything that can be limited.
fn limits() -> Value {
    json!({"resources": {"memory": "1Gi", "cpu": 1, "pids": 500, "disk": "256Mi", "inodes": 20000}})
}

/// A service that does nothing.
pub(crate) fn service() -> Value {
    json!({"services": [{"name": "idle", "argv": ["sleep", "infinity"], "cwd": "/tmp", "env": {"MARK": "set"}}]})
}

/// Runs the rollouts one after the other, each in the same slot, and compares the sandbox that the
/// reset left with a fresh one after each.
fn after(ward: &Ward, test: &str, more: &Value, rollouts: &[Rollout]) -> Result<(), String> {
    let template = ward.template(test, more);
    let (fresh, mut guest) = Fresh::learn(ward, test, &template);
    let slot = guest.lease["slot"].clone();
    let form = ward.form();
    for (uses, rollout) in (1..).zip(rollouts) {
        rollout(&guest);
        let baseline = guest.lease["baseline"].clone();
        let back = guest.give_back("swap");
        assert_eq!(
            (&back["outcome"], &back["digest"]),
            (&"clean".into(), &baseline),
            "{back}"
        );
        guest = ward.lease(test, &template);
        assert_eq!(
            (&guest.lease["slot"], &guest.lease["uses"]),
            (&slot, &Value::from(uses)),
            "{}",
            guest.lease
        );
        let found = fresh.compare(&Look::at(&guest));
        assert!(found.is_nothing(), "{form}, {test}, use {uses}: {found}");
    }
    guest.give_back("swap");
    for line in fresh.noise() {
        println!("{form}: noise from {line}");
    }
    let seen = [&fresh.look.inside, &fresh.look.outside].map(|record| record.subjects().len());
    println!(
        "{form}, {test}: {} resets; {} subjects from inside and {} from outside equal, {} and {} fields of noise",
        rollouts.len(),
        seen[0],
        seen[1],
        fresh.inside.learned(),
        fresh.outside.learned()
    );
    Ok(())
}
