//! The tree being written: a directory descriptor that walks, and what is known of its directories.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{is_missing, stat, whiteout};
use crate::attributes::{Attributes, path_of};
use crate::limits::MAX_DEPTH;

/// Symbolic links followed on the way to one entry, as the kernel allows.
const MAX_LINKS: usize = 40;

/// A directory of the layer.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// As its entry states them; none if there was no entry for it.
    pub(super) attributes: Option<Attributes>,
    /// What lies beneath does not show through.
    pub(super) opaque: bool,
}

/// All directories by path without a leading slash; the root is the empty path.
pub(super) type Directories = BTreeMap<Vec<u8>, Directory>;

pub(super) struct Tree {
    root: OwnedFd,
    /// From the root down to the current directory. Each was opened by its name in the one before
    /// without following links, so none can lie outside.
    stack: Vec<(Vec<u8>, OwnedFd)>,
    directories: Directories,
}

/// Where the target of a hard link is.
pub(super) enum Lookup {
    /// In this directory of the layer.
    Found(OwnedFd),
    /// The layer deletes it, or it is a directory.
    Hidden,
    /// The layer says nothing about it.
    Absent,
}

impl Tree {
    pub(super) fn new(root: OwnedFd) -> Tree {
        let directories = BTreeMap::from([(Vec::new(), Directory::default())]);
        Tree {
            root,
            stack: Vec::new(),
            directories,
        }
    }

    /// The current directory.
    pub(super) fn here(&self) -> BorrowedFd<'_> {
        self.stack
            .last()
            .map_or(self.root.as_fd(), |(_, dir)| dir.as_fd())
    }

    fn path(&self, name: Option<&[u8]>) -> Vec<u8> {
        let names: Vec<&[u8]> = self
            .stack
            .iter()
            .map(|(name, _)| name.as_slice())
            .chain(name)
            .collect();
        names.join(&b'/')
    }

    /// Makes this the current directory. What is missing is made; symbolic links of the layer are
    /// followed as if its root were `/`, which is what other unpackers do; a file in the way goes.
    pub(super) fn enter(&mut self, path: &[&[u8]]) -> Result<(), Errno> {
        let same = self
            .stack
            .iter()
            .zip(path)
            .take_while(|((have, _), want)| have == *want)
            .count();
        self.stack.truncate(same);
        let mut todo: VecDeque<Vec<u8>> = path[same..].iter().map(|part| part.to_vec()).collect();
        let mut links = 0;
        while let Some(name) = todo.pop_front() {
            match name.as_slice() {
                b"" | b"." => continue,
                b".." => {
                    self.stack.pop();
                    continue;
                }
                _ if self.stack.len() >= MAX_DEPTH => return Err(Errno::NAMETOOLONG),
                _ => {}
            }
            match open_dir(self.here(), &name) {
                Ok(dir) => self.stack.push((name, dir)),
                Err(Errno::NOENT) => self.make_implied(name, false)?,
                Err(errno) if is_missing(errno) || errno == Errno::LOOP => {
                    let there =
                        fs::statat(self.here(), name.as_slice(), AtFlags::SYMLINK_NOFOLLOW)?;
                    if FileType::from_raw_mode(there.st_mode) == FileType::Symlink {
                        links += 1;
                        if links > MAX_LINKS {
                            return Err(Errno::LOOP);
                        }
                        let target = fs::readlinkat(self.here(), name.as_slice(), Vec::new())?;
                        let target = target.as_bytes();
                        if target.starts_with(b"/") {
                            self.stack.clear();
                        }
                        for part in target.split(|&b| b == b'/').rev() {
                            todo.push_front(part.to_vec());
                        }
                    } else {
                        fs::unlinkat(self.here(), name.as_slice(), AtFlags::empty())?;
                        self.make_implied(name, whiteout::is_whiteout(&there))?;
                    }
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn make_implied(&mut self, name: Vec<u8>, opaque: bool) -> Result<(), Errno> {
        fs::mkdirat(self.here(), name.as_slice(), Mode::RWXU)?;
        let path = self.path(Some(&name));
        self.directories.insert(
            path,
            Directory {
                attributes: None,
                opaque,
            },
        );
        let dir = open_dir(self.here(), &name)?;
        self.stack.push((name, dir));
        Ok(())
    }

    /// Makes something in the current directory in place of whatever has its name.
    pub(super) fn replace<T>(
        &mut self,
        name: &[u8],
        make: impl Fn(&Tree) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match make(self) {
            Err(Errno::EXIST) => {
                self.remove(name)?;
                make(self)
            }
            done => done,
        }
    }

    fn remove(&mut self, name: &[u8]) -> Result<(), Errno> {
        match fs::unlinkat(self.here(), name, AtFlags::empty()) {
            Err(Errno::ISDIR) => {}
            done => return done,
        }
        let path = path_of(self.here(), name);
        std::fs::remove_dir_all(OsStr::from_bytes(&path))
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let gone = self.path(Some(name));
        let below = [gone.as_slice(), b"/"].concat();
        self.directories.remove(&gone);
        let inside = self
            .directories
            .range(below.clone()..)
            .map(|(path, _)| path);
        let inside: Vec<_> = inside
            .take_while(|path| path.starts_with(&below))
            .cloned()
            .collect();
        for path in inside {
            self.directories.remove(&path);
        }
        Ok(())
    }

    /// An entry for a directory: what it holds already stays.
    pub(super) fn directory(&mut self, name: &[u8], attributes: Attributes) -> Result<(), Errno> {
        let mut opaque = false;
        match fs::mkdirat(self.here(), name, Mode::RWXU) {
            Err(Errno::EXIST) => {
                let there = fs::statat(self.here(), name, AtFlags::SYMLINK_NOFOLLOW)?;
                if FileType::from_raw_mode(there.st_mode) != FileType::Directory {
                    opaque = whiteout::is_whiteout(&there);
                    fs::unlinkat(self.here(), name, AtFlags::empty())?;
                    fs::mkdirat(self.here(), name, Mode::RWXU)?;
                }
            }
            done => done?,
        }
        let path = self.path(Some(name));
        let known = self.directories.entry(path).or_default();
        known.attributes = Some(attributes);
        known.opaque |= opaque;
        Ok(())
    }

    pub(super) fn describe_root(&mut self, attributes: Attributes) {
        self.directories.entry(Vec::new()).or_default().attributes = Some(attributes);
    }

    /// Hides everything beneath the current directory.
    pub(super) fn make_opaque(&mut self) {
        let path = self.path(None);
        self.directories.entry(path).or_default().opaque = true;
    }

    /// Hides what lies beneath this name. Says whether that took a whiteout: a directory of this
    /// layer becomes opaque instead, and any other entry hides it anyway.
    pub(super) fn whiteout(&mut self, name: &[u8]) -> Result<bool, Errno> {
        match stat(self.here(), name)? {
            None => whiteout::make(self.here(), name).map(|()| true),
            Some(there) => {
                if FileType::from_raw_mode(there.st_mode) == FileType::Directory {
                    let path = self.path(Some(name));
                    self.directories.entry(path).or_default().opaque = true;
                }
                Ok(false)
            }
        }
    }

    /// Looks for the target of a hard link in this layer.
    pub(super) fn lookup(&self, parents: &[&[u8]], name: &[u8]) -> Result<Lookup, Errno> {
        let mut parent = parents.join(&b'/');
        if parent.is_empty() {
            parent.push(b'.');
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let dir = match fs::openat2(&self.root, parent.as_slice(), flags, Mode::empty(), resolve) {
            Ok(dir) => dir,
            Err(Errno::NOENT) if is_opaque_above(&self.directories, parents) => {
                return Ok(Lookup::Hidden);
            }
            Err(Errno::NOENT) => return Ok(Lookup::Absent),
            Err(Errno::NOTDIR) => return Ok(Lookup::Hidden),
            Err(errno) => return Err(errno),
        };
        Ok(match stat(&dir, name)? {
            None if is_opaque_above(&self.directories, parents) => Lookup::Hidden,
            None => Lookup::Absent,
            Some(there) if whiteout::is_whiteout(&there) => Lookup::Hidden,
            Some(there) if FileType::from_raw_mode(there.st_mode) == FileType::Directory => {
                Lookup::Hidden
            }
            Some(_) => Lookup::Found(dir),
        })
    }

    /// Links a file of the layer into the current directory.
    pub(super) fn link(
        &mut self,
        target_dir: BorrowedFd<'_>,
        target: &[u8],
        name: &[u8],
    ) -> Result<(), Errno> {
        let (one, two) = (stat(target_dir, target)?, stat(self.here(), name)?);
        if let (Some(one), Some(two)) = (one, two)
            && (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)
        {
            return Ok(());
        }
        self.replace(name, |tree| {
            fs::linkat(target_dir, target, tree.here(), name, AtFlags::empty())
        })
    }

    /// All directories, for completing them; the tree forgets them.
    pub(super) fn take_directories(&mut self) -> Directories {
        std::mem::take(&mut self.directories)
    }

    /// Opens a directory of the layer for writing its attributes.
    pub(super) fn open_directory(&mut self, path: &[&[u8]]) -> Result<OwnedFd, Errno> {
        self.enter(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        fs::openat(self.here(), ".", flags, Mode::empty())
    }
}

/// Whether the layer hides what lies beneath this directory: it or one above it is opaque.
pub(super) fn is_opaque_above(directories: &Directories, path: &[&[u8]]) -> bool {
    (0..=path.len()).any(|depth| {
        let path = path[..depth].join(&b'/');
        directories
            .get(&path)
            .is_some_and(|directory| directory.opaque)
    })
}

fn open_dir(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::openat(dir, name, flags, Mode::empty())
}
