//! Logs of test runs, patches, and rows and predictions.

use std::fs;

use innkeeper_grading::{Patch, log_text, parsers, read_log, read_predictions, read_rows};
use serde_json::json;

use crate::Target;

pub(crate) const LOGS: Target = Target {
    name: "logs",
    read: logs,
    seeds: log_seeds,
};

pub(crate) const PATCHES: Target = Target {
    name: "patches",
    read: patches,
    seeds: patch_seeds,
};

pub(crate) const ROWS: Target = Target {
    name: "rows",
    read: rows,
    seeds: row_seeds,
};

/// Every parser reads every log.
fn logs(bytes: &[u8]) {
    let text = log_text(bytes);
    for name in parsers::names() {
        // A log that cannot be read is an answer.
        let _ = parsers::parse(name, &text);
        let _ = read_log(name, &text);
    }
}

fn log_seeds() -> Vec<Vec<u8>> {
    [
        "PASSED tests/test_a.py::test_one[x-1]\nFAILED tests/test_a.py::test_two - assert 1 == 2\nERROR tests/b.py\n",
        "test_a (app.tests.Case) ... ok\ntest_b (app.tests.Case) ... FAIL\ntest_c (app.tests.Case)\nDoc. ... skipped 'why'\n",
        "test_one ok\ntest_two F\n________ sympy/core/tests/test_a.py:test_b ________\n",
        "tests/test_a.py::test_one PASSED [ 10%]\n\u{1b}[32mPASSED\u{1b}[0m tests/test_a.py\n",
        ">>>>> Start Test Output\nPASSED a\n>>>>> End Test Output\n>>>>> Applied Patch\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Whatever a patch says, the paths that it touches can be told.
fn patches(bytes: &[u8]) {
    let patch = Patch::read(bytes);
    let _ = patch.paths();
}

fn patch_seeds() -> Vec<Vec<u8>> {
    [
        "diff --git a/x.py b/x.py\nindex 1..2 100644\n--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,3 @@ def f():\n a\n-b\n+c\n+d\n",
        "diff --git \"a/\\303\\251\" b/new\nsimilarity index 90%\nrename from x\nrename to new\nGIT binary patch\nliteral 3\nabc\n",
        "*** a/x\t2020\n--- b/x\t2020\n***************\n*** 1,2 ****\n! a\n--- 1,2 ----\n! b\n",
        "Index: x\n===\n--- x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\\ No newline at end of file\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Bytes as a file of rows, and as predictions for rows that are right.
fn rows(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder");
    let (fuzzed, right) = (folder.path().join("fuzzed"), folder.path().join("right"));
    fs::write(&fuzzed, bytes).expect("written");
    fs::write(&right, row().to_string()).expect("written");
    for row in read_rows(&fuzzed).unwrap_or_default() {
        let _ = (row.eval_script(), row.base_commit(), row.grading());
    }
    let right = read_rows(&right).expect("rows that are right");
    let _ = read_predictions(fuzzed.to_str().expect("a plain path"), &right);
}

fn row() -> serde_json::Value {
    json!([{
        "instance_id": "owner__name-1",
        "repo": "owner/name",
        "base_commit": "0123456789012345678901234567890123456789",
        "FAIL_TO_PASS": "[\"a\", \"b\"]",
        "PASS_TO_PASS": ["c"],
        "eval_script": "true",
        "patch": "",
    }])
}

fn row_seeds() -> Vec<Vec<u8>> {
    let prediction =
        json!([{"instance_id": "owner__name-1", "model_name_or_path": "m", "model_patch": null}]);
    let lines = format!("{}\n{}\n", row()[0], row()[0]);
    vec![
        row().to_string().into_bytes(),
        lines.into_bytes(),
        prediction.to_string().into_bytes(),
        b"PAR1\x15\x04\x15\x10\x15\x14\x4c\x15\x02\x00\x00\x08\x1c\x00\x00\x00PAR1".to_vec(),
    ]
}
