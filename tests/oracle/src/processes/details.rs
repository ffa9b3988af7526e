//! What /proc says of one process.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Named;
use crate::Record;
use crate::ids::Ids;
use crate::text::{error, escaped, read, shown};

/// Files that are recorded as they are.
const WHOLE: [&str; 17] = [
    "comm",
    "cmdline",
    "cgroup",
    "oom_score",
    "oom_score_adj",
    "loginuid",
    "sessionid",
    "personality",
    "timerslack_ns",
    "coredump_filter",
    "setgroups",
    "uid_map",
    "gid_map",
    "projid_map",
    "timers",
    "timens_offsets",
    "attr/current",
];

/// Links that are recorded as they are.
const LINKS: [&str; 3] = ["exe", "cwd", "root"];

/// Fields of stat by their number in proc(5).
const STAT: [(&str, usize); 9] = [
    ("terminal", 7),
    ("flags", 9),
    ("priority", 18),
    ("nice", 19),
    ("threads", 20),
    ("start time", 22),
    ("exit signal", 38),
    ("real time priority", 40),
    ("policy", 41),
];

/// Lines of status that are ids.
const IDS: [&str; 3] = ["Uid", "Gid", "Groups"];

/// Fields of stat that are pids of other processes, which are recorded by name.
const RELATIVES: [(&str, usize); 3] = [("parent", 4), ("process group", 5), ("session", 6)];

/// Records the process whose folder is `base`.
pub(super) fn observe(
    record: &mut Record,
    base: &str,
    pid: u32,
    subject: &str,
    (named, ids): (&Named, Ids),
) {
    record.put(subject, "pid", pid.to_string());
    for file in WHOLE {
        record.put(subject, file, shown(format!("{base}/{file}")));
    }
    for link in LINKS {
        record.put(subject, link, target(&format!("{base}/{link}")));
    }
    environment(record, base, subject);
    status(record, base, subject, ids);
    limits(record, base, subject);
    stat(record, base, subject, named);
    namespaces(record, base, subject);
    descriptors(record, base, pid, subject);
    mapped(record, base, subject);
    threads(record, base, subject);
}

fn target(path: &str) -> String {
    match fs::read_link(path) {
        Ok(target) => escaped(target.as_os_str().as_bytes()),
        Err(failed) => {
            rustix::io::Errno::from_io_error(&failed).map_or_else(|| failed.to_string(), error)
        }
    }
}

fn environment(record: &mut Record, base: &str, subject: &str) {
    match read(format!("{base}/environ")) {
        Ok(bytes) => {
            let mut all: Vec<_> = bytes.split(|byte| *byte == 0).map(escaped).collect();
            all.sort();
            record.put(subject, "environment", all.join(" "));
        }
        Err(error) => record.put(subject, "environment", error),
    }
}

/// Each line `NAME: VALUE` as a field.
fn status(record: &mut Record, base: &str, subject: &str, ids: Ids) {
    match read(format!("{base}/status")) {
        Ok(bytes) => {
            for line in String::from_utf8_lossy(&bytes).lines() {
                let (name, value) = line.split_once(':').unwrap_or((line, ""));
                // That of stat says as much.
                if name == "State" {
                    continue;
                }
                let value = if IDS.contains(&name) {
                    inside(value, ids)
                } else {
                    value.trim().to_owned()
                };
                record.put(subject, &format!("status {name}"), value);
            }
        }
        Err(error) => record.put(subject, "status", error),
    }
}

/// Whether a process runs or waits at this very moment is chance; that one is stopped, traced or dead
/// is not.
fn state(letter: &str) -> &str {
    match letter {
        "R" | "S" | "D" => "runs or waits",
        other => other,
    }
}

fn inside(numbers: &str, ids: Ids) -> String {
    let words = numbers.split_whitespace();
    let shown: Vec<_> = words
        .map(|word| {
            word.parse()
                .map_or_else(|_| word.to_owned(), |id| ids.inside(id))
        })
        .collect();
    shown.join(" ")
}

fn limits(record: &mut Record, base: &str, subject: &str) {
    match read(format!("{base}/limits")) {
        Ok(bytes) => {
            for line in String::from_utf8_lossy(&bytes).lines().skip(1) {
                let (name, values) = line.split_at_checked(26).unwrap_or((line, ""));
                let values: Vec<_> = values.split_whitespace().collect();
                record.put(subject, &format!("limit {}", name.trim()), values.join(" "));
            }
        }
        Err(error) => record.put(subject, "limits", error),
    }
}

fn stat(record: &mut Record, base: &str, subject: &str, named: &Named) {
    let text = match read(format!("{base}/stat")) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return record.put(subject, "stat", error),
    };
    // The name, in brackets, may hold anything.
    let Some((_, rest)) = text.rsplit_once(')') else {
        return record.put(subject, "stat", "no name");
    };
    let words: Vec<_> = rest.split_whitespace().collect();
    let word = |number: usize| words.get(number - 3).copied().unwrap_or_default();
    record.put(subject, "state", state(word(3)));
    for (name, number) in STAT {
        record.put(subject, &format!("stat {name}"), word(number));
    }
    for (relation, number) in RELATIVES {
        let pid = word(number).parse::<u32>().ok();
        let relative = pid.and_then(|pid| named.get(&pid));
        record.put(
            subject,
            relation,
            relative.map_or("none here", String::as_str),
        );
    }
}

fn namespaces(record: &mut Record, base: &str, subject: &str) {
    for name in [
        "cgroup",
        "ipc",
        "mnt",
        "net",
        "pid",
        "pid_for_children",
        "time",
        "user",
        "uts",
    ] {
        record.put(
            subject,
            &format!("namespace {name}"),
            target(&format!("{base}/ns/{name}")),
        );
    }
}

/// Each descriptor: what it is, its flags, and apart from that the number of an anonymous one.
fn descriptors(record: &mut Record, base: &str, pid: u32, subject: &str) {
    let folder = match fs::read_dir(format!("{base}/fd")) {
        Ok(folder) => folder,
        Err(failed) => {
            let errno = rustix::io::Errno::from_io_error(&failed);
            return record.put(
                subject,
                "descriptors",
                errno.map_or_else(|| failed.to_string(), error),
            );
        }
    };
    for entry in folder.flatten() {
        let number = entry.file_name().to_string_lossy().into_owned();
        let what = target(&format!("{base}/fd/{number}"));
        // Whoever lists its own descriptors has one for the list.
        let what = what.replace(&format!("/proc/{pid}/"), "/proc/self/");
        match what.split_once(":[") {
            Some((kind, inode)) if !kind.contains('/') => {
                record.put(subject, &format!("descriptor {number}"), kind);
                record.put(
                    subject,
                    &format!("descriptor {number} inode"),
                    inode.trim_end_matches(']'),
                );
            }
            _ => record.put(subject, &format!("descriptor {number}"), what),
        }
        let info = read(format!("{base}/fdinfo/{number}")).unwrap_or_default();
        let info = String::from_utf8_lossy(&info).into_owned();
        let flags = info
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .unwrap_or("none");
        record.put(subject, &format!("descriptor {number} flags"), flags.trim());
    }
}

/// Files that are mapped, with the rights.
fn mapped(record: &mut Record, base: &str, subject: &str) {
    match read(format!("{base}/maps")) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let files: BTreeSet<_> = text
                .lines()
                .filter_map(|line| {
                    let words: Vec<_> = line.split_whitespace().collect();
                    Some(format!("{} {}", words.get(1)?, words.get(5..)?.join(" ")))
                })
                .collect();
            record.put(subject, "maps", Vec::from_iter(files).join(", "));
        }
        Err(error) => record.put(subject, "maps", error),
    }
}

fn threads(record: &mut Record, base: &str, subject: &str) {
    let folder = fs::read_dir(Path::new(base).join("task"))
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<_> = folder
        .map(|entry| shown(entry.path().join("comm")))
        .collect();
    names.sort();
    record.put(subject, "thread names", names.join(" "));
}
