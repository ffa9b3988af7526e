//! Reads a tar stream entry by entry, with everything that image layers use.
//!
//! The `tar` crate supplies the header layouts. The loop over them is here because layers need
//! what its reader does not give: extended attributes with binary values (PAX records counted by
//! length, not split at line ends), PAX sparse files, and bounds on what a header may claim.

mod header;
mod pax;
mod sparse;

use std::io::{self, Read};

pub(crate) use header::Timestamp;
pub(crate) use sparse::Segment;

use crate::limits::{MAX_HEADER_BYTES, MAX_LAYER_BYTES};
use crate::paths::shown;
use header::{BLOCK, number, verify_checksum};
use pax::Pax;

/// Why a tar stream cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stream ends before its end mark or inside an entry.
    #[error("the archive ends in the middle of {}", at(.0))]
    Truncated(Vec<u8>),
    /// A header that no tar writer makes.
    #[error("a broken tar header after {}: {what}", at(.after))]
    Header {
        /// The last entry that was read.
        after: Vec<u8>,
        /// What is wrong.
        what: &'static str,
    },
    /// Reading the stream failed.
    #[error("{0}")]
    Read(#[source] io::Error),
}

fn at(name: &[u8]) -> String {
    if name.is_empty() {
        "its beginning".to_owned()
    } else {
        format!("`{}`", shown(name))
    }
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    HardLink,
    Symlink,
    Directory,
    Fifo,
    Device,
    /// A type flag with no meaning here.
    Unknown(u8),
}

/// One entry, long names and PAX records already applied.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) kind: Kind,
    /// Permission bits with setuid, setgid and sticky.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Timestamp,
    /// Bytes of the file once written, holes included; 0 for all but files.
    pub(crate) size: u64,
    /// Where the stored bytes go, for a sparse file.
    pub(crate) segments: Option<Vec<Segment>>,
    /// Name and value, in the order of the archive.
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The reader. The content of the entry that `next` gave last is read through [`Read`].
pub(crate) struct TarStream<R> {
    inner: R,
    /// Content of the current entry that is still unread.
    left: u64,
    /// Zeros after it up to the block boundary.
    padding: u64,
    last: Vec<u8>,
}

impl<R: Read> TarStream<R> {
    pub(crate) fn new(inner: R) -> Self {
        TarStream {
            inner,
            left: 0,
            padding: 0,
            last: Vec::new(),
        }
    }

    pub(crate) fn into_inner(self) -> R {
        self.inner
    }

    pub(crate) fn get_mut(&mut self) -> &mut R {
        &mut self.inner
    }

    /// The next entry, or `None` at the end mark or the end of the stream between two entries.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, Error> {
        self.skip_rest()?;
        let mut pax = Pax::default();
        let mut long_name = None;
        let mut long_link = None;
        loop {
            let Some(block) = self.header_block()? else {
                return Ok(None);
            };
            let raw = tar::Header::from_byte_slice(&block);
            verify_checksum(&block).map_err(|what| self.bad(what))?;
            let size = self.field(&raw.as_old().size, "its size")?;
            match raw.entry_type().as_byte() {
                b'x' => {
                    let body = self.special(size)?;
                    pax.read(&body).map_err(|what| self.bad(what))?;
                }
                // Global records: writers put comments there, never attributes of files.
                b'g' => drop(self.special(size)?),
                b'L' => long_name = Some(cut_at_zero(self.special(size)?)),
                b'K' => long_link = Some(cut_at_zero(self.special(size)?)),
                _ => {
                    let entry = self.entry(raw, size, pax, long_name, long_link)?;
                    self.last.clone_from(&entry.path);
                    return Ok(Some(entry));
                }
            }
        }
    }

    fn entry(
        &mut self,
        raw: &tar::Header,
        size: u64,
        mut pax: Pax,
        long_name: Option<Vec<u8>>,
        long_link: Option<Vec<u8>>,
    ) -> Result<Entry, Error> {
        let old = raw.as_old();
        let path = pax.sparse.name.take().or(pax.path).or(long_name);
        let path = path.unwrap_or_else(|| raw.path_bytes().into_owned());
        let flag = raw.entry_type().as_byte();
        let kind = match flag {
            b'\0' if path.ends_with(b"/") => Kind::Directory,
            b'0' | b'\0' | b'7' | b'S' => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::Symlink,
            b'3' | b'4' => Kind::Device,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            other => Kind::Unknown(other),
        };
        let link = pax.linkpath.or(long_link);
        let link = link.or_else(|| raw.link_name_bytes().map(|name| name.into_owned()));
        let id = |from_pax: Option<u64>, field: &[u8], what| match from_pax {
            Some(id) => u32::try_from(id).map_err(|_| self.bad(what)),
            None => self
                .field(field, what)
                .and_then(|id| u32::try_from(id).map_err(|_| self.bad(what))),
        };
        let uid = id(pax.uid, &old.uid, "an owner that is no 32 bit id")?;
        let gid = id(pax.gid, &old.gid, "a group that is no 32 bit id")?;
        let mode = number(&old.mode).ok_or_else(|| self.bad("its mode"))? as u32 & 0o7777;
        let mtime = match pax.mtime {
            Some(time) => time,
            None => Timestamp::seconds(number(&old.mtime).ok_or_else(|| self.bad("its time"))?),
        };
        let mut entry = Entry {
            path,
            link: link.unwrap_or_default(),
            kind,
            mode,
            uid,
            gid,
            mtime,
            size: 0,
            segments: None,
            xattrs: pax.xattrs,
        };
        // Only files have content; of the others the size is ignored, as other readers do.
        if kind == Kind::File {
            let stored = pax.size.unwrap_or(size);
            self.begin_content(stored)?;
            entry.size = stored;
            if flag == b'S' {
                let (real, segments) = self.old_sparse(raw)?;
                entry.size = real;
                entry.segments = Some(segments);
            } else if pax.sparse.is_used() {
                let (real, segments) = self.pax_sparse(pax.sparse)?;
                entry.size = real;
                entry.segments = Some(segments);
            }
            if let Some(segments) = &entry.segments {
                sparse::check(segments, entry.size, self.left).map_err(|what| self.bad(what))?;
            }
        } else if let Kind::Unknown(_) = kind {
            self.begin_content(size)?;
        }
        if entry.size > MAX_LAYER_BYTES {
            return Err(self.bad("a file that is too large"));
        }
        Ok(entry)
    }

    fn begin_content(&mut self, stored: u64) -> Result<(), Error> {
        if stored > MAX_LAYER_BYTES {
            return Err(self.bad("a file that is too large"));
        }
        self.left = stored;
        self.padding = stored.next_multiple_of(BLOCK) - stored;
        Ok(())
    }

    fn old_sparse(&mut self, raw: &tar::Header) -> Result<(u64, Vec<Segment>), Error> {
        let gnu = raw
            .as_gnu()
            .ok_or_else(|| self.bad("a sparse file without its map"))?;
        let real = self.field(&gnu.realsize, "the size of a sparse file")?;
        let mut segments = Vec::new();
        sparse::add_old(&mut segments, &gnu.sparse).map_err(|what| self.bad(what))?;
        let mut more = gnu.isextended[0] != 0;
        while more {
            let mut extra = tar::GnuExtSparseHeader::new();
            self.fill(extra.as_mut_bytes())?;
            sparse::add_old(&mut segments, extra.sparse()).map_err(|what| self.bad(what))?;
            more = extra.is_extended();
        }
        Ok((real, segments))
    }

    fn pax_sparse(&mut self, map: pax::SparseRecords) -> Result<(u64, Vec<Segment>), Error> {
        let real = map
            .real_size
            .ok_or_else(|| self.bad("a sparse file without its size"))?;
        if !map.in_content {
            return Ok((real, map.segments));
        }
        let mut reader = sparse::MapInContent::default();
        let mut block = [0; BLOCK as usize];
        while !reader.is_complete() {
            if self.left < BLOCK {
                return Err(self.bad("a sparse map that does not end"));
            }
            self.fill(&mut block)?;
            self.left -= BLOCK;
            reader.feed(&block).map_err(|what| self.bad(what))?;
        }
        Ok((real, reader.into_segments()))
    }

    fn field(&self, field: &[u8], what: &'static str) -> Result<u64, Error> {
        let value = number(field).and_then(|value| u64::try_from(value).ok());
        value.ok_or_else(|| self.bad(what))
    }

    fn bad(&self, what: &'static str) -> Error {
        Error::Header {
            after: self.last.clone(),
            what,
        }
    }

    /// The body of a header that describes the next entry.
    fn special(&mut self, size: u64) -> Result<Vec<u8>, Error> {
        if size > MAX_HEADER_BYTES {
            return Err(self.bad("an extended header that is too large"));
        }
        let mut body = vec![0; size as usize];
        self.fill(&mut body)?;
        let mut rest = [0; BLOCK as usize];
        let padding = (size.next_multiple_of(BLOCK) - size) as usize;
        self.fill(&mut rest[..padding])?;
        Ok(body)
    }

    fn header_block(&mut self) -> Result<Option<[u8; BLOCK as usize]>, Error> {
        let mut block = [0; BLOCK as usize];
        let mut have = 0;
        while have < block.len() {
            match self.inner.read(&mut block[have..]) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => return Err(Error::Truncated(self.last.clone())),
                Ok(n) => have += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Read(error)),
            }
        }
        Ok((block != [0; BLOCK as usize]).then_some(block))
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), Error> {
        match self.inner.read_exact(buffer) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(Error::Truncated(self.last.clone()))
            }
            Err(error) => Err(Error::Read(error)),
        }
    }

    fn skip_rest(&mut self) -> Result<(), Error> {
        let mut todo = self.left + self.padding;
        self.left = 0;
        self.padding = 0;
        let mut scratch = [0; 8192];
        while todo > 0 {
            let part = todo.min(scratch.len() as u64) as usize;
            self.fill(&mut scratch[..part])?;
            todo -= part as u64;
        }
        Ok(())
    }

    /// Fills the buffer with content of the current entry, or says why not.
    pub(crate) fn content(&mut self, buffer: &mut [u8]) -> Result<(), Error> {
        if buffer.len() as u64 > self.left {
            return Err(self.bad("a file shorter than its size"));
        }
        self.fill(buffer)?;
        self.left -= buffer.len() as u64;
        Ok(())
    }
}

fn cut_at_zero(mut name: Vec<u8>) -> Vec<u8> {
    if let Some(end) = name.iter().position(|&b| b == 0) {
        name.truncate(end);
    }
    name
}
