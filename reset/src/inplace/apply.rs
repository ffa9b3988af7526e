//! Carrying out a plan, step by step. It decides nothing: what a step says is done or fails.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, chownat, fstat,
    linkat, mkdirat, mknodat, openat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::place::Place;
use super::plan::{Change, Plan};
use super::stash::{Stash, StashError};
use crate::digest::Digest;
use crate::sys;
use crate::tree::Kind;

/// Why a step could not be carried out. What was done so far stays done.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A system call failed.
    #[error("cannot {operation} \"/{}\"", .path.escape_ascii())]
    Call {
        /// What was tried.
        operation: &'static str,
        /// Path relative to the root.
        path: Vec<u8>,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// Contents could not be written back.
    #[error("cannot restore the contents of \"/{}\"", .path.escape_ascii())]
    Contents {
        /// Path relative to the root.
        path: Vec<u8>,
        /// Why.
        #[source]
        source: StashError,
    },
    /// Out of time.
    #[error("the deadline passed at \"/{}\"", .path.escape_ascii())]
    Deadline {
        /// Path relative to the root.
        path: Vec<u8>,
    },
}

/// Why one step failed, without its path.
enum Failed {
    Call(&'static str, Errno),
    Contents(StashError),
}

fn at(operation: &'static str) -> impl Fn(Errno) -> Failed {
    move |error| Failed::Call(operation, error)
}

/// Carries out all steps below `root`, which may be an `O_PATH` descriptor. Nothing of the guest may
/// run.
///
/// # Errors
/// At the first step that fails, or when the deadline passes.
pub fn apply(
    root: BorrowedFd<'_>,
    plan: &Plan,
    stash: &Stash,
    by: Instant,
) -> Result<(), ApplyError> {
    let mut place = Place::new(root);
    let mut tools = Tools {
        // Of the other name of a link, which lies elsewhere.
        other: Place::new(root),
        stash,
        by,
    };
    for step in &plan.steps {
        let path = || step.path.clone();
        if Instant::now() > by {
            return Err(ApplyError::Deadline { path: path() });
        }
        let place = place.of(&step.path).map_err(at("get to"));
        let done = place.and_then(|(dir, name)| tools.carry_out(dir, &name, &step.change));
        done.map_err(|failed| match failed {
            Failed::Call(operation, source) => ApplyError::Call {
                operation,
                path: path(),
                source,
            },
            Failed::Contents(source) => ApplyError::Contents {
                path: path(),
                source,
            },
        })?;
    }
    Ok(())
}

struct Tools<'a> {
    other: Place<'a>,
    stash: &'a Stash,
    by: Instant,
}

impl Tools<'_> {
    fn carry_out(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        change: &Change,
    ) -> Result<(), Failed> {
        let flags = |openable: &bool, flags| sys::set_inode_flags(dir, name, *openable, flags);
        match change {
            Change::Unlock {
                openable,
                flags: left,
            } => flags(openable, *left).map_err(at("unlock")),
            Change::Remove { directory: true } => {
                unlinkat(dir, name, AtFlags::REMOVEDIR).map_err(at("remove the directory"))
            }
            Change::Remove { directory: false } => {
                unlinkat(dir, name, AtFlags::empty()).map_err(at("remove"))
            }
            Change::Make { kind, rdev } => make(dir, name, *kind, *rdev).map_err(at("make")),
            Change::Symlink { target } => {
                let target = c_name(target).map_err(at("make the link"))?;
                symlinkat(&target, dir, name).map_err(at("make the link"))
            }
            Change::Link { to } => {
                let there = self.other.of(to);
                let (there, old) = there.map_err(at("get to the other name of"))?;
                linkat(there, &old, dir, name, AtFlags::empty()).map_err(at("link"))
            }
            Change::Write { content, size } => self.write(dir, name, content, *size),
            Change::Owner { uid, gid } => {
                let (uid, gid) = (Uid::from_raw(*uid), Gid::from_raw(*gid));
                chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(at("give to its owner"))
            }
            Change::Xattrs { exactly } => xattrs(dir, name, exactly),
            Change::Mode { mode } => sys::set_mode(dir, name, *mode).map_err(at("set the mode of")),
            Change::Time {
                seconds,
                nanoseconds,
            } => set_time(dir, name, *seconds, *nanoseconds).map_err(at("set the time of")),
            Change::Flags {
                openable,
                flags: wanted,
            } => flags(openable, *wanted).map_err(at("set the flags of")),
        }
    }

    fn write(
        &self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        content: &Digest,
        size: u64,
    ) -> Result<(), Failed> {
        let how =
            OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = openat(dir, name, how, Mode::empty()).map_err(at("open"))?;
        let kind = FileType::from_raw_mode(fstat(&file).map_err(at("stat"))?.st_mode);
        if kind != FileType::RegularFile {
            return Err(Failed::Call("write to", Errno::INVAL));
        }
        // What is left of the old contents must not show through a hole.
        rustix::fs::ftruncate(&file, 0).map_err(at("empty"))?;
        if size == 0 {
            return Ok(());
        }
        self.stash
            .write_to(content, &File::from(file), self.by)
            .map_err(Failed::Contents)
    }
}

fn set_time(dir: BorrowedFd<'_>, name: &CStr, seconds: i64, nanoseconds: u32) -> Result<(), Errno> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT as _,
        },
        last_modification: Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds.into(),
        },
    };
    utimensat(dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)
}

fn c_name(bytes: &[u8]) -> Result<CString, Errno> {
    CString::new(bytes).map_err(|_| Errno::INVAL)
}

fn make(dir: BorrowedFd<'_>, name: &CStr, kind: Kind, rdev: u64) -> Result<(), Errno> {
    // Its mode and everything else are set later.
    let mode = Mode::RWXU;
    let node = |kind: FileType| {
        let device = rustix::fs::makedev((rdev >> 32) as u32, rdev as u32);
        mknodat(dir, name, kind, mode, device)
    };
    match kind {
        Kind::Directory => mkdirat(dir, name, mode),
        Kind::File => {
            let how = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            openat(dir, name, how | OFlags::NOFOLLOW, mode).map(drop)
        }
        Kind::Fifo => node(FileType::Fifo),
        Kind::Socket => node(FileType::Socket),
        Kind::CharDevice => node(FileType::CharacterDevice),
        Kind::BlockDevice => node(FileType::BlockDevice),
        // A link has a step of its own, and nobody makes a mount.
        Kind::Symlink | Kind::Mount => Err(Errno::INVAL),
    }
}

/// The overlay's own attributes do not show in a tree, and stay.
fn xattrs(dir: BorrowedFd<'_>, name: &CStr, exactly: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Failed> {
    let mut list = Vec::new();
    sys::list_xattrs(dir, name, &mut list).map_err(at("list the attributes of"))?;
    for there in list.split(|b| *b == 0).filter(|n| !n.is_empty()) {
        let wanted = exactly.iter().any(|(name, _)| name == there);
        if wanted || there.starts_with(b"trusted.overlay.") {
            continue;
        }
        let removed = c_name(there).and_then(|there| sys::remove_xattr(dir, name, &there));
        removed.map_err(at("remove an attribute of"))?;
    }
    let mut value = Vec::new();
    for (attribute, wanted) in exactly {
        let attribute = c_name(attribute).map_err(at("set an attribute of"))?;
        let same = sys::get_xattr(dir, name, &attribute, &mut value).is_ok() && value == *wanted;
        if !same {
            sys::set_xattr(dir, name, &attribute, wanted).map_err(at("set an attribute of"))?;
        }
    }
    Ok(())
}
