//! One figure beside its floor.

use super::sample::Sample;

/// What was measured, in milliseconds.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    /// Its name.
    pub(super) name: &'static str,
    /// The times.
    pub(super) sample: Sample,
    /// The floor's times.
    pub(super) floor: Sample,
    /// What the floor is.
    pub(super) floor_name: String,
}

impl Figure {
    /// How many times its floor the median is.
    pub(super) fn ratio(&self) -> f64 {
        self.sample.median() / self.floor.median()
    }
}
