//! What a scan found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Examples kept of each kind.
const EXAMPLES: usize = 3;

/// Bytes kept of an example.
const LONGEST: usize = 120;

/// Reasons kept for what could not be read.
const REASONS: usize = 8;

/// Where an answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Commits that the base commit does not reach.
    Commits,
    /// Trees and file contents that it does not reach.
    Contents,
    /// Branches and other refs to such objects.
    Refs,
    /// Tags of such objects.
    Tags,
    /// Stashes.
    Stashes,
    /// Notes.
    Notes,
    /// Entries of reflogs that name such objects.
    Reflog,
    /// ORIG_HEAD, FETCH_HEAD and the like that name such objects.
    Heads,
    /// Further work trees that stand at such objects.
    Worktrees,
    /// Other repositories whose objects this one uses.
    Alternates,
    /// Caches of test runs.
    Caches,
    /// Outputs of tests and patches: logs, coverage, rejected hunks.
    Outputs,
}

impl Kind {
    /// The word in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Commits => "commits",
            Self::Contents => "contents",
            Self::Refs => "refs",
            Self::Tags => "tags",
            Self::Stashes => "stashes",
            Self::Notes => "notes",
            Self::Reflog => "reflog",
            Self::Heads => "heads",
            Self::Worktrees => "worktrees",
            Self::Alternates => "alternates",
            Self::Caches => "caches",
            Self::Outputs => "outputs",
        }
    }
}

/// What was found of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How many.
    pub count: u64,
    /// The first few: names, paths, object ids.
    pub examples: Vec<String>,
}

/// What a scan found, and what it could not look at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// By kind; a kind that is not here was not found.
    pub found: BTreeMap<Kind, Finding>,
    /// What could not be read, and so may hold more. Empty: all was looked at.
    pub unread: Vec<String>,
    /// The commit from which everything allowed is reached; None without a repository.
    pub base: Option<String>,
}

impl Report {
    /// Whether everything was looked at and nothing found.
    pub fn is_clear(&self) -> bool {
        self.found.is_empty() && self.unread.is_empty()
    }

    pub(crate) fn add(&mut self, kind: Kind, example: impl FnOnce() -> String) {
        let finding = self.found.entry(kind).or_default();
        finding.count += 1;
        if finding.examples.len() < EXAMPLES {
            finding.examples.push(cut(example()));
        }
    }

    pub(crate) fn unread(&mut self, reason: impl ToString) {
        if self.unread.len() < REASONS {
            self.unread.push(cut(reason.to_string()));
        }
    }
}

fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push('…');
    }
    text
}
