//! Samples and what is said of them.

/// Times of one thing, in milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    values: Vec<f64>,
}

impl Sample {
    /// Adds one.
    pub(super) fn add(&mut self, ms: f64) {
        self.values.push(ms);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The value below which this share lies, by nearest rank; 0 where there are none.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank"
        )]
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
    }

    /// The middle one.
    pub(super) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The least.
    pub(super) fn min(&self) -> f64 {
        self.values
            .iter()
            .copied()
            .min_by(f64::total_cmp)
            .unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_sample() {
        let mut sample = Sample::default();
        assert_eq!(sample.median(), 0.0);
        for value in [5.0, 1.0, 3.0, 2.0, 4.0] {
            sample.add(value);
        }
        assert_eq!(
            (sample.median(), sample.min(), sample.quantile(0.99)),
            (3.0, 1.0, 5.0)
        );
    }
}
