//! Rollouts that real agents made: replayed, returned, and nothing of them is left.

use std::fs;
use std::time::Instant;

use innkeeper_test_local::shared;
use serde_json::{Value, json};

use crate::{Shared, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("django", |shared| replay(shared, "django__django-10973")),
    ("pylint", |shared| replay(shared, "pylint-dev__pylint-4551")),
    ("sphinx", |shared| replay(shared, "sphinx-doc__sphinx-8595")),
];

fn replay(all: &Shared, id: &str) -> Result<(), String> {
    let file = shared("rollouts")?.join(format!("{id}.json"));
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let rollout: Value = serde_json::from_str(&text).expect("a rollout");
    let house = all.house();
    let image = house
        .images("rollouts/build.sh", &["--only", id])?
        .remove(0);

    let guest = house.lease(id, &image, &json!({}));
    let slot = guest.lease["slot"].clone();
    let before = guest.list();
    let cwd = rollout["cwd"].as_str().unwrap_or("/testbed");
    let started = Instant::now();
    let mut codes = Vec::new();
    for command in rollout["commands"].as_array().expect("commands") {
        let command = command.as_str().expect("a line");
        let ran = guest.with(
            &["--cwd", cwd, "--timeout", "120s"],
            &["bash", "-lc", command],
        );
        assert!(ran.code >= 0 && ran.code != 125, "{command}: {ran:?}");
        codes.push(ran.code);
    }
    let ran = started.elapsed();
    // pylint's commands only read; git's own index is refreshed even so.
    guest.bash("cd /testbed && git status").ok();
    let dirty = guest.list().differences(&before).len();
    assert!(dirty > 0, "the rollout left something to be undone");
    guest.comes_back_clean("full");

    let again = house.lease(id, &image, &json!({}));
    assert_eq!(
        (&again.lease["slot"], &again.lease["uses"]),
        (&slot, &1.into())
    );
    let after = again.list();
    before.assert_equal(&after);
    again.comes_back_clean("walk");
    println!(
        "{id}: {} commands in {:.1} s, exit codes {codes:?}; {dirty} differences or more undone, {} entries equal",
        codes.len(),
        ran.as_secs_f64(),
        after.len()
    );
    Ok(())
}
