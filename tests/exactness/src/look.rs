//! One sandbox, seen from both sides.

use std::fmt;

use innkeeper_test_local::Guest;
use innkeeper_test_oracle::{Depth, Difference, Record, outside};

use crate::ward::PROGRAM;

/// What was seen of a sandbox at one time.
#[derive(Debug, Clone)]
pub struct Look {
    /// By a program that ran inside.
    pub inside: Record,
    /// By the host.
    pub outside: Record,
}

impl Look {
    /// Looks at a leased sandbox.
    #[track_caller]
    pub fn at(guest: &Guest<'_>) -> Self {
        let printed = guest.with(&[], &[PROGRAM, "observe"]).ok().stdout;
        let inside = Record::read(printed.as_bytes()).expect("a record");
        let outside = outside::observe(&namespace(&inside), Depth::Full).expect("it runs");
        Self { inside, outside }
    }

    /// The mount namespace of the sandbox.
    pub fn namespace(&self) -> String {
        namespace(&self.inside)
    }
}

fn namespace(inside: &Record) -> String {
    inside
        .get("process self #0", "namespace mnt")
        .expect("its own namespace")
        .to_owned()
}

/// Everything in which a sandbox differs from a fresh one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Seen from inside.
    pub inside: Vec<Difference>,
    /// Seen from outside.
    pub outside: Vec<Difference>,
}

impl Found {
    /// Whether nothing differs.
    pub fn is_nothing(&self) -> bool {
        self.inside.is_empty() && self.outside.is_empty()
    }

    /// The difference in a field of a subject whose name has this in it, from either side.
    pub fn named(&self, subject: &str, field: &str) -> Option<&Difference> {
        let mut both = self.inside.iter().chain(&self.outside);
        both.find(|difference| difference.subject.contains(subject) && difference.field == field)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (side, found) in [("inside", &self.inside), ("outside", &self.outside)] {
            writeln!(f, "{} differences from {side}", found.len())?;
            for difference in found.iter().take(20) {
                writeln!(f, "  {difference}")?;
            }
        }
        Ok(())
    }
}
