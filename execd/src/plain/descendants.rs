//! All that one command has started, where processes carry no mark that they cannot shed: its children
//! and theirs, and whoever is in the session of one of them. What has left both its parents and its
//! session escapes the end of its command, and dies with the sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use tokio::io::Interest;

use crate::pod::{Own, text};
use crate::sys::{process, watch};

/// Each finds fewer, unless something forks faster than it is killed.
const ROUNDS: usize = 50;

/// One command.
#[derive(Debug)]
pub struct Descendants {
    own: Arc<Own>,
    /// 0 until the command runs.
    leader: AtomicI32,
}

/// Of `proc_pid_stat(5)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Relation {
    parent: i32,
    session: i32,
    dead: bool,
}

impl Descendants {
    pub(super) fn new(own: Arc<Own>) -> Self {
        Self {
            own,
            leader: AtomicI32::new(0),
        }
    }

    /// It runs, under this pid.
    pub fn marked(&self, leader: u32) {
        self.leader.store(leader as i32, Ordering::Relaxed);
    }

    /// Kills the command and all that it started.
    pub fn kill(&self) {
        let mut known = BTreeSet::new();
        for _ in 0..ROUNDS {
            let Ok(found) = self.opened(&mut known) else {
                return;
            };
            if found.is_empty() {
                return;
            }
            // Stopped before any is killed: whoever lost its parent would not be found again.
            for signal in [libc::SIGSTOP, libc::SIGKILL] {
                for pidfd in found.values() {
                    // Already dead is as good.
                    let _ = process::signal(pidfd.as_fd(), signal);
                }
            }
        }
    }

    /// Their pids.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn pids(&self) -> io::Result<Vec<i32>> {
        let found = self.family(&BTreeSet::new())?;
        Ok(found.into_keys().collect())
    }

    /// Waits until none is left. Cancel safe.
    pub async fn empty(&self) {
        let mut known = BTreeSet::new();
        while let Ok(found) = self.opened(&mut known) {
            let Some((_, pidfd)) = found.into_iter().next() else {
                return;
            };
            let Ok(ended) = watch::watch(pidfd, Interest::READABLE) else {
                return;
            };
            if let Ok(mut ready) = ended.readable().await {
                ready.retain_ready();
            }
        }
    }

    /// Those that live, each by a descriptor opened between two sights of it. The pids and sessions of
    /// all that were ever seen are remembered in `known`.
    fn opened(&self, known: &mut BTreeSet<i32>) -> io::Result<BTreeMap<i32, OwnedFd>> {
        let first = self.family(known)?;
        let open = |pid: &i32| Some((*pid, process::pidfd(*pid).ok()?));
        let mut opened: BTreeMap<_, _> = first.keys().filter_map(open).collect();
        known.extend(first.values().map(|relation| relation.session));
        let again = self.family(known)?;
        opened.retain(|pid, _| again.get(pid).is_some_and(|relation| !relation.dead));
        Ok(opened)
    }

    fn family(&self, sessions: &BTreeSet<i32>) -> io::Result<BTreeMap<i32, Relation>> {
        let leader = self.leader.load(Ordering::Relaxed);
        let mut all = BTreeMap::new();
        for pid in self.own.others()? {
            let stat = text(self.own.proc(), &format!("{pid}/stat"));
            if let Some(relation) = stat.ok().and_then(|stat| relation(&stat)) {
                all.insert(pid, relation);
            }
        }
        Ok(related(&all, leader, sessions))
    }
}

/// Everybody that descends from the leader, is in one of these sessions, or in that of a relative.
fn related(
    all: &BTreeMap<i32, Relation>,
    leader: i32,
    sessions: &BTreeSet<i32>,
) -> BTreeMap<i32, Relation> {
    let mut found: BTreeMap<i32, Relation> = BTreeMap::new();
    if leader == 0 {
        return found;
    }
    loop {
        let before = found.len();
        for (pid, relation) in all {
            let in_session = |session| {
                session == leader || sessions.contains(&session) || found.contains_key(&session)
            };
            if *pid == leader
                || found.contains_key(&relation.parent)
                || in_session(relation.session)
            {
                found.insert(*pid, *relation);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

fn relation(stat: &str) -> Option<Relation> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Relation {
        parent,
        session,
        dead: matches!(state, "Z" | "X"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parent: i32, session: i32) -> Relation {
        Relation {
            parent,
            session,
            dead: false,
        }
    }

    #[test]
    fn children_sessions_and_sessions_of_children_are_kin() {
        let all = [
            (10, of(2, 10)),
            (11, of(10, 10)),
            // A session of its own, and one in it that lost its parent.
            (12, of(11, 12)),
            (13, of(2, 12)),
            // Another command's.
            (20, of(2, 20)),
            (21, of(20, 20)),
        ];
        let all: BTreeMap<i32, Relation> = all.into();
        let pids = |leader| {
            related(&all, leader, &BTreeSet::new())
                .into_keys()
                .collect::<Vec<_>>()
        };
        assert_eq!(pids(10), [10, 11, 12, 13]);
        assert_eq!(pids(20), [20, 21]);
        assert!(pids(0).is_empty());
    }

    #[test]
    fn fields_behind_an_odd_name() {
        assert_eq!(relation("7 (a) b) S 3 7 7 0"), Some(of(3, 7)));
        assert!(relation("7 (z) Z 3 7 7 0").is_some_and(|r| r.dead));
        assert_eq!(relation("7"), None);
    }
}
