//! By which strategy and with which rights sandboxes are made.

use std::fmt;

use innkeeper_test_local::{House, soak};

/// One way of making sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// As `serve --strategy` takes it.
    pub strategy: &'static str,
    /// As `serve --rights` takes it.
    pub rights: &'static str,
}

/// All of them; what a machine or this version does not have is reported as not run.
pub const PAIRS: [Pair; 7] = [
    Pair::new("layered", "root"),
    Pair::new("layered", "pod"),
    Pair::new("layered", "user"),
    Pair::new("sliced", "pod"),
    Pair::new("sliced", "user"),
    Pair::new("in-place", "pod"),
    Pair::new("in-place", "user"),
];

impl Pair {
    const fn new(strategy: &'static str, rights: &'static str) -> Self {
        Self { strategy, rights }
    }

    /// Whether a rollout's changes are undone one by one.
    pub fn is_in_place(self) -> bool {
        self.strategy == "in-place"
    }

    /// What a machine gives whose root runs `serve` without options.
    pub fn is_default(self) -> bool {
        self == PAIRS[0]
    }

    /// Why it is not tried here: what a manager says that cannot make sandboxes so, or what these
    /// tests lack.
    pub fn refused(self) -> Option<String> {
        if self.is_in_place() && !soak() {
            let sentence = "what two containers of this form differ in is not listed yet: it is tried \
                with INNKEEPER_SOAK=1 only";
            return Some(sentence.to_owned());
        }
        if self.is_default() || innkeeper_test_cli::unfit().is_some() {
            return None;
        }
        House::try_with(&self.options()).err()
    }

    /// The options of `serve` that ask for it.
    pub fn options(self) -> [&'static str; 4] {
        ["--strategy", self.strategy, "--rights", self.rights]
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.strategy, self.rights)
    }
}
