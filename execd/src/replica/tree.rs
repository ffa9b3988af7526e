//! Copying a tree entry by entry.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, SeekFrom as Sparse, Statx};
use rustix::fs::{linkat, makedev, mkdirat, mknodat, openat, readlinkat, symlinkat};

use super::ReplicaError;
use super::attributes::{self, Place, Time, View};
use super::look::{LinkKey, link_key, open, stat};

/// A copy that is being made.
pub struct Copier<'a> {
    /// Paths that are left out.
    pub own: &'a BTreeSet<Vec<u8>>,
    /// The root of the copy.
    pub target: BorrowedFd<'a>,
    /// What is copied.
    pub view: View,
    /// Where the first name of a file with several lies in the target.
    links: HashMap<LinkKey, Vec<u8>>,
    /// Where it is, relative to the root.
    pub path: Vec<u8>,
}

impl<'a> Copier<'a> {
    /// Of nothing yet.
    pub fn new(target: BorrowedFd<'a>, own: &'a BTreeSet<Vec<u8>>, view: View) -> Self {
        Self {
            own,
            target,
            view,
            links: HashMap::new(),
            path: Vec::new(),
        }
    }

    /// For `map_err`, about the path where it is.
    pub fn fail(&self, operation: &'static str) -> impl Fn(io::Error) -> ReplicaError + use<> {
        let path = self.path.clone();
        move |error| ReplicaError::at(&path, operation, error)
    }

    /// An empty stand-in for what is mounted at a name: owner and mode are its, the time is no pod's.
    ///
    /// # Errors
    /// Of any call.
    pub fn empty(
        &mut self,
        here: BorrowedFd<'_>,
        there: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<(), ReplicaError> {
        let seen = match stat(here, name) {
            Ok(seen) => Some(seen),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(self.fail("looking at")(error)),
        };
        let kind = seen.map(|seen| FileType::from_raw_mode(u32::from(seen.stx_mode)));
        let kernels = matches!(self.path.as_slice(), b"proc" | b"sys" | b"dev");
        if kind.is_none_or(|kind| kind == FileType::Directory) {
            make_directory(there, name).map_err(self.fail("making"))?;
        } else {
            create(there, name).map_err(self.fail("making"))?;
        }
        let to = Place { at: there, name };
        match seen {
            Some(seen) if !kernels => attributes::bare(&seen, to),
            Some(_) | None => attributes::fixed_time(to),
        }
        .map_err(self.fail("settling"))
    }

    /// One entry with all below it. True where something is mounted there or below: then the container
    /// runtime has been at work in it, and its time says when.
    ///
    /// # Errors
    /// Of any call.
    pub fn entry(
        &mut self,
        here: BorrowedFd<'_>,
        there: BorrowedFd<'_>,
        name: &CStr,
        seen: &Statx,
    ) -> Result<bool, ReplicaError> {
        let kind = FileType::from_raw_mode(u32::from(seen.stx_mode));
        let several = seen.stx_nlink > 1 && kind != FileType::Directory;
        if several && self.link(there, name, seen)? {
            return Ok(false);
        }
        let mut touched = false;
        match kind {
            FileType::Directory => touched = self.directory(here, there, name, seen)?,
            FileType::RegularFile => {
                copy_contents(here, there, name, seen.stx_size).map_err(self.fail("copying"))?;
            }
            FileType::Symlink => {
                let target = readlinkat(here, name, Vec::new());
                target
                    .and_then(|target| symlinkat(target, there, name))
                    .map_err(|e| self.fail("copying")(e.into()))?;
            }
            FileType::Fifo | FileType::Socket => {
                mknodat(there, name, kind, Mode::from_raw_mode(0o600), 0)
                    .map_err(|e| self.fail("copying")(e.into()))?;
            }
            FileType::CharacterDevice if self.view == View::Upper && is_whiteout(seen) => {
                mknodat(there, name, kind, Mode::empty(), makedev(0, 0))
                    .map_err(|e| self.fail("copying")(e.into()))?;
            }
            // A device that an image brings is never opened by a sandbox, and layers that are
            // unpacked for one have none.
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => {
                return Ok(false);
            }
        }
        let time = if touched { Time::Fixed } else { Time::Kept };
        let (from, to) = (Place { at: here, name }, Place { at: there, name });
        self.settle(from, seen, to, time)?;
        Ok(touched)
    }

    /// Carries the attributes over.
    ///
    /// # Errors
    /// Of any call.
    pub fn settle(
        &self,
        from: Place<'_>,
        seen: &Statx,
        to: Place<'_>,
        time: Time,
    ) -> Result<(), ReplicaError> {
        attributes::carry(from, seen, to, self.view, time)
            .map_err(self.fail("carrying over attributes of"))
    }

    /// Makes a further name of a file that is there already; false for its first.
    fn link(
        &mut self,
        there: BorrowedFd<'_>,
        name: &CStr,
        seen: &Statx,
    ) -> Result<bool, ReplicaError> {
        let Some(first) = self.links.get(&link_key(seen)) else {
            self.links.insert(link_key(seen), self.path.clone());
            return Ok(false);
        };
        linkat(self.target, first.as_slice(), there, name, AtFlags::empty())
            .map_err(|e| self.fail("linking")(e.into()))?;
        Ok(true)
    }

    fn directory(
        &mut self,
        here: BorrowedFd<'_>,
        there: BorrowedFd<'_>,
        name: &CStr,
        seen: &Statx,
    ) -> Result<bool, ReplicaError> {
        make_directory(there, name).map_err(self.fail("making"))?;
        let from = open(here, name).map_err(self.fail("opening"))?;
        let to = open(there, name).map_err(self.fail("opening"))?;
        self.contents(from.as_fd(), to.as_fd(), seen)
    }

    /// All that lies in a directory, of which `seen` was taken. True as for [`Self::entry`].
    ///
    /// # Errors
    /// Of any call.
    pub fn contents(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        seen: &Statx,
    ) -> Result<bool, ReplicaError> {
        let mut names = Vec::new();
        for entry in Dir::read_from(from).map_err(|e| self.fail("listing")(e.into()))? {
            let entry = entry.map_err(|e| self.fail("listing")(e.into()))?;
            names.push(entry.file_name().to_owned());
        }
        names.retain(|name| name.as_c_str() != c"." && name.as_c_str() != c"..");
        // The first name of a file is then the same in every pod.
        names.sort();
        let mut touched = false;
        let length = self.path.len();
        for name in &names {
            if length > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name.to_bytes());
            let found = stat(from, name).map_err(self.fail("looking at"))?;
            touched |= if self.own.contains(&self.path) {
                true
            } else if found.stx_mnt_id != seen.stx_mnt_id {
                self.empty(from, to, name)?;
                true
            } else {
                self.entry(from, to, name, &found)?
            };
            self.path.truncate(length);
        }
        Ok(touched)
    }
}

/// Makes a directory.
///
/// # Errors
/// The kernel's.
pub fn make_directory(at: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    Ok(mkdirat(at, name, Mode::from_raw_mode(0o755))?)
}

fn create(at: BorrowedFd<'_>, name: &CStr) -> io::Result<File> {
    let how = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(openat(at, name, how, Mode::from_raw_mode(0o600))?.into())
}

/// Copies what there is of a file and leaves its holes.
fn copy_contents(
    here: BorrowedFd<'_>,
    there: BorrowedFd<'_>,
    name: &CStr,
    size: u64,
) -> io::Result<()> {
    let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut from = File::from(openat(here, name, how, Mode::empty())?);
    let mut to = create(there, name)?;
    to.set_len(size)?;
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(&from, Sparse::Data(at)) {
            Ok(start) => start,
            // Nothing but a hole is left.
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(&from, Sparse::Hole(start))?.min(size);
        from.seek(SeekFrom::Start(start))?;
        to.seek(SeekFrom::Start(start))?;
        let copied = io::copy(&mut (&from).take(end - start), &mut to)?;
        if copied != end - start {
            return Err(io::Error::other("it shrinks while it is read"));
        }
        at = end;
    }
    Ok(())
}

/// How an upper says that nothing of a name is left.
fn is_whiteout(seen: &Statx) -> bool {
    (seen.stx_rdev_major, seen.stx_rdev_minor) == (0, 0)
}
