//! A local file or tree as a tar stream that belongs to root.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

/// A local path that could not be packed.
#[derive(Debug, thiserror::Error)]
#[error("cannot copy {}: {source}", path.display())]
pub(super) struct PackError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Writes `local` under `name`. Symbolic links are kept as they are; sockets and devices are
/// left out, as they mean nothing elsewhere.
pub(super) fn pack(local: &Path, name: &OsStr, to: impl Write) -> Result<(), PackError> {
    let mut tar = Builder::new(to);
    add(&mut tar, local, Path::new(name))?;
    tar.into_inner()
        .and_then(|mut to| to.flush())
        .map_err(|source| PackError {
            path: local.to_owned(),
            source,
        })
}

fn add(tar: &mut Builder<impl Write>, local: &Path, name: &Path) -> Result<(), PackError> {
    let failed = |source| PackError {
        path: local.to_owned(),
        source,
    };
    let metadata = fs::symlink_metadata(local).map_err(failed)?;
    let kind = metadata.file_type();
    if kind.is_dir() {
        let mut header = header(&metadata, EntryType::Directory);
        tar.append_data(&mut header, name, io::empty())
            .map_err(failed)?;
        let mut names = fs::read_dir(local)
            .and_then(|entries| {
                entries
                    .map(|e| e.map(|e| e.file_name()))
                    .collect::<Result<Vec<_>, _>>()
            })
            .map_err(failed)?;
        names.sort();
        for inner in names {
            add(tar, &local.join(&inner), &name.join(&inner))?;
        }
    } else if kind.is_symlink() {
        let target = fs::read_link(local).map_err(failed)?;
        let mut header = header(&metadata, EntryType::Symlink);
        tar.append_link(&mut header, name, target).map_err(failed)?;
    } else if kind.is_file() {
        let file = File::open(local).map_err(failed)?;
        // The size is promised first: a file that shrinks or grows meanwhile must not shift what follows.
        let size = file.metadata().map_err(failed)?.len();
        let mut header = header(&metadata, EntryType::Regular);
        header.set_size(size);
        tar.append_data(&mut header, name, Exactly { file, left: size })
            .map_err(failed)?;
    }
    Ok(())
}

fn header(metadata: &Metadata, kind: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_metadata(metadata);
    header.set_entry_type(kind);
    header.set_size(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(into.len());
        let n = self.file.read(&mut into[..most])?;
        if n == 0 && most > 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it became shorter while it was copied",
            ));
        }
        self.left -= n as u64;
        Ok(n)
    }
}
