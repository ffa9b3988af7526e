//! The pool's time: milliseconds since the Unix epoch that never run backwards.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Reads the wall clock once; afterwards a change of it moves no lease's end.
#[derive(Debug)]
pub(super) struct Clock {
    base: u64,
    start: Instant,
}

impl Clock {
    pub(super) fn new() -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            base: since.as_millis() as u64,
            start: Instant::now(),
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.base + self.start.elapsed().as_millis() as u64
    }

    /// How long until a time of this clock.
    pub(super) fn until(&self, at: u64) -> Duration {
        // The pool compares whole milliseconds: a part of one too early would tick in vain.
        Duration::from_millis(at.saturating_sub(self.now()))
    }
}
