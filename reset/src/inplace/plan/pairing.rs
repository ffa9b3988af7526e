//! Which entries of the tree at hand may stay and become those of the baseline.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::{Refusal, Why};
use crate::tree::{Kind, Tree, is_whole};

/// For each entry of one tree its partner in the other.
pub(super) struct Pairs {
    /// By index of the baseline.
    pub(super) now_of: Vec<Option<u32>>,
    /// By index of the tree at hand.
    pub(super) baseline_of: Vec<Option<u32>>,
    /// For each inode of the baseline (see [`Tree::inode`]) that has a partner: one of its names that
    /// stays.
    pub(super) kept_name: HashMap<u32, u32>,
    pub(super) refusals: Vec<Refusal>,
}

pub(super) fn pair(baseline: &Tree, now: &Tree) -> Pairs {
    let mut pairs = Pairs {
        now_of: vec![None; baseline.len()],
        baseline_of: vec![None; now.len()],
        kept_name: HashMap::new(),
        refusals: Vec::new(),
    };
    if baseline.excluded() != now.excluded() {
        pairs.refuse(Vec::new(), Why::Excluded);
    }
    pairs.by_name(baseline, now);
    pairs.part_wrong_links(baseline, now);
    pairs.check_mounts(baseline, now);
    pairs
}

impl Pairs {
    fn refuse(&mut self, path: Vec<u8>, why: Why) {
        self.refusals.push(Refusal { path, why });
    }

    fn join(&mut self, b: u32, n: u32) {
        self.now_of[b as usize] = Some(n);
        self.baseline_of[n as usize] = Some(b);
    }

    fn by_name(&mut self, baseline: &Tree, now: &Tree) {
        self.join(0, 0);
        let mut pending = vec![(0, 0)];
        while let Some((b, n)) = pending.pop() {
            let mut left = baseline.children(b).peekable();
            let mut right = now.children(n).peekable();
            while let (Some(&b), Some(&n)) = (left.peek(), right.peek()) {
                let order = baseline.name(b).cmp(now.name(n));
                if order != Ordering::Greater {
                    left.next();
                }
                if order != Ordering::Less {
                    right.next();
                }
                if order == Ordering::Equal && can_become(baseline, b, now, n) {
                    self.join(b, n);
                    if baseline.kind(b) == Kind::Directory {
                        pending.push((b, n));
                    }
                }
            }
        }
    }

    /// One inode of the tree at hand can serve one inode of the baseline. Which is settled in favour of
    /// equal contents; all other names part, to be removed and linked anew. So do those of an inode with
    /// hidden names.
    fn part_wrong_links(&mut self, baseline: &Tree, now: &Tree) {
        let mut serves: HashMap<u32, u32> = HashMap::new();
        let mut served: HashMap<u32, u32> = HashMap::new();
        for equal_contents in [true, false] {
            for b in 0..baseline.count() {
                let Some(n) = self.now_of[b as usize] else {
                    continue;
                };
                let equal = baseline.node(b).content() == now.node(n).content();
                let single = matches!(baseline.kind(b), Kind::Directory | Kind::Mount);
                if single || equal != equal_contents || !is_whole(now, n, baseline, b) {
                    continue;
                }
                let (was, is) = (baseline.inode(b), now.inode(n));
                if !serves.contains_key(&is) && !served.contains_key(&was) {
                    serves.insert(is, was);
                    served.insert(was, is);
                    self.kept_name.insert(was, b);
                }
            }
        }
        for b in 0..baseline.count() {
            let Some(n) = self.now_of[b as usize] else {
                continue;
            };
            let single = matches!(baseline.kind(b), Kind::Directory | Kind::Mount);
            if !single && served.get(&baseline.inode(b)) != Some(&now.inode(n)) {
                self.now_of[b as usize] = None;
                self.baseline_of[n as usize] = None;
            }
        }
    }

    fn check_mounts(&mut self, baseline: &Tree, now: &Tree) {
        for b in 0..baseline.count() {
            if baseline.kind(b) == Kind::Mount && self.now_of[b as usize].is_none() {
                self.refuse(baseline.path(b), Why::Mount);
            }
        }
        for n in 0..now.count() {
            if now.kind(n) == Kind::Mount && self.baseline_of[n as usize].is_none() {
                self.refuse(now.path(n), Why::Mount);
            }
        }
    }
}

/// Type, target and device number of an inode never change.
fn can_become(baseline: &Tree, b: u32, now: &Tree, n: u32) -> bool {
    let (was, is) = (baseline.node(b), now.node(n));
    was.kind() == is.kind() && was.rdev() == is.rdev() && baseline.target(b) == now.target(n)
}
