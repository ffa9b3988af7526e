//! Checking a record, and clear words for everything that can be wrong with one.

use std::collections::BTreeMap;

use ed25519_dalek::Signature;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::key::PublicKey;
use crate::{
    ALGORITHM, FORMAT, FORMAT_FIELD, SIGNATURE_FIELD, VERSION, VERSION_FIELD, field_hash, message,
    strict,
};

/// Why a record proves nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The text is no JSON, or says a thing twice.
    #[error("it is no JSON that can be read in one way only: {0}")]
    Json(#[from] serde_json::Error),
    /// It is JSON, and something else.
    #[error("it is no record of innkeeper: its field \"format\" is not \"{FORMAT}\"")]
    NoRecord,
    /// Another version made it.
    #[error(
        "it has version {0}, and this innkeeper checks version {VERSION}: use the innkeeper that made it, or a newer one"
    )]
    Version(String),
    /// It was never signed.
    #[error("it is not signed{}", because(.0))]
    Unsigned(Option<String>),
    /// The signature is not of the shape of one.
    #[error("its signature is damaged: {0}")]
    Signature(String),
    /// Another key signed it.
    #[error(
        "it names the key {named} as its signer, and the key to check it with is {given}: check it with the attest.pub of the manager that signed"
    )]
    OtherKey {
        /// Which signed, as it says.
        named: String,
        /// Which was given.
        given: String,
    },
    /// The key that it names did not sign this.
    #[error(
        "its signature is not one of the key {0} over these fields: the record was made up, or its signature changed"
    )]
    Forged(String),
    /// A field that nobody signed.
    #[error("the field \"{0}\" is not covered by the signature: it was added later")]
    Added(String),
    /// A field that is not what was signed.
    #[error("the field \"{0}\" is not what was signed: it was changed later")]
    Changed(String),
    /// A field that was signed and is gone.
    #[error("the field \"{0}\" was signed and is missing: it was removed later")]
    Removed(String),
}

impl Error {
    /// A word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Json(_) => "json",
            Self::NoRecord => "no_record",
            Self::Version(_) => "version",
            Self::Unsigned(_) => "unsigned",
            Self::Signature(_) => "signature",
            Self::OtherKey { .. } => "other_key",
            Self::Forged(_) => "forged",
            Self::Added(_) => "added",
            Self::Changed(_) => "changed",
            Self::Removed(_) => "removed",
        }
    }

    /// The field that is wrong, where it is one.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Added(field) | Self::Changed(field) | Self::Removed(field) => Some(field),
            Self::Json(_)
            | Self::NoRecord
            | Self::Version(_)
            | Self::Unsigned(_)
            | Self::Signature(_)
            | Self::OtherKey { .. }
            | Self::Forged(_) => None,
        }
    }
}

fn because(why: &Option<String>) -> String {
    why.as_ref().map_or_else(
        || ": there is nothing to check it by".to_owned(),
        |why| format!(": {why}"),
    )
}

/// A record whose every field is what the key's owner signed.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// All of it, signature included.
    pub record: Map<String, Value>,
    /// The name of the key.
    pub key: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    algorithm: String,
    key: String,
    fields: BTreeMap<String, String>,
    value: String,
}

/// Checks the text of a record against a key. Needs nothing else: no network, no manager.
///
/// # Errors
/// What is wrong first, in the order of [`Error`].
pub fn check(text: &[u8], key: &PublicKey) -> Result<Checked, Error> {
    let Value::Object(record) = strict::read(text)? else {
        return Err(Error::NoRecord);
    };
    if record.get(FORMAT_FIELD).and_then(Value::as_str) != Some(FORMAT) {
        return Err(Error::NoRecord);
    }
    match record.get(VERSION_FIELD) {
        Some(version) if version.as_u64() == Some(VERSION) => {}
        Some(version) => return Err(Error::Version(version.to_string())),
        None => return Err(Error::Version("none".to_owned())),
    }
    let signed = match record.get(SIGNATURE_FIELD) {
        None | Some(Value::Null) => {
            let why = record.get("unsigned").and_then(Value::as_str);
            return Err(Error::Unsigned(why.map(str::to_owned)));
        }
        Some(signature) => {
            Signed::deserialize(signature).map_err(|error| Error::Signature(error.to_string()))?
        }
    };
    if signed.algorithm != ALGORITHM {
        let what = format!("its algorithm is \"{}\", not {ALGORITHM}", signed.algorithm);
        return Err(Error::Signature(what));
    }
    if signed.key != key.name() {
        return Err(Error::OtherKey {
            named: signed.key,
            given: key.name(),
        });
    }
    check_signature(&signed, key)?;
    check_fields(&record, &signed.fields)?;
    Ok(Checked {
        key: signed.key,
        record,
    })
}

fn check_signature(signed: &Signed, key: &PublicKey) -> Result<(), Error> {
    let mut bytes = [0; 64];
    hex::decode_to_slice(&signed.value, &mut bytes).map_err(|error| {
        Error::Signature(format!(
            "its value is no hexadecimal text of 64 bytes ({error})"
        ))
    })?;
    let fields = serde_json::to_value(&signed.fields)?;
    let message =
        message(&fields, &signed.key).map_err(|error| Error::Signature(error.to_string()))?;
    // Strictly: no second signature of the same text passes, and no weak key.
    key.0
        .verify_strict(&message, &Signature::from_bytes(&bytes))
        .map_err(|_| Error::Forged(signed.key.clone()))
}

fn check_fields(
    record: &Map<String, Value>,
    hashes: &BTreeMap<String, String>,
) -> Result<(), Error> {
    for (field, value) in record.iter().filter(|(field, _)| *field != SIGNATURE_FIELD) {
        let Some(hash) = hashes.get(field) else {
            return Err(Error::Added(field.clone()));
        };
        // What has no canonical text was never signed.
        if !field_hash(value).is_ok_and(|found| found == *hash) {
            return Err(Error::Changed(field.clone()));
        }
    }
    match hashes.keys().find(|field| !record.contains_key(*field)) {
        Some(field) => Err(Error::Removed(field.clone())),
        None => Ok(()),
    }
}
