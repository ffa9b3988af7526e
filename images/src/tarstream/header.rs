//! Fields of a tar header block.

/// Tar works in blocks of this many bytes.
pub(crate) const BLOCK: u64 = 512;

/// A time as a layer states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Timestamp {
    /// Since 1970, negative before.
    pub(crate) seconds: i64,
    /// 0 to 999,999,999, counted forward from `seconds`.
    pub(crate) nanos: u32,
}

impl Timestamp {
    pub(crate) fn seconds(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }
}

/// A numeric field: octal digits with spaces or zeros around, empty for 0, or base 256 (GNU).
pub(crate) fn number(field: &[u8]) -> Option<i64> {
    let (&first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        // Two's complement in 8 * len - 1 bits, the top bit being the mark.
        let negative = first & 0x40 != 0;
        let start = i128::from(first & 0x7f) - if negative { 0x80 } else { 0 };
        let value = rest.iter().try_fold(start, |value, &byte| {
            value.checked_mul(256).map(|value| value + i128::from(byte))
        })?;
        return i64::try_from(value).ok();
    }
    let text = field.split(|&b| b == 0).next()?.trim_ascii();
    if text.is_empty() {
        return Some(0);
    }
    let text = std::str::from_utf8(text).ok()?;
    if text.starts_with('+') {
        return None;
    }
    i64::from_str_radix(text, 8)
        .ok()
        .filter(|&value| value >= 0)
}

/// Checks the sum over the header, which old writers took over signed bytes.
pub(crate) fn verify_checksum(block: &[u8; BLOCK as usize]) -> Result<(), &'static str> {
    let sum = 148..156;
    let stated = number(&block[sum.clone()]).ok_or("its checksum")?;
    let (mut unsigned, mut signed) = (0i64, 0i64);
    for (index, &byte) in block.iter().enumerate() {
        let byte = if sum.contains(&index) { b' ' } else { byte };
        unsigned += i64::from(byte);
        signed += i64::from(byte as i8);
    }
    if stated == unsigned || stated == signed {
        Ok(())
    } else {
        Err("its checksum")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_writers_put_them() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"\0\0\0\0\0\0\0\0"), Some(0));
        assert_eq!(number(b"\x80\0\0\0\0\0\0\0\0\0\x01\0"), Some(256));
        assert_eq!(number(&[0xff; 12]), Some(-1));
        assert_eq!(number(b"00x0644\0"), None);
        assert_eq!(number(b"-000644\0"), None);
    }
}
