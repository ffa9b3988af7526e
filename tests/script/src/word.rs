//! One argument: bytes, written so that a line of text can hold them.

use std::fmt;

/// Bytes without a zero among them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Word(Vec<u8>);

impl Word {
    /// A word of these bytes, without the zeros, which no name may hold.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        let mut bytes = bytes.into();
        bytes.retain(|byte| *byte != 0);
        Self(bytes)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The number that it says.
    pub fn number(&self) -> Option<i64> {
        std::str::from_utf8(&self.0).ok()?.parse().ok()
    }

    /// Reads a word as [`fmt::Display`] writes it. None for an escape that is none.
    pub(crate) fn read(text: &str) -> Option<Self> {
        if text == EMPTY {
            return Some(Self::default());
        }
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text.as_bytes();
        while let Some((first, tail)) = rest.split_first() {
            if *first != b'\\' {
                bytes.push(*first);
                rest = tail;
                continue;
            }
            let digits = tail.strip_prefix(b"x")?.get(..2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            bytes.push(
                u8::from_str_radix(digits, 16)
                    .ok()
                    .filter(|byte| *byte != 0)?,
            );
            rest = &tail[3..];
        }
        Some(Self(bytes))
    }
}

/// How a word without bytes is written.
const EMPTY: &str = "''";

impl From<&str> for Word {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<i64> for Word {
    fn from(number: i64) -> Self {
        Self(number.to_string().into_bytes())
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(EMPTY);
        }
        for byte in &self.0 {
            match byte {
                b'\\' | b'#' | b'\'' => write!(f, "\\x{byte:02x}")?,
                b'!'..=b'~' => write!(f, "{}", char::from(*byte))?,
                _ => write!(f, "\\x{byte:02x}")?,
            }
        }
        Ok(())
    }
}
