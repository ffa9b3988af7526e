//! The folder of records: one file each, the newest so many.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::state::{Error, failed};

/// How many records are kept; the oldest go first. Some 30 MB.
pub const KEPT: usize = 10_000;

/// The folder.
#[derive(Debug)]
pub(super) struct Folder {
    dir: PathBuf,
    /// Lease ids, oldest first.
    order: VecDeque<String>,
    known: HashSet<String>,
    most: usize,
}

impl Folder {
    /// Opens the folder (0700), making it where it is missing.
    pub(super) fn open(dir: &Path, most: usize) -> Result<Self, Error> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(failed("creating", dir))?;
        let mut found = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(failed("reading", dir))? {
            let entry = entry.map_err(failed("reading", dir))?;
            let name = entry.file_name();
            let Some(lease) = name.to_str().and_then(|name| name.strip_suffix(".json")) else {
                continue;
            };
            let made = entry.metadata().and_then(|meta| meta.modified());
            found.push((made.map_err(failed("reading", dir))?, lease.to_owned()));
        }
        found.sort();
        let order: VecDeque<_> = found.into_iter().map(|(_, lease)| lease).collect();
        let known = order.iter().cloned().collect();
        let mut folder = Self {
            dir: dir.to_owned(),
            order,
            known,
            most,
        };
        folder.shorten()?;
        Ok(folder)
    }

    /// Whether a lease has a record.
    pub(super) fn has(&self, lease: &str) -> bool {
        self.known.contains(lease)
    }

    /// Keeps a record: a reader sees all of it or none. Not flushed to the disk: a killed process
    /// loses nothing, and a torn file of a machine that lost its power fails its check.
    pub(super) fn write(&mut self, lease: &str, text: &str) -> Result<(), Error> {
        let path = self.path(lease);
        let new = path.with_extension("new");
        std::fs::write(&new, text).map_err(failed("writing", &new))?;
        std::fs::rename(&new, &path).map_err(failed("renaming", &new))?;
        if self.known.insert(lease.to_owned()) {
            self.order.push_back(lease.to_owned());
        }
        self.shorten()
    }

    /// Reads a record.
    pub(super) fn read(&self, lease: &str) -> Result<Option<String>, Error> {
        if !self.has(lease) {
            return Ok(None);
        }
        let path = self.path(lease);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            // Somebody tidied up.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("reading", &path)(error)),
        }
    }

    fn path(&self, lease: &str) -> PathBuf {
        self.dir.join(format!("{lease}.json"))
    }

    fn shorten(&mut self) -> Result<(), Error> {
        while self.order.len() > self.most {
            let Some(oldest) = self.order.pop_front() else {
                return Ok(());
            };
            self.known.remove(&oldest);
            let path = self.path(&oldest);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("removing", &path)(error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept_over_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("records");
        let mut folder = Folder::open(&dir, 3).unwrap();
        for (age, lease) in ["l-1", "l-2", "l-3", "l-4"].into_iter().enumerate() {
            folder.write(lease, lease).unwrap();
            let made = std::time::UNIX_EPOCH + std::time::Duration::from_secs(age as u64);
            let file = std::fs::File::options()
                .append(true)
                .open(folder.path(lease))
                .unwrap();
            file.set_modified(made).unwrap();
        }
        assert_eq!(folder.read("l-1").unwrap(), None);
        assert_eq!(folder.read("l-4").unwrap().as_deref(), Some("l-4"));
        let folder = Folder::open(&dir, 2).unwrap();
        let kept = ["l-1", "l-2", "l-3", "l-4"].map(|lease| folder.has(lease));
        assert_eq!(kept, [false, false, true, true]);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 2);
        assert_eq!(folder.read("../lock").unwrap(), None);
    }
}
