//! One sandbox, seen from both sides.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

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
        let within = Within::of(guest);
        let outside = outside::observe(&within.namespace, Depth::Full).expect("it runs");
        Self { inside, outside }
    }
}

/// A process inside that does nothing. While it is there, so are the sandbox's namespaces, which
/// the host finds by it: in a pod nothing else may run in them.
pub struct Within {
    /// The mount namespace of the sandbox, as the host names it.
    pub namespace: String,
    process: Child,
}

impl Within {
    /// Starts it.
    #[track_caller]
    pub fn of(guest: &Guest<'_>) -> Self {
        // Nothing else may run any more once the line is out.
        let script = "name=$(readlink /proc/self/ns/mnt); echo $name; read end";
        let mut command = guest.command(&["-i"], &["sh", "-c", script]);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let said = BufReader::new(process.stdout.take().expect("piped"));
        let namespace = said.lines().next().expect("a line").expect("text");
        Self { namespace, process }
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
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
