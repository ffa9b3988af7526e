//! The stash: copies of the contents below the restore roots, by their digest, in one file without a
//! name. A guest can reach it by no path; what is read back is hashed again before it counts.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::place::Place;
use crate::digest::Digest;
use crate::tree::{Kind, Tree};

/// Bytes moved at a time, and the size at which a run of zeros becomes a hole.
const CHUNK: usize = 64 << 10;

/// Copies of contents.
#[derive(Debug)]
pub struct Stash {
    file: File,
    held: HashMap<Digest, Held>,
    end: u64,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    offset: u64,
    size: u64,
    /// The file that it was copied from had holes.
    sparse: bool,
}

/// What a filling did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filled {
    /// Distinct contents copied.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files below the roots that were too much for the budget: a change of one is not undoable.
    pub left_out: u64,
}

/// Why the stash cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StashError {
    /// It cannot be made.
    #[error("the stash cannot be made")]
    Make(#[source] Errno),
    /// A file cannot be copied into it.
    #[error("cannot copy \"/{}\" into the stash", .path.escape_ascii())]
    Copy {
        /// Path relative to the root.
        path: Vec<u8>,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A file is not what the tree says.
    #[error("\"/{}\" changed between its capture and its copy", .path.escape_ascii())]
    Changed {
        /// Path relative to the root.
        path: Vec<u8>,
    },
    /// The deadline passed.
    #[error("the deadline passed before everything was copied")]
    Deadline,
    /// Contents that nobody copied.
    #[error("the stash does not hold {0}")]
    Missing(Digest),
    /// What was read back is something else.
    #[error("the stash holds something else than {0}: what was copied has been changed")]
    Damaged(Digest),
    /// Contents cannot be read back.
    #[error("the stash cannot be read")]
    Read(#[source] io::Error),
    /// Contents cannot be written to their file.
    #[error("contents cannot be written back")]
    Write(#[source] io::Error),
}

impl Stash {
    /// An empty one, in a file without a name on the file system of `directory`.
    ///
    /// # Errors
    /// [`StashError::Make`].
    pub fn new(directory: BorrowedFd<'_>) -> Result<Self, StashError> {
        let how = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(directory, c".", how, Mode::RUSR | Mode::WUSR);
        Ok(Stash {
            file: File::from(file.map_err(StashError::Make)?),
            held: HashMap::new(),
            end: 0,
        })
    }

    /// Whether contents can be had.
    pub fn holds(&self, content: &Digest) -> bool {
        self.held.contains_key(content)
    }

    /// Copies the contents of every regular file of `tree` that is `wanted` by its path and contents, up
    /// to `budget` bytes in all. The tree must be still, and each file must be what `tree` says of it.
    ///
    /// # Errors
    /// When anything cannot be copied or is another than captured.
    pub fn fill(
        &mut self,
        root: BorrowedFd<'_>,
        tree: &Tree,
        wanted: impl Fn(&[u8], &Digest) -> bool,
        budget: u64,
        by: Instant,
    ) -> Result<Filled, StashError> {
        let mut place = Place::new(root);
        let mut filled = Filled::default();
        for (path, entry) in tree.entries() {
            let file = entry.kind == Kind::File && entry.size > 0;
            if !file || self.holds(&entry.content) || !wanted(&path, &entry.content) {
                continue;
            }
            if self.end.saturating_add(entry.size) > budget {
                filled.left_out += 1;
                continue;
            }
            let failed = |source: Errno| StashError::Copy {
                path: path.clone(),
                source: source.into(),
            };
            let (dir, name) = place.of(&path).map_err(failed)?;
            let file = open(dir, &name).map_err(failed)?;
            let stat = fstat(&file).map_err(failed)?;
            let copied = self
                .append(&File::from(file), entry.size, by)
                .map_err(|error| error.at(&path))?;
            if copied != entry.content {
                return Err(StashError::Changed { path });
            }
            let sparse = (stat.st_blocks as u64) * 512 < entry.size;
            self.keep(entry.content, entry.size, sparse);
            filled.files += 1;
            filled.bytes += entry.size;
        }
        Ok(filled)
    }

    /// Takes in the contents of a file that somebody else has copied.
    ///
    /// # Errors
    /// When it cannot be read, or holds something else.
    pub fn take(&mut self, file: &File, content: &Digest, by: Instant) -> Result<(), StashError> {
        let stat = fstat(file).map_err(|e| StashError::Read(e.into()))?;
        let size = stat.st_size as u64;
        let copied = self.append(file, size, by).map_err(|error| match error {
            CopyFailed::Io(source) => StashError::Read(source),
            CopyFailed::Deadline => StashError::Deadline,
        })?;
        if copied != *content {
            return Err(StashError::Damaged(*content));
        }
        if !self.holds(content) {
            self.keep(*content, size, (stat.st_blocks as u64) * 512 < size);
        }
        Ok(())
    }

    fn keep(&mut self, content: Digest, size: u64, sparse: bool) {
        let offset = self.end;
        self.end += size;
        let held = Held {
            offset,
            size,
            sparse,
        };
        self.held.insert(content, held);
    }

    /// Writes at most `size` bytes behind the end, and gives their digest.
    fn append(&self, from: &File, size: u64, by: Instant) -> Result<Digest, CopyFailed> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; CHUNK];
        let mut done = 0;
        loop {
            let len = from.read_at(&mut buffer, done).map_err(CopyFailed::Io)?;
            if len == 0 {
                return Ok(Digest::from_bytes(*hasher.finalize().as_bytes()));
            }
            if done + len as u64 > size {
                // Larger than it was: the digest of what there is now is another anyway.
                return Ok(Digest::ZERO);
            }
            if Instant::now() > by {
                return Err(CopyFailed::Deadline);
            }
            hasher.update(&buffer[..len]);
            self.file
                .write_all_at(&buffer[..len], self.end + done)
                .map_err(CopyFailed::Io)?;
            done += len as u64;
        }
    }

    /// Writes contents to an empty file, and hashes them on the way. Where the original had holes, runs
    /// of zeros become holes.
    ///
    /// # Errors
    /// When they are not held, are damaged, or cannot be written; then the file holds garbage.
    pub fn write_to(&self, content: &Digest, file: &File, by: Instant) -> Result<(), StashError> {
        let held = *self
            .held
            .get(content)
            .ok_or(StashError::Missing(*content))?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; CHUNK];
        let mut done = 0;
        while done < held.size {
            if Instant::now() > by {
                return Err(StashError::Deadline);
            }
            let most = buffer.len().min((held.size - done) as usize);
            let part = &mut buffer[..most];
            self.file
                .read_exact_at(part, held.offset + done)
                .map_err(StashError::Read)?;
            hasher.update(part);
            let hole = held.sparse && part.iter().all(|byte| *byte == 0);
            if !hole {
                file.write_all_at(part, done).map_err(StashError::Write)?;
            }
            done += most as u64;
        }
        if Digest::from_bytes(*hasher.finalize().as_bytes()) != *content {
            return Err(StashError::Damaged(*content));
        }
        file.set_len(held.size).map_err(StashError::Write)
    }
}

enum CopyFailed {
    Io(io::Error),
    Deadline,
}

impl CopyFailed {
    fn at(self, path: &[u8]) -> StashError {
        match self {
            CopyFailed::Io(source) => StashError::Copy {
                path: path.to_vec(),
                source,
            },
            CopyFailed::Deadline => StashError::Deadline,
        }
    }
}

/// Opens a regular file for reading, and nothing else.
fn open(dir: BorrowedFd<'_>, name: &std::ffi::CStr) -> Result<OwnedFd, Errno> {
    let how =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match openat(dir, name, how | OFlags::NOATIME, Mode::empty()) {
        // Only an owner or CAP_FOWNER may leave the access time alone.
        Err(Errno::PERM) => openat(dir, name, how, Mode::empty())?,
        opened => opened?,
    };
    let kind = FileType::from_raw_mode(fstat(&file)?.st_mode);
    if kind == FileType::RegularFile {
        Ok(file)
    } else {
        Err(Errno::INVAL)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Duration;

    use super::*;
    use crate::capture::{Options, capture};
    use crate::ids::IdMap;

    fn stashed(budget: u64) -> (Stash, Filled, Digest) {
        let dir = tempfile::tempdir().expect("tempdir");
        std::fs::write(dir.path().join("file"), "contents").expect("write");
        let root = File::open(dir.path()).expect("open");
        let tree = capture(root.as_fd(), &Options::new(IdMap::IDENTITY));
        let tree = tree.expect("capture").tree;
        let mut stash = Stash::new(root.as_fd()).expect("stash");
        let by = Instant::now() + Duration::from_secs(60);
        let filled = stash.fill(root.as_fd(), &tree, |_, _| true, budget, by);
        let content = tree.get(b"file").expect("there").content;
        (stash, filled.expect("filled"), content)
    }

    #[test]
    fn what_somebody_wrote_to_the_stash_is_not_written_back_unnoticed() {
        let (stash, _, content) = stashed(u64::MAX);
        let by = Instant::now() + Duration::from_secs(60);
        let target = tempfile::tempfile().expect("tempfile");
        stash.write_to(&content, &target, by).expect("undamaged");
        stash.file.write_all_at(b"C", 0).expect("write");
        let damaged = stash.write_to(&content, &target, by);
        assert!(
            matches!(damaged, Err(StashError::Damaged(_))),
            "{damaged:?}"
        );
        let missing = stash.write_to(&Digest::ZERO, &target, by);
        assert!(
            matches!(missing, Err(StashError::Missing(_))),
            "{missing:?}"
        );
    }

    #[test]
    fn what_is_beyond_the_budget_is_left_out_and_counted() {
        let (stash, filled, content) = stashed(7);
        assert_eq!((filled.files, filled.left_out), (0, 1));
        assert!(!stash.holds(&content));
        let (stash, filled, content) = stashed(8);
        assert_eq!((filled.files, filled.bytes, filled.left_out), (1, 8, 0));
        assert!(stash.holds(&content));
    }
}
