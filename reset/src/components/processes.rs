//! Processes of services, as they are compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Facts;
use crate::digest::Digest;

/// One process. Byte strings are escaped (`escape_ascii`), so that nothing is lost; ids are as inside,
/// `host N` for one that is not of the sandbox's range.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessView {
    /// The declared service it belongs to, or another name that the caller gives its own processes.
    pub service: String,
    /// Path of the program as the sandbox sees it.
    pub exe: String,
    /// BLAKE3 of the program's contents.
    pub exe_digest: Digest,
    /// Arguments.
    pub argv: Vec<String>,
    /// Environment in its order.
    pub env: Vec<String>,
    /// Working directory.
    pub cwd: String,
    /// Real, effective, saved and file system user.
    pub uids: Vec<String>,
    /// Real, effective, saved and file system group.
    pub gids: Vec<String>,
    /// Supplementary groups.
    pub groups: Vec<String>,
    /// Lines of `/proc/PID/status` that are compared as they are: capabilities, seccomp and so on.
    pub status: BTreeMap<String, String>,
    /// Nice value, scheduling policy and real-time priority.
    pub scheduling: String,
    /// `oom_score_adj`.
    pub oom_score_adj: String,
    /// Limits, "soft hard".
    pub limits: BTreeMap<String, String>,
    /// Sockets on which it listens, sorted.
    pub listeners: Vec<String>,
    /// True for a process that has ended and was not waited for.
    pub zombie: bool,
}

/// Facts of all processes: their number, and each under its service, in an order that depends on
/// nothing but what they are.
pub fn facts(views: &[ProcessView]) -> Facts {
    let mut sorted: Vec<&ProcessView> = views.iter().collect();
    sorted.sort();
    let mut facts = Facts::new();
    facts.put("processes", views.len().to_string());
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for view in sorted {
        let number = numbers.entry(&view.service).or_default();
        *number += 1;
        let mut put = |what: &str, value: String| {
            facts.put(format!("{}/{number} {what}", view.service), value)
        };
        put("exe", view.exe.clone());
        put("exe digest", view.exe_digest.to_string());
        put("argv", view.argv.join("\n"));
        put("env", view.env.join("\n"));
        put("cwd", view.cwd.clone());
        put("uids", view.uids.join(" "));
        put("gids", view.gids.join(" "));
        put("groups", view.groups.join(" "));
        put("scheduling", view.scheduling.clone());
        put("oom_score_adj", view.oom_score_adj.clone());
        put("listeners", view.listeners.join("\n"));
        put("zombie", view.zombie.to_string());
        for (name, value) in view.status.iter().chain(&view.limits) {
            put(name, value.clone());
        }
    }
    facts
}
