//! The disk form around what this crate stores: magic, version, length, checksum, payload.
//!
//! ```text
//! 8 bytes  magic, naming what it is     4  version, little endian     8  payload length, little endian
//! 32       BLAKE3 of magic, version, length and payload               n  payload
//! ```

/// Bytes before the payload.
pub const HEADER: usize = 8 + 4 + 8 + 32;

/// Why stored bytes were not accepted. Each of them means: single use, capture again.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EnvelopeError {
    /// Larger than the reader allows.
    #[error(
        "the stored {what} has {len} bytes, more than the {limit} that are allowed; capture it again"
    )]
    TooLarge {
        /// What was to be read.
        what: &'static str,
        /// Bytes found.
        len: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// Fewer or more bytes than the header says, or not even a header.
    #[error("the stored {what} is cut off or has bytes left over; capture it again")]
    Length {
        /// What was to be read.
        what: &'static str,
    },
    /// Another kind of file.
    #[error("this is not a stored {what}")]
    Magic {
        /// What was to be read.
        what: &'static str,
    },
    /// Another version of the format; older ones are not converted, they are captured again.
    #[error("the stored {what} has format {found}, this program reads {known}; capture it again")]
    Version {
        /// What was to be read.
        what: &'static str,
        /// Version found.
        found: u32,
        /// The only version that is read.
        known: u32,
    },
    /// Damaged.
    #[error("the stored {what} is damaged: its checksum does not match; capture it again")]
    Checksum {
        /// What was to be read.
        what: &'static str,
    },
}

/// One kind of stored value.
pub(crate) struct Envelope {
    pub(crate) what: &'static str,
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
}

impl Envelope {
    fn checksum(&self, payload: &[u8]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.magic);
        hasher.update(&self.version.to_le_bytes());
        hasher.update(&(payload.len() as u64).to_le_bytes());
        hasher.update(payload);
        *hasher.finalize().as_bytes()
    }

    pub(crate) fn seal(&self, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        bytes.extend_from_slice(&self.magic);
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&self.checksum(payload));
        bytes.extend_from_slice(payload);
        bytes
    }

    /// The payload, borrowed: nothing is allocated here.
    pub(crate) fn open<'a>(&self, bytes: &'a [u8], limit: u64) -> Result<&'a [u8], EnvelopeError> {
        let what = self.what;
        let len = bytes.len() as u64;
        if len > limit {
            return Err(EnvelopeError::TooLarge { what, len, limit });
        }
        let (magic, rest) = bytes
            .split_first_chunk::<8>()
            .ok_or(EnvelopeError::Length { what })?;
        if *magic != self.magic {
            return Err(EnvelopeError::Magic { what });
        }
        let (version, rest) = rest
            .split_first_chunk()
            .ok_or(EnvelopeError::Length { what })?;
        let found = u32::from_le_bytes(*version);
        if found != self.version {
            return Err(EnvelopeError::Version {
                what,
                found,
                known: self.version,
            });
        }
        let (length, rest) = rest
            .split_first_chunk()
            .ok_or(EnvelopeError::Length { what })?;
        let (sum, payload) = rest
            .split_first_chunk::<32>()
            .ok_or(EnvelopeError::Length { what })?;
        if u64::from_le_bytes(*length) != payload.len() as u64 {
            return Err(EnvelopeError::Length { what });
        }
        if *sum != self.checksum(payload) {
            return Err(EnvelopeError::Checksum { what });
        }
        Ok(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: Envelope = Envelope {
        what: "test",
        magic: *b"ik-test\0",
        version: 3,
    };

    #[test]
    fn every_single_byte_counts() {
        let sealed = TEST.seal(b"payload");
        assert_eq!(TEST.open(&sealed, 1000), Ok(&b"payload"[..]));
        for i in 0..sealed.len() {
            let mut hurt = sealed.clone();
            hurt[i] ^= 1;
            assert!(TEST.open(&hurt, 1000).is_err(), "byte {i}");
            assert!(TEST.open(&sealed[..i], 1000).is_err(), "cut at {i}");
        }
        let longer = [&sealed[..], b"x"].concat();
        assert!(TEST.open(&longer, 1000).is_err());
        assert!(matches!(
            TEST.open(&sealed, 20),
            Err(EnvelopeError::TooLarge { .. })
        ));
    }
}
