//! Content addresses.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A sha256 digest, written `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest([u8; 32]);

/// A text that is no sha256 digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a sha256 digest (sha256: and 64 hexadecimal digits)")]
pub struct BadDigest(pub String);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    pub(crate) fn finish(hasher: Sha256) -> Digest {
        Digest(hasher.finalize().into())
    }

    /// The 64 lower-case digits without the algorithm.
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<Digest, BadDigest> {
        let bad = || BadDigest(text.to_owned());
        let digits = text.strip_prefix("sha256:").ok_or_else(bad)?;
        if digits.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).map_err(|_| bad())?;
        Ok(Digest(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = BadDigest;

    fn try_from(text: String) -> Result<Digest, BadDigest> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

/// The name of an unpacked layer in the store: 64 hexadecimal digits.
///
/// It is the layer's diff id, the digest of its uncompressed tar. For the rare layer whose tree
/// depends on the layers beneath it (it links to a file of one of them, or leaves out a directory
/// whose attributes only they state) it is the chain id of the OCI image specification, so that
/// the same tar over other layers is another layer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct LayerId(Digest);

impl LayerId {
    /// The digest behind the id.
    pub fn digest(&self) -> Digest {
        self.0
    }
}

impl From<Digest> for LayerId {
    fn from(digest: Digest) -> LayerId {
        LayerId(digest)
    }
}

impl fmt::Display for LayerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.hex())
    }
}

impl fmt::Debug for LayerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for LayerId {
    type Err = BadDigest;

    fn from_str(text: &str) -> Result<LayerId, BadDigest> {
        let digest = format!("sha256:{text}").parse();
        digest.map(LayerId).map_err(|_| BadDigest(text.to_owned()))
    }
}

impl TryFrom<String> for LayerId {
    type Error = BadDigest;

    fn try_from(text: String) -> Result<LayerId, BadDigest> {
        text.parse()
    }
}

impl From<LayerId> for String {
    fn from(id: LayerId) -> String {
        id.to_string()
    }
}

/// The chain id after putting a layer with this diff id on the chain below it.
pub(crate) fn chain(below: Option<Digest>, diff_id: Digest) -> Digest {
    match below {
        None => diff_id,
        Some(below) => Digest::of(format!("{below} {diff_id}").as_bytes()),
    }
}
