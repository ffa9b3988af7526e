//! Reading a regular file.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;

use super::entry::Kind;
use super::{FileAnswer, FileError, resolve};

/// Files of /proc and /sys say size 0 and some have no end: no more than this of them.
const SIZELESS: u64 = 64 * 1024 * 1024;

/// Bytes read at a time.
const PIECE: usize = 256 * 1024;

/// Sends `length` bytes from `offset` on, or as many as there are. The end is where it was
/// when the call began, so a file that grows for ever ends too.
pub(super) fn run(
    path: &[u8],
    offset: u64,
    length: u64,
    pipe: OwnedFd,
) -> Result<FileAnswer, FileError> {
    // Looked at first: opening a named pipe or a device can already have an effect.
    check_regular(path, &resolve::open(path, OFlags::PATH)?)?;
    let file = resolve::open(path, OFlags::RDONLY)?;
    let size = check_regular(path, &file)?;
    let file = File::from(file);
    let end = if size == 0 {
        offset.saturating_add(SIZELESS)
    } else {
        size
    };
    let end = if length == 0 {
        end
    } else {
        end.min(offset.saturating_add(length))
    };
    let mut out = File::from(pipe);
    let mut buffer = vec![0; PIECE];
    let mut at = offset;
    while at < end {
        let wanted = usize::try_from(end - at).map_or(PIECE, |left| left.min(PIECE));
        let got = match file.read_at(&mut buffer[..wanted], at) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            other => other.map_err(FileError::io("read", path))?,
        };
        if got == 0 {
            break;
        }
        out.write_all(&buffer[..got]).map_err(FileError::Receiver)?;
        at += got as u64;
    }
    Ok(FileAnswer::Sent(at.saturating_sub(offset)))
}

/// The size, if it is a regular file.
fn check_regular(path: &[u8], fd: &OwnedFd) -> Result<u64, FileError> {
    let stat = rustix::fs::fstat(fd).map_err(FileError::io("examine", path))?;
    match Kind::of(&stat) {
        Kind::File => Ok(u64::try_from(stat.st_size).unwrap_or(0)),
        Kind::Directory => Err(FileError::refused(
            path,
            libc::EISDIR,
            "is a directory; fetch it as a tar stream",
        )),
        kind @ (Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::Device) => {
            let why = format!("is {}; only regular files can be read", kind.name());
            Err(FileError::refused(path, libc::EINVAL, why))
        }
    }
}
