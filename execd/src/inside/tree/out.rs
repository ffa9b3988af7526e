//! Sending a tree as a tar archive.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;
use tar::{Builder, EntryType, Header};

use super::attributes;
use crate::inside::files::descent::Descent;
use crate::inside::files::entry::{Kind, mtime_ns};
use crate::inside::files::{FileAnswer, FileError, resolve};

/// Sends what `path` names.
pub(super) fn run(path: &[u8], follow: bool, pipe: OwnedFd) -> Result<FileAnswer, FileError> {
    let nofollow = if follow {
        OFlags::empty()
    } else {
        OFlags::NOFOLLOW
    };
    let looked = resolve::open(path, OFlags::PATH | nofollow)?;
    let stat = rustix::fs::fstat(&looked).map_err(FileError::io("examine", path))?;
    let shown = shown_name(path);
    let mut archive = Archive::new(pipe);
    match Kind::of(&stat) {
        Kind::Directory => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let top = resolve::open_at(looked.as_fd(), b".", flags)
                .map_err(FileError::io("open", path))?;
            archive.directory(top.as_fd(), shown.as_deref().unwrap_or(b"."))?;
            archive.walk(top, stat.st_dev, shown)?;
        }
        Kind::File => {
            let file = resolve::open(path, OFlags::RDONLY | nofollow)?;
            archive.file(file, path, shown.as_deref().unwrap_or(b"file"))?;
        }
        Kind::Symlink => {
            let target = rustix::fs::readlinkat(&looked, "", Vec::new())
                .map_err(FileError::io("read the link", path))?;
            archive.link(
                &stat,
                shown.as_deref().unwrap_or(b"link"),
                target.as_bytes(),
            )?;
        }
        kind @ (Kind::Fifo | Kind::Socket | Kind::Device) => {
            let why = format!("is {}, not a file", kind.name());
            return Err(FileError::refused(path, libc::ENOTDIR, why));
        }
    }
    archive.finish().map(FileAnswer::Sent)
}

/// The last name of a path; none for `/` and what ends in `.` or `..`.
fn shown_name(path: &[u8]) -> Option<Vec<u8>> {
    let last = path
        .split(|byte| *byte == b'/')
        .rfind(|name| !name.is_empty())?;
    (last != b"." && last != b"..").then(|| last.to_vec())
}

struct Archive {
    builder: Builder<Counted>,
    /// First names of files with several, by device and inode.
    names: HashMap<(u64, u64), Vec<u8>>,
    /// Sockets and devices, which no archive can hold.
    left_out: u64,
}

impl Archive {
    fn new(pipe: OwnedFd) -> Self {
        let out = BufWriter::with_capacity(128 * 1024, File::from(pipe));
        Self {
            builder: Builder::new(Counted { out, sent: 0 }),
            names: HashMap::new(),
            left_out: 0,
        }
    }

    /// Everything below a directory. Entries that go away meanwhile are left out.
    fn walk(&mut self, top: OwnedFd, device: u64, shown: Option<Vec<u8>>) -> Result<(), FileError> {
        let mut place = Descent::at(top);
        let mut prefix = shown.map_or_else(Vec::new, |mut name| {
            name.push(b'/');
            name
        });
        // Names still to come and the length of the prefix, for each level.
        let mut levels = vec![(place.names()?.into_iter(), prefix.len())];
        while let Some((names, length)) = levels.last_mut() {
            prefix.truncate(*length);
            let Some(name) = names.next() else {
                levels.pop();
                if !levels.is_empty() {
                    place.leave()?;
                }
                continue;
            };
            let whole = [prefix.as_slice(), &name].concat();
            match self.entry(place.here(), &name, &whole, device) {
                Ok(false) => {}
                Ok(true) => {
                    place.enter(&name)?;
                    self.directory(place.here(), &whole)?;
                    prefix = [whole.as_slice(), b"/"].concat();
                    levels.push((place.names()?.into_iter(), prefix.len()));
                }
                Err(error) if error.is(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends one entry; true for a directory, which is to be entered instead.
    fn entry(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        whole: &[u8],
        device: u64,
    ) -> Result<bool, FileError> {
        let Some(stat) = resolve::lookup(dir, name).map_err(FileError::io("examine", whole))?
        else {
            return Ok(false);
        };
        match Kind::of(&stat) {
            Kind::Directory => return Ok(stat.st_dev == device),
            Kind::File => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
                let file =
                    resolve::open_at(dir, name, flags).map_err(FileError::io("open", whole))?;
                self.file(file, whole, whole)?;
            }
            Kind::Symlink => {
                if !self.linked(&stat, whole)? {
                    let target = rustix::fs::readlinkat(dir, name, Vec::new())
                        .map_err(FileError::io("read the link", whole))?;
                    self.link(&stat, whole, target.as_bytes())?;
                }
            }
            Kind::Fifo => self.fifo(&stat, whole)?,
            Kind::Socket | Kind::Device => self.left_out += 1,
        }
        Ok(false)
    }

    fn directory(&mut self, dir: BorrowedFd<'_>, shown: &[u8]) -> Result<(), FileError> {
        let stat = rustix::fs::fstat(dir).map_err(FileError::io("examine", shown))?;
        let name = [shown, b"/"].concat();
        self.head(
            &stat,
            EntryType::Directory,
            &name,
            b"",
            0,
            &attributes::read(dir),
        )
    }

    fn link(&mut self, stat: &Stat, shown: &[u8], target: &[u8]) -> Result<(), FileError> {
        self.head(stat, EntryType::Symlink, shown, target, 0, &[])
    }

    fn fifo(&mut self, stat: &Stat, shown: &[u8]) -> Result<(), FileError> {
        self.head(stat, EntryType::Fifo, shown, b"", 0, &[])
    }

    fn file(&mut self, file: OwnedFd, path: &[u8], shown: &[u8]) -> Result<(), FileError> {
        let stat = rustix::fs::fstat(&file).map_err(FileError::io("examine", path))?;
        if Kind::of(&stat) != Kind::File {
            return Err(FileError::refused(
                path,
                libc::ESTALE,
                "was replaced during the walk",
            ));
        }
        if self.linked(&stat, shown)? {
            return Ok(());
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let xattrs = attributes::read(file.as_fd());
        self.head(&stat, EntryType::Regular, shown, b"", size, &xattrs)?;
        self.contents(File::from(file), size, path)
    }

    /// Sends an entry as a hard link to an earlier one, if it is one.
    fn linked(&mut self, stat: &Stat, shown: &[u8]) -> Result<bool, FileError> {
        if stat.st_nlink < 2 {
            return Ok(false);
        }
        let id = (stat.st_dev, stat.st_ino);
        let Some(first) = self.names.get(&id).cloned() else {
            self.names.insert(id, shown.to_vec());
            return Ok(false);
        };
        self.head(stat, EntryType::Link, shown, &first, 0, &[])?;
        Ok(true)
    }

    fn head(
        &mut self,
        stat: &Stat,
        kind: EntryType,
        name: &[u8],
        link: &[u8],
        size: u64,
        xattrs: &[(String, Vec<u8>)],
    ) -> Result<(), FileError> {
        let mtime = mtime_ns(stat);
        let (seconds, part) = (
            mtime.div_euclid(1_000_000_000),
            mtime.rem_euclid(1_000_000_000),
        );
        let mut records: Vec<(String, Vec<u8>)> = Vec::new();
        if part != 0 && seconds >= 0 {
            records.push((
                "mtime".to_owned(),
                format!("{seconds}.{part:09}").into_bytes(),
            ));
        }
        for (name, value) in xattrs {
            records.push((format!("{}{name}", attributes::RECORD), value.clone()));
        }
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(stat.st_mode & 0o7777);
        header.set_uid(stat.st_uid.into());
        header.set_gid(stat.st_gid.into());
        header.set_mtime(u64::try_from(seconds).unwrap_or(0));
        header.set_size(size);
        let records = records
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_slice()));
        self.builder
            .append_pax_extensions(records)
            .and_then(|()| self.long(EntryType::GNULongLink, link))
            .and_then(|()| self.long(EntryType::GNULongName, name))
            .and_then(|()| {
                if let Some(gnu) = header.as_gnu_mut() {
                    put(&mut gnu.name, name);
                    put(&mut gnu.linkname, link);
                }
                header.set_cksum();
                self.builder.get_mut().write_all(header.as_bytes())
            })
            .map_err(FileError::Receiver)
    }

    /// An entry of its own for a name that the header has no room for. The header has
    /// names as bytes, whatever they are: they are put there as they are.
    fn long(&mut self, kind: EntryType, name: &[u8]) -> io::Result<()> {
        if name.len() <= 100 {
            return Ok(());
        }
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        if let Some(gnu) = header.as_gnu_mut() {
            put(&mut gnu.name, b"././@LongLink");
        }
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(name.len() as u64 + 1);
        header.set_cksum();
        self.builder.append(&header, name.chain([0u8].as_slice()))
    }

    /// Exactly `size` bytes of a file and padding. A file that shrinks meanwhile ends the
    /// call: a receiver must not take zeros for its contents.
    fn contents(&mut self, file: File, size: u64, path: &[u8]) -> Result<(), FileError> {
        let mut from = file.take(size);
        let mut buffer = vec![0; 128 * 1024];
        let mut sent = 0;
        while sent < size {
            let got = from
                .read(&mut buffer)
                .map_err(FileError::io("read", path))?;
            if got == 0 {
                return Err(FileError::refused(
                    path,
                    libc::ESTALE,
                    "shrank while it was read",
                ));
            }
            self.builder
                .get_mut()
                .write_all(&buffer[..got])
                .map_err(FileError::Receiver)?;
            sent += got as u64;
        }
        let padding = usize::try_from((512 - size % 512) % 512).unwrap_or(0);
        self.builder
            .get_mut()
            .write_all(&[0; 512][..padding])
            .map_err(FileError::Receiver)
    }

    /// Ends the archive. What is not in it is counted in a global header at its end, which
    /// tar programs pass over.
    fn finish(mut self) -> Result<u64, FileError> {
        if self.left_out > 0 {
            let record = attributes::left_out(self.left_out);
            let mut header = Header::new_ustar();
            header.set_entry_type(EntryType::XGlobalHeader);
            header.set_mode(0o644);
            header.set_size(record.len() as u64);
            header.set_cksum();
            self.builder
                .append(&header, record.as_bytes())
                .map_err(FileError::Receiver)?;
        }
        let mut out = self.builder.into_inner().map_err(FileError::Receiver)?;
        out.flush().map_err(FileError::Receiver)?;
        Ok(out.sent)
    }
}

fn put(field: &mut [u8], bytes: &[u8]) {
    let length = bytes.len().min(field.len());
    field[..length].copy_from_slice(&bytes[..length]);
}

struct Counted {
    out: BufWriter<File>,
    sent: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.sent += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
