//! Trying failed scripts again, and smaller ones like them.

use innkeeper_test_oracle::Depth;
use innkeeper_test_script::Script;

use super::{LAST_USE, Run, RunError, lease};
use crate::{Failure, Leased, Sandboxes, Shrinker, Visit};

/// Scripts that are tried for one failure. Each costs a reset and two full observations.
const MOST_TRIES: usize = 150;

/// Slots that one try may look through for the one that it is about.
const MOST_OTHERS: usize = 16;

impl Run {
    /// Cuts every failure down, for one worker when the others have ended. A failure that does not
    /// repeat keeps its whole script.
    ///
    /// # Errors
    /// When no sandbox can be leased.
    pub async fn shrink<S: Sandboxes>(&self, sandboxes: &mut S) -> Result<(), RunError> {
        for index in 0..self.failures().len() {
            let mut failure = self.failures().swap_remove(index);
            self.cut(sandboxes, &mut failure).await?;
            self.locked().failures[index] = failure;
        }
        Ok(())
    }

    async fn cut<S: Sandboxes>(
        &self,
        sandboxes: &mut S,
        failure: &mut Failure,
    ) -> Result<(), RunError> {
        let again = self.differences_after(sandboxes, &failure.script).await?;
        if again.is_empty() {
            return Ok(());
        }
        failure.repeats = true;
        failure.differences = again;
        let mut shrinker = Shrinker::new(failure.script.clone());
        for _ in 0..MOST_TRIES {
            let Some(candidate) = shrinker.candidate() else {
                break;
            };
            let differences = self.differences_after(sandboxes, &candidate).await?;
            let failed = !differences.is_empty();
            shrinker.tell(failed);
            if failed {
                failure.differences = differences;
            }
        }
        failure.script = shrinker.smallest().clone();
        Ok(())
    }

    /// In what a sandbox differs from a fresh one after a script and a reset that was called clean.
    async fn differences_after<S: Sandboxes>(
        &self,
        sandboxes: &mut S,
        script: &Script,
    ) -> Result<Vec<String>, RunError> {
        let Some(leased) = self.sound(sandboxes, script).await? else {
            return Ok(Vec::new());
        };
        match sandboxes.give_back(&leased, false).await {
            Ok(returned) if returned.clean && !returned.retired => {}
            Ok(_) | Err(_) => return Ok(Vec::new()),
        }
        let mut held = Vec::new();
        let mut found = Vec::new();
        while held.len() < MOST_OTHERS {
            let again = lease(sandboxes).await?;
            let is_it = again.slot == leased.slot;
            if is_it {
                let nothing = Script::default();
                let visit = Visit {
                    depth: Depth::Full,
                    script: &nothing,
                };
                if let Ok(written) = sandboxes.visit(&again, visit).await {
                    found = self.judged(&written);
                }
            }
            held.push(again);
            if is_it {
                break;
            }
        }
        for leased in held {
            let _ = sandboxes.give_back(&leased, true).await;
        }
        Ok(found)
    }

    /// A sandbox that was like a fresh one before the script was acted out in it; none where the
    /// script itself ends it.
    async fn sound<S: Sandboxes>(
        &self,
        sandboxes: &mut S,
        script: &Script,
    ) -> Result<Option<Leased>, RunError> {
        for _ in 0..MOST_OTHERS {
            let leased = lease(sandboxes).await?;
            if leased.uses < LAST_USE {
                let visit = Visit {
                    depth: Depth::Full,
                    script,
                };
                match sandboxes.visit(&leased, visit).await {
                    Ok(written) if self.judged(&written).is_empty() => return Ok(Some(leased)),
                    Ok(_) => {}
                    Err(_) => {
                        let _ = sandboxes.give_back(&leased, true).await;
                        return Ok(None);
                    }
                }
            }
            let _ = sandboxes.give_back(&leased, true).await;
        }
        Ok(None)
    }
}
