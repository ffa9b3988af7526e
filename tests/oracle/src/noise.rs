//! In what fresh sandboxes differ among themselves.

use std::collections::BTreeSet;

use crate::Record;
use crate::compare::differing;

/// Fields in which fresh sandboxes differ, each excused by the committed list.
#[derive(Debug, Clone, Default)]
pub struct Noise {
    learned: BTreeSet<(String, String)>,
}

/// Fresh sandboxes differ in something that the committed list does not excuse.
#[derive(Debug, thiserror::Error)]
#[error("fresh sandboxes differ in what no pattern excuses: {}", .0.join("; "))]
pub struct Unexcused(pub Vec<String>);

impl Noise {
    /// Fewest fresh sandboxes from which noise can be learned.
    pub const FEWEST: usize = 5;

    /// Learns from records of at least [`Noise::FEWEST`] fresh sandboxes.
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
        let mut learned = BTreeSet::new();
        for other in &fresh[1..] {
            differing(&fresh[0], other, |subject, field, _, _| {
                learned.insert((subject.to_owned(), field.to_owned()));
            });
        }
        Ok(Self { learned })
    }

    /// Whether a difference in this field is noise.
    pub fn covers(&self, subject: &str, field: &str) -> bool {
        self.learned
            .contains(&(subject.to_owned(), field.to_owned()))
    }
}
