//! What a state directory makes on the machine: processes, groups, mounts, uppers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use innkeeper_test_cli::Inn;

/// Where a daemon puts its groups: the name below `innkeeper` in every hierarchy.
#[derive(Debug, Clone)]
pub struct Groups(String);

impl Groups {
    /// Finds it by a process of a sandbox, which must run.
    ///
    /// # Panics
    /// When no sandbox of this state directory runs.
    pub fn of(inn: &Inn) -> Self {
        let daemons = inn.daemons();
        let name = processes()
            .filter(|pid| ancestors(*pid).any(|parent| daemons.contains(&parent)))
            .find_map(|pid| {
                let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
                let unified = text.lines().find_map(|line| line.strip_prefix("0::"))?;
                let (_, rest) = unified.split_once("/innkeeper/")?;
                Some(rest.split('/').next()?.to_owned())
            });
        Self(name.expect("a sandbox runs, in a group"))
    }

    fn parents(&self) -> Vec<PathBuf> {
        let root = Path::new("/sys/fs/cgroup");
        let hierarchies = ["", "unified", "memory", "cpu", "pids"];
        let parent = |hierarchy| root.join(hierarchy).join("innkeeper").join(&self.0);
        hierarchies
            .into_iter()
            .map(parent)
            .filter(|path| path.is_dir())
            .collect()
    }
}

/// What is there now because of one state directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traces {
    /// Processes of sandboxes.
    pub processes: BTreeSet<i32>,
    /// First processes that wait for a sandbox: they still have the daemon's ids.
    pub standing: BTreeSet<i32>,
    /// Groups of sandboxes, in all hierarchies.
    pub groups: BTreeSet<PathBuf>,
    /// Uppers on disk, in use or not.
    pub uppers: BTreeSet<PathBuf>,
    /// Mounts below the state directory, in the mount namespace of the tests.
    pub mounts: BTreeSet<String>,
}

impl Traces {
    /// Looks.
    pub fn of(inn: &Inn, name: &Groups) -> Self {
        let mut traces = Self::default();
        for parent in name.parents() {
            traces.groups.extend(below(&parent));
        }
        // The daemon and its spawner have a group of their own beside those of sandboxes.
        let daemons = inn.daemons();
        let spawners: Vec<_> = daemons.iter().flat_map(|pid| children(*pid)).collect();
        let own = |pid: &i32| daemons.contains(pid) || spawners.contains(pid);
        for group in &traces.groups {
            let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            let pids = listed.lines().filter_map(|line| line.parse::<i32>().ok());
            for pid in pids.filter(|pid| !own(pid)) {
                let kind = match is_root(pid) {
                    true => &mut traces.standing,
                    false => &mut traces.processes,
                };
                kind.insert(pid);
            }
        }
        for folder in ["store/uppers", "store/trash"] {
            let entries = fs::read_dir(inn.state().join(folder))
                .into_iter()
                .flatten()
                .flatten();
            traces.uppers.extend(entries.map(|entry| entry.path()));
        }
        let state = inn.state().to_str().expect("a plain path");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        traces.mounts.extend(
            mounts
                .lines()
                .filter(|line| line.contains(state))
                .map(str::to_owned),
        );
        traces
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Children of a process.
pub fn children(parent: i32) -> Vec<i32> {
    processes()
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect()
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// Whether a process has the ids of the machine's root.
fn is_root(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.contains("\nUid:\t0\t0\t0\t0\n")
}

fn ancestors(pid: i32) -> impl Iterator<Item = i32> {
    std::iter::successors(parent_of(pid), |pid| parent_of(*pid))
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
