//! Trees of small text files that the kernel shows: sysctls, control groups, /sys.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::Record;
use crate::text::{error, escaped, shown};

/// Records every file below a folder with what it says, as subjects `KIND PATH`.
pub(crate) fn observe(record: &mut Record, kind: &str, root: &str) {
    below(record, kind, Path::new(root), usize::MAX, true);
}

/// Records the names below a folder down to a depth.
pub(crate) fn names(record: &mut Record, kind: &str, root: &str, depth: usize) {
    below(record, kind, Path::new(root), depth, false);
}

fn below(record: &mut Record, kind: &str, folder: &Path, depth: usize, read: bool) {
    let subject = |path: &Path| format!("{kind} {}", escaped(path.as_os_str().as_bytes()));
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(failed) => {
            let errno = rustix::io::Errno::from_io_error(&failed);
            let why = errno.map_or_else(|| failed.to_string(), error);
            return record.put(&subject(folder), "entries", why);
        }
    };
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind_of) if kind_of.is_dir() => {
                record.put(&subject(&path), "type", "directory");
                if depth > 1 {
                    below(record, kind, &path, depth - 1, read);
                }
            }
            Ok(kind_of) if kind_of.is_file() && read => {
                record.put(&subject(&path), "says", shown(&path));
            }
            Ok(_) | Err(_) => record.put(&subject(&path), "type", "other"),
        }
    }
}
