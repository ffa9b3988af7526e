//! Cutting a failing script down to what matters.
//!
//! First lines go, in halves, quarters and so on down to single ones, as long as what is left still
//! fails (the order of Zeller's ddmin); then arguments become smaller. The machine is pure: it hands
//! out one candidate at a time and is told whether that failed.

use innkeeper_test_script::{Operation, Script, Shape, Word};

/// A script that fails, on its way to a smaller one that does.
#[derive(Debug, Clone)]
pub struct Shrinker {
    smallest: Script,
    step: Step,
}

#[derive(Debug, Clone)]
enum Step {
    /// Leaves out so many lines from this one on.
    Lines { from: usize, count: usize },
    /// Tries the n-th smaller value of an argument of a line.
    Words {
        line: usize,
        argument: usize,
        value: usize,
    },
    /// Nothing is left to try.
    Done,
}

impl Shrinker {
    /// Starts from a script that fails.
    pub fn new(script: Script) -> Self {
        let half = script.operations.len().div_ceil(2);
        Self {
            smallest: script,
            step: Step::Lines {
                from: 0,
                count: half,
            },
        }
    }

    /// The smallest script so far that fails.
    pub fn smallest(&self) -> &Script {
        &self.smallest
    }

    /// The next script to try, smaller than [`Shrinker::smallest`]; none when nothing is left.
    pub fn candidate(&mut self) -> Option<Script> {
        loop {
            let made = match self.step {
                Step::Done => return None,
                Step::Lines { from, count } => self.without(from, count),
                Step::Words {
                    line,
                    argument,
                    value,
                } => self.with_smaller(line, argument, value),
            };
            match made {
                Some(script) => return Some(script),
                None => self.advance(false),
            }
        }
    }

    /// Says whether the last candidate failed as well.
    pub fn tell(&mut self, failed: bool) {
        if failed {
            let made = match self.step {
                Step::Done => None,
                Step::Lines { from, count } => self.without(from, count),
                Step::Words {
                    line,
                    argument,
                    value,
                } => self.with_smaller(line, argument, value),
            };
            if let Some(script) = made {
                self.smallest = script;
            }
        }
        self.advance(failed);
    }

    fn without(&self, from: usize, count: usize) -> Option<Script> {
        let all = &self.smallest.operations;
        let end = from.checked_add(count)?.min(all.len());
        // The empty script is a candidate too: a failure without any operation is worth knowing.
        let some = from < end;
        some.then(|| Script {
            operations: [&all[..from], &all[end..]].concat(),
        })
    }

    fn with_smaller(&self, line: usize, argument: usize, value: usize) -> Option<Script> {
        let operation = self.smallest.operations.get(line)?;
        let word = smaller(operation, argument).into_iter().nth(value)?;
        let mut script = self.smallest.clone();
        script.operations[line] = operation.with(argument, word)?;
        Some(script)
    }

    fn advance(&mut self, failed: bool) {
        let lines = self.smallest.operations.len();
        self.step = match self.step {
            Step::Done => Step::Done,
            // What came behind the removed lines has moved up to their place.
            Step::Lines { from, count } => {
                let from = if failed { from } else { from + count };
                match (from < lines, count) {
                    (true, count) => Step::Lines { from, count },
                    (false, 0 | 1) => Step::Words {
                        line: 0,
                        argument: 0,
                        value: 0,
                    },
                    (false, count) => Step::Lines {
                        from: 0,
                        count: count.div_ceil(2).min(count - 1),
                    },
                }
            }
            Step::Words {
                line,
                argument,
                value,
            } => match self.smallest.operations.get(line) {
                None => Step::Done,
                // The values of a smaller word are other ones.
                Some(_) if failed => Step::Words {
                    line,
                    argument,
                    value: 0,
                },
                Some(operation) if value + 1 < smaller(operation, argument).len() => Step::Words {
                    line,
                    argument,
                    value: value + 1,
                },
                Some(operation) if argument + 1 < operation.arguments().len() => Step::Words {
                    line,
                    argument: argument + 1,
                    value: 0,
                },
                Some(_) => Step::Words {
                    line: line + 1,
                    argument: 0,
                    value: 0,
                },
            },
        };
    }
}

/// Smaller words for an argument, the smallest first. Each is strictly smaller, so that there is
/// an end.
fn smaller(operation: &Operation, argument: usize) -> Vec<Word> {
    let (Some(shape), Some(word)) = (
        operation.verb().shapes.get(argument),
        operation.arguments().get(argument),
    ) else {
        return Vec::new();
    };
    match shape {
        Shape::Number(low, _) => {
            let Some(now) = word.number() else {
                return Vec::new();
            };
            let distance = now.abs_diff(*low);
            let mut steps: Vec<u64> = vec![0, distance / 2, distance.saturating_sub(1)];
            steps.retain(|step| *step < distance);
            steps.dedup();
            steps
                .into_iter()
                .map(|step| Word::from(low.wrapping_add_unsigned(step)))
                .collect()
        }
        Shape::Fresh => simpler(word, "/tmp/f"),
        Shape::Name | Shape::Text => simpler(word, "n"),
        Shape::Path | Shape::Directory | Shape::Mode | Shape::OneOf(_) => Vec::new(),
    }
}

fn simpler(word: &Word, plain: &str) -> Vec<Word> {
    if word.bytes().len() > plain.len() {
        vec![Word::from(plain)]
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{World, draw};

    fn shrink(script: Script, fails: impl Fn(&Script) -> bool) -> (Script, usize) {
        let mut shrinker = Shrinker::new(script);
        let mut tries = 0;
        while let Some(candidate) = shrinker.candidate() {
            tries += 1;
            assert!(tries < 5000, "it does not end");
            shrinker.tell(fails(&candidate));
        }
        (shrinker.smallest().clone(), tries)
    }

    fn script(seed: u64, iteration: u64) -> Script {
        draw(seed, iteration, &World::default())
    }

    #[test]
    fn one_guilty_line_with_its_number_is_what_is_left() {
        let text = "child\nwrite /tmp/abcdefgh 5000\ndaemon\nmkdir /a 0755\nspin\n";
        let fails = |script: &Script| {
            script.operations.iter().any(|operation| {
                let large = operation.arguments().last().and_then(Word::number);
                operation.verb().name == "write" && large >= Some(1234)
            })
        };
        let (smallest, tries) = shrink(Script::parse(text).expect("a script"), fails);
        assert_eq!(smallest.to_string(), "write /tmp/f 1234\n");
        assert!(tries < 100, "{tries}");
    }

    #[test]
    fn a_failure_that_needs_nothing_becomes_the_empty_script() {
        let (smallest, _) = shrink(script(1, 9), |_| true);
        assert_eq!(smallest, Script::default());
    }

    proptest! {
        #[test]
        fn lines_that_must_stay_together_stay_and_no_others(
            seed in any::<u64>(),
            first in any::<prop::sample::Index>(),
            second in any::<prop::sample::Index>(),
        ) {
            let whole = script(seed, 1);
            let all = &whole.operations;
            let (first, second) = (first.index(all.len()), second.index(all.len()));
            let needed = [all[first].verb().name, all[second].verb().name];
            let fails = |script: &Script| {
                needed.iter().all(|name| script.operations.iter().any(|o| o.verb().name == *name))
            };
            let (smallest, _) = shrink(whole.clone(), fails);
            prop_assert!(fails(&smallest));
            prop_assert!(smallest.operations.len() <= 2);
        }

        #[test]
        fn every_candidate_reads_as_it_is_written_and_is_no_longer(seed in any::<u64>()) {
            let mut shrinker = Shrinker::new(script(seed, 2));
            let mut turn = seed;
            while let Some(candidate) = shrinker.candidate() {
                prop_assert!(candidate.operations.len() <= shrinker.smallest().operations.len());
                prop_assert_ne!(&candidate, shrinker.smallest());
                prop_assert_eq!(&Script::parse(&candidate.to_string()), &Ok(candidate.clone()));
                turn = turn.rotate_left(1);
                shrinker.tell(turn & 1 == 1);
            }
        }
    }
}
