//! What the manager keeps in the state directory: the lock, the journal, the known templates.
//!
//! Durability, in one place. A step of the pool is appended to the journal with one `write` before
//! any of its actions is begun, so a manager that is killed loses nothing: the kernel has the
//! bytes. They are not flushed to the disk on the lease's path, since a machine that loses power
//! loses its sandboxes too, and a lease of a sandbox that is gone is worth nothing. What outlives
//! the machine (which templates there are, their baselines) is flushed as it is written.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::paths;

pub mod append;
pub mod journal;
pub mod leaks;
pub mod templates;

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another manager has it.
    #[error(
        "a manager (pid {pid}) already runs on {dir}: use it, stop it, or choose another \
         directory with --state-dir"
    )]
    Locked {
        /// The state directory.
        dir: PathBuf,
        /// The other manager; empty text where it is just starting.
        pid: String,
    },
    /// A file operation failed.
    #[error("{what} {path} failed: {source}{}", advice(.source))]
    Io {
        /// The operation, for example "writing".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A journal's line in the middle is not what was written.
    #[error(
        "the journal {path} is damaged at line {line}: move it away and start again; sandboxes \
         that it knew are then destroyed"
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// A file was written by a version with another format.
    #[error(
        "{path} has format {found}, this version reads {expected}: use the version that wrote it"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: u32,
        /// What this version reads.
        expected: u32,
    },
}

/// What to do about the two errors that people can mend.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (free some space there, or choose another directory with --state-dir)"
        }
        io::ErrorKind::PermissionDenied => {
            " (run as root, or choose a directory of your own with --state-dir)"
        }
        _ => "",
    }
}

/// Turns an I/O error into one that names its file.
pub(crate) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { what, path, source }
}

/// A state directory that this process has to itself until the value is dropped.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    /// Held for its lock, which the kernel drops with the process however that ends.
    _lock: File,
}

impl StateDir {
    /// Creates the directory (mode 0700) where it is missing, and locks it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let own = paths::manager_dir(path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&own)
            .map_err(failed("creating", &own))?;
        let path = path.canonicalize().map_err(failed("finding", path))?;
        // One that stood there before may be open to others, and guests' files will lie in it.
        std::fs::set_permissions(&path, Permissions::from_mode(0o700))
            .map_err(failed("closing to others", &path))?;
        let lock_path = paths::manager_dir(&path).join("lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(failed("opening", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Only for the message: an unreadable pid must not hide that it is locked.
                let _ = lock.read_to_string(&mut pid);
                return Err(Error::Locked {
                    dir: path,
                    pid: pid.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(failed("locking", &lock_path)(source));
            }
        }
        lock.set_len(0)
            .and_then(|()| writeln!(lock, "{}", std::process::id()))
            .map_err(failed("writing", &lock_path))?;
        Ok(Self { path, _lock: lock })
    }

    /// The directory, without links in its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The journal of pool records.
    pub fn journal_path(&self) -> PathBuf {
        paths::manager_dir(&self.path).join("journal")
    }

    /// The event log.
    pub fn events_path(&self) -> PathBuf {
        paths::manager_dir(&self.path).join("events.jsonl")
    }

    /// The folder of what was seen of answers in templates' images.
    pub fn leaks_path(&self) -> PathBuf {
        paths::manager_dir(&self.path).join("leaks")
    }

    /// The folder of known templates.
    pub fn templates_path(&self) -> PathBuf {
        paths::manager_dir(&self.path).join("templates")
    }
}

/// Writes a file so that a reader sees the old one or the new one, and flushes it to the disk.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let parent = path
        .parent()
        .expect("a file in the state directory has a parent");
    let new = path.with_extension("new");
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        });
    if let Err(source) = written {
        // A half written file is never read (the name differs); removing it frees the space.
        let _ = std::fs::remove_file(&new);
        return Err(failed("writing", &new)(source));
    }
    std::fs::rename(&new, path).map_err(failed("renaming", &new))?;
    File::open(parent)
        .and_then(|dir| dir.sync_all())
        .map_err(failed("flushing", parent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn one_manager_per_directory() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        std::fs::create_dir(&state).unwrap();
        let held = StateDir::open(&state).unwrap();
        assert_eq!(std::fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
        let refused = StateDir::open(&state).unwrap_err().to_string();
        assert!(
            refused.contains(&format!("pid {}", std::process::id())),
            "{refused}"
        );
        drop(held);
        StateDir::open(&state).unwrap();
    }
}
