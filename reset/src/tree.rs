//! A file tree as a value: entries in canonical order with a Merkle digest.
//!
//! Entries stand in one vector in preorder, the children of a directory sorted by the bytes of their
//! names; a directory knows where its subtree ends. Names, link targets and extended attributes lie in
//! one byte arena. An entry takes some 200 bytes, 20,000 entries about 4 MB.

mod build;
mod codec;
mod diff;
mod flags;
mod links;
mod merkle;

pub use build::{BuildError, Builder};
pub use codec::{DecodeError, FORMAT};
pub use diff::diff;
pub use flags::Flags;
pub(crate) use links::{is_whole, wrong_links};

use crate::digest::Digest;

/// Types of entries. The numbers are part of the digest and of the disk form: never change one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Directory.
    Directory = 1,
    /// Regular file.
    File = 2,
    /// Symbolic link.
    Symlink = 3,
    /// Named pipe.
    Fifo = 4,
    /// Unix socket.
    Socket = 5,
    /// Character device (a whiteout where a raw upper is read).
    CharDevice = 6,
    /// Block device.
    BlockDevice = 7,
    /// Something else is mounted here. Only the name counts: what is mounted belongs to the mounts.
    Mount = 8,
}

impl Kind {
    pub(crate) fn from_number(number: u8) -> Option<Kind> {
        const ALL: [Kind; 8] = [
            Kind::Directory,
            Kind::File,
            Kind::Symlink,
            Kind::Fifo,
            Kind::Socket,
            Kind::CharDevice,
            Kind::BlockDevice,
            Kind::Mount,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// The word used in differences.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Directory => "directory",
            Kind::File => "file",
            Kind::Symlink => "symlink",
            Kind::Fifo => "fifo",
            Kind::Socket => "socket",
            Kind::CharDevice => "character device",
            Kind::BlockDevice => "block device",
            Kind::Mount => "mount",
        }
    }
}

/// What the kernel says of an inode beside its attributes: never part of a digest, only the means to
/// see that nobody can have written since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Device number of the file as the walked mount shows it.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Change time, seconds.
    pub ctime_s: i64,
    /// Change time, nanoseconds within the second.
    pub ctime_ns: u32,
}

/// One entry without its name and place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Type.
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky: 12 bits.
    pub mode: u16,
    /// Owner in the guest's view.
    pub uid: u32,
    /// Group in the guest's view.
    pub gid: u32,
    /// Bytes of a file or of a link target; 0 for everything else.
    pub size: u64,
    /// Modification time, seconds.
    pub mtime_s: i64,
    /// Modification time, nanoseconds within the second.
    pub mtime_ns: u32,
    /// Major and minor number of a device, `major << 32 | minor`; else 0.
    pub rdev: u64,
    /// Inode flags.
    pub flags: Flags,
    /// Extended attributes, sorted by name, values in the guest's view.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Target of a symbolic link; else empty.
    pub target: Vec<u8>,
    /// BLAKE3 of the contents of a regular file; else [`Digest::ZERO`].
    pub content: Digest,
    /// Side table: the stamp under which the contents were read, where one may be relied on.
    pub stamp: Option<Stamp>,
    /// Side table: names of the inode by the kernel's count; 0 for directories and where it is unknown.
    /// An overlay may show two names of one inode as two inodes, and only this tells.
    pub link_count: u32,
}

impl Entry {
    /// An entry with nothing set: root's, mode 0, of the epoch.
    pub fn new(kind: Kind) -> Self {
        Entry {
            kind,
            mode: 0,
            uid: 0,
            gid: 0,
            size: 0,
            mtime_s: 0,
            mtime_ns: 0,
            rdev: 0,
            flags: Flags::default(),
            xattrs: Vec::new(),
            target: Vec::new(),
            content: Digest::ZERO,
            stamp: None,
            link_count: 0,
        }
    }
}

impl Entry {
    /// Takes over what statx does not give from the same inode, read earlier.
    pub(crate) fn keep_unread(&mut self, then: &Entry) {
        self.flags = then.flags;
        self.content = then.content;
        self.xattrs.clone_from(&then.xattrs);
        self.target.clone_from(&then.target);
    }
}

/// A range of the arena.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Span {
    start: u32,
    len: u32,
}

/// No hard-link group.
pub(crate) const NO_GROUP: u32 = u32::MAX;

#[derive(Debug, Clone)]
pub(crate) struct Node {
    name: Span,
    xattrs: Span,
    target: Span,
    kind: Kind,
    flags: Flags,
    mode: u16,
    mtime_ns: u32,
    uid: u32,
    gid: u32,
    parent: u32,
    /// One past the last index of this subtree.
    end: u32,
    /// Index of the first entry of the hard-link group, itself for that one, or [`NO_GROUP`].
    group: u32,
    /// Entries in the group; 0 outside of one.
    links: u32,
    size: u64,
    mtime_s: i64,
    rdev: u64,
    content: Digest,
    digest: Digest,
    stamp: Option<Stamp>,
    link_count: u32,
}

impl Node {
    /// One past the last index of the subtree.
    pub(crate) fn end_index(&self) -> u32 {
        self.end
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn rdev(&self) -> u64 {
        self.rdev
    }

    pub(crate) fn content(&self) -> Digest {
        self.content
    }

    pub(crate) fn stamp(&self) -> Option<Stamp> {
        self.stamp
    }

    pub(crate) fn link_count(&self) -> u32 {
        self.link_count
    }

    /// Names of the inode that the tree has.
    pub(crate) fn names(&self) -> u32 {
        self.links.max(1)
    }

    /// Whether the tree holds another name of the same file.
    pub(crate) fn is_hard_link(&self) -> bool {
        self.group != NO_GROUP
    }

    /// Index of the first entry of the hard-link group, or [`NO_GROUP`].
    pub(crate) fn group_index(&self) -> u32 {
        self.group
    }
}

/// A captured tree: immutable, with all digests computed.
#[derive(Debug, Clone)]
pub struct Tree {
    pub(crate) nodes: Vec<Node>,
    pub(crate) arena: Vec<u8>,
    /// Paths that were left out, sorted; they are part of the root digest.
    pub(crate) excluded: Vec<Vec<u8>>,
    root: Digest,
}

impl Tree {
    /// The digest of the whole tree, of the paths that were left out and of the encoding's version.
    pub fn root(&self) -> Digest {
        self.root
    }

    /// Number of entries, the root included; never 0.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Always false: a tree has at least its root.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Paths that were left out of the capture, relative to the root, sorted.
    pub fn excluded(&self) -> &[Vec<u8>] {
        &self.excluded
    }

    /// Sum of the sizes of all regular files, bytes; hard links count once per name.
    pub fn bytes(&self) -> u64 {
        self.nodes
            .iter()
            .filter(|n| n.kind == Kind::File)
            .fold(0, |sum, n| sum.saturating_add(n.size))
    }

    /// All entries with their paths, in canonical order, the root (empty path) first.
    pub fn entries(&self) -> impl Iterator<Item = (Vec<u8>, Entry)> + '_ {
        (0..self.nodes.len() as u32).map(|i| (self.path(i), self.entry(i)))
    }

    /// The entry at a path relative to the root (the empty path is the root).
    pub fn get(&self, path: &[u8]) -> Option<Entry> {
        let mut at = 0;
        for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
            at = self.child(at, name)?;
        }
        Some(self.entry(at))
    }

    /// The paths of the hard-link group that the entry at `path` belongs to, itself included.
    pub fn hard_links(&self, path: &[u8]) -> Vec<Vec<u8>> {
        let found = (0..self.nodes.len() as u32).find(|i| self.path(*i) == path);
        let group = found.map_or(NO_GROUP, |i| self.node(i).group);
        let members = (0..self.nodes.len() as u32)
            .filter(|i| group != NO_GROUP && self.node(*i).group == group);
        members.map(|i| self.path(i)).collect()
    }

    pub(crate) fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    /// Number of entries, as indices count them.
    pub(crate) fn count(&self) -> u32 {
        self.nodes.len() as u32
    }

    pub(crate) fn kind(&self, index: u32) -> Kind {
        self.node(index).kind
    }

    /// The directory that an entry lies in; the root's own is the root.
    pub(crate) fn parent(&self, index: u32) -> u32 {
        self.node(index).parent
    }

    /// One number for all names of one inode: the index of the first.
    pub(crate) fn inode(&self, index: u32) -> u32 {
        Some(self.node(index).group)
            .filter(|group| *group != NO_GROUP)
            .unwrap_or(index)
    }

    pub(crate) fn span(&self, span: Span) -> &[u8] {
        &self.arena[span.start as usize..(span.start + span.len) as usize]
    }

    pub(crate) fn name(&self, index: u32) -> &[u8] {
        self.span(self.node(index).name)
    }

    pub(crate) fn target(&self, index: u32) -> &[u8] {
        self.span(self.node(index).target)
    }

    /// Indices of the children of a directory, in order.
    pub(crate) fn children(&self, index: u32) -> impl Iterator<Item = u32> + '_ {
        let end = self.node(index).end;
        let first = Some(index + 1).filter(|i| *i < end);
        std::iter::successors(first, move |i| {
            Some(self.node(*i).end).filter(|next| *next < end)
        })
    }

    pub(crate) fn child(&self, index: u32, name: &[u8]) -> Option<u32> {
        self.children(index).find(|child| self.name(*child) == name)
    }

    pub(crate) fn path(&self, index: u32) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = index;
        while at != 0 {
            names.push(self.name(at));
            at = self.node(at).parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// The entry without extended attributes and target, which costs no allocation.
    pub(crate) fn entry_without_names(&self, index: u32) -> Entry {
        self.fill(index, Vec::new(), Vec::new())
    }

    pub(crate) fn entry(&self, index: u32) -> Entry {
        let node = self.node(index);
        let xattrs = build::unpack_xattrs(self.span(node.xattrs)).unwrap_or_default();
        self.fill(index, xattrs, self.span(node.target).to_vec())
    }

    fn fill(&self, index: u32, xattrs: Vec<(Vec<u8>, Vec<u8>)>, target: Vec<u8>) -> Entry {
        let node = self.node(index);
        Entry {
            kind: node.kind,
            mode: node.mode,
            uid: node.uid,
            gid: node.gid,
            size: node.size,
            mtime_s: node.mtime_s,
            mtime_ns: node.mtime_ns,
            rdev: node.rdev,
            flags: node.flags,
            xattrs,
            target,
            content: node.content,
            stamp: node.stamp,
            link_count: node.link_count,
        }
    }
}
