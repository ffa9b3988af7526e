//! Signing.

use std::path::Path;

use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::{Map, Value, json};

use crate::key::{self, KeyError, PublicKey};
use crate::{
    ALGORITHM, FORMAT, FORMAT_FIELD, SIGNATURE_FIELD, VERSION, VERSION_FIELD, canonical,
    field_hash, message,
};

/// Why something was not signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// A field that the signing itself fills is there already.
    #[error("a record may not bring its own field \"{0}\"")]
    Reserved(&'static str),
    /// A field has no canonical text.
    #[error("the field \"{field}\" cannot be signed: {source}")]
    Field {
        /// The field.
        field: String,
        /// Why.
        source: canonical::Error,
    },
}

/// Signs records. The private key never leaves it.
#[derive(Debug)]
pub struct Signer {
    key: SigningKey,
    name: String,
}

impl Signer {
    /// Reads the keys `attest.key` (0600) and `attest.pub` of a directory, making both at the
    /// first time.
    ///
    /// # Errors
    /// A file cannot be read or written, is damaged or open to others, or the two are no pair.
    pub fn open(dir: &Path) -> Result<Self, KeyError> {
        let key = key::open(&dir.join("attest.key"), &dir.join("attest.pub"))?;
        let name = PublicKey(key.verifying_key()).name();
        Ok(Self { key, name })
    }

    /// The key that checks what this signs.
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.key.verifying_key())
    }

    /// Adds format, version and signature to the fields of a record.
    pub fn sign(&self, fields: Map<String, Value>) -> Result<Map<String, Value>, SignError> {
        let mut record = fields;
        for name in [FORMAT_FIELD, VERSION_FIELD, SIGNATURE_FIELD] {
            if record.contains_key(name) {
                return Err(SignError::Reserved(name));
            }
        }
        record.insert(FORMAT_FIELD.to_owned(), FORMAT.into());
        record.insert(VERSION_FIELD.to_owned(), VERSION.into());
        let mut hashes = Map::new();
        for (field, value) in &record {
            let hash = field_hash(value).map_err(|source| SignError::Field {
                field: field.clone(),
                source,
            })?;
            hashes.insert(field.clone(), hash.into());
        }
        let hashes = Value::from(hashes);
        let message = message(&hashes, &self.name).map_err(|source| SignError::Field {
            field: SIGNATURE_FIELD.to_owned(),
            source,
        })?;
        let value = hex::encode(self.key.sign(&message).to_bytes());
        let signature = json!({
            "algorithm": ALGORITHM, "key": self.name, "fields": hashes, "value": value,
        });
        record.insert(SIGNATURE_FIELD.to_owned(), signature);
        Ok(record)
    }
}
