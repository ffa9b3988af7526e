//! The real `swebench` package as a test's other side, and the data that users have.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A Python that has the package, by `INNKEEPER_SWEBENCH_PYTHON`. Without it the test `name`
/// is reported as not run, past the capture of test output.
pub(crate) fn python(name: &str) -> Option<PathBuf> {
    let python = std::env::var_os("INNKEEPER_SWEBENCH_PYTHON").filter(|path| !path.is_empty());
    if python.is_none() {
        not_run(
            name,
            "INNKEEPER_SWEBENCH_PYTHON does not name a Python with the swebench package",
        );
    }
    python.map(PathBuf::from)
}

/// Says on the real standard error that a test could not run.
pub(crate) fn not_run(name: &str, reason: &str) {
    let mut stderr = std::io::stderr();
    writeln!(stderr, "not run: {name}: {reason}").expect("stderr is open");
}

/// The answers of the reference script, one for each request.
pub(crate) fn ask(python: &Path, requests: &[Value]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/reference/log_status.py");
    let mut child = Command::new(python)
        .arg(script)
        .env("PYTHONUTF8", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the reference's Python starts");
    let mut stdin = child.stdin.take().expect("piped");
    let lines: String = requests
        .iter()
        .map(|request| format!("{request}\n"))
        .collect();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("the reference ends");
    writer
        .join()
        .expect("no panic")
        .expect("the reference reads every request");
    assert!(
        output.status.success(),
        "the reference ended with {}",
        output.status
    );
    let answers: Vec<Value> = serde_json::Deserializer::from_slice(&output.stdout)
        .into_iter()
        .collect::<Result<_, _>>()
        .expect("the reference answers in JSON");
    assert_eq!(answers.len(), requests.len(), "one answer for each request");
    answers
}
