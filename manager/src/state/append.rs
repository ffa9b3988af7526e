//! A file that only grows by whole lines.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::{Error, failed};

/// Appends lines; a write that failed (a full disk) leaves no half line, is kept in memory and
/// goes first when the next one is tried.
#[derive(Debug)]
pub struct Append {
    path: PathBuf,
    file: File,
    /// Bytes in the file that are whole lines.
    good: u64,
    /// Lines not written yet.
    pending: Vec<u8>,
}

impl Append {
    /// Opens (or creates) the file and cuts it to `good` bytes, what is behind being torn.
    pub fn open(path: &Path, good: u64) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map_err(failed("opening", path))?;
        let size = file.metadata().map_err(failed("reading", path))?.len();
        if size > good {
            file.set_len(good).map_err(failed("cutting", path))?;
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            good,
            pending: Vec::new(),
        })
    }

    /// Adds bytes that end in a newline. They are in the file when this returns Ok, which a
    /// killed process does not undo; `sync` flushes them to the disk as well.
    pub fn append(&mut self, lines: &[u8], sync: bool) -> Result<(), Error> {
        debug_assert!(lines.last().is_none_or(|last| *last == b'\n'));
        if self.pending.is_empty() {
            if let Err(error) = self.file.write_all(lines) {
                self.pending.extend_from_slice(lines);
                return Err(self.torn(error));
            }
            self.good += lines.len() as u64;
        } else {
            self.pending.extend_from_slice(lines);
            self.flush()?;
        }
        if sync {
            self.file
                .sync_data()
                .map_err(failed("flushing", &self.path))?;
        }
        Ok(())
    }

    /// Writes what earlier appends could not.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.pending.is_empty() {
            return Ok(());
        }
        if let Err(error) = self.file.write_all(&self.pending) {
            return Err(self.torn(error));
        }
        self.good += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Whole bytes in the file.
    pub fn len(&self) -> u64 {
        self.good
    }

    /// Whether nothing was ever written.
    pub fn is_empty(&self) -> bool {
        self.good == 0
    }

    /// Whether lines wait for a write that works.
    pub fn is_behind(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes back what a failed write left of a line.
    fn torn(&mut self, error: std::io::Error) -> Error {
        // Where even this fails (a device, a dead disk) the reader drops the torn line.
        let _ = self.file.set_len(self.good);
        failed("writing", &self.path)(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_keeps_the_lines_for_later() {
        let mut full = Append::open(Path::new("/dev/full"), 0).unwrap();
        let error = full.append(b"one\n", false).unwrap_err().to_string();
        assert!(
            error.contains("/dev/full") && error.contains("free some space"),
            "{error}"
        );
        assert!(full.is_behind());

        let dir = tempfile::tempdir().unwrap();
        let mut works = Append::open(&dir.path().join("log"), 0).unwrap();
        works.pending = std::mem::take(&mut full.pending);
        works.append(b"two\n", false).unwrap();
        assert!(!works.is_behind());
        assert_eq!(
            std::fs::read(dir.path().join("log")).unwrap(),
            b"one\ntwo\n"
        );
    }

    #[test]
    fn a_torn_tail_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, b"whole\nto").unwrap();
        Append::open(&path, 6)
            .unwrap()
            .append(b"next\n", true)
            .unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole\nnext\n");
    }
}
