//! What a verb takes.

use crate::{Kind, Word};

/// What one argument looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A path that exists in the image, most of the time.
    Path,
    /// A directory that exists in the image, most of the time.
    Directory,
    /// A path that need not exist.
    Fresh,
    /// A name of a socket, a key, an object: no slash.
    Name,
    /// Bytes to be written.
    Text,
    /// Permission bits, octal.
    Mode,
    /// A number from one to another, both included.
    Number(i64, i64),
    /// One of these.
    OneOf(&'static [&'static str]),
}

impl Shape {
    /// Whether a word fits. Paths and texts may be anything.
    pub fn fits(self, word: &Word) -> bool {
        match self {
            Self::Path | Self::Directory | Self::Fresh | Self::Text => true,
            Self::Name => !word.bytes().contains(&b'/'),
            Self::Mode => mode(word).is_some(),
            Self::Number(low, high) => word.number().is_some_and(|n| (low..=high).contains(&n)),
            Self::OneOf(words) => words.iter().any(|one| one.as_bytes() == word.bytes()),
        }
    }

    /// How it is called where a line does not fit.
    pub fn expected(self) -> String {
        match self {
            Self::Path | Self::Directory | Self::Fresh => "a path".to_owned(),
            Self::Name => "a name without a slash".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::Mode => "permission bits in octal, such as 0644".to_owned(),
            Self::Number(low, high) => format!("a number from {low} to {high}"),
            Self::OneOf(words) => format!("one of {}", words.join(", ")),
        }
    }
}

/// Permission bits as an octal word says them.
pub(crate) fn mode(word: &Word) -> Option<u32> {
    let text = std::str::from_utf8(word.bytes()).ok()?;
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777)
}

impl Word {
    /// The permission bits that it says in octal.
    pub fn mode(&self) -> Option<u32> {
        mode(self)
    }
}

/// A line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verb {
    /// How it is written.
    pub name: &'static str,
    /// What it works on.
    pub kind: Kind,
    /// Its arguments.
    pub shapes: &'static [Shape],
}

/// A table's line.
pub(crate) const fn verb(name: &'static str, kind: Kind, shapes: &'static [Shape]) -> Verb {
    Verb { name, kind, shapes }
}
