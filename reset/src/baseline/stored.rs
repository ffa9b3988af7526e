//! The disk form of a baseline: JSON in an envelope.

use super::Baseline;
use crate::envelope::{Envelope, EnvelopeError};

/// Version of baselines and of every digest in them. Others are not converted: they verify nothing.
pub const FORMAT: u32 = 1;

/// Larger baselines are not read. A service's facts are some kilobytes.
pub const SIZE_LIMIT: u64 = 16 << 20;

const ENVELOPE: Envelope = Envelope {
    what: "baseline",
    magic: *b"ik-base\0",
    version: FORMAT,
};

/// Why stored bytes were not accepted as a baseline.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// The envelope is wrong.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// What is in it is no baseline.
    #[error("the stored baseline is malformed; capture it again")]
    Malformed(#[source] serde_json::Error),
    /// The version inside differs from the one outside.
    #[error(
        "the stored baseline has format {0} inside, this program reads {FORMAT}; capture it again"
    )]
    Version(u32),
}

impl Baseline {
    /// The disk form.
    ///
    /// # Errors
    /// Never in practice: only if the values could not be written as JSON.
    pub fn encode(&self) -> Result<Vec<u8>, BaselineError> {
        Ok(ENVELOPE.seal(&serde_json::to_vec(self).map_err(BaselineError::Malformed)?))
    }

    /// Reads the disk form.
    ///
    /// # Errors
    /// For damage, another version, or anything larger than [`SIZE_LIMIT`].
    pub fn decode(bytes: &[u8]) -> Result<Self, BaselineError> {
        let payload = ENVELOPE.open(bytes, SIZE_LIMIT)?;
        let baseline: Baseline =
            serde_json::from_slice(payload).map_err(BaselineError::Malformed)?;
        match baseline.version {
            FORMAT => Ok(baseline),
            other => Err(BaselineError::Version(other)),
        }
    }
}
