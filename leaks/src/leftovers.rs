//! Leftovers of earlier test runs in the work tree: caches and outputs that no commit holds.

use std::collections::HashSet;
use std::time::Instant;

use crate::ground::{Ground, join, text};
use crate::{Kind, Report};

/// Entries of one directory.
const ENTRIES: usize = 1 << 20;

/// Directories of the whole tree.
const DIRECTORIES: usize = 1 << 20;

/// Directories that tests and checkers fill.
const CACHES: [&str; 8] = [
    ".pytest_cache",
    ".tox",
    ".nox",
    ".hypothesis",
    ".mypy_cache",
    ".ruff_cache",
    ".testmondata",
    "htmlcov",
];

/// Files that tests and patches leave, by their end.
const ENDS: [&str; 6] = [".orig", ".rej", ".log", ".diff", ".patch", ".lcov"];

/// Files that tests leave, by their name.
const NAMES: [&str; 4] = [".coverage", "coverage.xml", "nosetests.xml", ".testmondata"];

/// Searches a work tree. `tracked` holds the paths of a commit's files: what it holds is no
/// leftover.
pub(crate) fn search(
    ground: &Ground,
    top: &[u8],
    tracked: &HashSet<Vec<u8>>,
    deadline: Instant,
    report: &mut Report,
) {
    let directories = ancestors(tracked);
    let mut next = vec![Vec::new()];
    let mut looked = 0;
    while let Some(path) = next.pop() {
        looked += 1;
        if looked > DIRECTORIES || Instant::now() >= deadline {
            report.unread("the work tree is too large to be searched in time");
            return;
        }
        let entries = match ground.list_plain(&join(top, &path), ENTRIES) {
            Ok(entries) => entries,
            Err(error) if error.is_absent() => continue,
            Err(error) => {
                report.unread(error);
                continue;
            }
        };
        for entry in entries {
            let path = join(&path, &entry.name);
            let held = tracked.contains(&path) || directories.contains(&path);
            let kind = match kind(&path, &entry.name, entry.directory) {
                Some(kind) if !held => Some(kind),
                Some(_) | None => None,
            };
            match kind {
                Some(kind) => report.add(kind, || text(&path)),
                None if entry.directory && !is_foreign(top, &path) => next.push(path),
                None => {}
            }
        }
    }
}

/// All directories that hold a commit's files.
fn ancestors(tracked: &HashSet<Vec<u8>>) -> HashSet<Vec<u8>> {
    let mut directories = HashSet::new();
    for path in tracked {
        let mut path = path.as_slice();
        while let Some(slash) = path.iter().rposition(|byte| *byte == b'/') {
            path = &path[..slash];
            if !directories.insert(path.to_vec()) {
                break;
            }
        }
    }
    directories
}

/// What is no part of a work tree: its repository, and the kernel's own trees at the root.
fn is_foreign(top: &[u8], path: &[u8]) -> bool {
    let root = top.iter().all(|byte| *byte == b'/');
    path == b".git" || root && matches!(path, b"proc" | b"sys" | b"dev")
}

fn kind(path: &[u8], name: &[u8], directory: bool) -> Option<Kind> {
    let is = |names: &[&str]| names.iter().any(|other| other.as_bytes() == name);
    if directory {
        return is(&CACHES).then_some(Kind::Caches);
    }
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end.as_bytes()));
    let results = name.starts_with(b"junit") && ends(&[".xml"]);
    if is(&NAMES) || ends(&ENDS) || name.starts_with(b".coverage.") || results {
        return Some(Kind::Outputs);
    }
    (ends(&[".pyc"]) && is_test(path, name)).then_some(Kind::Caches)
}

/// Whether compiled code is that of a test: the tests of the fix may have been compiled.
fn is_test(path: &[u8], name: &[u8]) -> bool {
    let module = name.split(|byte| *byte == b'.').next().unwrap_or(name);
    let named = module.starts_with(b"test_") || module.ends_with(b"_test") || module == b"conftest";
    let below = path
        .split(|byte| *byte == b'/')
        .any(|part| matches!(part, b"tests" | b"test" | b"testing"));
    named || below
}
