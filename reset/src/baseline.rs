//! The baseline of a template, observations of a sandbox, and the verification that alone can say
//! that the two are equal.

mod stored;
mod verify;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use stored::{BaselineError, FORMAT, SIZE_LIMIT};
pub use verify::{Cause, Clean, DIFFERENCES, Tainted, Verdict, verify};

use crate::components::{Component, Facts, combine};
use crate::digest::Digest;
use crate::files::FilesReport;

/// What a fresh sandbox of a template is: recorded once at first ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Version of the digests in it: [`FORMAT`], or it verifies nothing.
    pub version: u32,
    /// Key of the template.
    pub template_key: String,
    /// Digests of the lower layers, topmost first.
    pub lowers: Vec<String>,
    /// One digest per component, all of [`Component::ALL`].
    pub components: BTreeMap<Component, Digest>,
    /// The facts behind the digests of all components but the files, to name what differs.
    pub facts: BTreeMap<Component, Facts>,
    /// About the capture, for people; not compared.
    pub captured: Captured,
}

/// About a capture of files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Captured {
    /// Entries of the merged tree.
    pub entries: u64,
    /// Bytes of contents in it.
    pub bytes: u64,
    /// Milliseconds since the epoch.
    pub at_ms: u64,
    /// Kernel release.
    pub kernel: String,
}

impl Baseline {
    /// Puts a baseline together from the root of the merged tree and the facts of all other components.
    pub fn new(
        template_key: impl Into<String>,
        lowers: Vec<String>,
        files: Digest,
        facts: BTreeMap<Component, Facts>,
        captured: Captured,
    ) -> Self {
        let mut components = digests(&facts);
        components.insert(Component::Files, files);
        Baseline {
            version: FORMAT,
            template_key: template_key.into(),
            lowers,
            components,
            facts,
            captured,
        }
    }

    /// One digest over all components.
    pub fn digest(&self) -> Digest {
        combine(&self.components)
    }
}

fn digests(facts: &BTreeMap<Component, Facts>) -> BTreeMap<Component, Digest> {
    facts
        .iter()
        .map(|(component, facts)| (*component, facts.digest(*component)))
        .collect()
}

/// What was seen of a sandbox that has been put back.
#[derive(Debug, Clone)]
pub struct Observation {
    /// The check of its files; none where it could not be made.
    pub files: Option<FilesReport>,
    /// Everything else.
    pub surroundings: Surroundings,
}

/// What was seen beside the files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Surroundings {
    /// Key of the template that the sandbox was built as.
    pub template_key: String,
    /// Digests of the layers that were actually mounted, topmost first: each proven by whoever mounted
    /// it (descriptor of the layer in a store that no guest writes).
    pub lowers: Vec<String>,
    /// Facts of all components but the files.
    pub facts: BTreeMap<Component, Facts>,
    /// Components that could not be observed, each with the reason. They taint.
    pub failed: BTreeMap<Component, String>,
}
