//! Grading: verdicts, reports, records, reuse, and what is flagged.

use std::fs;
use std::path::{Path, PathBuf};

use innkeeper_test_cli::{Inn, Rootfs, needs_sandboxes};
use serde_json::{Value, json};

const SCRIPT: &str = "#!/bin/bash
set -uxo pipefail
cd /testbed
git status
echo left > /outside
: '>>>>> Start Test Output'
if grep -q right file; then echo 'PASSED t.py::test_a'; else echo 'FAILED t.py::test_a - wrong'; fi
if grep -q cheat conftest.py; then echo 'PASSED t.py::test_a'; fi
echo 'PASSED t.py::test_b'
: '>>>>> End Test Output'
";

fn patch(file: &str, from: &str, to: &str) -> String {
    format!(
        "diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n@@ -1 +1 @@\n-{from}\n+{to}\n"
    )
}

struct Course {
    inn: Inn,
    tasks: PathBuf,
}

impl Course {
    fn new() -> Self {
        let inn = Inn::new();
        let rootfs = Rootfs::make(&inn.path("rootfs"));
        inn.run([
            "image",
            "import",
            rootfs.folder.to_str().unwrap(),
            "--name",
            "t",
        ])
        .ok();
        let row = json!({
            "instance_id": "inn__keeper-1",
            "repo": "inn/keeper",
            "base_commit": rootfs.base_commit,
            "version": "1",
            "patch": patch("file", "wrong", "right"),
            "test_patch": "",
            "FAIL_TO_PASS": ["t.py::test_a"],
            "PASS_TO_PASS": ["t.py::test_b"],
            "eval_script": SCRIPT,
            "log_parser": "parse_log_pytest",
            "eval_type": "pass_and_fail",
            "image": "t",
        });
        let tasks = inn.file("tasks.jsonl", row.to_string());
        Self { inn, tasks }
    }

    fn predictions(&self, patch: &str) -> String {
        let prediction = json!({"instance_id": "inn__keeper-1", "model_name_or_path": "org/model", "model_patch": patch});
        self.inn
            .file("predictions.json", json!([prediction]).to_string())
            .to_str()
            .unwrap()
            .to_owned()
    }

    fn grade(&self, predictions: &str, run: &str, more: &[&str]) -> innkeeper_test_cli::Ran {
        let (tasks, out) = (self.tasks.to_str().unwrap(), self.inn.path("out"));
        let line = [
            "grade",
            "--json",
            "--tasks",
            tasks,
            "--predictions",
            predictions,
            "--out",
            out.to_str().unwrap(),
            "--run-id",
            run,
            "--workers",
            "1",
        ];
        self.inn.run([&line[..], more].concat())
    }

    fn reports(&self, run: &str, model: &str) -> PathBuf {
        self.inn
            .path("out/logs/run_evaluation")
            .join(run)
            .join(model)
            .join("inn__keeper-1")
    }
}

fn json_file(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
        .unwrap()
}

#[test]
fn gold_empty_and_wrong_patches_get_their_verdicts() {
    needs_sandboxes!("gold_empty_and_wrong_patches_get_their_verdicts");
    let course = Course::new();
    let gold = course.grade("gold", "r", &[]).ok().json();
    assert_eq!(gold["results"][0]["verdict"], "resolved", "{gold}");
    let files = course.reports("r", "gold");
    for name in [
        "report.json",
        "test_output.txt",
        "patch.diff",
        "eval.sh",
        "run_instance.log",
        "attestation.json",
    ] {
        assert!(files.join(name).is_file(), "{name}");
    }
    assert_eq!(fs::read_to_string(files.join("eval.sh")).unwrap(), SCRIPT);
    let report = json_file(&files.join("report.json"));
    assert_eq!(
        report["inn__keeper-1"]["tests_status"]["FAIL_TO_PASS"]["success"],
        json!(["t.py::test_a"])
    );
    let summary = json_file(&course.inn.path("out/gold.r.json"));
    assert_eq!(
        (&summary["resolved_ids"], &summary["schema_version"]),
        (&json!(["inn__keeper-1"]), &json!(2))
    );
    let record = json_file(&files.join("attestation.json"));
    assert_eq!(
        (
            &record["verdict"],
            &record["lease"]["uses"],
            &record["return"]["outcome"]
        ),
        (&json!("resolved"), &json!(0), &json!("clean"))
    );
    assert_eq!(record["return"]["digest"], record["lease"]["baseline"]);
    let file = files.join("attestation.json");
    let verify = ["verify", file.to_str().unwrap(), "--json"];
    let proven = course.inn.run(verify).ok().json();
    assert_eq!(proven["record"]["verdict"], "resolved", "{proven}");
    let better = fs::read_to_string(&file)
        .unwrap()
        .replace("resolved", "unresolved");
    fs::write(&file, better).unwrap();
    let refuted = course.inn.run(verify).fails(1, "").json();
    assert_eq!(
        (&refuted["error"]["kind"], &refuted["error"]["field"]),
        (&json!("changed"), &json!("verdict"))
    );

    let empty = course.grade("empty", "r", &[]).ok().json();
    assert_eq!(empty["results"][0]["verdict"], "unresolved", "{empty}");
    let wrong = course.predictions(&patch("file", "wrong", "worse"));
    let wrong = course.grade(&wrong, "r", &[]).ok().json();
    assert_eq!(wrong["results"][0]["verdict"], "unresolved", "{wrong}");
    assert!(course.inn.path("out/org__model.r.json").is_file());
}

#[test]
fn what_is_reported_is_skipped_and_a_missing_patch_is_listed() {
    needs_sandboxes!("what_is_reported_is_skipped_and_a_missing_patch_is_listed");
    let course = Course::new();
    course.grade("gold", "r", &[]).ok();
    let output = course.reports("r", "gold").join("test_output.txt");
    let before = fs::metadata(&output).unwrap().modified().unwrap();
    let again = course.grade("gold", "r", &[]).ok().json();
    assert_eq!(
        (
            &again["results"][0]["skipped"],
            &again["results"][0]["verdict"]
        ),
        (&json!(true), &json!("resolved"))
    );
    assert_eq!(fs::metadata(&output).unwrap().modified().unwrap(), before);
    let none = course.predictions("");
    let none = course.grade(&none, "r", &[]).ok().json();
    assert_eq!(
        (&none["results"], &none["empty_patch_ids"]),
        (&json!([]), &json!(["inn__keeper-1"]))
    );
}

#[test]
fn a_failure_is_no_verdict() {
    needs_sandboxes!("a_failure_is_no_verdict");
    let course = Course::new();
    let stray = course.predictions(&patch("file", "not there", "right"));
    let stray = course
        .grade(&stray, "stray", &[])
        .fails(3, "does not apply");
    assert_eq!(stray.json()["results"][0]["cause"], "patch_does_not_apply");
    let files = course.reports("stray", "org__model");
    assert!(!files.join("report.json").exists() && files.join("run_instance.log").exists());
    let summary = json_file(&course.inn.path("out/org__model.stray.json"));
    assert_eq!(summary["error_ids"], json!(["inn__keeper-1"]));

    let missing = course
        .grade("gold", "missing", &["--images", "no-such-image"])
        .fails(3, "no-such-image");
    assert_eq!(missing.json()["results"][0]["cause"], "no_sandbox");
    let file = course.reports("missing", "gold").join("attestation.json");
    course
        .inn
        .run(["verify", file.to_str().unwrap()])
        .fails(1, "it is not signed: no sandbox was leased");

    let slow = fs::read_to_string(&course.tasks)
        .unwrap()
        .replace("git status", "sleep 100");
    fs::write(&course.tasks, slow).unwrap();
    let late = course
        .grade("gold", "late", &["--timeout", "500ms"])
        .fails(3, "timeout");
    assert_eq!(late.json()["results"][0]["verdict"], "infra-error");
    assert!(
        course.inn.daemons().is_empty() || {
            course.inn.until("it ends", || {
                if course.inn.daemons().is_empty() {
                    Ok(())
                } else {
                    Err(String::new())
                }
            });
            true
        }
    );
}

#[test]
fn one_pool_reuses_a_slot_eight_times() {
    needs_sandboxes!("one_pool_reuses_a_slot_eight_times");
    let mut course = Course::new();
    course.inn.serve(&[]);
    let mut results = Vec::new();
    for run in 0..10 {
        let graded = course.grade("gold", &format!("r{run}"), &[]).ok().json();
        results.push(graded["results"][0].clone());
    }
    for (run, result) in results.iter().enumerate() {
        assert_eq!(
            (&result["verdict"], &result["outcome"]),
            (&json!("resolved"), &json!("clean")),
            "{run}: {result}"
        );
        assert_eq!(
            (&result["digest"], &result["digest"]),
            (&result["baseline"], &results[0]["baseline"]),
            "{run}"
        );
        assert_eq!(result["uses"], json!(run % 9), "{run}: {result}");
    }
    assert!(
        results[..9]
            .iter()
            .all(|result| result["slot"] == results[0]["slot"])
    );
    assert_ne!(results[9]["slot"], results[0]["slot"]);
    assert_ne!(results[9]["supply"], "reused");
}

#[test]
fn a_patch_that_judges_itself_is_flagged_and_can_be_undone() {
    needs_sandboxes!("a_patch_that_judges_itself_is_flagged_and_can_be_undone");
    let course = Course::new();
    let cheat = course.predictions(&patch("conftest.py", "# as in the image", "# cheat"));
    let taken = course.grade(&cheat, "taken", &[]).ok().json();
    assert_eq!(
        taken["results"][0]["verdict"], "resolved",
        "the harness's verdict stays: {taken}"
    );
    let record = json_file(
        &course
            .reports("taken", "org__model")
            .join("attestation.json"),
    );
    let flags = record["patch"]["flags"].as_array().unwrap();
    assert!(
        flags.contains(&json!({"path": "conftest.py", "kind": "conftest"})),
        "{record}"
    );
    let undone = course
        .grade(&cheat, "undone", &["--pristine-runner"])
        .ok()
        .json();
    assert_eq!(undone["results"][0]["verdict"], "unresolved", "{undone}");
}

/// A task with tests of which each passes or fails by chance.
fn flaky(row: &str) -> String {
    let mut row: Value = serde_json::from_str(row).unwrap();
    let names: Vec<_> = (0..24).map(|n| format!("t.py::test_r{n}")).collect();
    let chance = "for n in $(seq 0 23); do
  read -r u < /proc/sys/kernel/random/uuid
  case $u in [0-7]*) echo \"PASSED t.py::test_r$n\" ;; *) echo \"FAILED t.py::test_r$n - by chance\" ;; esac
done
: '>>>>> End Test Output'";
    row["eval_script"] = SCRIPT.replace(": '>>>>> End Test Output'", chance).into();
    row["PASS_TO_PASS"] = json!(names);
    row.to_string()
}

#[test]
fn a_canary_is_quiet_about_equals_and_raises_an_alarm_about_a_planted_flaky_test() {
    needs_sandboxes!(
        "a_canary_is_quiet_about_equals_and_raises_an_alarm_about_a_planted_flaky_test"
    );
    let mut course = Course::new();
    course.inn.serve(&[]);
    let told = course.grade("gold", "calm", &["--canary", "3"]).ok().json();
    let canary = &told["canary"][0];
    assert_eq!(
        (&canary["outcome"], &canary["uses"], &canary["cause"]),
        (&json!("same"), &json!(3), &Value::Null),
        "{told}"
    );
    let worn = course.grade("gold", "worn", &["--canary", "3"]).ok().json();
    assert_eq!(
        worn["canary"],
        json!([]),
        "no sandbox of this run was fresh: {worn}"
    );

    // Another pool, so that there is a fresh sandbox again.
    let pool = course.inn.line("pools --json").ok().json()[0]["class"].clone();
    course
        .inn
        .line(&format!("drain {}", pool.as_str().unwrap()))
        .ok();
    course.inn.until("the pool is empty", || {
        let slots = course.inn.line("ps --json").json();
        if slots == json!([]) {
            Ok(())
        } else {
            Err(slots.to_string())
        }
    });
    let row = fs::read_to_string(&course.tasks).unwrap();
    fs::write(&course.tasks, flaky(&row)).unwrap();
    let told = course
        .grade("gold", "flaky", &["--canary", "2"])
        .ok()
        .json();
    let canary = &told["canary"][0];
    assert_eq!(
        (&canary["outcome"], &canary["uses"]),
        (&json!("differs"), &json!(2)),
        "{told}"
    );
    assert!(
        canary["cause"].as_str().unwrap().contains("t.py::test_r"),
        "{told}"
    );

    let events = course.inn.line("events --json").ok().stdout;
    let events: Vec<Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|event: &Value| event["kind"] == "canary")
        .collect();
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(
        (&events[0]["outcome"], &events[0]["uses"]),
        (&json!("same"), &json!(3))
    );
    let alarm = &events[1];
    assert_eq!(
        (&alarm["outcome"], &alarm["supply"]),
        (&json!("differs"), &json!("reused"))
    );
    assert_eq!(alarm["lease"], canary["reused_lease"]);
    let fresh = canary["fresh_lease"].as_str().unwrap();
    assert!(alarm["cause"].as_str().unwrap().contains(fresh), "{alarm}");
}
