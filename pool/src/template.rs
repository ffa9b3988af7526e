//! Templates as the pool sees them: a key, an image, and what is known of their baseline.

use crate::ids::{ImageId, TemplateKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How thoroughly a sandbox was observed. Ordered: a later one includes the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// The new upper entry by entry, lowers by their digest, and all that is not files.
    Swap,
    /// The merged tree by metadata as well.
    Walk,
    /// All contents as well.
    Full,
}

impl Depth {
    /// The word used in records and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Depth::Swap => "swap",
            Depth::Walk => "walk",
            Depth::Full => "full",
        }
    }
}

/// How often a reset must look deeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyEvery {
    /// Every so many resets of one slot walk the tree. 0 and 1 both mean every reset.
    pub walk_every: u32,
    /// Every so many resets in one class read all contents. 0 and 1 both mean every reset.
    pub full_every: u32,
}

impl Default for VerifyEvery {
    fn default() -> Self {
        Self {
            walk_every: 4,
            full_every: 64,
        }
    }
}

/// Digests of a sandbox by component (`files`, `processes`, ...), as observed or as recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// Version of the digest's encoding.
    pub format: u32,
    /// Component to digest.
    pub components: BTreeMap<String, String>,
}

impl Baseline {
    /// Whether this can stand for a state at all: of the present format, with a `files` digest, nothing empty.
    pub fn usable(&self, format: u32) -> bool {
        self.format == format
            && self.components.contains_key("files")
            && self.components.values().all(|digest| !digest.is_empty())
    }

    /// The digest of the files, the one by which people name a baseline.
    pub fn files(&self) -> Option<&str> {
        self.components.get("files").map(String::as_str)
    }
}

/// The durable record of a template that has been ready once. Prepare never runs again for its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// Its key.
    pub key: TemplateKey,
    /// Its image.
    pub image: ImageId,
    /// What first ready recorded; none makes every sandbox of it single use.
    pub baseline: Option<Baseline>,
    /// Why there is none, where first ready said so.
    #[serde(default)]
    pub single_use: Option<String>,
}
