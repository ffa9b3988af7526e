//! The walk: depth first, names sorted, descriptors kept for the innermost levels only.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::fs::{FileType, Statx};
use rustix::io::Errno;

use super::directory::{self, Names, Range};
use super::stamps::{Cursor, Stamps};
use super::{Capture, CaptureError, Contents, Options, contents, entry};
use crate::digest::Digest;
use crate::tree::{BuildError, Builder, Entry, Kind};

/// Directories kept open at a time. Above them descriptors are closed and opened again through `..` on
/// the way back, so that a deep tree costs no more descriptors than a flat one.
const OPEN_LEVELS: usize = 64;

/// The clock is looked at once in so many entries.
const CLOCK_EVERY: usize = 64;

/// What makes two names one file: device and inode, and what could not differ if they were.
pub(super) type LinkKey = (u64, u64, u64, (i64, u32), (i64, u32));

/// A directory whose entries are being visited.
struct Frame {
    fd: Option<OwnedFd>,
    identity: (u64, u64),
    names: Range,
    path_len: usize,
    /// Below it another mount was entered: `..` leads back only while that is mounted here, so the
    /// descriptor is kept however deep the walk goes.
    keeps: bool,
    /// The same directory in the tree whose digests may be reused.
    earlier: Option<Cursor>,
}

pub(super) fn walk(root: BorrowedFd<'_>, options: &Options<'_>) -> Result<Capture, CaptureError> {
    let at_root = |operation| {
        move |source| CaptureError::Call {
            operation,
            path: Vec::new(),
            source,
        }
    };
    let fd = directory::open(root, c".").map_err(at_root("open"))?;
    let stat = entry::stat(fd.as_fd(), c"").map_err(at_root("stat"))?;
    let mut state = State::new(&fd, &stat, options)?;
    let mut names = Names::default();
    let mut frames = vec![state.enter(fd, &stat, Some(0), &mut names)?];

    while let Some(frame) = frames.last_mut() {
        state.path.truncate(frame.path_len);
        let Some(name) = names.next(&mut frame.names) else {
            names.forget(&frame.names);
            if let Some(child) = frames.pop() {
                state.leave(&child, frames.last_mut())?;
            }
            continue;
        };
        if frame.path_len > 0 {
            state.path.push(b'/');
        }
        let name = names.get(name);
        state.path.extend_from_slice(name.to_bytes());
        let dir = frame.fd.as_ref().ok_or(CaptureError::Changed {
            path: state.path.clone(),
        })?;
        let found = state.visit(dir.as_fd(), name, &mut frame.earlier)?;
        if let Some((fd, stat, earlier)) = found {
            frame.keeps |= state.is_entered();
            let depth = frames.len();
            if depth >= OPEN_LEVELS && !frames[depth - OPEN_LEVELS].keeps {
                frames[depth - OPEN_LEVELS].fd = None;
            }
            frames.push(state.enter(fd, &stat, earlier, &mut names)?);
        }
    }
    Ok(state.finish())
}

struct State<'o> {
    options: &'o Options<'o>,
    exclude: HashSet<Vec<u8>>,
    entered: HashSet<Vec<u8>>,
    /// The mounts that make up the tree; none where all are crossed.
    mounts: Option<Vec<u64>>,
    stamps: Stamps<'o>,
    builder: Builder,
    path: Vec<u8>,
    links: HashMap<LinkKey, (u32, Digest)>,
    buffers: entry::Buffers,
    count: usize,
    files_read: u64,
    bytes_read: u64,
}

impl<'o> State<'o> {
    fn new(root: &OwnedFd, stat: &Statx, options: &'o Options<'o>) -> Result<Self, CaptureError> {
        let mounts = match (options.same_mount_only, entry::mount_id(stat)) {
            (false, _) => None,
            (true, Some(id)) => Some(vec![id]),
            (true, None) => return Err(CaptureError::NoMountIds),
        };
        let mut buffers = entry::Buffers::default();
        let call = |(operation, source)| CaptureError::Call {
            operation,
            path: Vec::new(),
            source,
        };
        let basic = entry::basic(stat, options);
        let mut read = basic.map_err(|source| call(("tell the type of", source)))?;
        entry::read(root.as_fd(), c"", &mut read, options, &mut buffers).map_err(call)?;
        let impossible = |source| CaptureError::Impossible {
            path: Vec::new(),
            source,
        };
        Ok(State {
            options,
            exclude: options.exclude.iter().cloned().collect(),
            entered: options.entered.iter().cloned().collect(),
            mounts,
            stamps: Stamps::new(options.contents),
            builder: Builder::new(&read).map_err(impossible)?,
            path: Vec::new(),
            links: HashMap::new(),
            buffers,
            count: 1,
            files_read: 0,
            bytes_read: 0,
        })
    }

    fn finish(self) -> Capture {
        Capture {
            tree: self.builder.finish(self.exclude.into_iter().collect()),
            files_read: self.files_read,
            bytes_read: self.bytes_read,
            files_trusted: self.stamps.trusted,
        }
    }

    fn call(&self, operation: &'static str) -> impl FnOnce(Errno) -> CaptureError + use<'_, 'o> {
        move |source| CaptureError::Call {
            operation,
            path: self.path.clone(),
            source,
        }
    }

    fn impossible(&self) -> impl FnOnce(BuildError) -> CaptureError + use<> {
        let path = self.path.clone();
        move |source| CaptureError::Impossible { path, source }
    }

    fn check_clock(&self) -> Result<(), CaptureError> {
        match self.options.deadline {
            Some(deadline) if Instant::now() > deadline => Err(CaptureError::Deadline {
                path: self.path.clone(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Reads one entry and adds it. A directory that is to be entered is handed back.
    fn visit(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        earlier_dir: &mut Option<Cursor>,
    ) -> Result<Option<(OwnedFd, Statx, Option<u32>)>, CaptureError> {
        if !self.exclude.is_empty() && self.exclude.contains(&self.path) {
            return Ok(None);
        }
        self.count += 1;
        if self.count > self.options.max_entries {
            return Err(CaptureError::TooMany {
                limit: self.options.max_entries,
            });
        }
        if self.count.is_multiple_of(CLOCK_EVERY) {
            self.check_clock()?;
        }
        let mut stat = entry::stat(dir, name).map_err(self.call("stat"))?;
        if self.is_another_mount(&stat)? {
            let added = self.builder.add(name.to_bytes(), &Entry::new(Kind::Mount));
            added.map_err(self.impossible())?;
            return Ok(None);
        }
        let earlier = self.stamps.child(earlier_dir, name.to_bytes());
        let kind = entry::file_type(&stat);
        if kind == FileType::Directory {
            let fd = directory::open(dir, name).map_err(self.call("open directory"))?;
            // From here on the descriptor is asked, so that attributes and entries are of one directory.
            stat = entry::stat(fd.as_fd(), c"").map_err(self.call("stat"))?;
            if self.is_another_mount(&stat)? {
                return Err(CaptureError::Changed {
                    path: self.path.clone(),
                });
            }
            self.add(fd.as_fd(), c"", name, &stat, earlier)?;
            return Ok(Some((fd, stat, earlier)));
        }
        self.add(dir, name, name, &stat, earlier)?;
        Ok(None)
    }

    /// Whether the walk is at a path at which it enters another mount.
    fn is_entered(&self) -> bool {
        !self.entered.is_empty() && self.entered.contains(&self.path)
    }

    /// Whether an entry lies on a mount that is no part of the tree. One that is to be entered here
    /// becomes part of it.
    fn is_another_mount(&mut self, stat: &Statx) -> Result<bool, CaptureError> {
        let enters = self.is_entered();
        let Some(mounts) = &mut self.mounts else {
            return Ok(false);
        };
        let id = entry::mount_id(stat).ok_or(CaptureError::NoMountIds)?;
        if mounts.contains(&id) {
            return Ok(false);
        }
        if enters {
            mounts.push(id);
        }
        Ok(!enters)
    }

    /// Adds the entry that `at` (a name in `dir`, or the empty name for `dir` itself) stands for.
    fn add(
        &mut self,
        dir: BorrowedFd<'_>,
        at: &CStr,
        name: &CStr,
        stat: &Statx,
        earlier: Option<u32>,
    ) -> Result<(), CaptureError> {
        let mut entry = entry::basic(stat, self.options).map_err(self.call("tell the type of"))?;
        // The entries of a directory come and go without a trace in any stamp that outlives a mount.
        entry.stamp = (entry.kind != Kind::Directory)
            .then(|| self.stamps.of(stat))
            .flatten();
        let unchanged = self.stamps.unchanged(earlier, &entry);
        match &unchanged {
            Some(then) => entry.keep_unread(then),
            None => entry::read(dir, at, &mut entry, self.options, &mut self.buffers)
                .map_err(|(operation, source)| self.call(operation)(source))?,
        }
        let linked = stat.stx_nlink > 1 && entry.kind != Kind::Directory;
        let key = link_key(stat);
        let first = if linked {
            self.links.get(&key).copied()
        } else {
            None
        };
        if entry.kind == Kind::File && unchanged.is_none() {
            entry.content = match first {
                Some((_, content)) => content,
                None => self.read_contents(dir, at, stat)?,
            };
        }
        let index = self
            .builder
            .add(name.to_bytes(), &entry)
            .map_err(self.impossible())?;
        match first {
            Some((first, _)) => self.builder.link(first, index).map_err(self.impossible())?,
            None if linked => drop(self.links.insert(key, (index, entry.content))),
            None => {}
        }
        Ok(())
    }

    fn read_contents(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        stat: &Statx,
    ) -> Result<Digest, CaptureError> {
        let deadline = self.options.deadline;
        let result = contents::digest(dir, name, stat, deadline, &mut self.buffers.contents);
        self.files_read += 1;
        self.bytes_read += stat.stx_size;
        result.map_err(|error| error.at(self.path.clone()))
    }

    fn enter(
        &mut self,
        fd: OwnedFd,
        stat: &Statx,
        earlier: Option<u32>,
        names: &mut Names,
    ) -> Result<Frame, CaptureError> {
        let listed = names.list(fd.as_fd(), self.options.max_entries);
        let names = listed.map_err(self.call("list"))?;
        let names = names.ok_or(CaptureError::TooMany {
            limit: self.options.max_entries,
        })?;
        self.check_clock()?;
        let identity = (entry::device(stat), stat.stx_ino);
        let earlier = self.stamps.cursor(earlier);
        Ok(Frame {
            fd: Some(fd),
            identity,
            names,
            path_len: self.path.len(),
            keeps: false,
            earlier,
        })
    }

    /// Goes back to the parent, opening it again where its descriptor was given up.
    fn leave(&mut self, child: &Frame, parent: Option<&mut Frame>) -> Result<(), CaptureError> {
        let Some(parent) = parent else { return Ok(()) };
        self.builder.leave().map_err(self.impossible())?;
        if parent.fd.is_none() {
            let below = child.fd.as_ref().ok_or(CaptureError::Changed {
                path: self.path.clone(),
            })?;
            let fd = directory::open(below.as_fd(), c"..").map_err(self.call("go back from"))?;
            let stat = entry::stat(fd.as_fd(), c"").map_err(self.call("stat"))?;
            if (entry::device(&stat), stat.stx_ino) != parent.identity {
                return Err(CaptureError::Changed {
                    path: self.path.clone(),
                });
            }
            parent.fd = Some(fd);
        }
        Ok(())
    }
}

pub(super) fn link_key(stat: &Statx) -> LinkKey {
    (
        entry::device(stat),
        stat.stx_ino,
        stat.stx_size,
        (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
        (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
    )
}

/// The digests that may be kept, if any.
pub(super) fn reusable<'o>(contents: Contents<'o>) -> Option<&'o crate::tree::Tree> {
    match contents {
        Contents::Read => None,
        Contents::Reuse(tree, super::Trust::ReadOnlyLower) => Some(tree),
    }
}
