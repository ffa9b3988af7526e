//! The control groups of a sandbox, in every hierarchy.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Record;
use crate::processes::Named;
use crate::text::{read, shown};

/// Files that list processes or threads by pid.
const MEMBERS: [&str; 3] = ["cgroup.procs", "cgroup.threads", "tasks"];

/// Records every file of the groups that pid 1 is in, as subjects `group CONTROLLERS`. Of a
/// hierarchy in which it has no group of its own there is nothing to say.
pub(super) fn observe(record: &mut Record, base: &str, named: &Named) {
    let points = points();
    let machine = read("/proc/1/cgroup").unwrap_or_default();
    let machine = String::from_utf8_lossy(&machine).into_owned();
    let text = read(format!("{base}/cgroup")).unwrap_or_default();
    for line in String::from_utf8_lossy(&text).lines() {
        // NUMBER:CONTROLLERS:PATH
        let mut words = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (words.next(), words.next()) else {
            continue;
        };
        let subject = format!("group {controllers}");
        if machine.lines().any(|whole| whole == line) {
            record.put(&subject, "there", "the machine's");
            continue;
        }
        match points.get(controllers) {
            Some(point) => {
                let folder = Path::new(point).join(path.trim_start_matches('/'));
                group(record, &subject, &folder, named);
            }
            None => record.put(&subject, "there", "not mounted"),
        }
    }
}

fn group(record: &mut Record, subject: &str, folder: &Path, named: &Named) {
    record.put(subject, "there", if folder.is_dir() { "yes" } else { "no" });
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            record.put(subject, &format!("group {name}"), "there");
        } else if MEMBERS.contains(&name.as_str()) {
            record.put(subject, &name, members(&shown(entry.path()), named));
        } else {
            record.put(subject, &name, shown(entry.path()));
        }
    }
}

/// A list of pids as names; a thread counts by its number alone.
fn members(pids: &str, named: &Named) -> String {
    let mut names: Vec<_> = pids
        .split("\\x0a")
        .filter(|pid| !pid.is_empty())
        .map(|pid| {
            let name = pid.parse().ok().and_then(|pid: u32| named.get(&pid));
            name.map_or("another", String::as_str)
        })
        .collect();
    names.sort_unstable();
    names.join(", ")
}

/// Where hierarchies are mounted, by controllers as `/proc/PID/cgroup` names them.
fn points() -> BTreeMap<String, String> {
    let text = read("/proc/self/mounts").unwrap_or_default();
    let mut points = BTreeMap::new();
    for line in String::from_utf8_lossy(&text).lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [_, point, kind, options, ..] = words[..] else {
            continue;
        };
        match kind {
            "cgroup2" => {
                points.insert(String::new(), point.to_owned());
            }
            "cgroup" => {
                let flags = [
                    "rw",
                    "ro",
                    "nosuid",
                    "nodev",
                    "noexec",
                    "relatime",
                    "noatime",
                    "xattr",
                    "clone_children",
                ];
                let own = options
                    .split(',')
                    .filter(|word| !flags.contains(word) && !word.starts_with("release_agent"));
                points.insert(own.collect::<Vec<_>>().join(","), point.to_owned());
            }
            _ => {}
        }
    }
    points
}
