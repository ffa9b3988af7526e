//! The recorded instances: verdicts and statuses of the harness, and one pool's reuse.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use innkeeper_test_local::{House, built, shared, soak};
use serde_json::{Value, json};

use crate::{Shared, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("gold_and_empty_patches_are_judged_as_recorded", as_recorded),
    ("ten_gradings_use_one_slot_nine_times", ten_gradings),
];

/// The rows as one file, their images imported.
fn rows(house: &House, only: &str) -> Result<(PathBuf, Vec<Value>), String> {
    let data = shared("swebench")?;
    let data = data.to_str().ok_or("a plain path is needed")?;
    house.images("swebench/build.sh", &[data, "--only", only])?;
    let file = PathBuf::from(&built("swebench/build.sh", &[data, "--rows"])?[0][0]);
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let rows = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"));
    let named = |row: &Value| {
        row["instance_id"]
            .as_str()
            .is_some_and(|id| id.contains(only))
    };
    Ok((file, rows.filter(named).collect()))
}

fn grade(house: &House, tasks: &Path, predictions: &str, out: &Path, run: &str) -> Value {
    let mut command = house.inn().command(["grade", "--json", "--workers", "2"]);
    command.arg("--tasks").arg(tasks).arg("--out").arg(out);
    command.args(["--predictions", predictions, "--run-id", run]);
    let output = command.output().expect("started");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn json_file(path: &Path) -> Value {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).expect("JSON")
}

/// Every test of a report with what it is filed under.
fn statuses(report: &Value) -> BTreeSet<(String, String, String)> {
    let mut found = BTreeSet::new();
    for (class, outcomes) in report["tests_status"].as_object().expect("classes") {
        for (outcome, tests) in outcomes.as_object().expect("outcomes") {
            for test in tests.as_array().expect("tests") {
                let test = test.as_str().expect("a name").to_owned();
                found.insert((class.clone(), outcome.clone(), test));
            }
        }
    }
    found
}

fn as_recorded(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let (tasks, rows) = rows(house, "")?;
    assert_eq!(rows.len(), 4, "the recorded instances");
    let out = house.inn().path("recorded");
    for (predictions, resolved) in [("gold", true), ("empty", false)] {
        let graded = grade(house, &tasks, predictions, &out, predictions);
        assert_eq!(
            graded["results"].as_array().map(Vec::len),
            Some(4),
            "{graded}"
        );
        for result in graded["results"].as_array().into_iter().flatten() {
            assert_eq!(result["outcome"], "clean", "{result}");
            assert_eq!(result["digest"], result["baseline"], "{result}");
        }
        for row in &rows {
            let id = row["instance_id"].as_str().expect("an id");
            let files = out
                .join("logs/run_evaluation")
                .join(predictions)
                .join(predictions)
                .join(id);
            let report = &json_file(&files.join("report.json"))[id];
            let recorded = crate::swebench::recorded(id, predictions)?;
            assert_eq!(report["resolved"], resolved, "{id}, {predictions}");
            let (now, then) = (statuses(report), statuses(&recorded));
            let differ: Vec<_> = now.symmetric_difference(&then).collect();
            assert!(differ.is_empty(), "{id}, {predictions}: {differ:?}");
            for field in ["patch_exists", "patch_successfully_applied", "resolved"] {
                assert_eq!(
                    report[field], recorded[field],
                    "{id}, {predictions}: {field}"
                );
            }
            println!(
                "{id}, {predictions}: resolved {resolved}, {} tests as recorded",
                now.len()
            );
        }
    }
    Ok(())
}

fn recorded(id: &str, predictions: &str) -> Result<Value, String> {
    let folder = shared("swebench")?.join("instances").join(id);
    Ok(json_file(&folder.join(format!("report.{predictions}.json")))[id].clone())
}

fn ten_gradings(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let (_, rows) = rows(house, "requests")?;
    // A version of its own, which changes nothing but the pool that it is graded in.
    let tasks = house.inn().file("ten.jsonl", rows[0].to_string());
    let out = house.inn().path("ten");
    let template = json!({"env": {"INNKEEPER_TEST": "ten"}, "supply": {"carry": "own"}});
    let template = house.inn().file("ten.json", template.to_string());
    let gradings = if soak() { 30 } else { 10 };
    let results: Vec<Value> = (0..gradings)
        .map(|run| {
            let mut command = house.inn().command(["grade", "--json", "--workers", "1"]);
            command.arg("--tasks").arg(&tasks).arg("--out").arg(&out);
            command.arg("--template").arg(&template);
            command.args(["--predictions", "gold", "--run-id", &format!("r{run}")]);
            let output = command.output().expect("started");
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            let graded: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            graded["results"][0].clone()
        })
        .collect();
    let id = rows[0]["instance_id"].as_str().expect("an id");
    for (run, result) in results.iter().enumerate() {
        let files = out.join(format!("logs/run_evaluation/r{run}/gold/{id}"));
        let record = json_file(&files.join("attestation.json"));
        assert_eq!(result["verdict"], "resolved", "{run}: {result}");
        assert_eq!(record["return"]["outcome"], "clean", "{run}: {record}");
        assert_eq!(
            record["return"]["digest"], results[0]["baseline"],
            "{run}: {record}"
        );
        assert_eq!(
            record["lease"]["baseline"], results[0]["baseline"],
            "{run}: {record}"
        );
        assert_eq!(record["lease"]["uses"], run % 9, "{run}: {record}");
        assert_eq!(
            result["slot"],
            results[run / 9 * 9]["slot"],
            "{run}: {result}"
        );
        assert_eq!(
            record["lease"]["supply"] == "reused",
            run % 9 != 0,
            "{run}: {record}"
        );
        println!(
            "{run}: {} uses {}, {}",
            result["slot"], result["uses"], record["lease"]["supply"]
        );
    }
    assert_ne!(results[9]["slot"], results[0]["slot"]);
    Ok(())
}
