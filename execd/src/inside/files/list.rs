//! Listing a directory.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::OFlags;

use super::{FileAnswer, FileError, entry, resolve};

/// Sends what is in a directory. A name that goes away meanwhile is left out.
pub(super) fn run(path: &[u8], limit: usize, pipe: OwnedFd) -> Result<FileAnswer, FileError> {
    let dir = resolve::open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut out = BufWriter::new(File::from(pipe));
    let list = FileError::io::<rustix::io::Errno>;
    let names = rustix::fs::Dir::read_from(&dir).map_err(list("list", path))?;
    let mut sent = 0;
    for found in names {
        let found = found.map_err(list("list", path))?;
        let name = found.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if sent == limit as u64 {
            let why = format!("has more than {limit} entries; fetch it as a tar stream instead");
            return Err(FileError::refused(path, libc::EOVERFLOW, why));
        }
        let entry = match entry::of_name(dir.as_fd(), name) {
            Err(error) if error.is(rustix::io::Errno::NOENT) => continue,
            other => other?,
        };
        entry.encode(&mut out).map_err(FileError::Receiver)?;
        sent += 1;
    }
    out.flush().map_err(FileError::Receiver)?;
    Ok(FileAnswer::Listed(sent))
}
