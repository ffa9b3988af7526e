//! Recorded evaluation logs, parsed by both sides.

#[path = "support/reference.rs"]
mod reference;
#[path = "support/shared.rs"]
mod shared;

use std::collections::HashMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use innkeeper_grading::{Row, log_text, parsers, read_rows};
use serde_json::{Value, json};

const NAME: &str = "recorded_logs";

/// Rows by id of all row files.
fn rows(dir: &Path) -> HashMap<String, Row> {
    let files = std::fs::read_dir(dir)
        .expect("row files")
        .map(|entry| entry.expect("entry").path());
    files
        .flat_map(|file| read_rows(&file).expect("rows are readable"))
        .map(|row| (row.instance_id.clone(), row))
        .collect()
}

/// The parser of a log: its row's, else its project's.
fn parser(instance_id: &str, rows: &HashMap<String, Row>) -> String {
    if let Some(row) = rows.get(instance_id) {
        return row.grading().expect("a complete row").log_parser.to_owned();
    }
    let project = instance_id
        .rsplit_once('-')
        .expect("OWNER__NAME-NUMBER")
        .0
        .replacen("__", "/", 1);
    parsers::for_repo(&project)
        .expect("a known project")
        .to_owned()
}

#[test]
fn statuses_equal_those_of_the_swebench_package() {
    let Some(data) = shared::swebench() else {
        return reference::not_run(NAME, shared::ABSENT);
    };
    let Some(python) = reference::python(NAME) else {
        return;
    };
    let rows = rows(&data.join("rows"));
    let recorded = std::fs::read(data.join("logs/recorded.json")).expect("recorded.json");
    let recorded: HashMap<String, Value> = serde_json::from_slice(&recorded).expect("valid JSON");

    let logs: Vec<_> = recorded
        .iter()
        .map(|(file, about)| {
            let id = about["instance_id"].as_str().expect("an id");
            let bytes = std::fs::read(data.join("logs").join(file)).expect("the log");
            (file, parser(id, &rows), bytes)
        })
        .collect();
    let requests: Vec<_> = logs
        .iter()
        .map(|(_, parser, bytes)| json!({"kind": "parse", "parser": parser, "log_b64": STANDARD.encode(bytes)}))
        .collect();
    let mut tests = 0;
    for ((file, parser, bytes), answer) in logs.iter().zip(reference::ask(&python, &requests)) {
        let map = parsers::parse(parser, &log_text(bytes))
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        tests += map.len();
        let ours: Vec<_> = map
            .iter()
            .map(|(test, status)| json!([test, status]))
            .collect();
        assert_eq!(Value::Array(ours), answer["statuses"], "{file} by {parser}");
    }
    println!("{} logs, {tests} statuses, all equal", logs.len());
    assert!(!logs.is_empty() && tests > 0);
}
