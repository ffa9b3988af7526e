//! The status of one test, and the map of them that a parser makes of a log.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// What a runner said of one test.
///
/// Some parsers take the first or last word of a line as it stands, as long as it begins or
/// ends with a status word (`ERROR:` or `tests.PASSED`). Grading counts such words neither
/// as passed nor as failed, so they are kept apart as [`Status::Other`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Status {
    /// The test ran and failed.
    Failed,
    /// The test ran and passed.
    Passed,
    /// The test was not run.
    Skipped,
    /// The test could not be run to its end.
    Error,
    /// The test failed as it was expected to; graded as passed.
    Xfail,
    /// A word that holds a status word but is none.
    Other(String),
}

/// The words a line of pytest's report begins with, in the harness's order.
pub(crate) const STATUS_WORDS: [&str; 5] = ["FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL"];

/// Test name to status, in the order in which the names first appeared in the log. The order
/// decides which of several tests stands for a truncated name.
pub type StatusMap = IndexMap<String, Status>;

impl Status {
    /// The word that stands for the status in reports.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Failed => "FAILED",
            Self::Passed => "PASSED",
            Self::Skipped => "SKIPPED",
            Self::Error => "ERROR",
            Self::Xfail => "XFAIL",
            Self::Other(word) => word,
        }
    }

    /// Passed, or failed as expected.
    #[must_use]
    pub fn is_pass(&self) -> bool {
        match self {
            Self::Passed | Self::Xfail => true,
            Self::Failed | Self::Skipped | Self::Error | Self::Other(_) => false,
        }
    }

    /// Failed, or could not be run to its end.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Failed | Self::Error => true,
            Self::Passed | Self::Xfail | Self::Skipped | Self::Other(_) => false,
        }
    }
}

impl From<&str> for Status {
    fn from(word: &str) -> Self {
        match word {
            "FAILED" => Self::Failed,
            "PASSED" => Self::Passed,
            "SKIPPED" => Self::Skipped,
            "ERROR" => Self::Error,
            "XFAIL" => Self::Xfail,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl From<String> for Status {
    fn from(word: String) -> Self {
        Self::from(word.as_str())
    }
}

impl From<Status> for String {
    fn from(status: Status) -> Self {
        status.as_str().to_owned()
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
