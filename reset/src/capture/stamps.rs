//! When what was read of an inode earlier may be kept.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::Statx;

use super::{Contents, entry, walker};
use crate::tree::{Entry, Kind, Stamp, Tree};

/// Twice the longest tick of a Linux clock (100 Hz): a second write within one tick may leave the same
/// change time, so a file changed so shortly before a capture gets no stamp.
const TICK: Duration = Duration::from_millis(20);

pub(super) struct Stamps<'o> {
    earlier: Option<&'o Tree>,
    /// Change times from here on are too young to be relied on.
    young: (i64, u32),
    pub(super) devices: Devices,
    pub(super) trusted: u64,
}

/// Device numbers then and now. They must map one to one: two file systems that were told apart must
/// still be, whatever numbers this mount gives them.
#[derive(Debug, Default)]
pub(super) struct Devices {
    then_now: HashMap<u64, u64>,
    now_then: HashMap<u64, u64>,
}

impl Devices {
    /// Takes up one pair; false where it contradicts an earlier one.
    fn add(&mut self, then: u64, now: u64) -> bool {
        *self.then_now.entry(then).or_insert(now) == now
            && *self.now_then.entry(now).or_insert(then) == then
    }

    /// Takes up all pairs that another has seen.
    pub(super) fn merge(&mut self, other: &Devices) -> bool {
        let mut pairs = other.then_now.iter();
        pairs.all(|(then, now)| self.add(*then, *now))
    }
}

/// A place among the entries of an earlier directory.
pub(super) struct Cursor {
    at: u32,
    end: u32,
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
            devices: Devices::default(),
            trusted: 0,
        }
    }

    /// Where to look for the entries of the earlier directory of this index.
    pub(super) fn cursor(&self, dir: Option<u32>) -> Option<Cursor> {
        self.earlier.zip(dir).map(|(tree, dir)| Cursor {
            at: dir + 1,
            end: tree.node(dir).end_index(),
        })
    }

    /// The earlier entry of this name. Names are asked for in order, as they stand in both.
    pub(super) fn child(&self, cursor: &mut Option<Cursor>, name: &[u8]) -> Option<u32> {
        let (tree, cursor) = (self.earlier?, cursor.as_mut()?);
        while cursor.at < cursor.end && tree.name(cursor.at) < name {
            cursor.at = tree.node(cursor.at).end_index();
        }
        Some(cursor.at).filter(|at| *at < cursor.end && tree.name(*at) == name)
    }

    /// The stamp of an inode, unless it is too young.
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

    /// The earlier entry, if nothing can have changed the inode since: then its contents, target,
    /// extended attributes and flags are those of `now` too, since changing any of them would have
    /// changed its stamp.
    pub(super) fn unchanged(&mut self, earlier: Option<u32>, now: &Entry) -> Option<Entry> {
        let (tree, earlier) = (self.earlier?, earlier?);
        self.proves(&tree.entry_without_names(earlier), now)
            .then(|| tree.entry(earlier))
    }

    /// Whether nothing can have changed the inode of an entry of the earlier tree since.
    pub(super) fn proves(&mut self, then: &Entry, now: &Entry) -> bool {
        let (Some(_), Some(old), Some(new)) = (self.earlier, then.stamp, now.stamp) else {
            return false;
        };
        let same = then.kind == now.kind
            && (old.ino, old.ctime_s, old.ctime_ns) == (new.ino, new.ctime_s, new.ctime_ns)
            && (then.size, then.mtime_s, then.mtime_ns) == (now.size, now.mtime_s, now.mtime_ns);
        if !same || (then.kind == Kind::File && then.content.is_zero()) {
            return false;
        }
        let proven = self.devices.add(old.dev, new.dev);
        self.trusted += u64::from(proven && then.kind == Kind::File);
        proven
    }
}
