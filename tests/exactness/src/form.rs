//! Forms of slots.

use std::fmt;

/// How a slot is put back, and with whose rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// As `serve --strategy` takes it.
    pub strategy: &'static str,
    /// As `serve --rights` takes it.
    pub rights: &'static str,
}

/// All that there are.
pub const FORMS: [Form; 7] = [
    Form::new("layered", "root"),
    Form::new("layered", "pod"),
    Form::new("layered", "user"),
    Form::new("sliced", "pod"),
    Form::new("sliced", "user"),
    Form::new("in-place", "pod"),
    Form::new("in-place", "user"),
];

impl Form {
    const fn new(strategy: &'static str, rights: &'static str) -> Self {
        Self { strategy, rights }
    }

    /// Whether it must work wherever a manager offers it. Any other is tried, and not run where no
    /// sandbox of it comes to be; whoever makes it work adds it here.
    pub fn is_complete(self) -> bool {
        self.strategy == "layered" && self.rights != "user"
    }

    /// Whether execd runs in the image's root, where nothing can be linked to it.
    pub fn runs_in_the_image(self) -> bool {
        self.strategy != "layered"
    }

    /// Whether a rollout's changes are undone one by one, so that what nobody can restore differs.
    pub fn is_in_place(self) -> bool {
        self.strategy == "in-place"
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.strategy, self.rights)
    }
}
