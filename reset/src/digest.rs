//! Digests: BLAKE3 with a domain per use, shown and stored as 64 hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// 32 bytes of BLAKE3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

/// A text that is not 64 hexadecimal digits.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a digest is 64 hexadecimal digits, this is not one: {0:?}")]
pub struct NotADigest(String);

impl Digest {
    /// All zeros: never the digest of anything, and never accepted by a verification.
    pub const ZERO: Digest = Digest([0; 32]);

    /// Wraps 32 bytes that are a digest already.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Digest(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// True for [`Digest::ZERO`], the mark of a value that nobody filled in.
    pub fn is_zero(&self) -> bool {
        *self == Digest::ZERO
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let wrong = || NotADigest(text.chars().take(80).collect());
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |d: u8| char::from(d).to_digit(16).ok_or_else(wrong);
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Ok(Digest(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A hash over fields, each with its length, under the name of its use: no two uses and no two ways
/// to cut the same bytes into fields give the same digest.
pub(crate) struct Fields(blake3::Hasher);

impl Fields {
    pub(crate) fn new(domain: &str) -> Self {
        let mut fields = Fields(blake3::Hasher::new());
        fields.bytes(domain.as_bytes());
        fields
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.0.update(&number.to_le_bytes());
        self
    }

    pub(crate) fn digest(&mut self, digest: &Digest) -> &mut Self {
        self.0.update(&digest.0);
        self
    }

    pub(crate) fn finish(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let digest = Fields::new("test").number(7).finish();
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert!("".parse::<Digest>().is_err());
        assert!("zz".repeat(32).parse::<Digest>().is_err());
        assert!("é".repeat(32).parse::<Digest>().is_err());
    }

    #[test]
    fn the_cut_between_fields_counts() {
        let one = Fields::new("test").bytes(b"ab").bytes(b"c").finish();
        let other = Fields::new("test").bytes(b"a").bytes(b"bc").finish();
        assert_ne!(one, other);
    }
}
