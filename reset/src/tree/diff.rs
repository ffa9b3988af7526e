//! Where two trees differ: only directories whose digests differ are entered.

use std::cmp::Ordering;

use super::{Kind, NO_GROUP, Tree};
use crate::components::Component;
use crate::difference::Difference;

/// The first differing paths in canonical order, at most `limit` differences; empty exactly when the
/// roots are equal (and `limit` is not 0).
pub fn diff(baseline: &Tree, now: &Tree, limit: usize) -> Vec<Difference> {
    let mut found = Found {
        baseline,
        now,
        limit,
        list: Vec::new(),
    };
    if baseline.root() == now.root() {
        return found.list;
    }
    if baseline.excluded() != now.excluded() {
        let shown = |tree: &Tree| Some(tree.excluded().join(&b'\n').escape_ascii().to_string());
        found.put(Vec::new(), "excluded paths", shown(baseline), shown(now));
    }
    // Pairs still to be compared, the next one last: no recursion, since trees may be deep.
    let mut pending = vec![Pair::Both(0, 0)];
    while let Some(pair) = pending.pop() {
        if found.list.len() >= limit {
            break;
        }
        match pair {
            Pair::Gone(a) => {
                found.put(
                    baseline.path(a),
                    "entry",
                    Some(baseline.node(a).kind.word().into()),
                    None,
                );
            }
            Pair::New(b) => found.put(
                now.path(b),
                "entry",
                None,
                Some(now.node(b).kind.word().into()),
            ),
            Pair::Both(a, b) => {
                if baseline.node(a).digest != now.node(b).digest {
                    found.attributes(a, b);
                    let from = pending.len();
                    pair_children(baseline, a, now, b, &mut pending);
                    pending[from..].reverse();
                }
            }
        }
    }
    found.list.truncate(limit);
    found.list
}

enum Pair {
    Gone(u32),
    New(u32),
    Both(u32, u32),
}

fn pair_children(baseline: &Tree, a: u32, now: &Tree, b: u32, pending: &mut Vec<Pair>) {
    let mut left = baseline.children(a).peekable();
    let mut right = now.children(b).peekable();
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => baseline.name(*a).cmp(now.name(*b)),
        };
        match order {
            Ordering::Less => pending.extend(left.next().map(Pair::Gone)),
            Ordering::Greater => pending.extend(right.next().map(Pair::New)),
            Ordering::Equal => {
                pending.extend(left.next().zip(right.next()).map(|(a, b)| Pair::Both(a, b)))
            }
        }
    }
}

struct Found<'a> {
    baseline: &'a Tree,
    now: &'a Tree,
    limit: usize,
    list: Vec<Difference>,
}

impl Found<'_> {
    fn put(&mut self, path: Vec<u8>, what: &str, baseline: Option<String>, now: Option<String>) {
        if self.list.len() < self.limit {
            self.list.push(Difference {
                component: Component::Files,
                path,
                what: what.into(),
                baseline,
                now,
            });
        }
    }

    fn attributes(&mut self, a: u32, b: u32) {
        let (old, new) = (self.baseline.entry(a), self.now.entry(b));
        let path = self.now.path(b);
        if old.kind != new.kind {
            self.put(
                path,
                "type",
                Some(old.kind.word().into()),
                Some(new.kind.word().into()),
            );
            return;
        }
        let groups = (group(self.baseline, a), group(self.now, b));
        let mut compare = |what: &str, old: String, new: String| {
            if old != new {
                self.put(path.clone(), what, Some(old), Some(new));
            }
        };
        compare(
            "mode",
            format!("{:04o}", old.mode),
            format!("{:04o}", new.mode),
        );
        compare("uid", old.uid.to_string(), new.uid.to_string());
        compare("gid", old.gid.to_string(), new.gid.to_string());
        compare("size", old.size.to_string(), new.size.to_string());
        let time = |s: i64, ns: u32| format!("{s}.{ns:09}");
        compare(
            "mtime",
            time(old.mtime_s, old.mtime_ns),
            time(new.mtime_s, new.mtime_ns),
        );
        let device = |rdev: u64| format!("{}:{}", rdev >> 32, rdev & 0xffff_ffff);
        compare("device", device(old.rdev), device(new.rdev));
        compare("flags", old.flags.letters(), new.flags.letters());
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        compare("target", shown(&old.target), shown(&new.target));
        if new.kind == Kind::File {
            compare("content", old.content.to_string(), new.content.to_string());
        }
        compare("hard links", groups.0, groups.1);
        self.xattrs(&path, &old.xattrs, &new.xattrs);
    }

    fn xattrs(&mut self, path: &[u8], old: &[(Vec<u8>, Vec<u8>)], new: &[(Vec<u8>, Vec<u8>)]) {
        let mut names: Vec<&Vec<u8>> = old.iter().chain(new).map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        for name in names {
            let value = |list: &[(Vec<u8>, Vec<u8>)]| {
                let found = list.iter().find(|(n, _)| n == name);
                found.map(|(_, value)| value.escape_ascii().to_string())
            };
            let (was, is) = (value(old), value(new));
            if was != is {
                self.put(
                    path.to_vec(),
                    &format!("xattr {}", name.escape_ascii()),
                    was,
                    is,
                );
            }
        }
    }
}

fn group(tree: &Tree, index: u32) -> String {
    let node = tree.node(index);
    if node.group == NO_GROUP {
        return "none".into();
    }
    format!(
        "{} names, first {}",
        node.links,
        tree.path(node.group).escape_ascii()
    )
}
