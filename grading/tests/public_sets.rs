//! The public row files and the harness's own reports, where they are at hand.

#[path = "support/reference.rs"]
#[allow(dead_code)]
mod reference;
#[path = "support/shared.rs"]
mod shared;

use std::collections::BTreeMap;

use innkeeper_grading::{Patch, ReportFile, Verdict, flags, image_name, parsers, read_rows};
use serde_json::Value;

#[test]
fn every_row_can_be_graded() {
    let Some(data) = shared::swebench() else {
        return reference::not_run("public_sets, rows", shared::ABSENT);
    };
    let mut flagged = BTreeMap::<_, usize>::new();
    for (file, count) in [
        ("verified", 500),
        ("lite", 300),
        ("lite_dev", 23),
        ("dev", 225),
    ] {
        let rows = read_rows(&data.join("rows").join(format!("{file}.parquet"))).unwrap();
        assert_eq!(rows.len(), count, "{file}");
        for row in &rows {
            let spec = row.grading().unwrap();
            parsers::check_name(spec.log_parser).unwrap();
            assert_eq!(
                Some(spec.log_parser),
                row.repo.as_deref().and_then(parsers::for_repo)
            );
            assert!(!spec.fail_to_pass.is_empty(), "{}", row.instance_id);
            row.eval_script().unwrap();
            row.base_commit().unwrap();
            let image = image_name(row, None).unwrap();
            assert_eq!(
                image,
                innkeeper_grading::harness_image_name(&row.instance_id)
            );

            let gold = Patch::read(row.gold_patch().unwrap().as_bytes());
            let headers = row
                .gold_patch()
                .unwrap()
                .lines()
                .filter(|line| line.starts_with("diff --git "))
                .count();
            assert_eq!(gold.files.len(), headers, "{}", row.instance_id);
            for flag in flags(&gold, row) {
                *flagged.entry(flag.kind).or_default() += 1;
            }
            let tests = Patch::read(row.test_patch.as_deref().unwrap().as_bytes());
            assert!(
                flags(&tests, row).len() >= tests.paths().len(),
                "{}",
                row.instance_id
            );
        }
    }
    println!("flags of 1048 gold patches: {flagged:?}");
}

#[test]
fn the_harness_reports_are_read_and_written_alike() {
    let Some(data) = shared::swebench() else {
        return reference::not_run("public_sets, reports", shared::ABSENT);
    };
    let mut seen = 0;
    for dir in std::fs::read_dir(data.join("instances"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        if !dir.is_dir() {
            continue;
        }
        for (name, verdict) in [
            ("report.gold.json", Verdict::Resolved),
            ("report.empty.json", Verdict::Unresolved),
        ] {
            let text = std::fs::read_to_string(dir.join(name)).unwrap();
            let file: ReportFile = serde_json::from_str(&text).unwrap();
            assert_eq!(file[0].verdict(), verdict, "{}", dir.display());
            let (theirs, ours): (Value, Value) = (
                serde_json::from_str(&text).unwrap(),
                serde_json::to_value(&file).unwrap(),
            );
            assert_eq!(theirs, ours);
            seen += 1;
        }
    }
    assert!(seen > 0);
}
