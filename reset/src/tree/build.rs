//! Building a tree: entries in canonical order, one after the other.

use super::{Entry, Kind, NO_GROUP, Node, Span, Tree};
use crate::digest::Digest;

/// The longest name Linux allows, bytes.
const NAME_MAX: usize = 255;

/// Far above any image, and far below where indices of 32 bits end.
const MAX_ENTRIES: usize = 1 << 30;

/// Takes entries in preorder, children sorted by name, and computes the digests at the end.
///
/// It refuses what is not canonical, so that every [`Tree`] is, however it was made.
#[derive(Debug)]
pub struct Builder {
    nodes: Vec<Node>,
    arena: Vec<u8>,
    /// Open directories with the last child added to each.
    open: Vec<(u32, Option<u32>)>,
}

/// Why an entry was refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a canonical tree at entry {entry}: {reason}")]
pub struct BuildError {
    /// Number of the entry in order.
    pub entry: u64,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl Builder {
    /// Starts with the root directory.
    ///
    /// # Errors
    /// When the root is not a directory or its attributes are not canonical.
    pub fn new(root: &Entry) -> Result<Self, BuildError> {
        let mut builder = Builder {
            nodes: Vec::new(),
            arena: Vec::new(),
            open: Vec::new(),
        };
        if root.kind != Kind::Directory {
            return builder.refuse("the root is not a directory");
        }
        builder.push(b"", root, 0)?;
        Ok(builder)
    }

    fn refuse<T>(&self, reason: &'static str) -> Result<T, BuildError> {
        Err(BuildError {
            entry: self.nodes.len() as u64,
            reason,
        })
    }

    /// Adds the next child of the directory that is open. A directory becomes the open one until
    /// [`Builder::leave`]. Returns the entry's index, for [`Builder::link`].
    ///
    /// # Errors
    /// When the name is none, out of order, or the attributes are not canonical.
    pub fn add(&mut self, name: &[u8], entry: &Entry) -> Result<u32, BuildError> {
        if name.is_empty() || name.len() > NAME_MAX || name == b"." || name == b".." {
            return self.refuse("this is no file name");
        }
        if name.contains(&b'/') || name.contains(&0) {
            return self.refuse("a slash or a zero byte in a name");
        }
        let Some(&(parent, last)) = self.open.last() else {
            return self.refuse("an entry outside of the root");
        };
        if let Some(last) = last {
            let span = self.nodes[last as usize].name;
            if self.arena[span.start as usize..(span.start + span.len) as usize] >= *name {
                return self.refuse("names out of order");
            }
        }
        self.push(name, entry, parent)
    }

    fn push(&mut self, name: &[u8], entry: &Entry, parent: u32) -> Result<u32, BuildError> {
        if entry.mode > 0o7777 || entry.mtime_ns >= 1_000_000_000 || entry.flags.0 > 15 {
            return self.refuse("mode, time or flags out of range");
        }
        if !entry.xattrs.is_sorted_by(|a, b| a.0 < b.0) {
            return self.refuse("extended attributes out of order");
        }
        let file = entry.kind == Kind::File;
        if !file && !entry.content.is_zero()
            || entry.kind != Kind::Symlink && !entry.target.is_empty()
        {
            return self.refuse("contents or target on another type of entry");
        }
        let sized = file || entry.kind == Kind::Symlink;
        let device = matches!(entry.kind, Kind::CharDevice | Kind::BlockDevice);
        if !sized && entry.size != 0 || !device && entry.rdev != 0 {
            return self.refuse("a size or device number on another type of entry");
        }
        if self.nodes.len() >= MAX_ENTRIES {
            return self.refuse("too many entries");
        }
        let index = self.nodes.len() as u32;
        let packed = pack_xattrs(&entry.xattrs);
        let Some(name) = self.store(name) else {
            return self.refuse("too many bytes of names");
        };
        let Some(xattrs) = self.store(&packed) else {
            return self.refuse("too many bytes of attributes");
        };
        let Some(target) = self.store(&entry.target) else {
            return self.refuse("too many bytes of targets");
        };
        self.nodes.push(Node {
            name,
            xattrs,
            target,
            kind: entry.kind,
            flags: entry.flags,
            mode: entry.mode,
            mtime_ns: entry.mtime_ns,
            uid: entry.uid,
            gid: entry.gid,
            parent,
            end: index + 1,
            group: NO_GROUP,
            links: 0,
            size: entry.size,
            mtime_s: entry.mtime_s,
            rdev: entry.rdev,
            content: entry.content,
            digest: Digest::ZERO,
            stamp: entry.stamp,
            link_count: entry.link_count,
        });
        if let Some(open) = self.open.last_mut() {
            open.1 = Some(index);
        }
        if entry.kind == Kind::Directory {
            self.open.push((index, None));
        }
        Ok(index)
    }

    fn store(&mut self, bytes: &[u8]) -> Option<Span> {
        let start = u32::try_from(self.arena.len()).ok()?;
        let len = u32::try_from(bytes.len()).ok()?;
        start.checked_add(len)?;
        self.arena.extend_from_slice(bytes);
        Some(Span { start, len })
    }

    /// Closes the directory that is open.
    ///
    /// # Errors
    /// When only the root is left.
    pub fn leave(&mut self) -> Result<(), BuildError> {
        if self.open.len() < 2 {
            return self.refuse("one directory closed too many");
        }
        let end = self.nodes.len() as u32;
        if let Some((index, _)) = self.open.pop() {
            self.nodes[index as usize].end = end;
        }
        Ok(())
    }

    /// Says that entry `later` is a hard link of entry `first`, which came before it.
    ///
    /// # Errors
    /// When the two are not in that order, are directories, or `first` is itself a later link.
    pub fn link(&mut self, first: u32, later: u32) -> Result<(), BuildError> {
        let [Some(a), Some(b)] = [
            self.nodes.get(first as usize),
            self.nodes.get(later as usize),
        ] else {
            return self.refuse("a hard link to nothing");
        };
        let linkable = |kind| !matches!(kind, Kind::Directory | Kind::Mount);
        if first >= later || b.group != NO_GROUP || !(a.group == NO_GROUP || a.group == first) {
            return self.refuse("a hard link out of order");
        }
        if a.kind != b.kind || !linkable(a.kind) {
            return self.refuse("a hard link between entries that cannot be one");
        }
        self.nodes[first as usize].group = first;
        self.nodes[first as usize].links = self.nodes[first as usize].links.max(1) + 1;
        self.nodes[later as usize].group = first;
        Ok(())
    }

    /// Adds everything that lies below the root of another tree to the directory that is open.
    ///
    /// # Errors
    /// When a name is there already or out of order.
    pub fn graft(&mut self, tree: &Tree) -> Result<(), BuildError> {
        let base = self.nodes.len() as u32;
        let mut open: Vec<u32> = Vec::new();
        for index in 1..tree.nodes.len() as u32 {
            while open.pop_if(|end| *end == index).is_some() {
                self.leave()?;
            }
            let node = tree.node(index);
            let added = self.add(tree.name(index), &tree.entry(index))?;
            if node.group != NO_GROUP && node.group != index {
                self.link(base + node.group - 1, added)?;
            }
            if node.kind == Kind::Directory {
                open.push(node.end);
            }
        }
        open.iter().try_for_each(|_| self.leave())
    }

    /// Closes everything and computes the digests. `excluded` are the paths that were left out.
    pub fn finish(mut self, mut excluded: Vec<Vec<u8>>) -> Tree {
        let end = self.nodes.len() as u32;
        for (index, _) in self.open.drain(..) {
            self.nodes[index as usize].end = end;
        }
        for index in 0..self.nodes.len() {
            let group = self.nodes[index].group;
            if group != NO_GROUP {
                self.nodes[index].links = self.nodes[group as usize].links;
            }
        }
        excluded.sort();
        excluded.dedup();
        let mut tree = Tree {
            nodes: self.nodes,
            arena: self.arena,
            excluded,
            root: Digest::ZERO,
        };
        tree.compute();
        tree
    }
}

/// Canonical bytes of extended attributes: per attribute the length of the name (2 bytes), the name,
/// the length of the value (4 bytes) and the value.
pub(super) fn pack_xattrs(xattrs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut packed = Vec::new();
    for (name, value) in xattrs {
        packed.extend_from_slice(&(name.len() as u16).to_le_bytes());
        packed.extend_from_slice(name);
        packed.extend_from_slice(&(value.len() as u32).to_le_bytes());
        packed.extend_from_slice(value);
    }
    packed
}

/// The reverse of [`pack_xattrs`]; none for bytes that are not of that form.
pub(super) fn unpack_xattrs(mut packed: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut xattrs = Vec::new();
    while !packed.is_empty() {
        let (len, rest) = packed.split_first_chunk()?;
        let (name, rest) = rest.split_at_checked(u16::from_le_bytes(*len) as usize)?;
        let (len, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        xattrs.push((name.to_vec(), value.to_vec()));
        packed = rest;
    }
    Some(xattrs)
}
