//! What a run has counted.

use std::collections::BTreeMap;

use innkeeper_test_script::{Kind, Script, find};

/// Counts of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Scripts that were acted out and returned.
    pub iterations: u64,
    /// Resets that were called clean.
    pub clean: u64,
    /// Those of them that the oracle looked at afterwards.
    pub checked: u64,
    /// Sandboxes that were not called clean.
    pub tainted: u64,
    /// Resets that were called clean and left something.
    pub false_clean: u64,
    /// Fresh sandboxes that were not like the first ones.
    pub odd_fresh: u64,
    /// Causes of taints, with how often each.
    pub causes: BTreeMap<String, u64>,
    /// Operations that were acted out, by kind.
    pub kinds: BTreeMap<Kind, u64>,
    /// Of them, those that the kernel did not refuse.
    pub done: BTreeMap<Kind, u64>,
    /// Verbs that were acted out at least once.
    pub verbs: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Counts what a visit wrote behind its record: a line for each operation.
    pub(crate) fn acted(&mut self, script: &Script, written: &[u8]) {
        let text = String::from_utf8_lossy(written);
        let lines = text.lines().skip(1).take(script.operations.len());
        for line in lines {
            let Some((name, outcome)) = line.split_once(' ') else {
                continue;
            };
            let Some(verb) = find(name) else {
                continue;
            };
            *self.kinds.entry(verb.kind).or_default() += 1;
            *self.verbs.entry(verb.name).or_default() += 1;
            if outcome == "ok" {
                *self.done.entry(verb.kind).or_default() += 1;
            }
        }
    }

    /// Counts a taint.
    pub(crate) fn taint(&mut self, cause: &str) {
        self.tainted += 1;
        *self.causes.entry(cause.to_owned()).or_default() += 1;
    }

    /// Kinds of which nothing was acted out.
    pub fn uncovered(&self) -> Vec<Kind> {
        Kind::ALL
            .into_iter()
            .filter(|kind| !self.kinds.contains_key(kind))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_by_what_became_of_them() {
        let script = Script::parse("child\nmount tmpfs /tmp\nspin\n").expect("a script");
        let mut tally = Tally::default();
        tally.acted(
            &script,
            b"{}\nchild ok\nmount Operation not permitted (os error 1)\n",
        );
        assert_eq!(
            tally.kinds,
            [(Kind::Processes, 1), (Kind::Mounts, 1)].into()
        );
        assert_eq!(tally.done, [(Kind::Processes, 1)].into());
        assert_eq!(tally.uncovered().len(), Kind::ALL.len() - 2);
    }
}
