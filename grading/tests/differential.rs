//! Made-up logs graded by both sides: the reports have to be equal as text.

#[path = "support/reference.rs"]
mod reference;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use innkeeper_grading::{
    EvalType, GradeSpec, InstanceReport, ParseError, ReportFile, grade, log_text, parsers,
    to_report_json,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

/// Gradings for each parser.
const CASES: usize = 150;

#[derive(Debug)]
struct Case {
    parser: &'static str,
    log: Vec<u8>,
    eval_type: EvalType,
    repair: Vec<String>,
    keep: Vec<String>,
}

/// Names that occur in logs, whole, and as they are listed in rows: cut, or not there.
const NAMES: [&str; 14] = [
    "t.py::a",
    "t.py::b[x y]",
    "t.py::c[/p/q/r]",
    "t.py::c[//p/q]",
    "t.py::d[MouseButton.LEFT]",
    "t.py::e[invalid one]",
    "t.py::e[invalid two]",
    "t.py::e[invalid",
    "t.py::é[ü",
    "test_f",
    "test_f (m.T)",
    "sympy/core/test_g.py:test_g",
    "--version is equivalent to version",
    "[100%]",
];

fn name() -> impl Strategy<Value = String> {
    let whole = proptest::sample::select(&NAMES[..]).prop_map(str::to_owned);
    let cut = (proptest::sample::select(&NAMES[..]), 3..12usize)
        .prop_map(|(name, keep)| name.chars().take(keep).collect());
    prop_oneof![8 => whole, 1 => cut]
}

/// One piece of a log: whole lines of each runner, odd separators, noise.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let status = proptest::sample::select(
        &[
            "PASSED", "FAILED", "SKIPPED", "ERROR", "XFAIL", "XPASS", "ERROR:",
        ][..],
    );
    let ending = proptest::sample::select(
        &[
            " ... ok",
            " ... OK",
            " ...  OK",
            " ... FAIL",
            " ... ERROR",
            " ... skipped 'x'",
            " ... ",
            " ok",
            " F",
            " E",
            " f",
        ][..],
    );
    let space = proptest::sample::select(
        &[
            " ", "  ", "\t", "\u{1c}", "\u{a0}", "\u{85}", "\u{2003}", "",
        ][..],
    );
    let fixed = proptest::sample::select(
        &[
            "\n",
            "\n",
            "\n",
            "\r\n",
            "\r",
            " ",
            "ok",
            "ok\n",
            "FAIL: test_f (m.T)\n",
            "ERROR: test_f (m.T)\n",
            "FAIL:\n",
            "SKIPPED [3] t.py:1: x\n",
            "\u{1b}[32mPASSED\u{1b}[0m t.py::\u{1b}[1ma\u{1b}[0m\n",
            "\u{1b}[0;31mFAILED\u{1b}[0m t.py::a - x - y\n",
            " ... Internal Server Error: /x/\nok\n",
            " ... Testing against Django installed in 'd'\nmore silenced).\nok\n",
            " ... System check identified no issues (0 silenced)\nok\n",
            "Applying sites.0002_alter_domain_unique...test_no_migrations (m.T) ... ok\n",
            "______ sympy/core/test_g.py:test_g ______\n",
            "Killed\n",
            "Cannot allocate memory\n",
            "ModuleNotFoundError: x\n",
            "collected 0 items\n",
            "\n\nTimeout error: 1800 seconds exceeded.",
            "Executed 0 of 0\n",
            "Executed 3 of 3\n",
            "Test Suites: 1 failed, 2 total\n",
            "# tests 4\n",
            "2 specs, 0 failures\n",
            "case': ok\n",
            "3 passing\n",
        ][..],
    );
    let line = (
        status.clone(),
        space.clone(),
        name(),
        proptest::option::of(Just(" - because - of")),
    )
        .prop_map(|(status, space, name, tail)| {
            format!("{status}{space}{name}{}\n", tail.unwrap_or_default())
        });
    let verbose = (name(), space, status)
        .prop_map(|(name, space, status)| format!("{name}{space}{status}\n"));
    let spread = (name(), ending).prop_map(|(name, ending)| format!("{name}{ending}\n"));
    prop_oneof![
        12 => line.prop_map(String::into_bytes),
        4 => verbose.prop_map(String::into_bytes),
        6 => spread.prop_map(String::into_bytes),
        6 => fixed.prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
    ]
}

fn pieces(most: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(piece(), 0..most).prop_map(|pieces| pieces.concat())
}

/// A log with its markers, most of the time.
fn log() -> impl Strategy<Value = Vec<u8>> {
    let marker = |text: &'static str| prop_oneof![30 => Just(format!("+ : '{text}'\n")), 1 => Just(String::new()), 1 => Just(format!("{text}{text}\n"))];
    let trailer = proptest::sample::select(
        &[
            "",
            "",
            "",
            "",
            "",
            "",
            "",
            ">>>>> Test Exit Code: 0\n",
            ">>>>> Test Exit Code: 1\n",
            ">>>>> Test Exit Code:\n-000\n",
            ">>>>> Tests Timed Out\n",
            ">>>>> Patch Apply Failed\n",
            ">>>>> Start Test Output\nPASSED x\n",
        ][..],
    );
    let parts = (
        pieces(3),
        marker(">>>>> Start Test Output"),
        pieces(14),
        marker(">>>>> End Test Output"),
        pieces(3),
        trailer,
    );
    parts.prop_map(|(before, start, inside, end, after, trailer)| {
        [
            &before,
            start.as_bytes(),
            &inside,
            end.as_bytes(),
            &after,
            trailer.as_bytes(),
        ]
        .concat()
    })
}

fn case(parser: &'static str) -> impl Strategy<Value = Case> {
    let names = || proptest::collection::vec(name(), 0..4);
    let eval_type = prop_oneof![4 => Just(EvalType::PassAndFail), 1 => Just(EvalType::FailOnly)];
    let parts = (log(), eval_type, names(), names());
    parts.prop_map(move |(log, eval_type, repair, keep)| Case {
        parser,
        log,
        eval_type,
        repair,
        keep,
    })
}

fn request(case: &Case) -> Value {
    let row = json!({
        "instance_id": "a__a-1", "image": "i", "repo": "a/a", "version": "1", "eval_script": "",
        "log_parser": case.parser, "eval_type": case.eval_type,
        "FAIL_TO_PASS": case.repair, "PASS_TO_PASS": case.keep,
    });
    json!({"kind": "grade", "row": row, "log_b64": STANDARD.encode(&case.log), "model_patch": "x"})
}

fn ours(case: &Case) -> Result<InstanceReport, ParseError> {
    let spec = GradeSpec {
        instance_id: "a__a-1",
        log_parser: case.parser,
        eval_type: case.eval_type,
        fail_to_pass: &case.repair,
        pass_to_pass: &case.keep,
    };
    grade(&spec, &log_text(&case.log))
}

#[test]
fn reports_equal_those_of_the_swebench_package() {
    let Some(python) = reference::python("differential") else {
        return;
    };
    let mut runner = TestRunner::deterministic();
    let mut cases = Vec::new();
    for parser in parsers::names() {
        let strategy = case(parser);
        cases.extend((0..CASES).map(|_| strategy.new_tree(&mut runner).expect("a case").current()));
    }
    let requests: Vec<_> = cases.iter().map(request).collect();
    let (mut resolved, mut unread, mut errors) = (0, 0, 0);
    for (case, answer) in cases.iter().zip(reference::ask(&python, &requests)) {
        let shown = || format!("{case:?}\n{}", String::from_utf8_lossy(&case.log));
        match ours(case) {
            Ok(report) => {
                resolved += usize::from(report.resolved);
                unread += usize::from(!report.patch_successfully_applied);
                let file = ReportFile::from([("a__a-1".to_owned(), report)]);
                assert_eq!(
                    answer["report"].as_str(),
                    Some(&*to_report_json(&file)),
                    "{answer} {}",
                    shown()
                );
            }
            Err(_) => {
                errors += 1;
                assert_eq!(answer["error"], "IndexError", "{}", shown());
            }
        }
    }
    println!(
        "{} logs: {resolved} resolved, {unread} without tests, {errors} errors",
        cases.len()
    );
    // All ways out are taken, else the comparison means little.
    assert!(resolved > 0 && unread > 0 && errors > 0);
}

#[test]
fn a_prediction_without_a_patch_is_reported_alike() {
    let Some(python) = reference::python("differential, no patch") else {
        return;
    };
    let mut runner = TestRunner::deterministic();
    let case = case("parse_log_pytest")
        .new_tree(&mut runner)
        .expect("a case")
        .current();
    let mut request = request(&case);
    request["model_patch"] = Value::Null;
    let answer = reference::ask(&python, &[request]).remove(0);
    let file = ReportFile::from([("a__a-1".to_owned(), InstanceReport::without_patch())]);
    assert_eq!(answer["report"].as_str(), Some(&*to_report_json(&file)));
}
