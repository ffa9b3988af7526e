//! Reading a tar archive as a stream: ustar with the extensions of GNU (long names, large
//! numbers) and PAX. Our own reader over the crate's headers, since PAX records hold
//! binary values and since no part of an archive may make us hold more than a little.

use std::io::{self, Read};

use tar::{EntryType, Header};

use super::attributes;

/// Bytes of a block.
const BLOCK: usize = 512;

/// Bytes of an extension (long name, PAX records) at most. Linux ends extended attributes at
/// 64 KiB each and paths at 4 KiB a call.
const EXTENSION: u64 = 1024 * 1024;

/// One entry, its extensions applied.
#[derive(Debug)]
pub(super) struct Member {
    pub path: Vec<u8>,
    pub link: Vec<u8>,
    pub kind: EntryType,
    pub mode: u32,
    pub uid: u64,
    pub gid: u64,
    /// Seconds since 1970, and nanoseconds.
    pub mtime: (i64, u32),
    pub size: u64,
    pub xattrs: Vec<(String, Vec<u8>)>,
}

/// A stream of entries. After `next` the entry's contents are read from `self`.
#[derive(Debug)]
pub(super) struct Entries<R> {
    from: R,
    /// Bytes of the present entry not read yet, and of its padding.
    left: u64,
    padding: u64,
}

impl<R: Read> Entries<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            left: 0,
            padding: 0,
        }
    }

    /// The next entry; none at the end of the archive.
    pub(super) fn next(&mut self) -> io::Result<Option<Member>> {
        let mut extensions = Extensions::default();
        loop {
            self.skip()?;
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            self.extent(header.entry_size()?);
            match header.entry_type() {
                EntryType::GNULongName => extensions.path = Some(self.name()?),
                EntryType::GNULongLink => extensions.link = Some(self.name()?),
                EntryType::XHeader => extensions.records(&self.extension()?)?,
                EntryType::XGlobalHeader => {}
                _ => {
                    let member = extensions.apply(&header)?;
                    self.extent(member.size);
                    return Ok(Some(member));
                }
            }
        }
    }

    /// The source, to read what follows the archive.
    pub(super) fn into_inner(self) -> R {
        self.from
    }

    fn extent(&mut self, size: u64) {
        self.left = size;
        self.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
    }

    /// Reads over what is left of the present entry.
    fn skip(&mut self) -> io::Result<()> {
        let rest = self.left.saturating_add(self.padding);
        let skipped = io::copy(&mut self.from.by_ref().take(rest), &mut io::sink())?;
        self.extent(0);
        if skipped < rest {
            Err(io::ErrorKind::UnexpectedEof.into())
        } else {
            Ok(())
        }
    }

    /// The next header; none at a block of zeros or where the data ends between entries.
    fn header(&mut self) -> io::Result<Option<Header>> {
        let mut block = [0u8; BLOCK];
        let mut got = 0;
        while got < BLOCK {
            match self.from.read(&mut block[got..])? {
                0 if got == 0 => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => got += more,
            }
        }
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block);
        // The checksum counts its own eight bytes as blanks.
        let sum: u32 = (0..BLOCK)
            .map(|place| {
                if (148..156).contains(&place) {
                    32
                } else {
                    u32::from(block[place])
                }
            })
            .sum();
        if header.cksum()? != sum {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a header's checksum is wrong",
            ));
        }
        Ok(Some(header.clone()))
    }

    fn extension(&mut self) -> io::Result<Vec<u8>> {
        if self.left > EXTENSION {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "an extended header is too long",
            ));
        }
        let mut data = Vec::new();
        self.read_to_end(&mut data)?;
        Ok(data)
    }

    fn name(&mut self) -> io::Result<Vec<u8>> {
        let mut name = self.extension()?;
        name.truncate(
            name.iter()
                .position(|byte| *byte == 0)
                .unwrap_or(name.len()),
        );
        Ok(name)
    }
}

impl<R: Read> Read for Entries<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.left).map_or(buffer.len(), |left| left.min(buffer.len()));
        if wanted == 0 {
            return Ok(0);
        }
        let got = self.from.read(&mut buffer[..wanted])?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= got as u64;
        Ok(got)
    }
}

/// What the entries before a header say about it.
#[derive(Debug, Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    uid: Option<u64>,
    gid: Option<u64>,
    mtime: Option<(i64, u32)>,
    xattrs: Vec<(String, Vec<u8>)>,
}

impl Extensions {
    /// PAX records: `LENGTH KEY=VALUE\n`, the length counting all of it.
    fn records(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let record = Record::first(data).ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, "a PAX record cannot be read")
            })?;
            data = record.rest;
            let number = || std::str::from_utf8(record.value).ok()?.parse().ok();
            match record.key {
                "path" => self.path = Some(record.value.to_vec()),
                "linkpath" => self.link = Some(record.value.to_vec()),
                "size" => self.size = number(),
                "uid" => self.uid = number(),
                "gid" => self.gid = number(),
                "mtime" => self.mtime = time(record.value),
                key => {
                    if let Some(name) = key.strip_prefix(attributes::RECORD) {
                        self.xattrs.push((name.to_owned(), record.value.to_vec()));
                    }
                }
            }
        }
        Ok(())
    }

    fn apply(self, header: &Header) -> io::Result<Member> {
        let link = self
            .link
            .or_else(|| header.link_name_bytes().map(|link| link.into_owned()));
        let old = header.as_old();
        let kind = header.entry_type();
        let size = match self.size {
            Some(size) => size,
            None => header.entry_size()?,
        };
        // Some writers give the size of what a hard link leads to, without contents.
        let bare = kind.is_hard_link() || kind.is_symlink() || kind.is_dir();
        Ok(Member {
            path: self
                .path
                .unwrap_or_else(|| header.path_bytes().into_owned()),
            link: link.unwrap_or_default(),
            kind,
            mode: or_blank(header.mode().map(u64::from), &old.mode)? as u32 & 0o7777,
            uid: self
                .uid
                .map_or_else(|| or_blank(header.uid(), &old.uid), Ok)?,
            gid: self
                .gid
                .map_or_else(|| or_blank(header.gid(), &old.gid), Ok)?,
            mtime: match self.mtime {
                Some(time) => time,
                None => {
                    let seconds = or_blank(header.mtime(), &old.mtime)?;
                    (i64::try_from(seconds).unwrap_or(0), 0)
                }
            },
            size: if bare { 0 } else { size },
            xattrs: self.xattrs,
        })
    }
}

/// A number of a header; writers leave out those that they do not know.
fn or_blank(number: io::Result<u64>, field: &[u8]) -> io::Result<u64> {
    if field.iter().all(|byte| matches!(byte, 0 | b' ')) {
        Ok(0)
    } else {
        number
    }
}

struct Record<'a> {
    key: &'a str,
    value: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Record<'a> {
    fn first(data: &'a [u8]) -> Option<Self> {
        let blank = data.iter().position(|byte| *byte == b' ')?;
        let length: usize = std::str::from_utf8(&data[..blank]).ok()?.parse().ok()?;
        let body = data.get(blank + 1..length)?.strip_suffix(b"\n")?;
        let equals = body.iter().position(|byte| *byte == b'=')?;
        let key = std::str::from_utf8(&body[..equals]).ok()?;
        Some(Self {
            key,
            value: &body[equals + 1..],
            rest: &data[length..],
        })
    }
}

/// `-1.5` is half a second before the second before 1970.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let digits: String = part.chars().chain(std::iter::repeat('0')).take(9).collect();
    let nanoseconds: u32 = digits.parse().ok()?;
    if text.starts_with('-') && nanoseconds > 0 {
        return Some((seconds.checked_sub(1)?, 1_000_000_000 - nanoseconds));
    }
    Some((seconds, nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_nanoseconds() {
        assert_eq!(time(b"12.000000001"), Some((12, 1)));
        assert_eq!(time(b"12"), Some((12, 0)));
        assert_eq!(time(b"-1.5"), Some((-2, 500_000_000)));
        assert_eq!(time(b"x"), None);
    }

    #[test]
    fn values_with_line_ends_are_one_record() {
        let mut extensions = Extensions::default();
        extensions.records(b"25 SCHILY.xattr.a=\n1 b=\n\n").unwrap();
        assert_eq!(extensions.xattrs, [("a".to_owned(), b"\n1 b=\n".to_vec())]);
        assert!(extensions.records(b"99 a=b\n").is_err());
        assert!(extensions.records(b"2 a=b\n").is_err());
    }

    #[test]
    fn a_stream_that_stops_in_an_entry_is_an_error() {
        let mut header = Header::new_gnu();
        header.set_path("x").unwrap();
        header.set_size(1000);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_cksum();
        let mut data = header.as_bytes().to_vec();
        data.extend_from_slice(&[7; 600]);
        let mut entries = Entries::new(data.as_slice());
        assert_eq!(entries.next().unwrap().unwrap().path, b"x");
        assert!(entries.next().is_err());
        data[0] = b'y';
        assert!(
            Entries::new(data.as_slice()).next().is_err(),
            "the checksum is checked"
        );
    }
}
