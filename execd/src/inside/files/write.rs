//! Writing a regular file.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};

use super::entry::Kind;
use super::frames::Frames;
use super::resolve::{self, Way};
use super::{FileAnswer, FileError};

/// What the file shall be.
#[derive(Debug)]
pub(super) struct Wish {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub make_parents: bool,
}

/// Stores the frames of a pipe. On any failure the path is as it was before. The data is
/// not flushed to a disk: a sandbox does not survive its machine.
pub(super) fn run(path: &[u8], wish: &Wish, pipe: OwnedFd) -> Result<FileAnswer, FileError> {
    let way = Way {
        follow_last: true,
        make_parents: wish.make_parents,
    };
    let (dir, name) = resolve::settled(path, way)?;
    store(path, dir.as_fd(), &name, wish, pipe)
}

fn store(
    path: &[u8],
    dir: BorrowedFd<'_>,
    name: &[u8],
    wish: &Wish,
    pipe: OwnedFd,
) -> Result<FileAnswer, FileError> {
    check_replaceable(path, dir, name)?;
    let mut random = [0u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(FileError::io("name a new file for", path))?;
    let beside = format!(".innkeeper-{}", hex::encode(random));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(dir, &beside, flags, Mode::from_raw_mode(0o600))
        .map_err(FileError::io("create", path))?;
    let stored = fill(path, &file, wish, pipe).and_then(|answer| {
        rustix::fs::renameat(dir, &beside, dir, name).map_err(FileError::io("replace", path))?;
        Ok(answer)
    });
    if stored.is_err() {
        // The first error is the one to tell; a file left behind would show in a listing.
        let _ = rustix::fs::unlinkat(dir, &beside, AtFlags::empty());
    }
    stored
}

fn fill(path: &[u8], file: &OwnedFd, wish: &Wish, pipe: OwnedFd) -> Result<FileAnswer, FileError> {
    let mut frames = Frames::new(pipe);
    let mut hasher = blake3::Hasher::new();
    let mut size = 0;
    let mut buffer = vec![0; 128 * 1024];
    let mut out = File::from(file.try_clone().map_err(FileError::io("open", path))?);
    loop {
        let got = match frames.read(&mut buffer) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Err(FileError::Cut),
            Err(error) => return Err(FileError::io("receive data for", path)(error)),
        };
        hasher.update(&buffer[..got]);
        out.write_all(&buffer[..got])
            .map_err(FileError::io("write", path))?;
        size += got as u64;
    }
    own(file, wish.uid, wish.gid).map_err(FileError::io("change the owner of", path))?;
    let mode = if wish.mode == 0 {
        0o644
    } else {
        wish.mode & 0o7777
    };
    // After the owner, since a change of owner takes setuid away.
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode))
        .map_err(FileError::io("change the mode of", path))?;
    Ok(FileAnswer::Written {
        size,
        hash: *hasher.finalize().as_bytes(),
    })
}

fn own(file: &OwnedFd, uid: u32, gid: u32) -> rustix::io::Result<()> {
    if uid == u32::MAX || gid == u32::MAX {
        return Err(rustix::io::Errno::INVAL);
    }
    let (uid, gid) = (
        rustix::fs::Uid::from_raw(uid),
        rustix::fs::Gid::from_raw(gid),
    );
    rustix::fs::fchown(file, Some(uid), Some(gid))
}

fn check_replaceable(path: &[u8], dir: BorrowedFd<'_>, name: &[u8]) -> Result<(), FileError> {
    let found = resolve::lookup(dir, name).map_err(FileError::io("examine", path))?;
    match found.map(|stat| Kind::of(&stat)) {
        None | Some(Kind::File) => Ok(()),
        Some(Kind::Directory) => Err(FileError::refused(path, libc::EISDIR, "is a directory")),
        Some(kind @ (Kind::Symlink | Kind::Fifo | Kind::Socket | Kind::Device)) => {
            let why = format!("is {}; only regular files are replaced", kind.name());
            Err(FileError::refused(path, libc::EINVAL, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    use super::super::frames;
    use super::*;

    fn send(frames: &[&[u8]], end: bool) -> OwnedFd {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let mut write = File::from(write);
        for frame in frames {
            write
                .write_all(&frames::head(frame.len().try_into().unwrap()))
                .unwrap();
            write.write_all(frame).unwrap();
        }
        if end {
            write.write_all(&frames::END).unwrap();
        }
        read
    }

    fn wish() -> Wish {
        Wish {
            mode: 0o4711,
            uid: 0,
            gid: 0,
            make_parents: true,
        }
    }

    #[test]
    fn a_whole_stream_replaces_and_a_cut_one_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = [dir.path().as_os_str().as_bytes(), b"/new/\xfffile"].concat();
        let answer = run(&path, &wish(), send(&[b"hello ", b"world"], true)).unwrap();
        let FileAnswer::Written { size, hash } = answer else {
            panic!("{answer:?}")
        };
        assert_eq!((size, hash), (11, *blake3::hash(b"hello world").as_bytes()));
        let file = dir
            .path()
            .join("new")
            .join(std::ffi::OsStr::from_bytes(b"\xfffile"));
        assert_eq!(std::fs::read(&file).unwrap(), b"hello world");
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & 0o7777, 0o4711);

        let error = run(&path, &wish(), send(&[b"other"], false)).unwrap_err();
        assert!(matches!(error, FileError::Cut));
        assert_eq!(std::fs::read(&file).unwrap(), b"hello world");
        assert_eq!(
            std::fs::read_dir(dir.path().join("new")).unwrap().count(),
            1
        );
    }

    #[test]
    fn what_is_no_regular_file_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = [dir.path().as_os_str().as_bytes(), b"/p"].concat();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path.as_slice(),
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let error = run(&path, &wish(), send(&[b"x"], true)).unwrap_err();
        assert!(error.to_string().contains("named pipe"), "{error}");
        let whole = dir.path().as_os_str().as_bytes();
        assert!(
            run(whole, &wish(), send(&[], true))
                .unwrap_err()
                .is(rustix::io::Errno::ISDIR)
        );
    }
}
