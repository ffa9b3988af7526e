//! One process of a sandbox, read from outside.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::LazyLock;

use rustix::io::Errno;

use super::listeners::Listeners;
use super::proc_dir::{ObserveError, ProcDir};
use super::programs::Programs;
use crate::components::limits;
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

/// Digests for [`process`], which has no observer to keep them.
static PROGRAMS: LazyLock<Programs> = LazyLock::new(Programs::default);

/// Reads one process. For several of one sandbox an [`Observer`] does less.
///
/// # Errors
/// As [`Observer::process`].
pub fn process(
    proc: &ProcDir,
    pid: u32,
    service: &str,
    ids: IdMap,
) -> Result<ProcessView, ObserveError> {
    Observer::new(proc, ids, &PROGRAMS).process(pid, service)
}

/// Reads the first process of a sandbox, which the caller made of its own program and which has
/// executed no other: program, arguments and environment are the caller's, and are not compared.
///
/// # Errors
/// As [`Observer::process`].
pub fn own_init(
    proc: &ProcDir,
    pid: u32,
    service: &str,
    ids: IdMap,
) -> Result<ProcessView, ObserveError> {
    Observer::new(proc, ids, &PROGRAMS).own_init(pid, service)
}

/// Reads the processes of one sandbox from outside.
#[derive(Debug)]
pub struct Observer<'a> {
    proc: &'a ProcDir,
    ids: IdMap,
    programs: &'a Programs,
    listeners: Option<Listeners>,
}

impl<'a> Observer<'a> {
    /// `proc` is the host's; `programs` may be kept and shared by all observers of a machine. All
    /// processes that are asked for must be of one network namespace.
    pub fn new(proc: &'a ProcDir, ids: IdMap, programs: &'a Programs) -> Self {
        Observer {
            proc,
            ids,
            programs,
            listeners: None,
        }
    }

    /// Reads one process, under the name of the service it belongs to.
    ///
    /// The number is used once, to open the process's directory: should the process end meanwhile,
    /// this fails, and never mixes it with another of the same number.
    ///
    /// # Errors
    /// When anything cannot be read, the process having ended included.
    pub fn process(&mut self, pid: u32, service: &str) -> Result<ProcessView, ObserveError> {
        let own = self.proc.process(pid)?;
        let mut view = self.common(&own, pid, service)?;
        // A zombie has no memory, files or directories any more.
        if !view.zombie {
            view.exe = own.link("exe")?.escape_ascii().to_string();
            // Opened through the kernel's own link, by no path.
            view.exe_digest = self.programs.digest(own.follow("exe")?.as_fd())?;
            view.argv = strings(&own.bytes("cmdline")?);
            view.env = strings(&own.bytes("environ")?);
        }
        Ok(view)
    }

    /// Reads the first process, as [`own_init`] does.
    ///
    /// # Errors
    /// As [`Observer::process`].
    pub fn own_init(&mut self, pid: u32, service: &str) -> Result<ProcessView, ObserveError> {
        let own = self.proc.process(pid)?;
        self.common(&own, pid, service)
    }

    /// Everything but program, arguments and environment.
    fn common(
        &mut self,
        own: &ProcDir,
        pid: u32,
        service: &str,
    ) -> Result<ProcessView, ObserveError> {
        let form = |path: &str| ObserveError::Form {
            path: format!("{pid}/{path}"),
        };
        let text = own.text("status")?;
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        let status: BTreeMap<&str, &str> = lines.map(|(k, v)| (k, v.trim())).collect();
        let field = |name: &str| status.get(name).copied().ok_or_else(|| form("status"));
        let ids = |name: &str| {
            let ids = field(name)?
                .split_whitespace()
                .map(|id| id_shown(id, self.ids));
            ids.collect::<Option<Vec<_>>>()
                .ok_or_else(|| form("status"))
        };
        let kept = STATUS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), (*status.get(name)?).to_owned())));
        let mut view = ProcessView {
            service: service.to_owned(),
            exe: String::new(),
            exe_digest: Digest::ZERO,
            argv: Vec::new(),
            env: Vec::new(),
            cwd: String::new(),
            uids: ids("Uid")?,
            gids: ids("Gid")?,
            groups: ids("Groups")?,
            status: kept.collect(),
            scheduling: scheduling(&own.text("stat")?).ok_or_else(|| form("stat"))?,
            oom_score_adj: own.text("oom_score_adj")?.trim().to_owned(),
            limits: limits::table(&own.text("limits")?).ok_or_else(|| form("limits"))?,
            listeners: Vec::new(),
            zombie: field("State")?.starts_with(['Z', 'X']),
        };
        if !view.zombie {
            view.cwd = own.link("cwd")?.escape_ascii().to_string();
            view.listeners = self.listeners(own)?;
        }
        Ok(view)
    }

    fn listeners(&mut self, own: &ProcDir) -> Result<Vec<String>, ObserveError> {
        let open = open_sockets(own)?;
        if open.is_empty() {
            return Ok(Vec::new());
        }
        let listeners = match self.listeners.take() {
            Some(listeners) => listeners,
            None => Listeners::read(own)?,
        };
        Ok(self.listeners.insert(listeners).among(&open))
    }
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

/// Inodes of the sockets that a process has open.
fn open_sockets(own: &ProcDir) -> Result<BTreeSet<u64>, ObserveError> {
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
    Ok(open)
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
