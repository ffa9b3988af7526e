//! The summary of a run, written by both sides from the same directory.

#[path = "support/reference.rs"]
mod reference;

use std::path::Path;

use innkeeper_grading::{InstanceReport, Predictions, Row, RunDir, read_predictions, read_rows};
use serde_json::{Value, json};

const MODEL: &str = "org/model é";

fn rows(dir: &Path, ids: &[&str]) -> (Vec<Row>, Vec<Value>) {
    let values: Vec<_> = ids
        .iter()
        .map(|id| json!({"instance_id": id, "patch": "p"}))
        .collect();
    let file = dir.join("rows.json");
    std::fs::write(&file, Value::from(values.clone()).to_string()).unwrap();
    (read_rows(&file).unwrap(), values)
}

fn predictions(dir: &Path, rows: &[Row], patches: &[(&str, Value)]) -> (Predictions, Vec<Value>) {
    let values: Vec<_> = patches
        .iter()
        .map(|(id, patch)| json!({"instance_id": id, "model_name_or_path": MODEL, "model_patch": patch}))
        .collect();
    let file = dir.join("predictions.json");
    std::fs::write(&file, Value::from(values.clone()).to_string()).unwrap();
    (
        read_predictions(file.to_str().unwrap(), rows).unwrap(),
        values,
    )
}

#[test]
fn equals_that_of_the_swebench_package() {
    let out = tempfile::tempdir().unwrap();
    let ids = ["z-1", "a-1", "b-1", "c-1", "d-1", "e-1", "f-1", "g-1"];
    let (rows, row_values) = rows(out.path(), &ids);
    let patch = json!("p");
    let patches = [
        ("z-1", patch.clone()),
        ("a-1", patch.clone()),
        ("b-1", patch.clone()),
        ("c-1", patch.clone()),
        ("d-1", json!("")),
        ("e-1", Value::Null),
        ("f-1", patch),
    ];
    let (predictions, prediction_values) = predictions(out.path(), &rows, &patches);
    let run = RunDir::new(out.path(), "r1").unwrap();
    let report = |resolved| InstanceReport {
        patch_exists: true,
        resolved,
        ..InstanceReport::default()
    };
    run.write_report(MODEL, "z-1", &report(true)).unwrap();
    run.write_report(MODEL, "a-1", &report(false)).unwrap();
    run.write(MODEL, "a-1", "test_output.txt", b"\xff\nKilled\r\n")
        .unwrap();
    run.write(MODEL, "b-1", "report.json", b" \n").unwrap();
    run.write(MODEL, "b-1", "run_instance.log", b"collected 0 items")
        .unwrap();
    run.write(MODEL, "c-1", "report.json", b"{\"c-1\": {}}")
        .unwrap();
    run.write(MODEL, "c-1", "test_output.txt", b"fine").unwrap();

    let summary = run.summarise(&rows, &predictions).unwrap();
    assert_eq!(summary.resolved_ids.iter().collect::<Vec<_>>(), ["z-1"]);
    assert_eq!(
        summary.empty_patch_ids.iter().collect::<Vec<_>>(),
        ["d-1", "e-1"]
    );
    assert_eq!(
        summary.error_ids.iter().collect::<Vec<_>>(),
        ["b-1", "c-1", "f-1"]
    );
    assert_eq!(summary.incomplete_ids.iter().collect::<Vec<_>>(), ["g-1"]);
    assert_eq!(
        summary.infra_failure_ids.iter().collect::<Vec<_>>(),
        ["a-1"]
    );
    let path = run.write_summary(&predictions, &summary).unwrap();
    let ours = std::fs::read_to_string(&path).unwrap();

    let Some(python) = reference::python("summary") else {
        return;
    };
    let request = json!({
        "kind": "summary", "dir": out.path(), "rows": row_values, "predictions": prediction_values, "run_id": "r1",
    });
    let answer = reference::ask(&python, &[request]).remove(0);
    assert_eq!(answer["name"].as_str(), path.file_name().unwrap().to_str());
    assert_eq!(answer["summary"].as_str(), Some(&*ours));
}

#[test]
fn control_runs_count_as_run() {
    let out = tempfile::tempdir().unwrap();
    let (rows, _) = rows(out.path(), &["a-1", "b-1"]);
    let predictions = read_predictions("empty", &rows).unwrap();
    let run = RunDir::new(out.path(), "r1").unwrap();
    run.write_report(
        "empty",
        "a-1",
        &InstanceReport {
            patch_exists: true,
            ..InstanceReport::default()
        },
    )
    .unwrap();
    let summary = run.summarise(&rows, &predictions).unwrap();
    assert_eq!(
        (
            summary.unresolved_instances,
            summary.error_instances,
            summary.empty_patch_instances
        ),
        (1, 1, 0)
    );
}
