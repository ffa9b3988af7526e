//! A tar stream from a sandbox into a local path. The stream is a guest's: nothing of it may
//! reach beyond the destination, gain rights here or become a device.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use tar::{Archive, Entry, EntryType};

use super::Moved;

/// What keeps a stream from being unpacked.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnpackError {
    /// The stream itself cannot be read on.
    #[error("the copy broke off: {0}")]
    Stream(#[source] io::Error),
    /// A local path cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The local path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An entry that would leave the destination.
    #[error(
        "the sandbox sent the name {0:?}, which leads out of the destination: nothing more was copied"
    )]
    Escape(PathBuf),
    /// A tree where a file stands.
    #[error("{} is a file, and the source is a directory: name a directory or a new path", .0.display())]
    NotADirectory(PathBuf),
}

/// Unpacks into `to`. With `named`, the first component of each name in the stream stands for
/// `to` itself; else names begin below `to`.
pub(super) fn unpack(from: impl Read, to: &Path, named: bool) -> Result<Moved, UnpackError> {
    let mut archive = Archive::new(from);
    let mut moved = Moved::default();
    // Modes of directories come last, since one may forbid writing into it.
    let mut directories = Vec::new();
    for entry in archive.entries().map_err(UnpackError::Stream)? {
        let mut entry = entry.map_err(UnpackError::Stream)?;
        let name = entry.path().map_err(UnpackError::Stream)?.into_owned();
        let path = inside(to, &name, named)?;
        let written = |source| UnpackError::Write {
            path: path.clone(),
            source,
        };
        match entry.header().entry_type() {
            EntryType::Directory => {
                directory(&path, path == to)?;
                directories.push((path.clone(), entry.header().mode().unwrap_or(0o755)));
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                clear(&path).map_err(written)?;
                moved.bytes += file(&mut entry, &path).map_err(written)?;
            }
            EntryType::Symlink => {
                let target = link_target(&entry)?;
                clear(&path).map_err(written)?;
                symlink(target, &path).map_err(written)?;
            }
            EntryType::Link => {
                let source = inside(to, &link_target(&entry)?, named)?;
                clear(&path).map_err(written)?;
                fs::hard_link(source, &path).map_err(written)?;
            }
            // Those of a sandbox mean nothing here.
            EntryType::Fifo | EntryType::Char | EntryType::Block => {
                moved.left_out += 1;
                continue;
            }
            EntryType::XGlobalHeader => {
                moved.left_out += left_out(&mut entry).map_err(UnpackError::Stream)?;
                continue;
            }
            // The rest are headers of their own kinds.
            _ => continue,
        }
        moved.entries += 1;
    }
    for (path, mode) in directories.into_iter().rev() {
        fs::set_permissions(&path, Permissions::from_mode(mode & 0o777))
            .map_err(|source| UnpackError::Write { path, source })?;
    }
    Ok(moved)
}

/// Sockets and devices that the sandbox could not put into the archive, as a global header
/// counts them: one pax record.
fn left_out(entry: &mut impl Read) -> io::Result<u64> {
    let mut text = String::new();
    entry.take(4096).read_to_string(&mut text)?;
    let count = text.trim_end().split_once(LEFT_OUT);
    Ok(count.and_then(|(_, n)| n.parse().ok()).unwrap_or(0))
}

/// The key of that record with the sign after it.
const LEFT_OUT: &str = " INNKEEPER.left-out=";

fn link_target<R: Read>(entry: &Entry<'_, R>) -> Result<PathBuf, UnpackError> {
    let name = entry.link_name().map_err(UnpackError::Stream)?;
    name.map(|name| name.into_owned()).ok_or_else(|| {
        UnpackError::Stream(io::Error::new(
            io::ErrorKind::InvalidData,
            "a link without a target",
        ))
    })
}

/// The local path of an entry. Every directory on the way below `to` must be a real one: a link
/// that an earlier entry made is not followed.
fn inside(to: &Path, name: &Path, named: bool) -> Result<PathBuf, UnpackError> {
    let mut parts: Vec<&OsStr> = Vec::new();
    for component in name.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(UnpackError::Escape(name.to_owned()));
            }
        }
    }
    let below = parts.get(usize::from(named)..).unwrap_or_default();
    let mut path = to.to_owned();
    for part in below {
        match fs::symlink_metadata(&path) {
            Ok(found) if path != to && found.is_symlink() => {
                return Err(UnpackError::Escape(name.to_owned()));
            }
            Ok(_) | Err(_) => path.push(part),
        }
    }
    Ok(path)
}

/// Makes a directory where none stands. Only the destination itself may be a link to one.
fn directory(path: &Path, follow: bool) -> Result<(), UnpackError> {
    let stands = || {
        if follow {
            path.is_dir()
        } else {
            fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
        }
    };
    match fs::create_dir(path) {
        Ok(()) => Ok(()),
        Err(_) if stands() => Ok(()),
        Err(_) if path.is_file() => Err(UnpackError::NotADirectory(path.to_owned())),
        Err(source) => Err(UnpackError::Write {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Makes room: what stands there goes, so that nothing is written through a link.
fn clear(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn file(entry: &mut Entry<'_, impl Read>, path: &Path) -> io::Result<u64> {
    let mode = entry.header().mode().unwrap_or(0o644) & 0o777;
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode | 0o200)
        .open(path)?;
    let bytes = io::copy(entry, &mut file)?;
    if let Ok(seconds) = entry.header().mtime() {
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))?;
    }
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use tar::{Builder, Header};

    use super::super::pack;
    use super::*;

    fn entry(tar: &mut Builder<Vec<u8>>, name: &str, kind: EntryType, link: &str, data: &[u8]) {
        let mut header = Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_size(data.len() as u64);
        header.set_cksum();
        tar.append(&header, data).unwrap();
    }

    #[test]
    fn what_was_packed_comes_out_again() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::write(tree.join("a/b/file"), b"text").unwrap();
        fs::set_permissions(tree.join("a/b/file"), Permissions::from_mode(0o640)).unwrap();
        symlink("b/file", tree.join("a/link")).unwrap();
        let mut packed = Vec::new();
        pack::pack(&tree, OsStr::new("other"), &mut packed).unwrap();
        let moved = unpack(&packed[..], &dir.path().join("copy"), true).unwrap();
        assert_eq!((moved.entries, moved.bytes), (5, 4));
        assert_eq!(fs::read(dir.path().join("copy/a/link")).unwrap(), b"text");
        let mode = fs::metadata(dir.path().join("copy/a/b/file"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0o640);
    }

    #[test]
    fn hostile_streams_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        let to = dir.path().join("to");
        let link = outside.to_str().unwrap();
        let cases: [&[(&str, EntryType, &str)]; 4] = [
            &[
                ("./", EntryType::Directory, ""),
                ("./../outside/x", EntryType::Regular, ""),
            ],
            &[
                ("./", EntryType::Directory, ""),
                ("./l", EntryType::Symlink, link),
                ("./l/x", EntryType::Regular, ""),
            ],
            &[
                ("./", EntryType::Directory, ""),
                ("./h", EntryType::Link, "../outside/secret"),
            ],
            &[
                ("t/", EntryType::Directory, ""),
                ("t/l", EntryType::Symlink, link),
                ("t/l/", EntryType::Directory, ""),
                ("t/l/x", EntryType::Regular, ""),
            ],
        ];
        for case in cases {
            let mut tar = Builder::new(Vec::new());
            for (name, kind, link) in case {
                entry(&mut tar, name, *kind, link, b"");
            }
            assert!(
                unpack(&tar.into_inner().unwrap()[..], &to, case[0].0 == "t/").is_err(),
                "{case:?}"
            );
            assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{case:?}");
            fs::remove_dir_all(&to).unwrap();
        }
    }

    #[test]
    fn setuid_bits_and_devices_do_not_come_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut tar = Builder::new(Vec::new());
        entry(&mut tar, "t/", EntryType::Directory, "", b"");
        entry(&mut tar, "t/su", EntryType::Regular, "", b"x");
        entry(&mut tar, "t/null", EntryType::Char, "", b"");
        entry(&mut tar, "t/pipe", EntryType::Fifo, "", b"");
        let record = b"24 INNKEEPER.left-out=3\n";
        entry(&mut tar, "", EntryType::XGlobalHeader, "", record);
        let to = dir.path().join("t");
        let moved = unpack(&tar.into_inner().unwrap()[..], &to, true).unwrap();
        assert_eq!((moved.entries, moved.left_out), (2, 5));
        assert_eq!(
            fs::metadata(to.join("su")).unwrap().permissions().mode() & 0o7000,
            0
        );
        assert!(!to.join("null").exists());
    }
}
