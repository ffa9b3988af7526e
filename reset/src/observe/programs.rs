//! Digests of programs, read once.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Errno;

use super::proc_dir::{ObserveError, call};
use crate::digest::Digest;

/// More programs than this are forgotten all at once: a bound, not a policy.
const KEPT: usize = 1024;

/// A change time younger than this may stand for more than one content: twice the longest tick of a
/// Linux clock (100 Hz).
const TICK: Duration = Duration::from_millis(20);

/// Device, inode, size, modification and change time.
type Key = (u64, u64, i64, (i64, i64), (i64, i64));

/// Digests of programs that were read before, by device, inode, size and times. A program that runs
/// cannot be written, and one of another generation lies on another mount, so none is mistaken.
#[derive(Debug, Default)]
pub struct Programs(Mutex<HashMap<Key, Digest>>);

impl Programs {
    /// The digest of an open program.
    pub(super) fn digest(&self, file: BorrowedFd<'_>) -> Result<Digest, ObserveError> {
        let stat = fstat(file).map_err(|e| call("stat", "exe", e))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ObserveError::Form { path: "exe".into() });
        }
        let key = key(&stat);
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = known().get(&key) {
            return Ok(*digest);
        }
        let digest = read(file)?;
        if is_old(&stat) {
            let mut known = known();
            if known.len() >= KEPT {
                known.clear();
            }
            known.insert(key, digest);
        }
        Ok(digest)
    }
}

fn key(stat: &Stat) -> Key {
    let times = (
        (stat.st_mtime, stat.st_mtime_nsec as i64),
        (stat.st_ctime, stat.st_ctime_nsec as i64),
    );
    (stat.st_dev, stat.st_ino, stat.st_size, times.0, times.1)
}

fn is_old(stat: &Stat) -> bool {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let limit = now.saturating_sub(TICK);
    (stat.st_ctime, stat.st_ctime_nsec as i64)
        < (
            limit.as_secs().cast_signed(),
            i64::from(limit.subsec_nanos()),
        )
}

fn read(file: BorrowedFd<'_>) -> Result<Digest, ObserveError> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match rustix::io::read(file.as_fd(), &mut *buffer) {
            Ok(0) => return Ok(Digest::from_bytes(*hasher.finalize().as_bytes())),
            Ok(len) => _ = hasher.update(&buffer[..len]),
            Err(Errno::INTR) => {}
            Err(error) => return Err(call("read", "exe", error)),
        }
    }
}
