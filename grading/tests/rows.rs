//! Task files: every layout reads alike, and what is wrong is named.

use std::path::{Path, PathBuf};

use innkeeper_grading::{EvalType, Row, image_name, read_predictions, read_rows};
use serde_json::{Value, json};

fn full() -> Value {
    json!({
        "instance_id": "o__p-1", "repo": "o/p", "base_commit": "abc", "version": "1.0", "patch": "gold\n",
        "test_patch": "t", "FAIL_TO_PASS": ["a"], "PASS_TO_PASS": "[\"b\", \"c\"]", "eval_script": "true\n",
        "log_parser": "parse_log_pytest", "eval_type": "fail_only", "image": "img:1", "difficulty": "easy",
    })
}

fn file(dir: &Path, content: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.join("tasks");
    std::fs::write(&path, content).unwrap();
    path
}

fn read(content: impl AsRef<[u8]>) -> Result<Vec<Row>, String> {
    let dir = tempfile::tempdir().unwrap();
    read_rows(&file(dir.path(), content)).map_err(|error| error.to_string())
}

fn one(value: &Value) -> Row {
    read(value.to_string()).unwrap().remove(0)
}

#[test]
fn every_layout_reads_alike() {
    let row = full();
    let mut nameless = row.clone();
    nameless.as_object_mut().unwrap().remove("instance_id");
    let contents = [
        row.to_string(),
        serde_json::to_string_pretty(&row).unwrap(),
        json!([row]).to_string(),
        format!("\u{feff}{row}\n"),
        json!({"o__p-1": nameless}).to_string(),
    ];
    for content in contents {
        let rows = read(&content).unwrap();
        let spec = rows[0].grading().unwrap();
        assert_eq!(
            (spec.instance_id, spec.log_parser),
            ("o__p-1", "parse_log_pytest"),
            "{content}"
        );
        assert_eq!(
            (spec.fail_to_pass, spec.pass_to_pass),
            (&["a".to_owned()][..], &["b".to_owned(), "c".to_owned()][..])
        );
        assert_eq!(spec.eval_type, EvalType::FailOnly);
        assert_eq!(rows[0].extra["difficulty"], "easy");
    }
    let mut second = row.clone();
    second["instance_id"] = json!("o__p-2");
    assert_eq!(
        read(format!("{row}\n\n{second}\n")).unwrap()[1]
            .source
            .number,
        2
    );
}

#[test]
fn a_missing_field_is_named_with_its_row_and_file() {
    let without = |field: &str| {
        let mut row = full();
        row.as_object_mut().unwrap().remove(field);
        one(&row)
    };
    let message = without("eval_script")
        .eval_script()
        .unwrap_err()
        .to_string();
    for part in ["row 1", "o__p-1", "tasks", "eval_script", "use a set"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(
        without("FAIL_TO_PASS").grading().unwrap_err().field,
        "FAIL_TO_PASS"
    );
    assert_eq!(
        without("PASS_TO_PASS").grading().unwrap_err().field,
        "PASS_TO_PASS"
    );
    assert_eq!(
        without("log_parser").grading().unwrap_err().field,
        "log_parser"
    );
    assert_eq!(
        without("base_commit").base_commit().unwrap_err().field,
        "base_commit"
    );
    assert_eq!(one(&full()).eval_script().unwrap(), "true\n");
}

#[test]
fn a_classic_row_is_judged_as_its_repository_is() {
    let mut row = full();
    row.as_object_mut()
        .unwrap()
        .retain(|field, _| field != "log_parser" && field != "eval_type");
    row["repo"] = json!("django/django");
    let django = one(&row);
    assert_eq!(django.grading().unwrap().log_parser, "parse_log_django");
    assert_eq!(django.grading().unwrap().eval_type, EvalType::PassAndFail);
}

#[test]
fn bad_files_are_refused_with_the_place() {
    let wrong = |field: &str, value: Value| {
        let mut row = full();
        row[field] = value;
        read(json!([full(), row]).to_string()).unwrap_err()
    };
    assert!(wrong("instance_id", json!("../x")).contains("row 2"));
    assert!(wrong("instance_id", json!(7)).contains("instance_id"));
    assert!(
        wrong("version", json!("2")).contains("rows 1 and 2"),
        "the same id twice"
    );
    let mut other = full();
    other["instance_id"] = json!("o__p-2");
    other["PASS_TO_PASS"] = json!("not a list");
    let message = read(json!([full(), other]).to_string()).unwrap_err();
    assert!(
        message.contains("PASS_TO_PASS of row 2 (o__p-2)"),
        "{message}"
    );
    assert!(read("[3]").unwrap_err().contains("row 1"));
    assert!(read("[]").unwrap_err().contains("no rows"));
    assert!(read("").unwrap_err().contains("no rows"));
    assert!(
        read("{\"instance_id\": \"a\"}\n{")
            .unwrap_err()
            .contains("line 2")
    );
    assert!(read(b"PAR1 is not enough").unwrap_err().contains("parquet"));
    let message = read_rows(Path::new("/nonexistent/rows.json"))
        .unwrap_err()
        .to_string();
    assert!(message.contains("/nonexistent/rows.json"), "{message}");
}

#[test]
fn image_names_follow_the_pattern_the_row_or_the_harness() {
    let row = one(&full());
    assert_eq!(image_name(&row, None).unwrap(), "img:1");
    assert_eq!(
        image_name(&row, Some("r/{repo}:{instance_id}-{version}")).unwrap(),
        "r/o/p:o__p-1-1.0"
    );
    let bare = one(&json!({"instance_id": "Org__Proj-7"}));
    assert_eq!(
        image_name(&bare, None).unwrap(),
        "swebench/sweb.eval.x86_64.org_1776_proj-7:latest"
    );
    assert!(
        image_name(&bare, Some("{repo}"))
            .unwrap_err()
            .to_string()
            .contains("{repo}")
    );
    assert!(
        image_name(&row, Some("{nope}"))
            .unwrap_err()
            .to_string()
            .contains("{nope}")
    );
    assert!(
        image_name(&row, Some("x{repo"))
            .unwrap_err()
            .to_string()
            .contains("brace")
    );
    assert!(image_name(&row, Some("x}")).is_err());
}

#[test]
fn predictions_have_to_belong_to_the_rows() {
    let dir = tempfile::tempdir().unwrap();
    let rows = [one(&full())];
    let path = file(
        dir.path(),
        json!([{"instance_id": "x__y-1", "model_patch": "p"}]).to_string(),
    );
    let message = read_predictions(path.to_str().unwrap(), &rows)
        .unwrap_err()
        .to_string();
    assert!(message.contains("x__y-1"), "{message}");
    let gold = read_predictions("gold", &rows).unwrap();
    assert_eq!(gold["o__p-1"].model_patch.as_deref(), Some("gold\n"));
    assert!(read_predictions("empty", &rows).unwrap()["o__p-1"].control);
}
