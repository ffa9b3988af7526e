//! A token bucket: so many at once, so many per second in the long run.

use crate::ids::Millis;

#[derive(Debug)]
pub(crate) struct Bucket {
    per_ms: f64,
    burst: f64,
    tokens: f64,
    at: Millis,
}

impl Bucket {
    pub(crate) fn new(per_s: f64, burst: u32, now: Millis) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            per_ms: per_s.max(0.001) / 1000.0,
            burst,
            tokens: burst,
            at: now,
        }
    }

    /// Takes a token.
    ///
    /// # Errors
    /// There is none before the time returned.
    pub(crate) fn take(&mut self, now: Millis) -> Result<(), Millis> {
        let passed = now.saturating_sub(self.at) as f64;
        self.tokens = (self.tokens + passed * self.per_ms).min(self.burst);
        self.at = self.at.max(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        let missing = (1.0 - self.tokens) / self.per_ms;
        Err(now + (missing.ceil() as Millis).max(1))
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
