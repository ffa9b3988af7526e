//! One process of a sandbox, read from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::proc_dir::{ObserveError, ProcDir, call};
use crate::components::limits;
use crate::components::network::sockets;
use crate::components::processes::ProcessView;
use crate::digest::Digest;
use crate::ids::IdMap;

/// Lines of `/proc/PID/status` that are compared as they are.
const STATUS: [&str; 12] = [
    "CapAmb",
    "CapBnd",
    "CapEff",
    "CapInh",
    "CapPrm",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
    "SigBlk",
    "SigIgn",
    "Umask",
    "THP_enabled",
];

/// Reads one process from the host's `proc`, under the name of the service it belongs to.
///
/// The number is used once, to open the process's directory: should the process end meanwhile, this
/// fails, and never mixes it with another of the same number.
///
/// # Errors
/// When anything cannot be read, the process having ended included.
pub fn process(
    proc: &ProcDir,
    pid: u32,
    service: &str,
    ids: IdMap,
) -> Result<ProcessView, ObserveError> {
    let own = proc.process(pid)?;
    let form = |path: &str| ObserveError::Form {
        path: format!("{pid}/{path}"),
    };
    let status = own.text("status")?;
    let status: BTreeMap<&str, &str> = status
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(k, v)| (k, v.trim()))
        .collect();
    let field = |name: &str| status.get(name).copied().ok_or_else(|| form("status"));
    let shown = |name: &str| {
        field(name)?
            .split_whitespace()
            .map(|id| id_shown(id, ids))
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| form("status"))
    };
    let kept = STATUS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), (*status.get(name)?).to_owned())));
    let zombie = field("State")?.starts_with(['Z', 'X']);
    let (exe, exe_digest) = if zombie {
        (String::new(), Digest::ZERO)
    } else {
        program(&own)?
    };
    let cwd = if zombie {
        String::new()
    } else {
        own.link("cwd")?.escape_ascii().to_string()
    };
    Ok(ProcessView {
        service: service.to_owned(),
        exe,
        exe_digest,
        argv: strings(&own.bytes("cmdline")?),
        env: if zombie {
            Vec::new()
        } else {
            strings(&own.bytes("environ")?)
        },
        cwd,
        uids: shown("Uid")?,
        gids: shown("Gid")?,
        groups: shown("Groups")?,
        status: kept.collect(),
        scheduling: scheduling(&own.text("stat")?).ok_or_else(|| form("stat"))?,
        oom_score_adj: own.text("oom_score_adj")?.trim().to_owned(),
        limits: limits::table(&own.text("limits")?).ok_or_else(|| form("limits"))?,
        listeners: if zombie {
            Vec::new()
        } else {
            listeners(&own)?.ok_or_else(|| form("net"))?
        },
        zombie,
    })
}

fn id_shown(text: &str, ids: IdMap) -> Option<String> {
    let id = text.parse().ok()?;
    Some(
        ids.inside(id)
            .map_or_else(|| format!("host {id}"), |id| id.to_string()),
    )
}

/// Strings that end with a zero byte each, escaped.
fn strings(bytes: &[u8]) -> Vec<String> {
    let body = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    body.split(|b| *b == 0)
        .map(|s| s.escape_ascii().to_string())
        .collect()
}

/// Path and digest of the program. It is opened through the kernel's own link, by no path.
fn program(own: &ProcDir) -> Result<(String, Digest), ObserveError> {
    let path = own.link("exe")?.escape_ascii().to_string();
    let file = own.follow("exe")?;
    let stat = rustix::fs::fstat(&file).map_err(|e| call("stat", "exe", e))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(ObserveError::Form { path: "exe".into() });
    }
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match rustix::io::read(file.as_fd(), &mut *buffer) {
            Ok(0) => break,
            Ok(len) => _ = hasher.update(&buffer[..len]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(call("read", "exe", error)),
        }
    }
    Ok((path, Digest::from_bytes(*hasher.finalize().as_bytes())))
}

/// Nice value, real-time priority and policy: fields 19, 40 and 41 of `proc_pid_stat(5)`. The name in
/// front may hold blanks and brackets; the fields after its last bracket count from 3.
fn scheduling(stat: &str) -> Option<String> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    Some(format!(
        "nice {} priority {} policy {}",
        field(19)?,
        field(40)?,
        field(41)?
    ))
}

/// What the process listens on: its open sockets, looked up in the tables of its network namespace.
fn listeners(own: &ProcDir) -> Result<Option<Vec<String>>, ObserveError> {
    let mut open = BTreeSet::new();
    for name in own.names("fd")? {
        let link = match own.link(&format!("fd/{name}")) {
            Ok(link) => link,
            // Closed between listing and looking.
            Err(ObserveError::Call {
                source: Errno::NOENT,
                ..
            }) => continue,
            Err(error) => return Err(error),
        };
        let inode = link
            .strip_prefix(b"socket:[")
            .and_then(|rest| rest.strip_suffix(b"]"));
        open.extend(inode.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok()));
    }
    let mut found = BTreeSet::new();
    if open.is_empty() {
        return Ok(Some(Vec::new()));
    }
    for table in ["tcp", "tcp6", "udp", "udp6", "raw", "raw6"] {
        let Some(text) = own.text_if_there(&format!("net/{table}"))? else {
            continue;
        };
        let Some(rows) = sockets::parse(&text) else {
            return Ok(None);
        };
        let listening = rows
            .iter()
            .filter(|s| open.contains(&s.inode) && s.listens(table));
        found.extend(listening.map(|socket| socket.place(table)));
    }
    if let Some(text) = own.text_if_there("net/unix")? {
        let listening = sockets::unix(&text).filter(|s| open.contains(&s.inode) && s.listens());
        found.extend(listening.map(|socket| socket.place()));
    }
    Ok(Some(found.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_do_not_confuse() {
        let stat = format!(
            "12 (a) b) c) S {}",
            (4..=52)
                .map(|n| n.to_string())
                .collect::<Vec<_>>()
                .join(" ")
        );
        assert_eq!(
            scheduling(&stat).as_deref(),
            Some("nice 19 priority 40 policy 41")
        );
    }

    #[test]
    fn strings_keep_empty_ones() {
        assert_eq!(strings(b"a\0\0b\0"), ["a", "", "b"]);
        assert_eq!(strings(b"\0"), [""]);
        assert!(strings(b"").is_empty());
    }
}
