//! Limits and the named parameters of the policy.

use crate::ids::{JobKey, Millis};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that the pool is told once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Over all classes, slots in flight and slots being deleted included.
    pub budget: Budget,
    /// Most slots of one class, counted the same way.
    pub class_slots: u32,
    /// Most slots that are being created at a time.
    pub max_starting: u32,
    /// Creates per second in the long run.
    pub creates_per_s: f64,
    /// Creates that may happen at once after a quiet time.
    pub create_burst: u32,
    /// Version of the digest encoding in use; a baseline of another version means single use.
    pub baseline_format: u32,
    /// Ended leases that are remembered, so that a repeated request finds its lease.
    pub ended_leases: usize,
    /// Weight and cap of jobs that differ from [`JobRule::default`].
    pub jobs: Vec<(JobKey, JobRule)>,
    /// The knobs of the supply policy.
    pub policy: Policy,
    /// How long things may take.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            class_slots: 4096,
            max_starting: 32,
            creates_per_s: 50.0,
            create_burst: 100,
            baseline_format: 1,
            ended_leases: 4096,
            jobs: Vec::new(),
            policy: Policy::default(),
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// For slots on this machine alone. There is no API server to spare, and a create is cheaper
    /// than what asks for it: how many are starting at a time is bound enough.
    pub fn one_machine() -> Self {
        Self {
            creates_per_s: 5000.0,
            create_burst: 5000,
            ..Self::default()
        }
    }

    pub(crate) fn rules(&self) -> BTreeMap<JobKey, JobRule> {
        self.jobs.iter().cloned().collect()
    }
}

/// Caps over all classes; none means no cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Slots.
    pub slots: Option<u32>,
    /// Thousandths of a CPU.
    pub cpu_milli: Option<u64>,
    /// Bytes.
    pub memory_bytes: Option<u64>,
}

/// A job's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRule {
    /// Turns that it gets for one turn of a job of weight 1. 0 counts as 1.
    pub weight: u32,
    /// Most leases it may hold at a time.
    pub cap: Option<u32>,
}

impl Default for JobRule {
    fn default() -> Self {
        Self {
            weight: 1,
            cap: None,
        }
    }
}

/// Parameters of the supply policy. Levels follow the peak of leased and waiting requests within the
/// class's idle timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Level in percent of that peak, rounded up.
    pub level_percent: u32,
    /// Slots added to the level while there is any demand.
    pub spare: u32,
    /// Make idle blank slots ready as the templates in demand.
    pub specialise_ahead: bool,
    /// An idle slot heard of within this time is handed out without another health check.
    pub health_fresh_ms: u64,
    /// Tries of one request whose slots fail under it.
    pub tries: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            level_percent: 100,
            spare: 0,
            specialise_ahead: true,
            health_fresh_ms: 0,
            tries: 3,
        }
    }
}

/// Deadlines of the pool's own. The executor of actions has shorter ones; these catch what it loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// A specialising that takes longer has failed.
    pub specialise_ms: Millis,
    /// A reset that takes longer is tainted.
    pub reset_ms: Millis,
    /// A health check that takes longer has failed.
    pub health_ms: Millis,
    /// A create without an answer is asked again after this long. It is never given up.
    pub create_again_ms: Millis,
    /// A delete without an answer is asked again after this long.
    pub delete_again_ms: Millis,
    /// First pause after a failed create or delete; doubles each time.
    pub backoff_ms: Millis,
    /// Longest such pause.
    pub backoff_max_ms: Millis,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            specialise_ms: 3_600_000,
            reset_ms: 300_000,
            health_ms: 10_000,
            create_again_ms: 300_000,
            delete_again_ms: 120_000,
            backoff_ms: 500,
            backoff_max_ms: 60_000,
        }
    }
}

impl Limits {
    /// The pause after the n-th failure in a row, n from 1.
    pub(crate) fn backoff(&self, failures: u32) -> Millis {
        let doubled = self
            .backoff_ms
            .saturating_mul(1 << failures.saturating_sub(1).min(20));
        doubled.min(self.backoff_max_ms)
    }
}
