//! A token bucket: so many at once, so many per second in the long run.

use crate::ids::Millis;

/// A token in the units of the account, so that no rounding is left over.
const TOKEN: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct Bucket {
    per_ms: u64,
    most: u64,
    held: u64,
    at: Millis,
}

impl Bucket {
    pub(crate) fn new(per_s: f64, burst: u32, now: Millis) -> Self {
        let per_ms = (per_s * (TOKEN / 1000) as f64).round().max(1.0) as u64;
        let most = u64::from(burst.max(1)) * TOKEN;
        Self {
            per_ms,
            most,
            held: most,
            at: now,
        }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// There is none before the time returned.
    pub(crate) fn take(&mut self, now: Millis) -> Result<(), Millis> {
        let passed = now.saturating_sub(self.at);
        let earned = passed.saturating_mul(self.per_ms);
        self.held = self.held.saturating_add(earned).min(self.most);
        self.at = self.at.max(now);
        if self.held >= TOKEN {
            self.held -= TOKEN;
            return Ok(());
        }
        Err(now + (TOKEN - self.held).div_ceil(self.per_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::Bucket;

    #[test]
    fn a_burst_then_the_rate() {
        let mut bucket = Bucket::new(10.0, 2, 0);
        assert_eq!(bucket.take(0), Ok(()));
        assert_eq!(bucket.take(0), Ok(()));
        assert_eq!(bucket.take(0), Err(100));
        assert_eq!(bucket.take(99), Err(100));
        assert_eq!(bucket.take(100), Ok(()));
    }
}
