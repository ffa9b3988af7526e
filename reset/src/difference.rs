//! Differences: where a sandbox is not its baseline, in words for people.

use serde::{Deserialize, Serialize};

use crate::components::Component;

/// One place in which a sandbox differs from its baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The component it belongs to.
    pub component: Component,
    /// Path bytes relative to the root of the tree (empty for the root itself), or the key of a fact.
    pub path: Vec<u8>,
    /// Which attribute: `mode`, `content`, `xattr user.x`, `entry` and so on.
    pub what: String,
    /// The baseline's value; none where the baseline has no such thing.
    pub baseline: Option<String>,
    /// The value found; none where it is gone.
    pub now: Option<String>,
}

impl Difference {
    /// Component, path and attribute with both values in one line, odd bytes escaped.
    pub fn sentence(&self) -> String {
        format!(
            "{} {}: {} was {}, is {}",
            self.component,
            self.path.escape_ascii(),
            self.what,
            self.baseline.as_deref().unwrap_or("absent"),
            self.now.as_deref().unwrap_or("absent"),
        )
    }
}
