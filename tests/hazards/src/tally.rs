//! How many sandboxes came back clean: tainted is allowed, and counts against reuse.

use std::sync::{Mutex, PoisonError};

/// Outcomes by case.
#[derive(Debug, Default)]
pub struct Tally {
    outcomes: Mutex<Vec<(String, Option<String>)>>,
}

impl Tally {
    /// One came back clean.
    pub fn clean(&self, case: &str) {
        self.add(case, None);
    }

    /// One was destroyed, with the first differences or the cause.
    pub fn tainted(&self, case: &str, why: String) {
        self.add(case, Some(why));
    }

    fn add(&self, case: &str, tainted: Option<String>) {
        let mut outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.push((case.to_owned(), tainted));
    }

    /// A line with the reuse rate, and one for each that was tainted; nothing where nothing ran.
    pub fn lines(&self, of: &str) -> Vec<String> {
        let outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        if outcomes.is_empty() {
            return Vec::new();
        }
        let tainted: Vec<_> = outcomes
            .iter()
            .filter_map(|(case, why)| Some(format!("{of}: {case} was tainted: {}", why.as_ref()?)))
            .collect();
        let clean = outcomes.len() - tainted.len();
        let rate = format!("{of}: {clean} of {} came back clean", outcomes.len());
        std::iter::once(rate).chain(tainted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tainted_counts_against_the_rate() {
        let tally = Tally::default();
        assert!(tally.lines("x").is_empty());
        tally.clean("a");
        tally.tainted("b", "files".to_owned());
        let lines = tally.lines("x");
        assert_eq!(
            lines,
            ["x: 1 of 2 came back clean", "x: b was tainted: files"]
        );
    }
}
