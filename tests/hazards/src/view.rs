//! What of a sandbox can be seen beside its files, from inside and from outside.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use innkeeper_test_local::Guest;
use serde_json::Value;

/// Processes, mounts, sockets, kernel objects and settings, by name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View(BTreeMap<String, Value>);

impl View {
    /// Prints one JSON object; what is noise in it is left out there, with the reason.
    const PROGRAM: &str = include_str!("view/inside.py");

    /// Looks, from inside and from outside.
    ///
    /// # Panics
    /// When the program does not run to its end.
    #[track_caller]
    pub(crate) fn of(guest: &Guest<'_>) -> Self {
        let inside = guest.python(Self::PROGRAM).ok().json();
        let mut seen = BTreeMap::new();
        for (name, value) in inside.as_object().expect("an object") {
            match value {
                // A difference names the one setting or folder, not all of them.
                Value::Object(parts) => {
                    let parts = parts.iter();
                    seen.extend(
                        parts.map(|(part, value)| (format!("{name} {part}"), value.clone())),
                    );
                }
                other => {
                    seen.insert(name.clone(), other.clone());
                }
            }
        }
        let slot = guest.lease["slot"].as_str().expect("a slot");
        let groups = groups(slot).into_iter().map(|group| group.shown());
        seen.insert("outside".to_owned(), groups.collect());
        Self(seen)
    }

    /// What is not the same, with both sides.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let names = self.0.keys().chain(other.0.keys());
        let mut names: Vec<_> = names
            .filter(|name| self.0.get(*name) != other.0.get(*name))
            .collect();
        names.sort();
        names.dedup();
        let show = |name| format!("{name}: {:?} and {:?}", self.0.get(name), other.0.get(name));
        names.into_iter().map(show).collect()
    }
}

/// A control group of a sandbox, as the machine sees it.
#[derive(Debug)]
struct Group(PathBuf);

/// The groups of a slot's sandboxes, in all hierarchies.
fn groups(slot: &str) -> Vec<Group> {
    let of_slot = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| {
            name.strip_prefix(slot)
                .is_some_and(|rest| rest.starts_with('.'))
        })
    };
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = ["", "unified", "memory", "cpu", "pids"].map(|name| root.join(name));
    let daemons = hierarchies
        .iter()
        .flat_map(|base| folders(&base.join("innkeeper")));
    let mut found: Vec<_> = daemons
        .flat_map(|daemon| folders(&daemon))
        .filter(of_slot)
        .collect();
    found.sort();
    found.into_iter().map(Group).collect()
}

/// Whether any group of a slot's sandboxes is left.
pub(crate) fn has_groups(slot: &str) -> bool {
    !groups(slot).is_empty()
}

impl Group {
    /// Its hierarchy, its processes and how many groups are in it.
    fn shown(&self) -> Value {
        let hierarchy = self
            .0
            .components()
            .nth(4)
            .map(|part| part.as_os_str().to_string_lossy());
        let listed = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        let name = |pid: &str| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let processes: Vec<_> = listed.lines().map(name).collect();
        serde_json::json!([hierarchy, processes])
    }
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}
