//! A small root file system of this machine's own programs, with a git repository in /testbed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that the tests use inside.
const PROGRAMS: [&str; 31] = [
    "bash", "sh", "cat", "chmod", "cp", "env", "false", "find", "git", "grep", "head", "id",
    "kill", "ln", "ls", "mkdir", "mv", "patch", "pwd", "rm", "sed", "seq", "sleep", "sort", "stat",
    "stty", "touch", "tr", "true", "tty", "wc",
];

/// What /testbed/file holds at the base commit.
pub const BASE_FILE: &str = "wrong\n";

/// A root file system in a folder.
#[derive(Debug)]
pub struct Rootfs {
    /// The folder.
    pub folder: PathBuf,
    /// HEAD of /testbed.
    pub base_commit: String,
}

impl Rootfs {
    /// Makes one in a folder that does not exist yet.
    pub fn make(folder: &Path) -> Self {
        for name in [
            "usr/bin",
            "usr/lib",
            "usr/lib64",
            "usr/sbin",
            "etc",
            "proc",
            "sys",
            "dev",
            "root",
            "tmp",
            "testbed",
        ] {
            fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        for name in ["bin", "lib", "lib64", "sbin"] {
            symlink(format!("usr/{name}"), folder.join(name)).expect("a link");
        }
        fs::set_permissions(folder.join("tmp"), fs::Permissions::from_mode(0o1777))
            .expect("a mode");
        fs::write(
            folder.join("etc/passwd"),
            "root:x:0:0:root:/root:/bin/bash\nguest:x:1000:1000::/tmp:/bin/sh\n",
        )
        .expect("written");
        fs::write(folder.join("etc/group"), "root:x:0:\nguest:x:1000:\n").expect("written");
        add(folder, &PROGRAMS);
        let base_commit = repository(&folder.join("testbed"));
        Self {
            folder: folder.to_owned(),
            base_commit,
        }
    }

    /// Adds programs of this machine, as far as it has them, with the libraries they need.
    pub fn with(self, programs: &[&str]) -> Self {
        add(&self.folder, programs);
        self
    }

    /// Adds one file that can be run.
    pub fn with_program(self, from: &Path, to: &str) -> Self {
        put(&self.folder, from, to.trim_start_matches('/'));
        self
    }
}

/// Adds programs of this machine, as far as it has them, with the libraries they need.
fn add(folder: &Path, programs: &[&str]) {
    for program in programs {
        let Some(found) = find(program) else {
            continue;
        };
        put(folder, &found, &format!("usr/bin/{program}"));
        for library in libraries(&found) {
            let path = library.to_str().expect("a plain name");
            put(folder, &library, path.trim_start_matches('/'));
        }
    }
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

fn put(folder: &Path, from: &Path, to: &str) {
    let to = folder.join(to);
    fs::create_dir_all(to.parent().expect("below the folder")).expect("a folder");
    if !to.exists() {
        fs::copy(from, &to).expect("copied");
    }
}

/// What the dynamic loader would load for a program, and the loader itself.
fn libraries(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().expect("ldd runs");
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    listed
        .split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}

fn repository(folder: &Path) -> String {
    fs::write(folder.join("file"), BASE_FILE).expect("written");
    fs::write(folder.join("conftest.py"), "# as in the image\n").expect("written");
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args([
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@localhost",
                "-c",
                "init.defaultBranch=main",
            ])
            .args(arguments)
            .current_dir(folder)
            .output()
            .expect("git runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "-m", "base"]);
    git(&["rev-parse", "HEAD"])
}
