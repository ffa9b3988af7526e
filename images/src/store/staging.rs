//! Unfinished work. Each piece is a folder under `tmp/` that its maker holds a lock on; a folder
//! without a lock is litter.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::missing_ok;
use crate::error::Error;

/// A locked folder under `tmp/`. Its holder ends it with [`Staging::discard`] or a publish that
/// succeeds; one that is merely dropped is swept later.
#[derive(Debug)]
pub(crate) struct Staging {
    path: PathBuf,
    _lock: File,
}

static COUNT: AtomicU64 = AtomicU64::new(0);

impl Staging {
    pub(crate) fn create(tmp: &Path) -> Result<Staging, Error> {
        loop {
            let path = fresh_name(tmp);
            DirBuilder::new()
                .mode(0o700)
                .create(&path)
                .map_err(Error::io("made", &path))?;
            // A sweep in another process may see the folder before the lock is on it; then it is
            // gone, and the next one will do.
            let Some(lock) = missing_ok(File::open(&path)).map_err(Error::io("opened", &path))?
            else {
                continue;
            };
            if !try_lock(&lock, &path)? {
                continue;
            }
            let of_lock = lock.metadata().map_err(Error::io("read", &path))?;
            let of_path =
                missing_ok(fs::symlink_metadata(&path)).map_err(Error::io("read", &path))?;
            if of_path.is_some_and(|stat| stat.ino() == of_lock.ino()) {
                return Ok(Staging { path, _lock: lock });
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the whole folder to its place; false if something is there.
    pub(crate) fn publish(&self, to: &Path) -> Result<bool, Error> {
        match fs::rename(&self.path, to) {
            Ok(()) => Ok(true),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => Ok(false),
                _ => Err(Error::io("put in its place", to)(error)),
            },
        }
    }

    pub(crate) fn discard(self) -> Result<(), Error> {
        remove(&self.path)
    }
}

fn fresh_name(tmp: &Path) -> PathBuf {
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.map_or(0, |time| time.as_nanos());
    tmp.join(format!("{}-{count}-{nanos:x}", std::process::id()))
}

fn try_lock(file: &File, path: &Path) -> Result<bool, Error> {
    match rustix::io::retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(Error::errno("locked", path)(errno)),
    }
}

fn remove(path: &Path) -> Result<(), Error> {
    missing_ok(fs::remove_dir_all(path)).map_err(Error::io("removed", path))?;
    Ok(())
}

/// Takes a folder out of its place at once, then removes it at leisure.
pub(super) fn retire(tmp: &Path, folder: &Path) -> Result<(), Error> {
    let staging = Staging::create(tmp)?;
    let moved = missing_ok(fs::rename(folder, staging.path().join("gone")));
    let moved = moved.map_err(Error::io("moved away", folder));
    staging.discard()?;
    moved.map(drop)
}

/// Removes what processes that are gone have left.
pub(super) fn sweep(tmp: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(tmp).map_err(Error::io("read", tmp))? {
        let path = entry.map_err(Error::io("read", tmp))?.path();
        let lock = match File::open(&path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io("opened", &path)(error)),
        };
        if !try_lock(&lock, &path)? {
            continue;
        }
        if lock.metadata().map_err(Error::io("read", &path))?.is_dir() {
            remove(&path)?;
        } else {
            missing_ok(fs::remove_file(&path)).map_err(Error::io("removed", &path))?;
        }
    }
    Ok(())
}
