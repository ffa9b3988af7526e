//! One rollout: lease, look, act, return.

use innkeeper_test_oracle::Depth;
use innkeeper_test_script::Script;

use super::state::Task;
use super::{LAST_USE, ODD_FRESH, Run, RunError, Source, lease};
use crate::{Failure, Leased, Progress, Sandboxes, Visit, draw};

/// Slots that are held at the same time while those that are due are looked for.
const MOST_HELD: usize = 64;

impl Run {
    /// Works until all scripts have had their turn or enough have failed. Any number of workers may
    /// do so at once, each with a clone of the sandboxes.
    ///
    /// Not cancel safe: a lease that is dropped is left to its expiry.
    ///
    /// # Errors
    /// When no sandbox can be leased.
    pub async fn work<S: Sandboxes>(
        &self,
        sandboxes: &mut S,
        progress: &dyn Progress,
    ) -> Result<(), RunError> {
        loop {
            let leased = lease(sandboxes).await?;
            let task = if leased.uses < LAST_USE {
                self.task()
            } else {
                None
            };
            let over = task.is_none() && leased.uses < LAST_USE;
            self.round(sandboxes, &leased, task, progress).await;
            if let Some(differences) = self.locked().too_odd(ODD_FRESH) {
                return Err(RunError::Odd(differences));
            }
            if over {
                return Ok(());
            }
        }
    }

    /// Looks at the slots whose last reset nobody has looked at. For one worker, when the others
    /// have ended.
    ///
    /// # Errors
    /// When no sandbox can be leased.
    pub async fn settle<S: Sandboxes>(&self, sandboxes: &mut S) -> Result<(), RunError> {
        let mut held = Vec::new();
        while self.locked().pending() > 0 && held.len() < MOST_HELD {
            let leased = lease(sandboxes).await?;
            self.look(sandboxes, &leased, &Script::default()).await;
            held.push(leased);
        }
        for leased in held {
            let _ = sandboxes.give_back(&leased, true).await;
        }
        Ok(())
    }

    fn task(&self) -> Option<Task> {
        let mut state = self.locked();
        if state.failures.len() >= self.wish.failures {
            return None;
        }
        let iteration = state.take()?;
        drop(state);
        let script = match &self.wish.source {
            Source::Drawn(_) => draw(self.wish.seed, iteration, &self.world),
            Source::Given(scripts) => scripts.get(usize::try_from(iteration).ok()?)?.clone(),
        };
        Some(Task { iteration, script })
    }

    async fn round<S: Sandboxes>(
        &self,
        sandboxes: &mut S,
        leased: &Leased,
        task: Option<Task>,
        progress: &dyn Progress,
    ) {
        let nothing = Script::default();
        let script = task.as_ref().map_or(&nothing, |task| &task.script);
        let seen = self.look(sandboxes, leased, script).await;
        match (task, seen) {
            (Some(task), Seen::Sound(written)) => {
                let returned = sandboxes.give_back(leased, false).await;
                let mut state = self.locked();
                state.tally.acted(&task.script, &written);
                match returned {
                    Ok(returned) => state.returned(leased, task, &returned),
                    Err(error) => {
                        state.tally.iterations += 1;
                        state.tally.taint(&format!("its end: {error}"));
                    }
                }
                let tally = state.tally.clone();
                drop(state);
                progress.step(&tally);
                return;
            }
            // What a script does in a sandbox that was not sound before says nothing.
            (Some(task), Seen::Odd) => self.locked().put_back(task.iteration),
            (Some(_), Seen::Ended(error)) => {
                let mut state = self.locked();
                state.tally.iterations += 1;
                state.tally.taint(&format!("its end: {error}"));
            }
            (None, _) => {}
        }
        let _ = sandboxes.give_back(leased, true).await;
    }

    /// Visits a sandbox, and has what it shows before anything acts in it judged.
    async fn look<S: Sandboxes>(
        &self,
        sandboxes: &mut S,
        leased: &Leased,
        script: &Script,
    ) -> Seen {
        let depth = self.locked().depth(self.wish.full_every);
        let seen = sandboxes.visit(leased, Visit { depth, script }).await;
        let suspect = self.locked().suspect(&leased.slot);
        let written = match seen {
            Ok(written) => written,
            Err(error) => return Seen::Ended(error.to_string()),
        };
        let differences = self.judge.differences(depth, &written);
        let mut state = self.locked();
        let sound = differences.is_empty();
        match suspect {
            Some(task) => {
                state.tally.checked += 1;
                if !sound {
                    state.tally.false_clean += 1;
                    state.failures.push(self.failure(task, differences));
                }
            }
            None if !sound => state.odd_fresh(differences),
            None => {}
        }
        if sound {
            Seen::Sound(written)
        } else {
            Seen::Odd
        }
    }

    fn failure(&self, task: Task, differences: Vec<String>) -> Failure {
        Failure {
            seed: self.wish.seed,
            iteration: task.iteration,
            script: task.script,
            differences,
            repeats: false,
        }
    }

    pub(super) fn judged(&self, written: &[u8]) -> Vec<String> {
        self.judge.differences(Depth::Full, written)
    }
}

/// What a visit showed.
enum Seen {
    /// A sandbox like a fresh one; and what was written.
    Sound(Vec<u8>),
    /// Another one.
    Odd,
    /// None: it ended.
    Ended(String),
}
