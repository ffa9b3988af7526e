//! What only a process in the sandbox's namespaces can read.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::proc_dir::{ObserveError, ProcDir, call, names_in, read_all};
use crate::components::network::{self, Scope};
use crate::components::{Component, Facts, ipc, kernel, mounts};
use crate::ids::{IdMap, UNMAPPED};
use crate::sys;

/// Where the reader stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsideScope {
    /// The host's range of ids of the sandbox.
    pub ids: IdMap,
    /// True when the reader has entered the sandbox's user namespace, and so sees its ids unshifted.
    pub entered_user_namespace: bool,
    /// Whose network namespace it is.
    pub network: Scope,
}

/// The facts that were read inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsideView {
    /// Facts of mounts, ipc, network and kernel.
    pub facts: BTreeMap<Component, Facts>,
}

/// A detached mount of the message queues of the caller's ipc namespace, for [`inside`]. It needs
/// CAP_SYS_ADMIN in the user namespace that owns the ipc namespace.
///
/// # Errors
/// When the kernel refuses the mount.
pub fn message_queues() -> Result<OwnedFd, ObserveError> {
    sys::mqueue().map_err(|e| call("mount the message queues for", "sys/fs/mqueue", e))
}

/// What was read before the reader entered the sandbox's user namespace: all that does not depend on
/// whose ids and limits are asked for, nor on the mounts.
#[derive(Debug)]
pub struct Ahead {
    scope: InsideScope,
    ipc: Facts,
    network: Facts,
    sysctls: BTreeMap<String, Option<String>>,
}

/// Reads everything. `proc` must be a mount of procfs made for the sandbox's pid namespace, which the
/// caller is in, together with its mount, ipc, uts and network namespaces; `queues` the root of a
/// mount of its message queues.
///
/// # Errors
/// When anything cannot be read: then nothing is known.
pub fn inside(
    proc: &ProcDir,
    queues: BorrowedFd<'_>,
    scope: InsideScope,
) -> Result<InsideView, ObserveError> {
    ahead(proc, queues, scope)?.complete(proc)
}

/// Reads what a first process can read while it waits for its root: [`Ahead::complete`] adds the rest.
/// Arguments as those of [`inside`].
///
/// # Errors
/// As [`inside`].
pub fn ahead(
    proc: &ProcDir,
    queues: BorrowedFd<'_>,
    scope: InsideScope,
) -> Result<Ahead, ObserveError> {
    let texts = ipc::Texts {
        shm: proc.text("sysvipc/shm")?,
        sem: proc.text("sysvipc/sem")?,
        msg: proc.text("sysvipc/msg")?,
        queues: message_queue_lines(queues, scope.ids)?,
    };
    let mut sysctls = BTreeMap::new();
    for name in kernel::names(scope.network).filter(|name| !kernel::depends_on_reader(name)) {
        sysctls.insert(name.to_owned(), sysctl(proc, name)?);
    }
    Ok(Ahead {
        scope,
        ipc: ipc::facts(&texts, scope.ids).ok_or_else(|| form("sysvipc"))?,
        network: network(proc, scope)?.ok_or_else(|| form("thread-self/net"))?,
        sysctls,
    })
}

impl Ahead {
    /// Reads the rest, in the same process, once it has its root and its user namespace.
    ///
    /// # Errors
    /// As [`inside`].
    pub fn complete(self, proc: &ProcDir) -> Result<InsideView, ObserveError> {
        let Ahead {
            scope,
            ipc,
            network,
            mut sysctls,
        } = self;
        for name in kernel::names(scope.network).filter(|name| kernel::depends_on_reader(name)) {
            sysctls.insert(name.to_owned(), sysctl(proc, name)?);
        }
        let kernel = kernel::facts(&sysctls, scope.network).ok_or_else(|| form("sys"))?;
        let mountinfo = proc.text("thread-self/mountinfo")?;
        let mounts =
            mounts::facts(&mountinfo, scope.ids).ok_or_else(|| form("thread-self/mountinfo"))?;
        let facts = [
            (Component::Mounts, mounts),
            (Component::Ipc, ipc),
            (Component::Network, network),
            (Component::Kernel, kernel),
        ];
        Ok(InsideView {
            facts: facts.into(),
        })
    }
}

fn sysctl(proc: &ProcDir, name: &str) -> Result<Option<String>, ObserveError> {
    proc.text_if_there(&format!("sys/{name}"))
}

fn form(path: &str) -> ObserveError {
    ObserveError::Form {
        path: path.to_owned(),
    }
}

fn network(proc: &ProcDir, scope: InsideScope) -> Result<Option<Facts>, ObserveError> {
    let mut texts = BTreeMap::new();
    if scope.network == Scope::Own {
        for counters in ["sockstat", "sockstat6"] {
            let text = proc.text_if_there(&format!("thread-self/net/{counters}"))?;
            texts.extend(network::empty_tables(text.as_deref().unwrap_or_default()));
        }
    }
    for name in network::FILES {
        if texts.contains_key(name) {
            continue;
        }
        let text = match proc.text_if_there(&format!("thread-self/net/{name}")) {
            // Of a network that is not the sandbox's own, its root may not read everything.
            Err(ObserveError::Call {
                source: Errno::ACCESS,
                ..
            }) if scope.network != Scope::Own => None,
            other => other?,
        };
        texts.insert(name.to_owned(), text);
    }
    let range = proc.text("sys/net/ipv4/ip_local_port_range")?;
    let mut ports = range.split_whitespace().map(str::parse);
    let (Some(Ok(low)), Some(Ok(high))) = (ports.next(), ports.next()) else {
        return Ok(None);
    };
    let own = |uid| match scope.entered_user_namespace {
        true => uid != UNMAPPED,
        false => scope.ids.inside(uid).is_some(),
    };
    Ok(network::facts(
        &texts,
        scope.network,
        own,
        scope.ids,
        (low, high),
    ))
}

/// One line per queue: name, mode, owner and what it holds.
fn message_queue_lines(queues: BorrowedFd<'_>, ids: IdMap) -> Result<Vec<String>, ObserveError> {
    let at = |name: &str| format!("the message queue {name}");
    let root = openat(
        queues,
        c".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|e| call("open", &at("directory"), e))?;
    let mut lines = Vec::new();
    for name in names_in(root.as_fd(), &at("directory"))? {
        // An escaped name is no name: then the attributes stay unknown, and the line itself is enough
        // to differ from any baseline.
        let stat = statx(
            &root,
            name.as_str(),
            AtFlags::SYMLINK_NOFOLLOW,
            StatxFlags::BASIC_STATS,
        );
        let owner = stat.map(|stat| {
            let (uid, gid) = (ids.inside(stat.stx_uid), ids.inside(stat.stx_gid));
            let own = |id: Option<u32>, host| id.unwrap_or(host);
            format!(
                "mode {:o} uid {} gid {}",
                stat.stx_mode,
                own(uid, stat.stx_uid),
                own(gid, stat.stx_gid)
            )
        });
        let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = openat(&root, name.as_str(), how, Mode::empty());
        let contents = match file {
            Ok(file) => read_all(file.as_fd(), &at(&name))?
                .escape_ascii()
                .to_string(),
            Err(error) => format!("unreadable ({error})"),
        };
        lines.push(format!("{name} {} {contents}", owner.unwrap_or_default()));
    }
    Ok(lines)
}
