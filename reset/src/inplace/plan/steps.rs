//! From pairs to steps, in their order.

use std::collections::{BTreeMap, BTreeSet};

use super::pairing::Pairs;
use super::{Change, Step};
use crate::tree::{Entry, Flags, Kind, Tree};

/// Flags by which an inode refuses changes.
const LOCKS: u8 = Flags::IMMUTABLE | Flags::APPEND;

/// All steps. `needs` is told the index of each entry of the baseline whose contents are written.
pub(super) fn steps(
    baseline: &Tree,
    now: &Tree,
    pairs: &Pairs,
    mut needs: impl FnMut(u32),
) -> Vec<Step> {
    let mut made = Made::default();
    let removals = removals(now, pairs, &mut made);
    let additions = made.additions(baseline, pairs);
    let mut writes = Vec::new();
    let mut attributes = Vec::new();
    for b in (0..baseline.count()).rev() {
        if baseline.kind(b) == Kind::Mount || !made.stands_for_its_inode(baseline, pairs, b) {
            continue;
        }
        let was = baseline.entry(b);
        let is = pairs.now_of[b as usize].map(|n| now.entry(n));
        let written = written(&was, is.as_ref());
        if written {
            needs(b);
            writes.push(step(
                baseline.path(b),
                Change::Write {
                    content: was.content,
                    size: was.size,
                },
            ));
        }
        let moved = made.moved.contains(&b);
        for change in dress(
            &was,
            is.as_ref(),
            written,
            moved,
            made.locked(b, is.as_ref()),
        ) {
            made.touched.insert(b);
            attributes.push(step(baseline.path(b), change));
        }
        if written {
            made.touched.insert(b);
        }
    }
    writes.reverse();
    let unlocks = unlocks(now, pairs, &made);
    [unlocks, removals, additions, writes, attributes].concat()
}

fn step(path: Vec<u8>, change: Change) -> Step {
    Step { path, change }
}

/// What the steps so far do to entries of the baseline.
#[derive(Default)]
struct Made {
    /// Directories whose entries come or go, by index of the baseline.
    moved: BTreeSet<u32>,
    /// Entries that any step changes.
    touched: BTreeSet<u32>,
    /// For an inode that is made: its first name.
    first_name: BTreeMap<u32, u32>,
}

/// Everything without a partner goes, deepest first.
fn removals(now: &Tree, pairs: &Pairs, made: &mut Made) -> Vec<Step> {
    let mut steps = Vec::new();
    for n in (1..now.count()).rev() {
        if pairs.baseline_of[n as usize].is_some() {
            continue;
        }
        let directory = now.kind(n) == Kind::Directory;
        steps.push(step(now.path(n), Change::Remove { directory }));
        if let Some(parent) = pairs.baseline_of[now.parent(n) as usize] {
            made.moved.insert(parent);
            made.touched.insert(parent);
        }
    }
    steps
}

impl Made {
    /// Everything without a partner is made, parents first: an inode once, its further names as links.
    fn additions(&mut self, baseline: &Tree, pairs: &Pairs) -> Vec<Step> {
        let mut steps = Vec::new();
        for b in 1..baseline.count() {
            if pairs.now_of[b as usize].is_some() || baseline.kind(b) == Kind::Mount {
                continue;
            }
            self.moved.insert(baseline.parent(b));
            self.touched.insert(baseline.parent(b));
            let inode = baseline.inode(b);
            let there = pairs.kept_name.get(&inode).or(self.first_name.get(&inode));
            let change = match there {
                Some(&to) => {
                    self.touched.insert(to);
                    Change::Link {
                        to: baseline.path(to),
                    }
                }
                None => {
                    self.first_name.insert(inode, b);
                    make(&baseline.entry(b))
                }
            };
            steps.push(step(baseline.path(b), change));
        }
        steps
    }

    /// Of several names of one inode only one gets its contents and attributes set.
    fn stands_for_its_inode(&self, baseline: &Tree, pairs: &Pairs, b: u32) -> bool {
        if baseline.kind(b) == Kind::Directory {
            return true;
        }
        let inode = baseline.inode(b);
        let name = pairs.kept_name.get(&inode).or(self.first_name.get(&inode));
        name == Some(&b)
    }

    /// Whether a lock of an entry has to be cleared for what the steps so far do to it.
    fn locked(&self, b: u32, is: Option<&Entry>) -> bool {
        self.touched.contains(&b) && is.is_some_and(|is| is.flags.0 & LOCKS != 0)
    }
}

fn make(was: &Entry) -> Change {
    match was.kind {
        Kind::Symlink => Change::Symlink {
            target: was.target.clone(),
        },
        kind => Change::Make {
            kind,
            rdev: was.rdev,
        },
    }
}

/// Whether contents have to be written: a new file is empty.
fn written(was: &Entry, is: Option<&Entry>) -> bool {
    was.kind == Kind::File
        && match is {
            Some(is) => was.content != is.content || was.size != is.size,
            None => was.size > 0,
        }
}

/// The attributes to set, in the order in which none undoes another: a change of owner clears setuid
/// bits and file capabilities, and so does writing; an access list changes the mode; everything but the
/// flags needs an inode that is not locked.
fn dress(
    was: &Entry,
    is: Option<&Entry>,
    written: bool,
    moved: bool,
    unlocked: bool,
) -> Vec<Change> {
    let differs = |of: fn(&Entry, &Entry) -> bool| is.is_none_or(|is| of(was, is));
    let owner = differs(|a, b| (a.uid, a.gid) != (b.uid, b.gid));
    let xattrs = owner || written || differs(|a, b| a.xattrs != b.xattrs);
    let mode = xattrs || differs(|a, b| a.mode != b.mode);
    let time =
        written || moved || differs(|a, b| (a.mtime_s, a.mtime_ns) != (b.mtime_s, b.mtime_ns));
    let any = owner || xattrs || mode || time;
    let locked = any && is.is_some_and(|is| is.flags.0 & LOCKS != 0);
    let flags = unlocked || locked || differs(|a, b| a.flags != b.flags);
    let openable = matches!(was.kind, Kind::Directory | Kind::File);
    let changes = [
        owner.then_some(Change::Owner {
            uid: was.uid,
            gid: was.gid,
        }),
        xattrs.then(|| Change::Xattrs {
            exactly: was.xattrs.clone(),
        }),
        (mode && was.kind != Kind::Symlink).then_some(Change::Mode { mode: was.mode }),
        time.then_some(Change::Time {
            seconds: was.mtime_s,
            nanoseconds: was.mtime_ns,
        }),
        flags.then_some(Change::Flags {
            openable,
            flags: was.flags,
        }),
    ];
    changes.into_iter().flatten().collect()
}

/// Locks are cleared on all that goes and on all that is touched.
fn unlocks(now: &Tree, pairs: &Pairs, made: &Made) -> Vec<Step> {
    let mut steps = Vec::new();
    for n in 0..now.count() {
        let is = now.entry_without_names(n);
        let touched = pairs.baseline_of[n as usize].is_none_or(|b| made.touched.contains(&b));
        // What goes may lie in a directory that goes as well: that one is without a partner too.
        if is.flags.0 & LOCKS != 0 && touched {
            let openable = matches!(is.kind, Kind::Directory | Kind::File);
            let flags = Flags(is.flags.0 & !LOCKS);
            steps.push(step(now.path(n), Change::Unlock { openable, flags }));
        }
    }
    steps
}
