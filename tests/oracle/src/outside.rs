//! All that the host can observe about a sandbox, without entering it with a program.
//!
//! A sandbox is named by the inode of its mount namespace, as `/proc/self/ns/mnt` shows it inside.

mod groups;
mod namespaces;

use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{CWD, Mode, OFlags};

use crate::files::{self, Walk};
use crate::ids::Ids;
use crate::{Depth, Record, mounts, processes, tables, text};

/// Why a sandbox could not be observed from outside.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// No process is in its mount namespace.
    #[error("no process is in the mount namespace {0}")]
    Gone(String),
    /// Its ids are not known.
    #[error("the map of ids of process {0} cannot be read")]
    Ids(u32),
}

/// Views of the kernel, which show what the reader may see and not what the sandbox has.
const VIEWS: [&str; 2] = ["/proc", "/sys"];

/// Observes the sandbox with this mount namespace, such as `mnt:[4026532672]`. A light observation
/// does not walk its files.
///
/// # Errors
/// When it does not run.
pub fn observe(namespace: &str, depth: Depth) -> Result<Record, OutsideError> {
    let pids = members(namespace);
    let init = init(namespace)?;
    let base = format!("/proc/{init}");
    let ids = Ids::of(&format!("{base}/uid_map")).ok_or(OutsideError::Ids(init))?;
    let mut record = Record::new();
    let named = processes::name("/proc", &pids, None);
    processes::observe(&mut record, "/proc", &named, ids);
    mounts::observe(&mut record, &format!("{base}/mountinfo"));
    mounts::space(
        &mut record,
        &format!("{base}/mountinfo"),
        &format!("{base}/root"),
    );
    tables::observe(&mut record, &format!("{base}/net"));
    groups::observe(&mut record, &base, &named);
    namespaces::observe(&mut record, &base);
    if depth == Depth::Full {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::openat(CWD, format!("{base}/root"), flags, Mode::empty()) {
            Ok(root) => {
                let walk = Walk {
                    depth,
                    kind: "file",
                    views: &VIEWS,
                    ids,
                };
                files::observe(&mut record, root.as_fd(), &walk);
            }
            Err(errno) => record.put("file /", "type", text::error(errno)),
        }
    }
    Ok(record)
}

/// Processes in a mount namespace, by pid.
fn members(namespace: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_there = |pid: &u32| {
        let link = std::fs::read_link(format!("/proc/{pid}/ns/mnt"));
        link.is_ok_and(|link| link.as_os_str().as_bytes() == namespace.as_bytes())
    };
    let mut pids: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    pids.retain(is_there);
    pids.sort_unstable();
    pids
}

/// The host's pid of the first process of the sandbox with this mount namespace: its pid 1, or the
/// oldest where it has no pid namespace of its own.
///
/// # Errors
/// When there is none.
pub fn init(namespace: &str) -> Result<u32, OutsideError> {
    let is_one = |pid: &u32| {
        let status = text::read(format!("/proc/{pid}/status")).unwrap_or_default();
        let status = String::from_utf8_lossy(&status).into_owned();
        let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        pids.and_then(|pids| pids.split_whitespace().next_back()) == Some("1")
    };
    let members = members(namespace);
    let first = members
        .iter()
        .copied()
        .find(is_one)
        .or(members.first().copied());
    first.ok_or_else(|| OutsideError::Gone(namespace.to_owned()))
}
