//! What a state directory leaves on the machine: processes, groups, mounts, uppers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use innkeeper_test_cli::Inn;

/// What is there now because of one state directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traces {
    /// Processes in its groups.
    pub processes: BTreeSet<i32>,
    /// Groups of sandboxes, in all hierarchies.
    pub groups: BTreeSet<PathBuf>,
    /// Uppers on disk, in use or not.
    pub uppers: BTreeSet<PathBuf>,
    /// Mounts below the state directory, in the mount namespace of the tests.
    pub mounts: BTreeSet<String>,
}

impl Traces {
    /// Looks.
    pub fn of(inn: &Inn, name: &str) -> Self {
        let mut traces = Self::default();
        for parent in parents(name) {
            traces.groups.extend(below(&parent));
        }
        for group in &traces.groups {
            let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            traces.processes.extend(listed.lines().filter_map(|pid| pid.parse::<i32>().ok()));
        }
        for folder in ["store/uppers", "store/trash"] {
            let folder = inn.state().join(folder);
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            traces.uppers.extend(entries.map(|entry| entry.path()));
        }
        let state = inn.state().to_str().expect("a plain path");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        traces.mounts.extend(mounts.lines().filter(|line| line.contains(state)).map(str::to_owned));
        traces
    }
}

/// The directories in which a daemon of this name makes its groups.
fn parents(name: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = ["", "unified", "memory", "cpu", "pids"];
    let parent = |hierarchy| root.join(hierarchy).join("innkeeper").join(name);
    hierarchies.into_iter().map(parent).filter(|path| path.is_dir()).collect()
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let with_own = |path: PathBuf| {
        let mut all = below(&path);
        all.push(path);
        all
    };
    folders.flat_map(|entry| with_own(entry.path())).collect()
}
