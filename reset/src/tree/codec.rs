//! The disk form of a tree. Digests are not stored but computed again, so that what is read always
//! hashes to the root that it claims by its contents.
//!
//! Payload: number of excluded paths (4 bytes) and each with its length (4); then the entries in
//! preorder. Per entry: kind (1), flags (1), mode (2), uid (4), gid (4), size (8), mtime (8 + 4), rdev
//! (8), hard-link group as the index of its first entry (4, all ones for none), name (1 + n), packed
//! extended attributes (4 + n), target (2 + n), for a file its content digest (32), then a byte that
//! says whether a stamp (8 + 8 + 8 + 4) follows. A directory's entries end with a kind of 0.

use super::build::{BuildError, unpack_xattrs};
use super::{Builder, Entry, Flags, Kind, NO_GROUP, Stamp, Tree};
use crate::digest::Digest;
use crate::envelope::{Envelope, EnvelopeError};

/// Version of the disk form and of the digest. Trees of other versions are not read.
pub const FORMAT: u32 = 1;

const ENVELOPE: Envelope = Envelope {
    what: "file tree",
    magic: *b"ik-tree\0",
    version: FORMAT,
};

/// Why bytes were not accepted as a tree.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DecodeError {
    /// The envelope is wrong.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The payload ends too early, goes on too long or holds a value that does not exist.
    #[error("the stored file tree is malformed at byte {at}; capture it again")]
    Malformed {
        /// Offset in the payload.
        at: u64,
    },
    /// The entries are no canonical tree.
    #[error("the stored file tree is not canonical; capture it again")]
    NotCanonical(#[from] BuildError),
}

impl Tree {
    /// The disk form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.nodes.len() * 96 + self.arena.len());
        out.extend_from_slice(&(self.excluded.len() as u32).to_le_bytes());
        for path in &self.excluded {
            out.extend_from_slice(&(path.len() as u32).to_le_bytes());
            out.extend_from_slice(path);
        }
        let mut open: Vec<u32> = Vec::new();
        for index in 0..self.nodes.len() as u32 {
            while open.pop_if(|end| *end == index).is_some() {
                out.push(0);
            }
            self.encode_node(index, &mut out);
            if self.node(index).kind == Kind::Directory {
                open.push(self.node(index).end);
            }
        }
        out.extend(std::iter::repeat_n(0, open.len()));
        ENVELOPE.seal(&out)
    }

    fn encode_node(&self, index: u32, out: &mut Vec<u8>) {
        let node = self.node(index);
        out.push(node.kind as u8);
        out.push(node.flags.0);
        out.extend_from_slice(&node.mode.to_le_bytes());
        out.extend_from_slice(&node.uid.to_le_bytes());
        out.extend_from_slice(&node.gid.to_le_bytes());
        out.extend_from_slice(&node.size.to_le_bytes());
        out.extend_from_slice(&node.mtime_s.to_le_bytes());
        out.extend_from_slice(&node.mtime_ns.to_le_bytes());
        out.extend_from_slice(&node.rdev.to_le_bytes());
        out.extend_from_slice(&node.group.to_le_bytes());
        out.push(node.name.len as u8);
        out.extend_from_slice(self.span(node.name));
        out.extend_from_slice(&node.xattrs.len.to_le_bytes());
        out.extend_from_slice(self.span(node.xattrs));
        out.extend_from_slice(&(node.target.len as u16).to_le_bytes());
        out.extend_from_slice(self.span(node.target));
        if node.kind == Kind::File {
            out.extend_from_slice(node.content.as_bytes());
        }
        match node.stamp {
            None => out.push(0),
            Some(stamp) => {
                out.push(1);
                out.extend_from_slice(&stamp.dev.to_le_bytes());
                out.extend_from_slice(&stamp.ino.to_le_bytes());
                out.extend_from_slice(&stamp.ctime_s.to_le_bytes());
                out.extend_from_slice(&stamp.ctime_ns.to_le_bytes());
            }
        }
    }

    /// Reads the disk form of at most `limit` bytes. Memory stays within a small multiple of the bytes
    /// given: nothing is reserved by what they claim.
    ///
    /// # Errors
    /// For anything but exactly what [`Tree::encode`] writes.
    pub fn decode(bytes: &[u8], limit: u64) -> Result<Tree, DecodeError> {
        let payload = ENVELOPE.open(bytes, limit)?;
        let mut reader = Reader { payload, at: 0 };
        reader.tree().transpose()?.ok_or(DecodeError::Malformed {
            at: reader.at as u64,
        })
    }
}

struct Reader<'a> {
    payload: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take(&mut self, len: usize) -> Option<&[u8]> {
        let bytes = self.payload.get(self.at..)?.get(..len)?;
        self.at += len;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// None for malformed bytes, an error for entries that are not canonical.
    fn tree(&mut self) -> Option<Result<Tree, BuildError>> {
        let mut excluded: Vec<Vec<u8>> = Vec::new();
        for _ in 0..self.u32()? {
            let len = self.u32()? as usize;
            let path = self.take(len)?.to_vec();
            if excluded.last().is_some_and(|last| *last >= path) {
                return None;
            }
            excluded.push(path);
        }
        let (name, root, group) = self.entry()?;
        if !name.is_empty() || group != NO_GROUP {
            return None;
        }
        let mut builder = match Builder::new(&root) {
            Ok(builder) => builder,
            Err(error) => return Some(Err(error)),
        };
        let mut groups = vec![NO_GROUP];
        let mut depth = 1_u64;
        while depth > 0 {
            if self.payload.get(self.at) == Some(&0) {
                self.at += 1;
                depth -= 1;
                if depth > 0 && builder.leave().is_err() {
                    return None;
                }
                continue;
            }
            let (name, entry, group) = self.entry()?;
            let added = builder.add(&name, &entry).and_then(|index| {
                let links_earlier = group != NO_GROUP && group != index;
                if links_earlier {
                    builder.link(group, index)
                } else {
                    Ok(())
                }
            });
            if let Err(error) = added {
                return Some(Err(error));
            }
            groups.push(group);
            if entry.kind == Kind::Directory {
                depth += 1;
            }
        }
        let tree = builder.finish(excluded);
        // A group that names only itself, or a first entry that does not say it is one.
        let same_groups = tree.nodes.iter().map(|node| node.group).eq(groups);
        (same_groups && self.at == self.payload.len()).then_some(Ok(tree))
    }

    fn entry(&mut self) -> Option<(Vec<u8>, Entry, u32)> {
        let [kind, flags] = self.array()?;
        let mut entry = Entry::new(Kind::from_number(kind)?);
        entry.flags = Flags(flags);
        entry.mode = self.array().map(u16::from_le_bytes)?;
        entry.uid = self.u32()?;
        entry.gid = self.u32()?;
        entry.size = self.u64()?;
        entry.mtime_s = self.array().map(i64::from_le_bytes)?;
        entry.mtime_ns = self.u32()?;
        entry.rdev = self.u64()?;
        let group = self.u32()?;
        let [len] = self.array()?;
        let name = self.take(len as usize)?.to_vec();
        let len = self.u32()? as usize;
        entry.xattrs = unpack_xattrs(self.take(len)?)?;
        let len = self.array().map(u16::from_le_bytes)? as usize;
        entry.target = self.take(len)?.to_vec();
        if entry.kind == Kind::File {
            entry.content = Digest::from_bytes(self.array()?);
        }
        entry.stamp = match self.array()? {
            [0] => None,
            [1] => Some(Stamp {
                dev: self.u64()?,
                ino: self.u64()?,
                ctime_s: self.array().map(i64::from_le_bytes)?,
                ctime_ns: self.u32()?,
            }),
            [_] => return None,
        };
        Some((name, entry, group))
    }
}

#[cfg(test)]
mod tests;
