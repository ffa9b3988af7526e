//! The daemon's own end: when no manager has been heard of for the orphan ttl, and every
//! lease that one granted is past its deadline, nobody will ever come back for the
//! sandboxes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The ttl where the manager says none: 15 minutes, long enough to restart a manager in.
const TTL: Duration = Duration::from_secs(15 * 60);

/// When a manager was last heard of, and until when its leases may live. Milliseconds since
/// the epoch.
#[derive(Debug, Clone)]
pub struct Orphan {
    heard: Arc<AtomicU64>,
    hold: Arc<AtomicU64>,
    ttl: Duration,
}

impl Orphan {
    /// Heard of now; the ttl comes from `INNKEEPER_ORPHAN_TTL_MS`.
    pub fn from_env() -> Self {
        let given = std::env::var("INNKEEPER_ORPHAN_TTL_MS")
            .ok()
            .and_then(|ms| ms.parse().ok());
        Self {
            heard: Arc::new(AtomicU64::new(now())),
            hold: Arc::default(),
            ttl: given.map_or(TTL, Duration::from_millis),
        }
    }

    /// A manager has called.
    pub fn heard(&self) {
        self.heard.store(now(), Ordering::Relaxed);
    }

    /// Leases may live until this moment: the manager's latest word counts, an earlier moment
    /// too, since leases end.
    pub fn hold(&self, until: u64) {
        self.hold.store(until, Ordering::Relaxed);
    }

    /// Milliseconds until the daemon would end itself, as things stand.
    fn left(&self) -> u64 {
        let silent = self.heard.load(Ordering::Relaxed) + self.ttl.as_millis() as u64;
        silent
            .max(self.hold.load(Ordering::Relaxed))
            .saturating_sub(now())
    }

    /// Waits until nobody will come back. Cancel safe.
    pub async fn abandoned(&self) {
        loop {
            match self.left() {
                0 => return,
                // Looked at again at least every minute, since clocks are set.
                left => tokio::time::sleep(Duration::from_millis(left.min(60_000))).await,
            }
        }
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn silence_ends_the_daemon_and_a_lease_puts_it_off() {
        let orphan = Orphan {
            heard: Arc::default(),
            hold: Arc::default(),
            ttl: TTL,
        };
        orphan.abandoned().await;
        orphan.hold(now() + 3_600_000);
        assert!(orphan.left() > 3_500_000, "a lease holds the daemon");
        orphan.heard();
        assert!(orphan.left() > 3_500_000, "the later of the two counts");
    }
}
