//! The corpus, and a part of the long run.

use std::path::Path;

use innkeeper_test_exactness::{Ward, program};
use innkeeper_test_script::Kind;
use serde_json::Value;

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[("corpus", corpus), ("drawn", drawn)];

/// Rollouts of the long run, and the part of them that a short run takes.
const LONG: u32 = 20_000;
const PART: u32 = 200;

/// The seed of the part; the long run has it too.
const SEED: &str = "1";

fn corpus(ward: &Ward) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let folder = folder.to_str().expect("a plain path");
    let found = fuzz(ward, &["--script", folder, "--full-every", "2"]);
    assert_eq!(
        found["kinds"].as_object().map(serde_json::Map::len),
        Some(Kind::ALL.len())
    );
    println!("{}: the corpus: {}", ward.form(), summary(&found));
    Ok(())
}

fn drawn(ward: &Ward) -> Result<(), String> {
    let soak = std::env::var("INNKEEPER_SOAK").is_ok_and(|value| value == "1");
    let count = if soak { LONG } else { LONG / PART };
    let found = fuzz(ward, &["--seed", SEED, "--iterations", &count.to_string()]);
    assert_eq!(found["iterations"], count);
    let part = if soak {
        String::new()
    } else {
        format!(" (1 in {PART} of the long run)")
    };
    println!("{}: seed {SEED}{part}: {}", ward.form(), summary(&found));
    Ok(())
}

/// Runs the command on the manager of a ward; there must be no false clean.
#[track_caller]
fn fuzz(ward: &Ward, more: &[&str]) -> Value {
    let out = ward.inn().path("fuzz-failures");
    let out = out.to_str().expect("a plain path");
    let mut command = ward
        .inn()
        .command(["fuzz", "--image", "plain", "--json", "--out", out]);
    let output = command
        .args(more)
        .env("INNKEEPER_GUEST", program())
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stderr);
    let found: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!(output.status.code(), Some(0), "{found:#}\n{said}");
    assert_eq!(
        (&found["false_clean"], &found["odd_fresh"]),
        (&0.into(), &0.into()),
        "{found:#}"
    );
    // Resets that taint nothing prove the strategy; those that were not looked at prove nothing.
    assert!(found["checked"].as_u64() > Some(0), "{found:#}");
    found
}

fn summary(found: &Value) -> String {
    let mut text = format!(
        "{} rollouts, {} clean, {} of them looked at again, {} tainted, 0 false clean, {} verbs, {} per second",
        found["iterations"],
        found["clean"],
        found["checked"],
        found["tainted"],
        found["verbs"],
        found["per_second"],
    );
    for (cause, count) in found["causes"].as_object().into_iter().flatten() {
        text.push_str(&format!("; tainted {count} times: {cause}"));
    }
    text
}
