//! The root of one sandbox, put together in its own user and mount namespaces before the pod's root
//! is left behind: an overlay over the template, and one for each slice.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use innkeeper_reset::capture::{CaptureError, Options};
use innkeeper_reset::files::{self, FilesReport, Slice};
use innkeeper_reset::tree::Tree;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::pod::{Root, Upper};
use crate::replica::attributes::{Place, Time, View, carry};
use crate::replica::look::stat;
use crate::replica::{self, ReplicaError};
use crate::spawner::enter::Failure;
use crate::sys::mount::{self, Filesystem, NODEV};

/// What a root is put together from: paths as the pod's own mounts show them. Part 0 is the root's own
/// overlay, then come the slices in order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Base {
    /// The pod's root.
    pub root: PathBuf,
    /// The template directory.
    pub template: PathBuf,
    /// Directories that are slices, relative to the root, in order.
    pub slices: Vec<Vec<u8>>,
    /// What prepare wrote: a directory with one for each part, by its number.
    pub prepared: Option<PathBuf>,
}

/// Slices that are mounted nowhere yet.
#[derive(Debug)]
pub struct Slices(Vec<(Vec<u8>, OwnedFd)>);

/// The path of a part's upper in the directory of the uppers.
fn upper_of(part: usize) -> String {
    format!("{part}/u")
}

/// The number of overlays of a root.
fn count(slices: &[Vec<u8>]) -> usize {
    1 + slices.len()
}

/// Puts a root together. Call it in the sandbox's own user and mount namespaces, as their root, while
/// the pod's root is still `/`: a lower is only taken from a mount of one's own namespace.
///
/// # Errors
/// [`Failure`], with the step.
pub fn assemble(base: &Base, upper: &Upper) -> Result<(Root, Slices), Failure> {
    let (upper, volatile) = match upper {
        Upper::Memory { bytes, inodes } => {
            let made = in_memory(*bytes, *inodes, count(&base.slices));
            (
                made.map_err(Failure::at("making the uppers in memory"))?,
                false,
            )
        }
        Upper::Directory(path) => {
            let opened = open(CWD, path).map_err(Failure::at("opening the uppers on disk"))?;
            (opened, true)
        }
    };
    let mut mounted = Vec::new();
    for part in 0..count(&base.slices) {
        let lowers = lowers(base, part)
            .map_err(|e| Failure::of(format!("opening the layers of part {part}"), e))?;
        let overlay = overlay(&lowers, upper.as_fd(), part, volatile)
            .map_err(|e| Failure::of(format!("mounting the overlay of part {part}"), e))?;
        mounted.push(overlay);
    }
    let overlay = mounted.remove(0);
    let slices = base.slices.iter().cloned().zip(mounted).collect();
    Ok((Root { overlay, upper }, Slices(slices)))
}

impl Slices {
    /// Mounts them at their places, once the root's own overlay has become `/`.
    ///
    /// # Errors
    /// [`Failure`], with the slice.
    pub fn attach(&self) -> Result<(), Failure> {
        for (path, slice) in &self.0 {
            let attach = || -> io::Result<()> {
                let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let path = [b"/".as_slice(), path].concat();
                let target = openat2(CWD, path, how, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
                mount::attach(slice.as_fd(), target.as_fd())
            };
            let shown = path.escape_ascii();
            attach().map_err(|e| Failure::of(format!("mounting the slice /{shown}"), e))?;
        }
        Ok(())
    }
}

fn in_memory(bytes: u64, inodes: u64, parts: usize) -> io::Result<OwnedFd> {
    let fs = Filesystem::open(c"tmpfs")?;
    fs.set(c"size", &bytes.to_string())?;
    // Its root, and for each part its directory, the upper, the work directory and the overlay's own.
    let own = 1 + 4 * parts as u64;
    fs.set(c"nr_inodes", &(inodes + own).to_string())?;
    fs.set(c"mode", "0700")?;
    fs.mount(NODEV)
}

/// The layers of a part, topmost first.
fn lowers(base: &Base, part: usize) -> io::Result<Vec<OwnedFd>> {
    let own = match part.checked_sub(1).and_then(|n| base.slices.get(n)) {
        Some(slice) => base.root.join(as_path(slice)),
        None => base.template.clone(),
    };
    let prepared = base.prepared.as_ref().map(|p| p.join(part.to_string()));
    prepared
        .into_iter()
        .chain([own])
        .map(|path| open(CWD, &path))
        .collect()
}

fn as_path(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}

fn overlay(
    lowers: &[OwnedFd],
    uppers: BorrowedFd<'_>,
    part: usize,
    volatile: bool,
) -> io::Result<OwnedFd> {
    mkdirat(uppers, part.to_string(), Mode::from_raw_mode(0o755))?;
    let directory = open(uppers, Path::new(&part.to_string()))?;
    mkdirat(&directory, "u", Mode::from_raw_mode(0o755))?;
    mkdirat(&directory, "w", Mode::from_raw_mode(0o700))?;
    let upper = open(directory.as_fd(), Path::new("u"))?;
    let work = open(directory.as_fd(), Path::new("w"))?;
    let fs = Filesystem::open(c"overlay")?;
    for lower in lowers {
        fs.set_fd(c"lowerdir+", lower.as_fd())?;
    }
    if let Some(top) = lowers.first() {
        // The merged root shows the attributes of the upper's.
        let (from, to) = (Place::itself(top.as_fd()), Place::itself(upper.as_fd()));
        let seen = stat(top.as_fd(), c"")?;
        carry(from, &seen, to, View::Merged, Time::Kept)?;
    }
    fs.set_fd(c"upperdir", upper.as_fd())?;
    fs.set_fd(c"workdir", work.as_fd())?;
    fs.flag(c"userxattr")?;
    if volatile {
        fs.flag(c"volatile")?;
    }
    let mounted = fs.mount(NODEV)?;
    if mount::is_read_only(mounted.as_fd())? {
        return Err(io::Error::other("it came up read only"));
    }
    Ok(mounted)
}

fn open(at: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat(at, path, how, Mode::empty())?)
}

/// Makes what the uppers of a finished prepare hold into a prepared layer: one directory for each part.
///
/// # Errors
/// When one cannot be moved; then the target is of no use.
pub fn keep(uppers: &Path, slices: &[Vec<u8>], target: &Path) -> Result<(), ReplicaError> {
    fs::create_dir(target).map_err(|e| ReplicaError::at(b"", "making", e))?;
    for part in 0..count(slices) {
        replica::bring(&uppers.join(upper_of(part)), &target.join(part.to_string()))?;
    }
    Ok(())
}

/// Compares what lies in the uppers of a root with its baseline.
///
/// # Errors
/// When one cannot be read.
pub fn written(
    uppers: BorrowedFd<'_>,
    slices: &[Vec<u8>],
    baseline: &Tree,
    options: &Options<'_>,
    limit: usize,
) -> Result<FilesReport, CaptureError> {
    let opened = (0..count(slices))
        .map(|part| open(uppers, Path::new(&upper_of(part))))
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| CaptureError::Call {
            operation: "open an upper of",
            path: Vec::new(),
            source: Errno::from_io_error(&error).unwrap_or(Errno::IO),
        })?;
    let paths = std::iter::once(&[][..]).chain(slices.iter().map(Vec::as_slice));
    let parts: Vec<Slice<'_>> = paths
        .zip(&opened)
        .map(|(path, upper)| Slice {
            path,
            upper: upper.as_fd(),
        })
        .collect();
    files::uppers(&parts, baseline, options, limit)
}

#[cfg(test)]
mod tests;
