//! Names of things, one type each, and the source that new names come from.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Milliseconds since an epoch that the caller chooses once and keeps over restarts (unix time serves).
pub type Millis = u64;

macro_rules! name {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.to_owned())
            }
        }
        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

name! {
    /// A slot, for its whole life. Derived from the nonce of its create: `s-NONCE`.
    SlotId
    /// A lease: `l-` and twelve hexadecimal digits.
    LeaseId
    /// What makes a repeated create the same create: twelve hexadecimal digits.
    Nonce
    /// Digest of a template with its tenant, supply settings left out.
    TemplateKey
    /// Digest of an image.
    ImageId
    /// A slot class, as the caller digests it. With `carry: own` it has the template key in it.
    ClassId
    /// Whose slots and leases these are.
    Tenant
}

impl Nonce {
    /// The slot that a create with this nonce makes.
    pub fn slot(&self) -> SlotId {
        SlotId(format!("s-{}", self.0))
    }
}

/// A request as its tenant names it. Two tenants may use the same id without meeting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestKey {
    /// The tenant that asks.
    pub tenant: Tenant,
    /// The id that the client chose.
    pub id: String,
}

/// The jobs of a tenant share slots fairly; this names one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobKey {
    /// The tenant that runs the job.
    pub tenant: Tenant,
    /// The job's name; empty where a client gives none.
    pub job: String,
}

const MASK: u64 = (1 << 48) - 1;

/// Makes names that do not repeat within one seed: a counter put through a bijection of 48 bits.
/// The caller draws a new seed at every start.
#[derive(Debug, Clone)]
pub(crate) struct IdSource {
    seed: u64,
    made: u64,
}

impl IdSource {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, made: 0 }
    }

    pub(crate) fn next_hex(&mut self) -> String {
        self.made += 1;
        let mut bits = self.seed.wrapping_add(self.made) & MASK;
        for odd in [0x9E37_79B9_7F4B, 0xBF58_476D_1CE5] {
            bits = (bits ^ (bits >> 23)).wrapping_mul(odd) & MASK;
        }
        format!("{:012x}", bits ^ (bits >> 25))
    }
}

#[cfg(test)]
mod tests {
    use super::IdSource;
    use std::collections::BTreeSet;

    #[test]
    fn names_of_one_seed_do_not_repeat() {
        let mut source = IdSource::new(7);
        let names: BTreeSet<String> = (0..10_000).map(|_| source.next_hex()).collect();
        assert_eq!(names.len(), 10_000);
        assert!(names.iter().all(|name| name.len() == 12));
    }
}
