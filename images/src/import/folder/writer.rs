//! Tar headers: ustar, with PAX records for what ustar cannot say.

use std::io::{self, Write};

use crate::attributes::Attributes;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TypeFlag {
    File,
    HardLink,
    Symlink,
    Device,
    Directory,
    Fifo,
}

/// One header to be written.
pub(super) struct Header<'a> {
    path: &'a [u8],
    link: &'a [u8],
    flag: TypeFlag,
    size: u64,
    attributes: &'a Attributes,
}

/// Largest numbers of 7 and 11 octal digits.
const MAX_ID: u32 = 0o7_777_777;
const MAX_SIZE: u64 = 0o77_777_777_777;

impl<'a> Header<'a> {
    pub(super) fn new(path: &'a [u8], flag: TypeFlag, attributes: &'a Attributes) -> Header<'a> {
        Header {
            path,
            link: b"",
            flag,
            size: 0,
            attributes,
        }
    }

    pub(super) fn link(self, link: &'a [u8]) -> Header<'a> {
        Header { link, ..self }
    }

    pub(super) fn size(self, size: u64) -> Header<'a> {
        Header { size, ..self }
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let records = self.records();
        if !records.is_empty() {
            let mut raw = blank(b"PaxHeader", b'x');
            raw.set_mode(0o644);
            raw.set_size(records.len() as u64);
            raw.set_cksum();
            out.write_all(raw.as_bytes())?;
            out.write_all(&records)?;
            pad(out, records.len() as u64)?;
        }
        let flag = match self.flag {
            TypeFlag::File => b'0',
            TypeFlag::HardLink => b'1',
            TypeFlag::Symlink => b'2',
            TypeFlag::Device => b'3',
            TypeFlag::Directory => b'5',
            TypeFlag::Fifo => b'6',
        };
        let mut raw = blank(self.path, flag);
        let link = &self.link[..self.link.len().min(100)];
        raw.as_old_mut().linkname[..link.len()].copy_from_slice(link);
        raw.set_mode(self.attributes.mode);
        raw.set_uid(self.attributes.uid.min(MAX_ID).into());
        raw.set_gid(self.attributes.gid.min(MAX_ID).into());
        raw.set_size(self.size.min(MAX_SIZE));
        raw.set_mtime((self.attributes.mtime.seconds.max(0) as u64).min(MAX_SIZE));
        raw.set_cksum();
        out.write_all(raw.as_bytes())
    }

    fn records(&self) -> Vec<u8> {
        let Attributes {
            uid,
            gid,
            mtime,
            xattrs,
            ..
        } = self.attributes;
        let mut records = Vec::new();
        if self.path.len() > 100 {
            record(&mut records, b"path", self.path);
        }
        if self.link.len() > 100 {
            record(&mut records, b"linkpath", self.link);
        }
        if self.size > MAX_SIZE {
            record(&mut records, b"size", self.size.to_string().as_bytes());
        }
        if *uid > MAX_ID {
            record(&mut records, b"uid", uid.to_string().as_bytes());
        }
        if *gid > MAX_ID {
            record(&mut records, b"gid", gid.to_string().as_bytes());
        }
        if mtime.nanos != 0 || mtime.seconds < 0 || mtime.seconds as u64 > MAX_SIZE {
            record(
                &mut records,
                b"mtime",
                time(mtime.seconds, mtime.nanos).as_bytes(),
            );
        }
        for (name, value) in xattrs {
            record(
                &mut records,
                &[b"SCHILY.xattr.", name.as_slice()].concat(),
                value,
            );
        }
        records
    }
}

fn blank(path: &[u8], flag: u8) -> tar::Header {
    let mut raw = tar::Header::new_ustar();
    let path = &path[..path.len().min(100)];
    raw.as_old_mut().name[..path.len()].copy_from_slice(path);
    raw.as_old_mut().linkflag = [flag];
    raw.set_uid(0);
    raw.set_gid(0);
    raw.set_mtime(0);
    raw
}

/// `LENGTH KEY=VALUE\n`, where the length counts its own digits.
fn record(records: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    records.extend_from_slice(length.to_string().as_bytes());
    records.push(b' ');
    records.extend_from_slice(key);
    records.push(b'=');
    records.extend_from_slice(value);
    records.push(b'\n');
}

/// The kernel counts nanoseconds forward from the second, a decimal fraction counts from zero.
fn time(seconds: i64, nanos: u32) -> String {
    let total = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let sign = if total < 0 { "-" } else { "" };
    let (seconds, nanos) = (total.abs() / 1_000_000_000, total.abs() % 1_000_000_000);
    format!("{sign}{seconds}.{nanos:09}")
}

/// Zeros up to the next block.
pub(super) fn pad(out: &mut dyn Write, size: u64) -> io::Result<()> {
    let zeros = size.next_multiple_of(512) - size;
    out.write_all(&[0; 512][..zeros as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_its_own_length() {
        for size in 80..110 {
            let mut records = Vec::new();
            record(&mut records, b"path", &vec![b'a'; size]);
            let digits = records.iter().position(|&b| b == b' ').unwrap();
            let stated: usize = std::str::from_utf8(&records[..digits])
                .unwrap()
                .parse()
                .unwrap();
            assert_eq!(stated, records.len());
        }
    }

    #[test]
    fn times_before_1970() {
        assert_eq!(time(-2, 500_000_000), "-1.500000000");
        assert_eq!(time(-1, 750_000_000), "-0.250000000");
        assert_eq!(time(3, 7), "3.000000007");
    }
}
