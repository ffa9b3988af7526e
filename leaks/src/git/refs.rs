//! Names that lead to objects: refs, special heads, reflogs, further work trees.

use crate::Kind;
use crate::ground::{Entry, Ground, join, text};

use super::Error;
use super::oid::Oid;
use super::place::Place;

/// Bytes of a list of refs or a reflog.
const LONG: u64 = 64 << 20;

/// Bytes of one ref.
const SHORT: u64 = 64 << 10;

/// Files below one directory of refs or reflogs.
const FILES: usize = 1 << 18;

/// How deep those nest.
const DEPTH: usize = 64;

/// A name and an object that it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) oid: Oid,
}

/// Where HEAD is; None where its branch has no commit yet.
pub(crate) fn head(ground: &Ground, place: &Place, named: &[Named]) -> Result<Option<Oid>, Error> {
    let mut bytes = ground.read(&join(&place.own, b"HEAD"), SHORT)?;
    // A ref may lead to another one.
    for _ in 0..8 {
        let Some(name) = bytes.strip_prefix(b"ref:").map(<[u8]>::trim_ascii) else {
            return Ok(Oid::from_hex(bytes.trim_ascii()));
        };
        let full = text(name);
        // A loose ref goes before a packed one.
        match ground.read(&join(&place.common, name), SHORT) {
            Ok(target) => bytes = target,
            Err(error) if error.is_absent() => {
                let packed = named.iter().find(|named| named.name == full);
                return Ok(packed.map(|named| named.oid));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// All names but HEAD. What cannot be read is added to `unread`.
pub(crate) fn all(ground: &Ground, place: &Place, unread: &mut Vec<String>) -> Vec<Named> {
    let mut walk = Walk {
        ground,
        named: Vec::new(),
        unread,
    };
    walk.packed(&place.common);
    walk.of(&place.common, None);
    if place.own != place.common {
        walk.of(&place.own, None);
    }
    let trees = join(&place.common, b"worktrees");
    for entry in walk.list(&trees) {
        walk.of(&join(&trees, &entry.name), Some(Kind::Worktrees));
    }
    walk.named
}

struct Walk<'a> {
    ground: &'a Ground,
    named: Vec<Named>,
    unread: &'a mut Vec<String>,
}

impl Walk<'_> {
    /// The names below a repository's directory, or a work tree's part of it.
    fn of(&mut self, directory: &[u8], kind: Option<Kind>) {
        self.refs(&join(directory, b"refs"), b"refs", kind, DEPTH);
        self.logs(&join(directory, b"logs"), b"", kind, DEPTH);
        for entry in self.list(directory) {
            let path = join(directory, &entry.name);
            let unfinished = entry.name.starts_with(b"rebase-") || entry.name == b"sequencer";
            if entry.directory && unfinished {
                for entry in self.list(&path) {
                    self.lines(&join(&path, &entry.name), kind.unwrap_or(Kind::Heads));
                }
            }
            let special = entry.name.ends_with(b"HEAD") || entry.name.starts_with(b"BISECT");
            // HEAD of this work tree is where everything is measured from.
            if special && (kind.is_some() || entry.name != b"HEAD") {
                self.lines(&path, kind.unwrap_or(Kind::Heads));
            }
        }
    }

    fn packed(&mut self, common: &[u8]) {
        let Some(bytes) = self.read(&join(common, b"packed-refs"), LONG) else {
            return;
        };
        for line in bytes.split(|byte| *byte == b'\n') {
            if let (Some(oid), Some(name)) = (leading(line), line.get(41..)) {
                self.add(kind_of(name), text(name), oid);
            }
        }
    }

    fn refs(&mut self, path: &[u8], name: &[u8], kind: Option<Kind>, depth: usize) {
        for entry in self.list(path) {
            let (path, name) = (join(path, &entry.name), join(name, &entry.name));
            if entry.directory && depth > 0 {
                self.refs(&path, &name, kind, depth - 1);
            } else if let Some(bytes) = self.read(&path, SHORT)
                && let Some(oid) = Oid::from_hex(bytes.trim_ascii())
            {
                self.add(kind.unwrap_or_else(|| kind_of(&name)), text(&name), oid);
            }
        }
    }

    fn logs(&mut self, path: &[u8], name: &[u8], kind: Option<Kind>, depth: usize) {
        for entry in self.list(path) {
            let (path, name) = (join(path, &entry.name), join(name, &entry.name));
            if entry.directory && depth > 0 {
                self.logs(&path, &name, kind, depth - 1);
                continue;
            }
            let Some(bytes) = self.read(&path, LONG) else {
                continue;
            };
            let stash = name.ends_with(b"refs/stash");
            let own = if stash { Kind::Stashes } else { Kind::Reflog };
            for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
                let oids = [leading(line), line.get(41..).and_then(leading)];
                for oid in oids.into_iter().flatten() {
                    let label = format!("{} line {}", text(&name), number + 1);
                    self.add(kind.unwrap_or(own), label, oid);
                }
            }
        }
    }

    /// A file whose lines begin with objects' names.
    fn lines(&mut self, path: &[u8], kind: Kind) {
        let Some(bytes) = self.read(path, LONG) else {
            return;
        };
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Some(oid) = leading(line) {
                self.add(kind, text(path), oid);
            }
        }
    }

    fn add(&mut self, kind: Kind, name: String, oid: Oid) {
        if oid.is_some() {
            self.named.push(Named { kind, name, oid });
        }
    }

    fn list(&mut self, path: &[u8]) -> Vec<Entry> {
        match self.ground.list(path, FILES) {
            Ok(entries) => entries,
            Err(error) => {
                if !error.is_absent() {
                    self.unread.push(error.to_string());
                }
                Vec::new()
            }
        }
    }

    fn read(&mut self, path: &[u8], most: u64) -> Option<Vec<u8>> {
        match self.ground.read(path, most) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                if !error.is_absent() {
                    self.unread.push(error.to_string());
                }
                None
            }
        }
    }
}

fn leading(line: &[u8]) -> Option<Oid> {
    Oid::from_hex(line.get(..40)?)
}

fn kind_of(name: &[u8]) -> Kind {
    if name.starts_with(b"refs/tags/") {
        Kind::Tags
    } else if name == b"refs/stash" {
        Kind::Stashes
    } else if name.starts_with(b"refs/notes/") {
        Kind::Notes
    } else {
        Kind::Refs
    }
}
