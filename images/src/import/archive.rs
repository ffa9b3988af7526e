//! Random access to the files in a tar, whose order nobody promises.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::feed::Compression;
use crate::limits::MAX_LAYER_BYTES;
use crate::paths;
use crate::store::{Staging, Store};

/// Files in one archive; real ones have some hundreds.
const MAX_FILES: usize = 100_000;
/// Links followed from one name in an archive to another.
const MAX_LINKS: usize = 8;

/// An indexed archive.
pub(super) struct Archive {
    path: PathBuf,
    file: Arc<File>,
    files: HashMap<String, Member>,
}

enum Member {
    Content {
        offset: u64,
        size: u64,
    },
    /// Older `docker save` writes a layer that occurs twice as a link.
    Link(String),
}

/// Opens an archive. One that is compressed as a whole is unpacked into the store's `tmp/` first;
/// the caller discards that after use.
pub(super) fn open(store: &Store, path: &Path) -> Result<(Archive, Option<Staging>), Error> {
    let file = File::open(path).map_err(Error::io("opened", path))?;
    let mut start = [0; 8];
    let length = file
        .read_at(&mut start, 0)
        .map_err(Error::io("read", path))?;
    let compression = Compression::of(&start[..length]);
    if compression == Compression::None {
        return Ok((Archive::index(path, file)?, None));
    }
    let staging = Staging::create(&store.tmp())?;
    let opened =
        decompress(path, &file, compression, &staging).and_then(|file| Archive::index(path, file));
    match opened {
        Ok(archive) => Ok((archive, Some(staging))),
        Err(error) => {
            staging.discard()?;
            Err(error)
        }
    }
}

fn decompress(
    path: &Path,
    file: &File,
    compression: Compression,
    staging: &Staging,
) -> Result<File, Error> {
    let unpacked = staging.path().join("archive.tar");
    let damaged = |what: String| Error::Damaged {
        source_name: path.display().to_string(),
        what,
    };
    let decoder = compression
        .decoder(file)
        .map_err(|error| Error::NotAnImage {
            path: path.to_owned(),
            why: error.to_string(),
        })?;
    let mut decoder = decoder.take(MAX_LAYER_BYTES);
    let mut target = File::create_new(&unpacked).map_err(Error::io("made", &unpacked))?;
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match decoder.read(&mut buffer) {
            Ok(0) => break,
            Ok(got) => io::Write::write_all(&mut target, &buffer[..got])
                .map_err(Error::io("written", &unpacked))?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(damaged(compression.explain(error).to_string())),
        }
    }
    File::open(&unpacked).map_err(Error::io("opened", &unpacked))
}

impl Archive {
    fn index(path: &Path, file: File) -> Result<Archive, Error> {
        let damaged = |what: String| Error::Damaged {
            source_name: path.display().to_string(),
            what,
        };
        let total = file.metadata().map_err(Error::io("read", path))?.len();
        let mut files = HashMap::new();
        let mut reader = tar::Archive::new(&file);
        let broken = |error: io::Error| {
            if files_look_like_tar(&file) {
                damaged(format!("it is no complete tar ({error})"))
            } else {
                Error::NotAnImage {
                    path: path.to_owned(),
                    why: "it is no tar file".to_owned(),
                }
            }
        };
        for entry in reader.entries_with_seek().map_err(&broken)? {
            let entry = entry.map_err(&broken)?;
            let name = plain_name(&entry.path_bytes());
            let (offset, size) = (entry.raw_file_position(), entry.size());
            let member = match entry.header().entry_type() {
                tar::EntryType::Regular | tar::EntryType::Continuous => {
                    if offset.checked_add(size).is_none_or(|end| end > total) {
                        return Err(damaged(format!("it ends in the middle of `{name}`")));
                    }
                    Member::Content { offset, size }
                }
                tar::EntryType::Symlink => {
                    let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
                    Member::Link(joined(folder, &target))
                }
                tar::EntryType::Link => {
                    Member::Link(plain_name(&entry.link_name_bytes().unwrap_or_default()))
                }
                _ => continue,
            };
            files.insert(name, member);
            if files.len() > MAX_FILES {
                return Err(damaged(format!("it holds more than {MAX_FILES} files")));
            }
        }
        Ok(Archive {
            path: path.to_owned(),
            file: Arc::new(file),
            files,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.open(name).is_some()
    }

    pub(super) fn open(&self, name: &str) -> Option<Range> {
        let mut name = plain_name(name.as_bytes());
        for _ in 0..MAX_LINKS {
            match self.files.get(&name)? {
                Member::Link(target) => name = target.clone(),
                Member::Content { offset, size } => {
                    return Some(Range {
                        file: Arc::clone(&self.file),
                        offset: *offset,
                        left: *size,
                    });
                }
            }
        }
        None
    }
}

fn files_look_like_tar(file: &File) -> bool {
    let mut magic = [0; 5];
    file.read_exact_at(&mut magic, 257).is_ok() && &magic == b"ustar"
}

fn plain_name(name: &[u8]) -> String {
    joined("", name)
}

/// A name relative to a folder, as a plain name; such names never leave the archive.
fn joined(folder: &str, name: &[u8]) -> String {
    let mut parts: Vec<String> = folder
        .split('/')
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    for part in name.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." => drop(parts.pop()),
            part => parts.push(paths::shown(part)),
        }
    }
    parts.join("/")
}

/// A stretch of the archive.
pub(super) struct Range {
    file: Arc<File>,
    offset: u64,
    left: u64,
}

impl Range {
    pub(super) fn size(&self) -> u64 {
        self.left
    }
}

impl Read for Range {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = (buffer.len() as u64).min(self.left) as usize;
        let got = self.file.read_at(&mut buffer[..most], self.offset)?;
        self.offset += got as u64;
        self.left -= got as u64;
        Ok(got)
    }
}
