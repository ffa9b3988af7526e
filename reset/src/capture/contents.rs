//! The digest of one regular file's contents.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use rustix::fs::{Mode, OFlags, Statx, openat};
use rustix::io::Errno;

use super::{CaptureError, entry};
use crate::digest::Digest;

/// Large enough for BLAKE3 to use its widest instructions, small enough for the second-level cache.
const CHUNK: usize = 256 << 10;

pub(super) enum ContentsError {
    Call(&'static str, Errno),
    Changed,
    Deadline,
}

impl ContentsError {
    /// The error of a capture, at this path.
    pub(super) fn at(self, path: Vec<u8>) -> CaptureError {
        match self {
            ContentsError::Call(operation, source) => CaptureError::Call {
                operation,
                path,
                source,
            },
            ContentsError::Changed => CaptureError::Changed { path },
            ContentsError::Deadline => CaptureError::Deadline { path },
        }
    }
}

/// Reads the file that `stat` was taken of. It must be that one, before and after.
pub(super) fn digest(
    dir: BorrowedFd<'_>,
    name: &CStr,
    stat: &Statx,
    deadline: Option<Instant>,
    buffer: &mut Vec<u8>,
) -> Result<Digest, ContentsError> {
    // Should the name have become a pipe meanwhile, opening it must not block.
    let how =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match openat(dir, name, how | OFlags::NOATIME, Mode::empty()) {
        // Only an owner or CAP_FOWNER may leave the access time alone.
        Err(Errno::PERM) => openat(dir, name, how, Mode::empty()),
        opened => opened,
    };
    let file = file.map_err(|e| ContentsError::Call("open", e))?;
    let same = || match entry::stat(file.as_fd(), c"") {
        Ok(now) if identity(&now) == identity(stat) => Ok(()),
        Ok(_) => Err(ContentsError::Changed),
        Err(e) => Err(ContentsError::Call("stat", e)),
    };
    same()?;
    buffer.resize(CHUNK, 0);
    let mut hasher = blake3::Hasher::new();
    let mut total = 0;
    loop {
        let len = match rustix::io::read(&file, &mut *buffer) {
            Ok(0) => break,
            Ok(len) => len,
            Err(Errno::INTR) => continue,
            Err(e) => return Err(ContentsError::Call("read", e)),
        };
        hasher.update(&buffer[..len]);
        total += len as u64;
        if total > stat.stx_size {
            return Err(ContentsError::Changed);
        }
        if len == CHUNK && deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Err(ContentsError::Deadline);
        }
    }
    if total != stat.stx_size {
        return Err(ContentsError::Changed);
    }
    same()?;
    Ok(Digest::from_bytes(*hasher.finalize().as_bytes()))
}

fn identity(stat: &Statx) -> (u16, u64, u64, u64, i64, u32, i64, u32) {
    let (ctime, mtime) = (&stat.stx_ctime, &stat.stx_mtime);
    (
        stat.stx_mode,
        entry::device(stat),
        stat.stx_ino,
        stat.stx_size,
        ctime.tv_sec,
        ctime.tv_nsec,
        mtime.tv_sec,
        mtime.tv_nsec,
    )
}
