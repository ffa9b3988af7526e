//! Leftovers of tests in the work tree.

use std::os::unix::fs::symlink;

use innkeeper_leaks::Kind;

use crate::repository::Repository;

#[test]
fn what_tests_left_is_found_and_what_a_commit_holds_is_not() {
    let made = Repository::clear();
    for tracked in ["docs/build.log", "vendor/.tox/keep", "patches/one.patch"] {
        made.write(tracked, "kept\n");
    }
    made.git("add -f .");
    made.git("commit -q -m more");
    made.forget();
    let base = made.git("rev-parse HEAD");
    for left in [
        ".pytest_cache/v/cache/lastfailed",
        ".tox/py/log",
        "pkg/code.py.orig",
        "pkg/code.py.rej",
        "test.log",
        ".coverage",
        "junit-1.xml",
        "pkg/tests/__pycache__/test_code.cpython-311.pyc",
        "__pycache__/conftest.cpython-311.pyc",
        "docs/other.log",
    ] {
        made.write(left, "left\n");
    }
    made.write("pkg/__pycache__/code.cpython-311.pyc", "the image's own\n");
    let report = made.scan_from(&base);
    let (caches, outputs) = (&report.found[&Kind::Caches], &report.found[&Kind::Outputs]);
    assert_eq!((caches.count, outputs.count), (4, 6), "{report:?}");
    assert_eq!(report.found.len(), 2, "{report:?}");
    assert_eq!(caches.examples.len(), 3, "a few examples are enough");
}

#[test]
fn links_are_not_followed_out_of_the_tree() {
    let made = Repository::clear();
    std::fs::create_dir_all(made.path("elsewhere/.tox")).unwrap();
    symlink("/elsewhere", made.path("testbed/link")).unwrap();
    symlink("..", made.path("testbed/up")).unwrap();
    assert!(made.scan().is_clear(), "{:?}", made.scan());
}

#[test]
fn a_work_tree_without_a_repository_is_searched_too() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("testbed/.pytest_cache")).unwrap();
    let report = crate::repository::scan_in(root.path(), "");
    assert_eq!(report.found[&Kind::Caches].count, 1);
    assert_eq!(report.base, None);
}
