//! Which files of a patch are flagged, and which are not.

use innkeeper_grading::{Patch, Row, flags, read_rows};
use serde_json::{Value, json};

fn row(value: &Value) -> Row {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), value.to_string()).unwrap();
    read_rows(file.path()).unwrap().remove(0)
}

fn task() -> Row {
    row(&json!({
        "instance_id": "o__p-1",
        "test_patch": "--- a/tests/test_m.py\n+++ b/tests/test_m.py\n@@ -1 +1 @@\n-a\n+b\n",
        "FAIL_TO_PASS": ["other/test_n.py::test_x"], "PASS_TO_PASS": [],
        "eval_script": "cp bin/before x\n: '>>>>> Start Test Output'\n./bin/test -C --seed=1 tests/test_m.py checks\n: '>>>>> End Test Output'\n",
    }))
}

/// The kinds under which a patch that adds `path` is flagged.
fn kinds(path: &str) -> Vec<String> {
    let patch = format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    );
    let flags = serde_json::to_value(flags(&Patch::read(patch.as_bytes()), &task())).unwrap();
    let list = flags.as_array().unwrap().iter();
    list.inspect(|flag| assert_eq!(flag["path"], path))
        .map(|flag| flag["kind"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn what_judges_is_flagged() {
    for (path, kind) in [
        ("conftest.py", "conftest"),
        ("a/b/conftest.py", "conftest"),
        ("sitecustomize.py", "python-startup"),
        ("usercustomize/__init__.py", "python-startup"),
        ("src/zz.pth", "python-startup"),
        ("pytest.ini", "runner-config"),
        ("setup.cfg", "runner-config"),
        ("tox.ini", "runner-config"),
        ("pyproject.toml", "runner-config"),
        ("jest.config.mjs", "runner-config"),
        ("tests/test_m.py", "test-file"),
        ("other/test_n.py", "test-file"),
        ("ev-1.0.dist-info/entry_points.txt", "entry-point"),
        ("src/ev.egg-info/PKG-INFO", "entry-point"),
        ("setup.py", "entry-point"),
        ("bin/test", "test-runner"),
        ("pytest.py", "runner-module"),
        ("_pytest/__init__.py", "runner-module"),
        ("a/__pycache__/m.cpython-311.pyc", "compiled-code"),
    ] {
        assert_eq!(kinds(path), [kind], "{path}");
    }
}

#[test]
fn what_does_not_judge_is_not() {
    for path in [
        "src/m.py",
        "docs/conftest.rst",
        "bin/before",
        "src/_pytest/config.py",
        "my_conftest.py",
        "tests.py",
        "pytest.txt",
    ] {
        assert_eq!(kinds(path), [""; 0], "{path}");
    }
}

#[test]
fn a_link_over_a_directory_of_tests_is_flagged() {
    let patch = Patch::read(b"diff --git a/tests b/tests\nnew file mode 120000\n--- /dev/null\n+++ b/tests\n@@ -0,0 +1 @@\n+evil\n");
    let found = flags(&patch, &task());
    assert_eq!(
        serde_json::to_value(&found).unwrap(),
        json!([{"path": "tests", "kind": "test-file"}])
    );
}

#[test]
fn both_ends_of_a_move_count_and_names_may_be_bytes() {
    let patch =
        Patch::read(b"diff --git a/conftest.py b/x.py\nrename from conftest.py\nrename to x.py\n");
    assert_eq!(flags(&patch, &task()).len(), 1);
    let patch = Patch::read(
        b"diff --git \"a/\\377/conftest.py\" \"b/\\377/conftest.py\"\nnew file mode 100644\n",
    );
    let found = serde_json::to_value(flags(&patch, &task())).unwrap();
    assert_eq!(
        found,
        json!([{"path_b64": "/y9jb25mdGVzdC5weQ==", "kind": "conftest"}])
    );
}
