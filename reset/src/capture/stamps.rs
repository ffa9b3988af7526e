//! When an earlier digest of contents may be kept.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Statx;

use super::{Contents, entry, walker};
use crate::digest::Digest;
use crate::tree::{Entry, Kind, Stamp, Tree};

/// Twice the longest tick of a Linux clock (100 Hz): a second write within one tick may leave the same
/// change time, so a file changed so shortly before a capture gets no stamp.
const TICK: Duration = Duration::from_millis(20);

pub(super) struct Stamps<'o> {
    earlier: Option<&'o Tree>,
    /// Change times from here on are too young to be relied on.
    young: (i64, u32),
    /// Device numbers then and now. They must map one to one: two file systems that were told apart
    /// must still be, whatever numbers this mount gives them.
    then_now: HashMap<u64, u64>,
    now_then: HashMap<u64, u64>,
    /// Where the search in a directory's children goes on: both sides are sorted.
    cursor: Option<(u32, u32)>,
    pub(super) trusted: u64,
}

impl<'o> Stamps<'o> {
    pub(super) fn new(contents: Contents<'o>) -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let young = since_epoch.saturating_sub(TICK);
        Stamps {
            earlier: walker::reusable(contents),
            young: (young.as_secs().cast_signed(), young.subsec_nanos()),
            then_now: HashMap::new(),
            now_then: HashMap::new(),
            cursor: None,
            trusted: 0,
        }
    }

    /// The root of the earlier tree.
    pub(super) fn root(&self) -> Option<u32> {
        self.earlier.map(|_| 0)
    }

    /// The earlier entry of this name in the earlier directory. Names are asked for in order.
    pub(super) fn child(&mut self, dir: Option<u32>, name: &[u8]) -> Option<u32> {
        let (tree, dir) = (self.earlier?, dir?);
        let end = tree.node(dir).end_index();
        let mut at = match self.cursor {
            Some((cursor_dir, at)) if cursor_dir == dir => at,
            Some(_) | None => dir + 1,
        };
        while at < end && tree.name(at) < name {
            at = tree.node(at).end_index();
        }
        self.cursor = Some((dir, at));
        Some(at).filter(|at| *at < end && tree.name(*at) == name)
    }

    /// The stamp of a file, unless it is too young.
    pub(super) fn of(&self, stat: &Statx) -> Option<Stamp> {
        let ctime = (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec);
        let stamp = Stamp {
            dev: entry::device(stat),
            ino: stat.stx_ino,
            ctime_s: ctime.0,
            ctime_ns: ctime.1,
        };
        (ctime < self.young).then_some(stamp)
    }

    /// The earlier digest of the contents, if nothing can have written the file since.
    pub(super) fn unchanged(
        &mut self,
        earlier: Option<u32>,
        now: &Entry,
        stat: &Statx,
    ) -> Option<Digest> {
        let then = self.earlier?.entry_without_names(earlier?);
        let (old, new) = (then.stamp?, self.of(stat)?);
        let same = then.kind == Kind::File
            && (old.ino, old.ctime_s, old.ctime_ns) == (new.ino, new.ctime_s, new.ctime_ns)
            && (then.size, then.mtime_s, then.mtime_ns) == (now.size, now.mtime_s, now.mtime_ns);
        if !same || then.content.is_zero() {
            return None;
        }
        let one_to_one = *self.then_now.entry(old.dev).or_insert(new.dev) == new.dev
            && *self.now_then.entry(new.dev).or_insert(old.dev) == old.dev;
        self.trusted += u64::from(one_to_one);
        one_to_one.then_some(then.content)
    }
}
