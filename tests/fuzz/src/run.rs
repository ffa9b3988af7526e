//! A run: many rollouts, each checked by the next lease of its slot.
//!
//! An observation costs more than a reset, so none is made for its own sake: the one with which a
//! rollout begins is the check of the rollout before it. Several workers may share a run.

mod check;
mod round;
mod state;

use std::sync::{Mutex, PoisonError};

use innkeeper_test_oracle::Depth;
use innkeeper_test_script::Script;

use crate::{Failure, Judge, Leased, Sandboxes, Tally, Unfit, Visit, World};
use state::State;

/// The use after which a slot is given up: the last one only looks.
const LAST_USE: u32 = 8;

/// Fresh sandboxes that may be unlike the first ones: so many, and one in so many visits. Whoever
/// meets more than that has nothing to compare with.
const ODD_FRESH: (u64, u64) = (5, 50);

/// What is asked of a run.
#[derive(Debug, Clone)]
pub struct Wish {
    /// From which all scripts follow.
    pub seed: u64,
    /// What is acted out.
    pub source: Source,
    /// Every so many visits one observes everything.
    pub full_every: u64,
    /// After so many false cleans there is no need for more.
    pub failures: usize,
    /// Sandboxes are reset in place, which leaves what nobody can restore.
    pub in_place: bool,
}

/// Where scripts come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// So many are drawn.
    Drawn(u64),
    /// These, in order.
    Given(Vec<Script>),
}

impl Source {
    /// Number of scripts.
    pub fn count(&self) -> u64 {
        match self {
            Self::Drawn(count) => *count,
            Self::Given(scripts) => scripts.len() as u64,
        }
    }
}

/// Why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There was no sandbox to be had.
    #[error("no sandbox could be leased: {0}")]
    Lease(String),
    /// A fresh sandbox ended while it was looked at.
    #[error("a fresh sandbox could not be visited: {0}")]
    Visit(String),
    /// Fresh sandboxes differ, so that nothing can be said about others.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// The same, found out later.
    #[error("fresh sandboxes keep differing from the first ones: {}", .0.join("; "))]
    Odd(Vec<String>),
}

/// How a run goes, told after each iteration.
pub trait Progress: Send + Sync {
    /// One more iteration is done.
    fn step(&self, tally: &Tally);
}

impl Progress for () {
    fn step(&self, _tally: &Tally) {}
}

/// A run that knows what fresh sandboxes look like.
#[derive(Debug)]
pub struct Run {
    wish: Wish,
    judge: Judge,
    world: World,
    state: Mutex<State>,
}

impl Run {
    /// Looks at fresh sandboxes.
    ///
    /// Cancel safe but for the lease under way, which is left to its expiry.
    ///
    /// # Errors
    /// When none can be had, or they differ among themselves.
    pub async fn prepare<S: Sandboxes>(sandboxes: &mut S, wish: Wish) -> Result<Self, RunError> {
        let mut written = [Vec::new(), Vec::new()];
        for (depth, written) in [Depth::Light, Depth::Full].into_iter().zip(&mut written) {
            while written.len() < Judge::FRESH {
                let leased = lease(sandboxes).await?;
                let script = &Script::default();
                let seen = sandboxes.visit(&leased, Visit { depth, script }).await;
                let fresh = leased.uses == 0;
                // Nothing of it is wanted any more, whatever becomes of it.
                let _ = sandboxes.give_back(&leased, true).await;
                match seen {
                    Ok(seen) if fresh => written.push(seen),
                    Ok(_) => {}
                    Err(error) => return Err(RunError::Visit(error.to_string())),
                }
            }
        }
        let [light, full] = written;
        let judge = Judge::learn(&light, &full, wish.in_place)?;
        Ok(Self {
            world: World::of(judge.fresh()),
            judge,
            state: Mutex::new(State::new(wish.source.count())),
            wish,
        })
    }

    /// The counts so far.
    pub fn tally(&self) -> Tally {
        self.locked().tally.clone()
    }

    /// The false cleans so far.
    pub fn failures(&self) -> Vec<Failure> {
        self.locked().failures.clone()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn lease<S: Sandboxes>(sandboxes: &mut S) -> Result<Leased, RunError> {
    let leased = sandboxes.lease().await;
    leased.map_err(|error| RunError::Lease(error.to_string()))
}
