//! A work tree below a root, made with git, in which a fix came after the base commit.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use innkeeper_leaks::{Ground, Question, Report, scan};
use tempfile::TempDir;

/// A root with `/testbed`.
pub(crate) struct Repository {
    pub(crate) root: TempDir,
    /// The base commit, at which HEAD is.
    pub(crate) base: String,
    /// The commit with the answer; on no branch.
    pub(crate) fix: String,
}

impl Repository {
    /// Three commits of history, then the fix, then back to the base by a detour that leaves no
    /// trace but the objects.
    pub(crate) fn new() -> Self {
        let mut made = Self::clear();
        made.write("code.py", "right\n");
        made.git("add .");
        made.git("commit -q -m fix");
        made.fix = made.git("rev-parse HEAD");
        made.git("reset -q --hard HEAD~1");
        made.forget();
        made
    }

    /// The same without the fix.
    pub(crate) fn clear() -> Self {
        let made = Self {
            root: tempfile::tempdir().unwrap(),
            base: String::new(),
            fix: String::new(),
        };
        fs::create_dir_all(made.path("testbed/pkg/tests")).unwrap();
        made.git("init -q -b main .");
        for (n, text) in ["a", "b", "wrong"].into_iter().enumerate() {
            made.write("code.py", &format!("{}{text}\n", "line\n".repeat(200)));
            made.write("pkg/tests/test_code.py", &"pass\n".repeat(n + 1));
            made.git("add .");
            made.git(&format!("commit -q -m {n}"));
            made.git(&format!("tag v{n}"));
        }
        made.git("tag -a -m release v2.0");
        let base = made.git("rev-parse HEAD");
        made.forget();
        Self { base, ..made }
    }

    /// Removes reflogs and ORIG_HEAD.
    pub(crate) fn forget(&self) {
        let _ = fs::remove_dir_all(self.path("testbed/.git/logs"));
        let _ = fs::remove_file(self.path("testbed/.git/ORIG_HEAD"));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path("testbed").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs git in the work tree; what it prints.
    pub(crate) fn git(&self, line: &str) -> String {
        git(&self.path("testbed"), line)
    }

    pub(crate) fn scan(&self) -> Report {
        self.scan_from(&self.base)
    }

    pub(crate) fn scan_from(&self, base: &str) -> Report {
        scan_in(self.root.path(), base)
    }

    /// Counts by kind's word.
    pub(crate) fn found(&self) -> BTreeMap<&'static str, u64> {
        counts(&self.scan())
    }
}

pub(crate) fn git(directory: &Path, line: &str) -> String {
    let ran = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@localhost"])
        .args(["-c", "safe.directory=*", "-c", "gc.auto=0"])
        .args(["-c", "core.logAllRefUpdates=false"])
        .args(line.split(' '))
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(ran.status.success(), "git {line}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

pub(crate) fn scan_in(root: &Path, base: &str) -> Report {
    let question = Question {
        workdir: b"/testbed".to_vec(),
        base_commit: base.to_owned(),
        patience_ms: Duration::from_secs(120).as_millis() as u64,
    };
    scan(&Ground::open(root).unwrap(), &question)
}

/// Counts by kind's word, where everything could be read.
pub(crate) fn counts(report: &Report) -> BTreeMap<&'static str, u64> {
    assert_eq!(report.unread, [""; 0], "{report:?}");
    let count = |(kind, finding): (&innkeeper_leaks::Kind, &innkeeper_leaks::Finding)| {
        (kind.word(), finding.count)
    };
    report.found.iter().map(count).collect()
}
