//! What workers share.

use std::collections::BTreeMap;

use innkeeper_test_oracle::Depth;
use innkeeper_test_script::Script;

use crate::{Failure, Leased, Returned, Tally};

/// A script and its number.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) iteration: u64,
    pub(super) script: Script,
}

/// All that changes in a run.
#[derive(Debug)]
pub(super) struct State {
    pub(super) tally: Tally,
    pub(super) failures: Vec<Failure>,
    /// Slots that were reset after a script and not looked at since.
    pending: BTreeMap<String, Task>,
    count: u64,
    next: u64,
    again: Vec<u64>,
    visits: u64,
    /// In what the last fresh sandbox that was unlike the others differed.
    odd: Vec<String>,
}

impl State {
    pub(super) fn new(count: u64) -> Self {
        Self {
            tally: Tally::default(),
            failures: Vec::new(),
            pending: BTreeMap::new(),
            count,
            next: 0,
            again: Vec::new(),
            visits: 0,
            odd: Vec::new(),
        }
    }

    /// The number of the next script.
    pub(super) fn take(&mut self) -> Option<u64> {
        if let Some(number) = self.again.pop() {
            return Some(number);
        }
        let number = self.next;
        (number < self.count).then(|| self.next += 1)?;
        Some(number)
    }

    /// Gives a number back whose script has not had a fair try.
    pub(super) fn put_back(&mut self, number: u64) {
        self.again.push(number);
    }

    /// How much the next visit observes.
    pub(super) fn depth(&mut self, full_every: u64) -> Depth {
        self.visits += 1;
        if self.visits.is_multiple_of(full_every.max(1)) {
            Depth::Full
        } else {
            Depth::Light
        }
    }

    /// A fresh sandbox was unlike the first ones.
    pub(super) fn odd_fresh(&mut self, differences: Vec<String>) {
        self.tally.odd_fresh += 1;
        self.odd = differences;
    }

    /// In what fresh sandboxes differ, where too many do.
    pub(super) fn too_odd(&self, (most, one_in): (u64, u64)) -> Option<Vec<String>> {
        let odd = self.tally.odd_fresh;
        (odd > most && odd * one_in > self.visits).then(|| self.odd.clone())
    }

    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whose reset a lease of this slot shows.
    pub(super) fn suspect(&mut self, slot: &str) -> Option<Task> {
        self.pending.remove(slot)
    }

    /// A script's sandbox has come back.
    pub(super) fn returned(&mut self, leased: &Leased, task: Task, returned: &Returned) {
        self.tally.iterations += 1;
        if !returned.clean {
            self.tally.taint(&returned.cause);
            return;
        }
        self.tally.clean += 1;
        if !returned.retired {
            self.pending.insert(leased.slot.clone(), task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_taken_once_unless_it_is_put_back() {
        let mut state = State::new(2);
        assert_eq!(
            (state.take(), state.take(), state.take()),
            (Some(0), Some(1), None)
        );
        state.put_back(1);
        assert_eq!((state.take(), state.take()), (Some(1), None));
    }

    #[test]
    fn every_so_many_visits_one_is_full() {
        let mut state = State::new(0);
        let full = (0..20).filter(|_| state.depth(5) == Depth::Full).count();
        assert_eq!(full, 4);
    }
}
