//! Signed records: what a sandbox was, and what became of it.
//!
//! A record is one JSON object. Its field `signature` names the key, holds the hash of each other
//! field, and signs those hashes; so whoever checks a record learns not only that something is
//! wrong but which field. What is hashed is the one [`canonical`] text of a field, and what is
//! read is read [`strict`]ly: two readers of a record never see different values.
//!
//! [`Signer`] makes records, [`check`] checks them. Nothing here knows what a record says.
#![forbid(unsafe_code)]

pub mod canonical;
mod check;
mod key;
mod signer;
pub mod strict;

pub use check::{Checked, Error, check};
pub use key::{KeyError, PublicKey};
pub use signer::{SignError, Signer};

/// The field that says what the object is.
pub const FORMAT_FIELD: &str = "format";

/// What stands there.
pub const FORMAT: &str = "innkeeper-record";

/// The field with the version of the signing.
pub const VERSION_FIELD: &str = "version";

/// The version of the signing that this crate makes and checks.
pub const VERSION: u64 = 1;

/// The field of the signature.
pub const SIGNATURE_FIELD: &str = "signature";

/// What stands before the signed text, so that a signature of a record is one of nothing else.
const DOMAIN: &[u8] = b"innkeeper record signature v1\0";

/// The only algorithm.
const ALGORITHM: &str = "ed25519";

/// The text that is signed: hashes of all fields by name, and the key.
fn message(fields: &serde_json::Value, key: &str) -> Result<Vec<u8>, canonical::Error> {
    let object = serde_json::json!({ "fields": fields, "key": key });
    let mut message = DOMAIN.to_vec();
    message.extend(canonical::text(&object)?.into_bytes());
    Ok(message)
}

/// The hash of one field's value.
fn field_hash(value: &serde_json::Value) -> Result<String, canonical::Error> {
    Ok(blake3::hash(canonical::text(value)?.as_bytes()).to_string())
}
