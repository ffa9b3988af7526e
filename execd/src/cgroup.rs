//! Control groups, by plain files: version 2 alone, or version 1 controllers beside a
//! version 2 tree without any (hybrid), which has kill and freeze.
//!
//! Every generation has a group of its own: pages of an old upper stay charged to the group
//! that wrote them until they are freed, and the next rollout must not inherit that bill.

mod exec;
mod group;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use exec::ExecGroup;
pub use group::{Group, Limits};

/// The version 1 controllers in use.
const CONTROLLERS: [&str; 3] = ["memory", "cpu", "pids"];

/// The daemon's own group.
const OWN: &str = "daemon";

/// The parents of all groups of one daemon.
#[derive(Debug)]
pub struct Hierarchy {
    /// The version 2 directory.
    unified: PathBuf,
    /// Version 1: (controller, directory).
    v1: Vec<(&'static str, PathBuf)>,
    /// Whether the version 2 tree has the controllers.
    limits_in_v2: bool,
}

impl Hierarchy {
    /// Finds the machine's hierarchies and makes the parent `innkeeper/NAME` in each.
    ///
    /// # Errors
    /// When there is no writable version 2 tree: then nothing can be killed as a whole.
    pub fn open(name: &str) -> io::Result<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let pure = root.join("cgroup.controllers").exists();
        let unified = if pure {
            root.to_owned()
        } else {
            root.join("unified")
        };
        if !unified.join("cgroup.procs").exists() {
            let sentence =
                "no cgroup version 2 tree at /sys/fs/cgroup or /sys/fs/cgroup/unified: mount one";
            return Err(io::Error::new(io::ErrorKind::Unsupported, sentence));
        }
        let parent = |base: PathBuf| -> io::Result<PathBuf> {
            let directory = base.join("innkeeper").join(name);
            fs::create_dir_all(&directory)?;
            Ok(directory)
        };
        let limits_in_v2 = pure && enable(&unified);
        let unified = parent(unified)?;
        if limits_in_v2 {
            enable(unified.parent().unwrap_or(&unified));
            enable(&unified);
        }
        let mut v1 = Vec::new();
        for controller in CONTROLLERS {
            let base = root.join(controller);
            if !pure && base.join("tasks").exists() {
                v1.push((controller, parent(base)?));
            }
        }
        Ok(Self {
            unified,
            v1,
            limits_in_v2,
        })
    }

    /// Whether memory, cpu and pids can be limited.
    pub fn can_limit(&self) -> bool {
        self.limits_in_v2 || self.v1.len() == CONTROLLERS.len()
    }

    /// Makes the group of one sandbox, without limits yet.
    ///
    /// # Errors
    /// When a directory is refused.
    pub fn create(&self, sandbox: &str) -> io::Result<Group> {
        Group::create(
            self.unified.join(sandbox),
            self.v1.iter().map(|(c, d)| (*c, d.join(sandbox))).collect(),
            self.limits_in_v2,
        )
    }

    /// Kills and removes the group of one name, and the parents when it was the last.
    pub fn forget(&self, name: &str) {
        let _ = fs::write(self.unified.join(name).join("cgroup.kill"), "1");
        for directory in std::iter::once(&self.unified).chain(self.v1.iter().map(|(_, d)| d)) {
            remove_tree(&directory.join(name));
            let _ = fs::remove_dir(directory);
            let _ = directory.parent().map(fs::remove_dir);
        }
    }

    /// Moves this process into a group of its own beside the sandboxes': whoever ends the
    /// manager by its group, as a service manager does, does not end the sandboxes.
    ///
    /// # Errors
    /// When the group cannot be made or joined.
    pub fn enter_own(&self) -> io::Result<()> {
        let own = self.unified.join(OWN);
        fs::create_dir_all(&own)?;
        fs::write(own.join("cgroup.procs"), "0")
    }

    /// Kills and removes every group below: what a dead daemon of the same name left.
    pub fn sweep(&self) {
        let others = children(&self.unified)
            .into_iter()
            .filter(|g| !g.ends_with(OWN));
        for group in others {
            let _ = fs::write(group.join("cgroup.kill"), "1");
        }
        for directory in std::iter::once(&self.unified).chain(self.v1.iter().map(|(_, d)| d)) {
            for group in children(directory) {
                if !group.ends_with(OWN) {
                    remove_tree(&group);
                }
            }
        }
    }

    /// Removes the parents themselves, when the daemon ends for good.
    pub fn remove(&self) {
        self.sweep();
        // Back to the root of the tree, or the own group could not be removed.
        if let Some(root) = self.unified.ancestors().nth(2) {
            let _ = fs::write(root.join("cgroup.procs"), "0");
            let _ = fs::remove_dir(self.unified.join(OWN));
        }
        for directory in std::iter::once(&self.unified).chain(self.v1.iter().map(|(_, d)| d)) {
            let _ = fs::remove_dir(directory);
            let _ = directory.parent().map(fs::remove_dir);
        }
    }
}

/// Turns the controllers on for the children of a version 2 directory.
fn enable(directory: &Path) -> bool {
    fs::write(
        directory.join("cgroup.subtree_control"),
        "+memory +cpu +pids",
    )
    .is_ok()
}

fn children(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
        .map(|e| e.path())
        .collect()
}

/// Removes a group and its children, waiting shortly for killed processes to go.
fn remove_tree(group: &Path) {
    for child in children(group) {
        remove_tree(&child);
    }
    for _ in 0..200 {
        match fs::remove_dir(group) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            _ => return,
        }
    }
}
