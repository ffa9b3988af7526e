//! In what fresh sandboxes differ among themselves, and what may be called noise at all.

mod pattern;

use std::collections::{BTreeMap, BTreeSet};

use crate::Record;
use crate::compare::differing;

pub use pattern::{Pattern, When};

/// Fields in which a sandbox may differ from a fresh one.
#[derive(Debug, Clone)]
pub struct Noise {
    patterns: Vec<Pattern>,
    learned: BTreeSet<(String, String)>,
    in_place: bool,
}

/// Fresh sandboxes differ in something that the committed list does not excuse.
#[derive(Debug, thiserror::Error)]
#[error("fresh sandboxes differ in {} fields that no pattern excuses: {}", .0.len(), .0[..NAMED.min(.0.len())].join("; "))]
pub struct Unexcused(pub Vec<String>);

/// Characters of a value that an error shows.
const SHOWN: usize = 200;

/// Fields that an error names.
const NAMED: usize = 40;

/// The committed list: all that may ever be called noise.
const LIST: &str = include_str!("../noise.list");

impl Noise {
    /// Fewest fresh sandboxes from which noise can be learned.
    pub const FEWEST: usize = 5;

    /// The committed list.
    ///
    /// # Panics
    /// When the list of this crate is broken.
    pub fn list() -> Vec<Pattern> {
        pattern::parse(LIST).expect("the list of this crate")
    }

    /// Learns from records of at least [`Noise::FEWEST`] fresh sandboxes, all from one side.
    ///
    /// # Errors
    /// Fields that differ and that nothing excuses.
    ///
    /// # Panics
    /// With fewer records.
    pub fn learn(fresh: &[Record]) -> Result<Self, Unexcused> {
        assert!(
            fresh.len() >= Self::FEWEST,
            "too few fresh sandboxes to learn from"
        );
        let patterns = Self::list();
        let mut learned = BTreeSet::new();
        let mut unexcused = BTreeMap::new();
        for other in &fresh[1..] {
            differing(&fresh[0], other, |subject, field, one, two| {
                if patterns.iter().any(|pattern| pattern.fits(subject, field)) {
                    learned.insert((subject.to_owned(), field.to_owned()));
                } else {
                    let [one, two] = [one, two].map(|value| short(value.unwrap_or("nothing")));
                    let values = format!("{one:?} and {two:?}");
                    unexcused.insert(format!("{subject} {field}"), values);
                }
            });
        }
        if unexcused.is_empty() {
            return Ok(Self {
                patterns,
                learned,
                in_place: false,
            });
        }
        Err(Unexcused(
            unexcused
                .into_iter()
                .map(|(what, values)| format!("{what}: {values}"))
                .collect(),
        ))
    }

    /// The same for sandboxes that are reset in place, whose change and birth times, inode numbers
    /// and sizes of directories nobody can restore.
    pub fn in_place(self) -> Self {
        Self {
            in_place: true,
            ..self
        }
    }

    /// Number of fields that were learned.
    pub fn learned(&self) -> usize {
        self.learned.len()
    }

    /// Patterns of the list by the number of learned fields that each excused.
    pub fn used(&self) -> Vec<(&Pattern, usize)> {
        let count = |pattern: &Pattern| {
            self.learned
                .iter()
                .filter(|(subject, field)| pattern.fits(subject, field))
                .count()
        };
        self.patterns
            .iter()
            .map(|pattern| (pattern, count(pattern)))
            .collect()
    }

    /// Whether a difference in this field is noise, by what the fresh record says of its subject.
    pub fn covers(&self, fresh: &Record, subject: &str, field: &str) -> bool {
        let moves = |pattern: &Pattern| pattern.when == When::Ever && pattern.fits(subject, field);
        self.learned
            .contains(&(subject.to_owned(), field.to_owned()))
            || self.patterns.iter().any(moves)
            || self.in_place && restored_by_none(fresh, subject, field)
    }
}

/// The beginning of a long value.
pub(crate) fn short(value: &str) -> String {
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}

fn restored_by_none(fresh: &Record, subject: &str, field: &str) -> bool {
    let directory = || fresh.get(subject, "type") == Some("directory");
    subject.starts_with("file ")
        && match field {
            "ctime" | "btime" | "ino" | "directory ino" => true,
            "size" | "blocks" => directory(),
            _ => false,
        }
}
