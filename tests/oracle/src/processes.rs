//! All processes of a /proc.

mod details;

use std::collections::BTreeMap;
use std::fs;

use crate::Record;
use crate::ids::Ids;
use crate::text::{escaped, read};

/// Names of processes by pid: of two with the same command line, the one with the lower pid is
/// first. Pids differ between sandboxes; what runs must not.
pub(crate) type Named = BTreeMap<u32, String>;

/// Names all processes of a proc file system, this one `self`.
pub(crate) fn named(proc: &str) -> Named {
    let pids = fs::read_dir(proc).into_iter().flatten().flatten();
    let mut pids: Vec<u32> = pids
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    name(proc, &pids, Some(std::process::id()))
}

/// Names these processes.
pub(crate) fn name(proc: &str, pids: &[u32], own: Option<u32>) -> Named {
    let mut seen = BTreeMap::<String, usize>::new();
    let mut named = Named::new();
    for pid in pids {
        let line = if Some(*pid) == own {
            "self".to_owned()
        } else {
            command_line(proc, *pid)
        };
        let number = seen.entry(line.clone()).or_default();
        named.insert(*pid, format!("{line} #{number}"));
        *number += 1;
    }
    named
}

/// The first process of a sandbox is named by its role: in a pod its arguments hold an id that is
/// drawn for the pod.
const ROLE: &str = "sandbox-init";

/// Its command line, or its name in brackets where it has none.
fn command_line(proc: &str, pid: u32) -> String {
    match read(format!("{proc}/{pid}/cmdline")) {
        Ok(line) if line.split(|byte| *byte == 0).next() == Some(ROLE.as_bytes()) => {
            ROLE.to_owned()
        }
        Ok(line) if !line.is_empty() => escaped(line.strip_suffix(b"\0").unwrap_or(&line)),
        Ok(_) | Err(_) => {
            let name = read(format!("{proc}/{pid}/comm")).unwrap_or_default();
            format!("[{}]", escaped(name.trim_ascii_end()))
        }
    }
}

/// Records these processes, whose ids show as these.
pub(crate) fn observe(record: &mut Record, proc: &str, named: &Named, ids: Ids) {
    for (pid, name) in named {
        details::observe(
            record,
            &format!("{proc}/{pid}"),
            *pid,
            &format!("process {name}"),
            (named, ids),
        );
    }
    record.put("processes", "count", named.len().to_string());
}
