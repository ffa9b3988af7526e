//! What a plan is made from: the directories of the pod's root with their weights, and where something
//! is mounted, read once before anything of a guest runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Dir, FileType};

use crate::replica::ReplicaError;
use crate::replica::look::{LinkKey, link_key, open, stat};

/// Deeper trees are refused: each level costs a descriptor.
const DEEPEST: usize = 500;

/// What copying something would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Weight {
    /// Sizes of its files; one with two names counts twice.
    pub bytes: u64,
    /// Itself and all below it.
    pub entries: u64,
}

impl Weight {
    /// Whether it is within a limit.
    pub fn fits(self, limit: Weight) -> bool {
        self.bytes <= limit.bytes && self.entries <= limit.entries
    }

    /// Both together.
    pub fn plus(self, other: Weight) -> Weight {
        Weight {
            bytes: self.bytes.saturating_add(other.bytes),
            entries: self.entries.saturating_add(other.entries),
        }
    }
}

/// What an entry is, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// Anything else.
    Other,
}

/// An entry that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Of all below it that is not mounted.
    pub weight: Weight,
    /// Something is mounted here.
    pub mounted: bool,
    /// Given to execd by whoever started it, and nothing of the image.
    pub own: bool,
    /// What lies in it: of the root, and of a directory with mounts below it, all; else nothing.
    pub children: Vec<Node>,
}

impl Node {
    /// Whether something is mounted below it, or execd's own lies there.
    pub fn has_mounts(&self) -> bool {
        self.children
            .iter()
            .any(|child| child.mounted || child.own || child.has_mounts())
    }
}

/// What was seen of a root.
#[derive(Debug)]
pub struct Survey {
    /// The root itself.
    pub root: Node,
    /// The names of every file that has more than one.
    pub linked: Vec<Vec<Vec<u8>>>,
}

/// Looks at everything below a root. `own` are paths of execd's own, relative to it.
///
/// # Errors
/// When something cannot be read.
pub fn survey(root: BorrowedFd<'_>, own: &BTreeSet<Vec<u8>>) -> Result<Survey, ReplicaError> {
    let fd = open(root, c".").map_err(|e| ReplicaError::at(b"", "opening", e))?;
    let stat = stat(fd.as_fd(), c"").map_err(|e| ReplicaError::at(b"", "looking at", e))?;
    let mut surveyor = Surveyor {
        own,
        path: Vec::new(),
        linked: BTreeMap::new(),
    };
    let root = surveyor.directory(fd, Vec::new(), stat.stx_mnt_id, 0)?;
    let linked = surveyor.linked.into_values().collect();
    Ok(Survey { root, linked })
}

struct Surveyor<'a> {
    own: &'a BTreeSet<Vec<u8>>,
    path: Vec<u8>,
    linked: BTreeMap<LinkKey, Vec<Vec<u8>>>,
}

impl Surveyor<'_> {
    fn fail(&self, operation: &'static str) -> impl Fn(io::Error) -> ReplicaError {
        let path = self.path.clone();
        move |error| ReplicaError::at(&path, operation, error)
    }

    fn directory(
        &mut self,
        fd: OwnedFd,
        name: Vec<u8>,
        mount: u64,
        depth: usize,
    ) -> Result<Node, ReplicaError> {
        if depth > DEEPEST {
            let deep = io::Error::other(format!("it lies more than {DEEPEST} directories deep"));
            return Err(self.fail("looking at")(deep));
        }
        let mut node = Node {
            name,
            kind: Kind::Directory,
            weight: Weight {
                bytes: 0,
                entries: 1,
            },
            mounted: false,
            own: false,
            children: Vec::new(),
        };
        let listed = Dir::read_from(&fd).map_err(|e| self.fail("listing")(e.into()))?;
        for entry in listed {
            let entry = entry.map_err(|e| self.fail("listing")(e.into()))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let length = self.path.len();
            if length > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name.to_bytes());
            let child = self.child(fd.as_fd(), name, mount, depth)?;
            self.path.truncate(length);
            node.weight = node.weight.plus(child.weight);
            node.children.push(child);
        }
        if depth > 0 && !node.has_mounts() {
            node.children = Vec::new();
        }
        Ok(node)
    }

    fn child(
        &mut self,
        at: BorrowedFd<'_>,
        name: &std::ffi::CStr,
        mount: u64,
        depth: usize,
    ) -> Result<Node, ReplicaError> {
        let stat = stat(at, name).map_err(self.fail("looking at"))?;
        let kind = FileType::from_raw_mode(u32::from(stat.stx_mode));
        let own = self.own.contains(&self.path);
        let mounted = stat.stx_mnt_id != mount;
        if kind == FileType::Directory && !own && !mounted {
            let fd = open(at, name).map_err(self.fail("opening"))?;
            return self.directory(fd, name.to_bytes().to_vec(), mount, depth + 1);
        }
        if stat.stx_nlink > 1 && kind != FileType::Directory && !own && !mounted {
            let names = self.linked.entry(link_key(&stat)).or_default();
            names.push(self.path.clone());
        }
        let bytes = if kind == FileType::RegularFile && !own && !mounted {
            stat.stx_size
        } else {
            0
        };
        Ok(Node {
            name: name.to_bytes().to_vec(),
            kind: if kind == FileType::Directory {
                Kind::Directory
            } else {
                Kind::Other
            },
            weight: Weight { bytes, entries: 1 },
            mounted,
            own,
            children: Vec::new(),
        })
    }
}
