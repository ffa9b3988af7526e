//! A task on the image's repository, and gradings of it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use innkeeper_test_hazards::{Case, Ground, IMAGE};
use innkeeper_test_local::{Guest, shared};
use serde_json::{Value, json};

/// The id of its one test, as the runner prints it.
pub(super) const TEST: &str = "test_m.py::T::test_ok";

const ID: &str = "innkeeper__hazards-1";

/// Runs pytest over the repository, which is importable, as many projects' scripts do.
const PYTEST: &str = "python3 -m pytest -p no:cacheprovider -rA test_m.py";

/// One task, and the folder of its gradings.
pub(super) struct Course<'a> {
    pub(super) ground: &'a Ground,
    name: String,
    row: Value,
}

/// What came of a grading.
#[derive(Debug)]
pub(super) struct Graded {
    /// Of `grade --json`.
    pub(super) result: Value,
    /// The test log.
    pub(super) output: String,
    /// Kinds of flags in the record.
    pub(super) flags: Vec<String>,
    /// Where the report lies.
    pub(super) folder: PathBuf,
}

impl<'a> Course<'a> {
    /// The task whose test passes at the base commit, and fails once `m.py` is spoilt.
    pub(super) fn new(ground: &'a Ground, name: &str) -> Self {
        let guest = ground.lease(&format!("{}-{name}", ground.pair), &json!({}));
        let head = guest.bash("git -C /testbed rev-parse HEAD").ok().stdout;
        guest.discard();
        let row = json!({
            "instance_id": ID, "repo": "inn/keeper", "version": "1", "image": IMAGE,
            "base_commit": head.trim(), "patch": "", "test_patch": "",
            "FAIL_TO_PASS": [TEST], "PASS_TO_PASS": [],
            "eval_script": script(PYTEST), "log_parser": "parse_log_pytest", "eval_type": "pass_and_fail",
        });
        Self {
            ground,
            name: format!("{}-{name}", ground.pair),
            row,
        }
    }

    /// The same with another command between the markers.
    pub(super) fn running(mut self, command: &str, parser: &str, tests: &[&str]) -> Self {
        self.row["eval_script"] = json!(script(command));
        self.row["log_parser"] = json!(parser);
        self.row["FAIL_TO_PASS"] = json!(tests);
        self
    }

    /// A sandbox for a rollout.
    pub(super) fn rollout(&self) -> Guest<'a> {
        self.ground.lease(&self.name, &json!({}))
    }

    /// Grades a patch. The options are those of `grade`.
    #[track_caller]
    pub(super) fn grade(&self, patch: &str, options: &[&str]) -> Graded {
        // No two gradings share a report, or the second would be skipped.
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let run = format!("r{}", RUNS.fetch_add(1, Ordering::Relaxed));
        let inn = self.ground.house.inn();
        let file = |kind: &str, value: Value| {
            let path = inn.file(
                &format!("{}-{run}-{kind}.json", self.name),
                value.to_string(),
            );
            path.to_str().expect("a plain path").to_owned()
        };
        let prediction =
            json!({"instance_id": ID, "model_name_or_path": "model", "model_patch": patch});
        let (tasks, predictions) = (
            file("tasks", json!([self.row])),
            file("predictions", json!([prediction])),
        );
        let out = inn.path(&format!("{}-out", self.name));
        let line = [
            "grade",
            "--json",
            "--tasks",
            &tasks,
            "--predictions",
            &predictions,
            "--out",
            out.to_str().expect("a plain path"),
            "--run-id",
            &run,
            "--workers",
            "1",
        ];
        let ran = inn.run([&line[..], options].concat());
        let folder = out
            .join("logs/run_evaluation")
            .join(&run)
            .join("model")
            .join(ID);
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let record: Value = serde_json::from_str(&text("attestation.json"))
            .unwrap_or_else(|error| panic!("{error}: {ran:?}"));
        let flags = record["patch"]["flags"].as_array().into_iter().flatten();
        Graded {
            result: ran.json()["results"][0].clone(),
            output: text("test_output.txt"),
            flags: flags
                .map(|flag| flag["kind"].as_str().unwrap_or_default().to_owned())
                .collect(),
            folder,
        }
    }

    /// The patch that a script leaves in the rollout's repository, and the sandbox given back.
    pub(super) fn patch_of(&self, script: &str) -> String {
        let guest = self.rollout();
        let file = self
            .ground
            .house
            .inn()
            .file(&format!("{}-script", self.name), script);
        guest.bring(&file, "/run/hazard");
        guest.bash("bash /run/hazard");
        let shown =
            "cd /fx/repo && git add --all --intent-to-add && git diff --binary --full-index";
        let patch = guest.bash(shown).ok().stdout;
        guest.give_back("swap");
        patch
    }
}

impl Graded {
    /// The verdict.
    pub(super) fn verdict(&self) -> &str {
        self.result["verdict"].as_str().unwrap_or_default()
    }

    /// A grading with this verdict and, among others, this flag.
    #[track_caller]
    pub(super) fn is(self, verdict: &str, flag: Option<&str>) -> Self {
        assert_eq!(self.verdict(), verdict, "{self:?}");
        let flagged = flag.is_none_or(|flag| self.flags.iter().any(|kind| kind == flag));
        assert!(flagged, "{flag:?} is not among {:?}", self.flags);
        self
    }
}

/// The script of a recorded fault.
pub(super) fn recorded(id: &str) -> String {
    let folder = shared("hazards").expect("the image was built from it");
    let cases = Case::recorded(&folder, &["E"]).expect("readable");
    cases
        .into_iter()
        .find(|case| case.id == id)
        .expect("recorded")
        .script
}

/// An eval script in the form of the public sets.
fn script(command: &str) -> String {
    format!(
        "#!/bin/bash\nset -uxo pipefail\ncd /testbed\nexport PYTHONPATH=.\ngit status\n\
         : '>>>>> Start Test Output'\n{command}\n: '>>>>> End Test Output'\n"
    )
}
