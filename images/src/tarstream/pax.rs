//! PAX records: `LENGTH KEY=VALUE\n`, the length counting the whole record.

use super::header::Timestamp;
use super::sparse::Segment;
use crate::limits::MAX_SPARSE_SEGMENTS;

/// What the records before an entry say about it.
#[derive(Debug, Default)]
pub(crate) struct Pax {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) linkpath: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) uid: Option<u64>,
    pub(crate) gid: Option<u64>,
    pub(crate) mtime: Option<Timestamp>,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) sparse: SparseRecords,
}

/// The records of a sparse file, in any of the three forms that GNU tar has written.
#[derive(Debug, Default)]
pub(crate) struct SparseRecords {
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) real_size: Option<u64>,
    /// Form 1.0: the map is at the start of the content.
    pub(crate) in_content: bool,
    pub(crate) segments: Vec<Segment>,
    offset: Option<u64>,
}

impl SparseRecords {
    pub(crate) fn is_used(&self) -> bool {
        self.in_content || self.real_size.is_some()
    }
}

impl Pax {
    /// Takes over the records of one extended header.
    pub(crate) fn read(&mut self, mut body: &[u8]) -> Result<(), &'static str> {
        const BROKEN: &str = "a broken extended record";
        while !body.is_empty() {
            let space = body.iter().position(|&b| b == b' ').ok_or(BROKEN)?;
            let length: usize = decimal(&body[..space]).ok_or(BROKEN)?;
            if length <= space + 1 || length > body.len() || body[length - 1] != b'\n' {
                return Err(BROKEN);
            }
            let record = &body[space + 1..length - 1];
            let equals = record.iter().position(|&b| b == b'=').ok_or(BROKEN)?;
            self.record(&record[..equals], &record[equals + 1..])?;
            body = &body[length..];
        }
        Ok(())
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        // An empty value takes an earlier record back.
        let text = || (!value.is_empty()).then(|| value.to_vec());
        let count = |what| match value {
            b"" => Ok(None),
            value => decimal(value).map(Some).ok_or(what),
        };
        match key {
            b"path" => self.path = text(),
            b"linkpath" => self.linkpath = text(),
            b"size" => self.size = count("an extended size")?,
            b"uid" => self.uid = count("an extended owner")?,
            b"gid" => self.gid = count("an extended group")?,
            b"mtime" => {
                self.mtime = match value {
                    b"" => None,
                    value => Some(time(value).ok_or("an extended time")?),
                }
            }
            b"GNU.sparse.name" => self.sparse.name = text(),
            b"GNU.sparse.major" => self.sparse.in_content = value == b"1",
            b"GNU.sparse.realsize" | b"GNU.sparse.size" => {
                self.sparse.real_size = count("the size of a sparse file")?;
            }
            b"GNU.sparse.offset" => self.sparse.offset = count("a sparse map")?,
            b"GNU.sparse.numbytes" => {
                let (offset, length) = (self.sparse.offset.take(), count("a sparse map")?);
                let (Some(offset), Some(length)) = (offset, length) else {
                    return Err("a sparse map");
                };
                self.segment(offset, length)?;
            }
            b"GNU.sparse.map" => {
                let numbers: Option<Vec<u64>> = value.split(|&b| b == b',').map(decimal).collect();
                let numbers = numbers.filter(|n| n.len() % 2 == 0).ok_or("a sparse map")?;
                for pair in numbers.chunks_exact(2) {
                    self.segment(pair[0], pair[1])?;
                }
            }
            key => {
                if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                    self.xattrs.retain(|(known, _)| known != name);
                    self.xattrs.push((name.to_vec(), value.to_vec()));
                }
            }
        }
        Ok(())
    }

    fn segment(&mut self, offset: u64, length: u64) -> Result<(), &'static str> {
        if self.sparse.segments.len() >= MAX_SPARSE_SEGMENTS {
            return Err("a sparse map that is too long");
        }
        self.sparse.segments.push(Segment { offset, length });
        Ok(())
    }
}

pub(super) fn decimal<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// `[-]SECONDS[.FRACTION]`; digits beyond nanoseconds are cut off.
fn time(text: &[u8]) -> Option<Timestamp> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut parts = text.splitn(2, |&b| b == b'.');
    let seconds: i64 = decimal(parts.next()?)?;
    let mut nanos = 0;
    if let Some(fraction) = parts.next() {
        if !fraction.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let digits = fraction
            .iter()
            .copied()
            .chain(std::iter::repeat(b'0'))
            .take(9);
        nanos = digits.fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
    }
    Some(match (negative, nanos) {
        (false, nanos) => Timestamp { seconds, nanos },
        (true, 0) => Timestamp {
            seconds: -seconds,
            nanos: 0,
        },
        (true, nanos) => Timestamp {
            seconds: -seconds - 1,
            nanos: 1_000_000_000 - nanos,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_hold_line_ends_and_equal_signs() {
        let mut pax = Pax::default();
        pax.read(b"30 SCHILY.xattr.user.k=a\n=b\0c\n").unwrap();
        assert_eq!(pax.xattrs, [(b"user.k".to_vec(), b"a\n=b\0c".to_vec())]);
    }

    #[test]
    fn records_with_a_wrong_length_are_refused() {
        for body in [
            &b"9 path=ab\n"[..],
            b"99 path=a\n",
            b"0 \n",
            b"x path=a\n",
            b"10 path=ab ",
        ] {
            assert!(Pax::default().read(body).is_err(), "{body:?}");
        }
    }

    #[test]
    fn times_before_1970() {
        let at = |text: &[u8]| time(text).map(|t| (t.seconds, t.nanos));
        assert_eq!(at(b"1.5"), Some((1, 500_000_000)));
        assert_eq!(at(b"-1.5"), Some((-2, 500_000_000)));
        assert_eq!(at(b"1.1234567899"), Some((1, 123_456_789)));
        assert_eq!(at(b"-0.25"), Some((-1, 750_000_000)));
        assert_eq!(at(b"1.x"), None);
    }
}
