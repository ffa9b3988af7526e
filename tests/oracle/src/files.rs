//! Every file below a directory, with all that can be asked about it.
//!
//! A directory is entered by descriptor, so names may be of any depth. What fails is a value of
//! the field that could not be had, so that a tree that cannot be walked differs from one that can.

mod attributes;
mod contents;

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Statx, StatxFlags, openat, statx};
use sha2::{Digest, Sha256};

use crate::ids::Ids;
use crate::text::{error, escaped};
use crate::{Depth, Record};

/// What is walked, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk<'a> {
    /// How much is read.
    pub(crate) depth: Depth,
    /// First word of the subjects.
    pub(crate) kind: &'a str,
    /// Directories that are recorded but not entered.
    pub(crate) views: &'a [&'a str],
    /// How ids of the files show.
    pub(crate) ids: Ids,
}

/// Records everything below an open directory, itself included, which is called `/`.
pub(crate) fn observe(record: &mut Record, root: BorrowedFd<'_>, walk: &Walk<'_>) {
    let mut visit = Visit {
        record,
        walk,
        links: BTreeMap::new(),
    };
    visit.entry(root, c".", b"/");
    visit.directory(root, b"");
}

struct Visit<'a> {
    record: &'a mut Record,
    walk: &'a Walk<'a>,
    /// The first name of each file with several.
    links: BTreeMap<(u32, u32, u64), String>,
}

impl Visit<'_> {
    /// Records all entries of a directory whose path is given, and what is below them.
    fn directory(&mut self, directory: BorrowedFd<'_>, path: &[u8]) {
        let mut names = match names(directory) {
            Ok(names) => names,
            Err(errno) => {
                let subject = self.subject(if path.is_empty() { b"/" } else { path });
                self.record.put(&subject, "entries", error(errno));
                return;
            }
        };
        let mut order = Sha256::new();
        for name in &names {
            order.update(name.to_bytes_with_nul());
        }
        let subject = self.subject(if path.is_empty() { b"/" } else { path });
        self.record
            .put(&subject, "order of entries", hex(&order.finalize()));
        names.sort();
        for name in names {
            let whole = [path, b"/", name.to_bytes()].concat();
            let Some(FileType::Directory) = self.entry(directory, &name, &whole) else {
                continue;
            };
            if self.walk.views.iter().any(|view| view.as_bytes() == whole) {
                continue;
            }
            match open_directory(directory, &name) {
                Ok(below) => self.directory(below.as_fd(), &whole),
                Err(errno) => {
                    let subject = self.subject(&whole);
                    self.record.put(&subject, "entries", error(errno));
                }
            }
        }
    }

    /// Records one entry; its type, if that is known.
    fn entry(&mut self, directory: BorrowedFd<'_>, name: &CStr, path: &[u8]) -> Option<FileType> {
        let subject = self.subject(path);
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let stat = match statx(directory, name, flags, wanted) {
            Ok(stat) => stat,
            Err(errno) => {
                self.record.put(&subject, "type", error(errno));
                return None;
            }
        };
        let kind = FileType::from_raw_mode(stat.stx_mode.into());
        attributes::of_stat(self.record, &subject, &stat, self.walk.ids);
        attributes::extended(self.record, &subject, (directory, name), self.walk.ids);
        self.link(&subject, kind, &stat);
        contents::observe(
            self.record,
            &subject,
            self.walk.depth,
            (directory, name),
            (kind, &stat),
        );
        Some(kind)
    }

    /// Which names are of one file.
    fn link(&mut self, subject: &str, kind: FileType, stat: &Statx) {
        if kind == FileType::Directory || stat.stx_nlink < 2 {
            return;
        }
        let key = (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino);
        let first = self.links.entry(key).or_insert_with(|| subject.to_owned());
        self.record.put(subject, "same file as", first.clone());
    }

    fn subject(&self, path: &[u8]) -> String {
        format!("{} {}", self.walk.kind, escaped(path))
    }
}

fn names(directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<std::ffi::CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_owned();
        if name.as_c_str() != c"." && name.as_c_str() != c".." {
            names.push(name);
        }
    }
    Ok(names)
}

fn open_directory(at: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags =
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    openat(at, name, flags | OFlags::NOATIME, Mode::empty())
        .or_else(|_| openat(at, name, flags, Mode::empty()))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
