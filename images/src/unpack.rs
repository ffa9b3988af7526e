//! Unpacks the entries of one layer into an empty tree, as overlayfs wants to find them.
//!
//! The order of entries in a layer decides nothing but which of two entries of one name wins: a
//! whiteout hides what lies beneath, never an entry of its own layer, wherever it stands.

mod error;
pub mod limits;
mod links;
mod lower;
mod tree;
mod whiteout;

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

pub use error::Error;
pub(crate) use lower::Lowers;
use tree::Tree;
use whiteout::Mark;

use crate::attributes::{self, Attributes};
use crate::paths::{self, shown};
use crate::tarstream::{Entry, Kind, Segment, TarStream};

/// What an unpacked layer holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) whiteouts: u64,
    pub(crate) opaque: u64,
    pub(crate) dropped_devices: u64,
    pub(crate) dropped_xattrs: u64,
    pub(crate) foreign_ids: u64,
    /// Something was taken from the layers beneath.
    pub(crate) depends_on_lower: bool,
}

/// Unpacks all entries of `stream` into the empty directory `root`. `tick` is called after each.
///
/// On an error the tree is left as it is; the caller throws it away.
pub(crate) fn unpack<R: Read>(
    stream: &mut TarStream<R>,
    root: OwnedFd,
    lowers: &Lowers,
    mut tick: impl FnMut(&mut R),
) -> Result<Summary, Error> {
    let mut unpacker = Unpacker {
        tree: Tree::new(root),
        lowers,
        summary: Summary::default(),
        buffer: vec![0; 128 * 1024],
    };
    while let Some(entry) = stream.next()? {
        unpacker.summary.entries += 1;
        if unpacker.summary.entries > limits::MAX_ENTRIES {
            return Err(Error::Entries(limits::MAX_ENTRIES));
        }
        unpacker.entry(&entry, stream)?;
        tick(stream.get_mut());
    }
    unpacker.finish_directories()?;
    Ok(unpacker.summary)
}

struct Unpacker<'a> {
    tree: Tree,
    lowers: &'a Lowers,
    summary: Summary,
    buffer: Vec<u8>,
}

impl Unpacker<'_> {
    fn entry<R: Read>(&mut self, entry: &Entry, stream: &mut TarStream<R>) -> Result<(), Error> {
        let parts = paths::components(&entry.path).map_err(|source| Error::Name {
            entry: shown(&entry.path),
            source,
        })?;
        let Some((&name, parents)) = parts.split_last() else {
            if entry.kind == Kind::Directory {
                self.tree.describe_root(attributes_of(entry));
                self.count_ids(&attributes_of(entry));
            }
            return Ok(());
        };
        match whiteout::mark(&parts) {
            Mark::None => {}
            Mark::Foreign => return Ok(()),
            Mark::Bad(source) => {
                return Err(Error::Name {
                    entry: shown(&entry.path),
                    source,
                });
            }
            Mark::Opaque => {
                self.enter(entry, parents)?;
                self.tree.make_opaque();
                return Ok(());
            }
            Mark::Whiteout(name) => {
                self.enter(entry, parents)?;
                let made = self
                    .tree
                    .whiteout(name)
                    .map_err(failed(entry, "marked as deleted"))?;
                self.summary.whiteouts += u64::from(made);
                return Ok(());
            }
        }
        if entry.kind == Kind::Device {
            // A guest never gets a device node out of an image.
            self.summary.dropped_devices += 1;
            return Ok(());
        }
        if entry.kind != Kind::HardLink {
            self.enter(entry, parents)?;
        }
        let attributes = attributes_of(entry);
        match entry.kind {
            Kind::Directory => {
                self.count_ids(&attributes);
                self.tree
                    .directory(name, attributes)
                    .map_err(failed(entry, "made"))
            }
            Kind::File => {
                self.count_ids(&attributes);
                self.file(entry, name, &attributes, stream)
            }
            Kind::Symlink => {
                self.count_ids(&attributes);
                let target = entry.link.as_slice();
                let dir = |tree: &Tree| fs::symlinkat(target, tree.here(), name);
                self.tree
                    .replace(name, dir)
                    .map_err(failed(entry, "made"))?;
                self.attributes_at(entry, name, &attributes, true)
            }
            Kind::Fifo => {
                self.count_ids(&attributes);
                self.tree
                    .replace(name, |tree| make_fifo(tree, name))
                    .map_err(failed(entry, "made"))?;
                self.attributes_at(entry, name, &attributes, false)
            }
            Kind::HardLink => self.hard_link(entry, parents, name),
            Kind::Unknown(flag) => Err(Error::Type {
                entry: shown(&entry.path),
                flag,
            }),
            Kind::Device => Ok(()),
        }
    }

    fn enter(&mut self, entry: &Entry, parents: &[&[u8]]) -> Result<(), Error> {
        self.tree.enter(parents).map_err(|errno| match errno {
            Errno::LOOP => Error::Loop {
                entry: shown(&entry.path),
            },
            errno => failed(entry, "reached")(errno),
        })
    }

    fn file<R: Read>(
        &mut self,
        entry: &Entry,
        name: &[u8],
        attributes: &Attributes,
        stream: &mut TarStream<R>,
    ) -> Result<(), Error> {
        let file = self
            .tree
            .replace(name, |tree| create(tree, name))
            .map_err(failed(entry, "made"))?;
        let whole = [Segment {
            offset: 0,
            length: entry.size,
        }];
        let mut end = 0;
        for segment in entry.segments.as_deref().unwrap_or(&whole) {
            let mut at = segment.offset;
            let mut left = segment.length;
            while left > 0 {
                let part = left.min(self.buffer.len() as u64) as usize;
                let piece = &mut self.buffer[..part];
                stream.content(piece)?;
                // Long runs of zeros become holes: a file that was sparse where the layer was
                // made does not fill the store.
                if part < SHORTEST_HOLE || piece.iter().any(|&b| b != 0) {
                    write_at(&file, piece, at).map_err(failed(entry, "written"))?;
                    end = at + part as u64;
                }
                at += part as u64;
                left -= part as u64;
            }
        }
        if end < entry.size {
            fs::ftruncate(&file, entry.size).map_err(failed(entry, "written"))?;
        }
        self.summary.bytes += entry.size;
        let left_out = attributes::set(file.as_fd(), attributes);
        self.summary.dropped_xattrs += left_out.map_err(wrong_attributes(entry))?;
        Ok(())
    }

    fn attributes_at(
        &mut self,
        entry: &Entry,
        name: &[u8],
        attributes: &Attributes,
        is_link: bool,
    ) -> Result<(), Error> {
        let left_out = attributes::set_at(self.tree.here(), name, attributes, is_link);
        self.summary.dropped_xattrs += left_out.map_err(wrong_attributes(entry))?;
        Ok(())
    }

    fn count_ids(&mut self, attributes: &Attributes) {
        self.summary.foreign_ids += u64::from(attributes.has_foreign_id());
    }

    /// Directories get their attributes last: entries made in them would move their time, and
    /// their own setgid bit or default ACL would colour those entries.
    fn finish_directories(&mut self) -> Result<(), Error> {
        let directories = self.tree.take_directories();
        for (path, directory) in &directories {
            let about = |source| Error::Attributes {
                entry: shown(path),
                source,
            };
            let write = |errno: Errno| Error::Write {
                entry: shown(path),
                action: "completed",
                source: errno.into(),
            };
            let parts: Vec<&[u8]> = path
                .split(|&b| b == b'/')
                .filter(|p| !p.is_empty())
                .collect();
            let attributes = match &directory.attributes {
                Some(attributes) => attributes.clone(),
                None => {
                    let hidden = tree::is_opaque_above(&directories, &parts);
                    let inherited = if hidden {
                        None
                    } else {
                        self.inherited(&parts).map_err(write)?
                    };
                    inherited.unwrap_or_else(Attributes::of_implied_directory)
                }
            };
            let file = self.tree.open_directory(&parts).map_err(write)?;
            if directory.opaque {
                self.summary.opaque += 1;
                whiteout::set_opaque(file.as_fd()).map_err(write)?;
            }
            self.summary.dropped_xattrs +=
                attributes::set(file.as_fd(), &attributes).map_err(about)?;
        }
        Ok(())
    }

    /// What the layers beneath say about a directory that this one has entries in but leaves out.
    ///
    /// Only the root's time is not taken over: hardly any layer has an entry for the root, and
    /// then none could be shared between images.
    fn inherited(&mut self, path: &[&[u8]]) -> Result<Option<Attributes>, Errno> {
        let Some(found) = self.lowers.find(path)? else {
            return Ok(None);
        };
        if found.kind() != FileType::Directory {
            return Ok(None);
        }
        let plain = Attributes::of_implied_directory();
        let read = found.attributes();
        let mut attributes =
            read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        if path.is_empty() {
            attributes.mtime = plain.mtime;
        }
        if attributes != plain {
            self.summary.depends_on_lower = true;
        }
        Ok(Some(attributes))
    }
}

/// Zeros shorter than this are written.
const SHORTEST_HOLE: usize = 4096;

fn attributes_of(entry: &Entry) -> Attributes {
    Attributes {
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        mtime: entry.mtime,
        xattrs: entry.xattrs.clone(),
    }
}

fn create(tree: &Tree, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(tree.here(), name, flags, Mode::RUSR | Mode::WUSR)
}

fn make_fifo(tree: &Tree, name: &[u8]) -> Result<(), Errno> {
    fs::mknodat(
        tree.here(),
        name,
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
}

fn write_at(file: &OwnedFd, mut piece: &[u8], mut at: u64) -> Result<(), Errno> {
    while !piece.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(file, piece, at))?;
        piece = &piece[written..];
        at += written as u64;
    }
    Ok(())
}

fn failed(entry: &Entry, action: &'static str) -> impl Fn(Errno) -> Error {
    let entry = shown(&entry.path);
    move |errno| Error::Write {
        entry: entry.clone(),
        action,
        source: errno.into(),
    }
}

fn wrong_attributes(entry: &Entry) -> impl Fn(attributes::Error) -> Error {
    let entry = shown(&entry.path);
    move |source| Error::Attributes {
        entry: entry.clone(),
        source,
    }
}

fn is_missing(errno: Errno) -> bool {
    errno == Errno::NOENT || errno == Errno::NOTDIR
}

fn stat(dir: impl AsFd, name: &[u8]) -> Result<Option<fs::Stat>, Errno> {
    match fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(errno) if is_missing(errno) => Ok(None),
        Err(errno) => Err(errno),
    }
}
