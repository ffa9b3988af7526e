//! One thread's comparing: entries against their places in the earlier tree.

use std::collections::HashSet;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::fs::Statx;
use rustix::io::Errno;

use super::Same;
use super::links::Links;
use super::units::Unit;
use crate::capture::directory::{self, Names};
use crate::capture::stamps::Stamps;
use crate::capture::{CaptureError, Options, contents, entry, walker};
use crate::tree::{Entry, Kind, Tree};

/// Deeper directories are left to a capture, which needs no more descriptors for them.
const DEPTH: usize = 200;

/// The clock is looked at once in so many entries.
const CLOCK_EVERY: u64 = 64;

pub(super) struct Worker<'o> {
    pub(super) earlier: &'o Tree,
    pub(super) stamps: Stamps<'o>,
    pub(super) links: Links,
    pub(super) work: Same,
    options: &'o Options<'o>,
    exclude: HashSet<&'o [u8]>,
    mount: Option<u64>,
    names: Names,
    buffers: entry::Buffers,
    looked: u64,
    depth: usize,
}

/// What to do about a directory among the entries; false ends the comparing.
type OnDirectory<'f, 'o> = dyn FnMut(&mut Worker<'o>, u32) -> Result<bool, CaptureError> + 'f;

impl<'o> Worker<'o> {
    /// `mount` is the mount that the tree lies on, where no other may be entered.
    pub(super) fn new(earlier: &'o Tree, options: &'o Options<'o>, mount: Option<u64>) -> Self {
        Worker {
            earlier,
            stamps: Stamps::new(options.contents),
            links: Links::default(),
            work: Same::default(),
            options,
            exclude: options.exclude.iter().map(Vec::as_slice).collect(),
            mount,
            names: Names::default(),
            buffers: entry::Buffers::default(),
            looked: 0,
            depth: 0,
        }
    }

    /// Entries at and below a place.
    pub(super) fn size(&self, index: u32) -> usize {
        (self.earlier.node(index).end_index() - index) as usize
    }

    /// Compares a directory and all below it.
    pub(super) fn compare(&mut self, unit: &Unit) -> Result<bool, CaptureError> {
        self.below(unit.parent.as_fd(), unit.index)
    }

    fn below(&mut self, parent: BorrowedFd<'_>, index: u32) -> Result<bool, CaptureError> {
        if self.depth == DEPTH {
            return Ok(false);
        }
        let Some(fd) = self.enter(parent, index)? else {
            return Ok(false);
        };
        self.depth += 1;
        let equal = self.directory(fd.as_fd(), index, &mut |worker, child| {
            worker.below(fd.as_fd(), child)
        });
        self.depth -= 1;
        equal
    }

    /// Opens a directory that must be one.
    pub(super) fn enter(
        &self,
        parent: BorrowedFd<'_>,
        index: u32,
    ) -> Result<Option<OwnedFd>, CaptureError> {
        let name = self.earlier.name(index);
        let mut buffer = [0; 256];
        let Some(name) = terminated(name, &mut buffer) else {
            return Ok(None);
        };
        match directory::open(parent, name) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(source) => Err(self.failed(index, "open directory", source)),
        }
    }

    /// Compares a directory itself, its names, and every entry that is no directory.
    pub(super) fn directory(
        &mut self,
        fd: BorrowedFd<'_>,
        index: u32,
        on_directory: &mut OnDirectory<'_, 'o>,
    ) -> Result<bool, CaptureError> {
        self.check_clock(index)?;
        let stat = entry::stat(fd, c"").map_err(|e| self.failed(index, "stat", e))?;
        if self.is_another_mount(&stat)? || !self.entry(fd, c"", &stat, index)? {
            return Ok(false);
        }
        let listed = self.names.list(fd, self.options.max_entries);
        let Some(mut range) = listed.map_err(|e| self.failed(index, "list", e))? else {
            return Ok(false);
        };
        let equal = self.children(fd, index, &mut range, on_directory);
        self.names.forget(&range);
        equal
    }

    fn children(
        &mut self,
        fd: BorrowedFd<'_>,
        index: u32,
        range: &mut directory::Range,
        on_directory: &mut OnDirectory<'_, 'o>,
    ) -> Result<bool, CaptureError> {
        let earlier = self.earlier;
        let mut expected = earlier.children(index);
        let mut buffer = [0; 256];
        while let Some(name) = self.names.next(range) {
            let name = self.names.get(name).to_bytes();
            if !self.exclude.is_empty() && self.is_excluded(index, name) {
                continue;
            }
            let Some(child) = expected.next().filter(|child| earlier.name(*child) == name) else {
                return Ok(false);
            };
            let equal = match earlier.kind(child) {
                Kind::Directory => on_directory(self, child)?,
                kind => match terminated(name, &mut buffer) {
                    Some(name) => self.leaf(fd, name, kind, child)?,
                    None => false,
                },
            };
            if !equal {
                return Ok(false);
            }
        }
        Ok(expected.next().is_none())
    }

    fn is_excluded(&self, directory: u32, name: &[u8]) -> bool {
        let mut path = self.earlier.path(directory);
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        self.exclude.contains(path.as_slice())
    }

    fn leaf(
        &mut self,
        fd: BorrowedFd<'_>,
        name: &CStr,
        kind: Kind,
        index: u32,
    ) -> Result<bool, CaptureError> {
        self.looked += 1;
        if self.looked.is_multiple_of(CLOCK_EVERY) {
            self.check_clock(index)?;
        }
        let stat = match entry::stat(fd, name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(false),
            Err(source) => return Err(self.failed(index, "stat", source)),
        };
        match (self.is_another_mount(&stat)?, kind == Kind::Mount) {
            (true, true) => Ok(true),
            (false, false) => self.entry(fd, name, &stat, index),
            (true, false) | (false, true) => Ok(false),
        }
    }

    /// Compares all that the digest covers of one entry, `at` in `dir` or `dir` itself.
    fn entry(
        &mut self,
        dir: BorrowedFd<'_>,
        at: &CStr,
        stat: &Statx,
        index: u32,
    ) -> Result<bool, CaptureError> {
        let basic = entry::basic(stat, self.options);
        let mut now = basic.map_err(|e| self.failed(index, "tell the type of", e))?;
        let then = self.earlier.entry_without_names(index);
        if !is_alike(&now, &then) {
            return Ok(false);
        }
        let linked = stat.stx_nlink > 1 && now.kind != Kind::Directory;
        if self.earlier.node(index).is_hard_link() && !linked {
            return Ok(false);
        }
        if linked
            && !self
                .links
                .add(walker::link_key(stat), self.earlier.inode(index))
        {
            return Ok(false);
        }
        now.stamp = (now.kind != Kind::Directory)
            .then(|| self.stamps.of(stat))
            .flatten();
        if self.stamps.proves(&then, &now) {
            return Ok(true);
        }
        let read = entry::read(dir, at, &mut now, self.options, &mut self.buffers);
        read.map_err(|(operation, source)| self.failed(index, operation, source))?;
        if now.kind == Kind::File {
            now.content = self.contents(dir, at, stat, index)?;
        }
        let then = self.earlier.entry(index);
        Ok(now.flags == then.flags
            && now.xattrs == then.xattrs
            && now.target == then.target
            && now.content == then.content)
    }

    fn contents(
        &mut self,
        dir: BorrowedFd<'_>,
        at: &CStr,
        stat: &Statx,
        index: u32,
    ) -> Result<crate::digest::Digest, CaptureError> {
        let deadline = self.options.deadline;
        self.work.files_read += 1;
        self.work.bytes_read += stat.stx_size;
        contents::digest(dir, at, stat, deadline, &mut self.buffers.contents)
            .map_err(|error| error.at(self.earlier.path(index)))
    }

    fn is_another_mount(&self, stat: &Statx) -> Result<bool, CaptureError> {
        match self.mount {
            None => Ok(false),
            Some(own) => Ok(entry::mount_id(stat).ok_or(CaptureError::NoMountIds)? != own),
        }
    }

    fn check_clock(&self, index: u32) -> Result<(), CaptureError> {
        match self.options.deadline {
            Some(deadline) if Instant::now() > deadline => Err(CaptureError::Deadline {
                path: self.earlier.path(index),
            }),
            Some(_) | None => Ok(()),
        }
    }

    fn failed(&self, index: u32, operation: &'static str, source: Errno) -> CaptureError {
        CaptureError::Call {
            operation,
            path: self.earlier.path(index),
            source,
        }
    }
}

/// Equal in what statx gives.
fn is_alike(now: &Entry, then: &Entry) -> bool {
    let of = |e: &Entry| {
        let time = (e.mtime_s, e.mtime_ns);
        (e.kind, e.mode, e.uid, e.gid, e.size, time, e.rdev)
    };
    of(now) == of(then)
}

/// The name with a zero byte behind it.
fn terminated<'b>(name: &[u8], buffer: &'b mut [u8; 256]) -> Option<&'b CStr> {
    buffer.get_mut(..name.len())?.copy_from_slice(name);
    *buffer.get_mut(name.len())? = 0;
    CStr::from_bytes_until_nul(&buffer[..=name.len()]).ok()
}
