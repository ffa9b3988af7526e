//! Fresh sandboxes, and what differs among them.

use innkeeper_test_local::Guest;
use innkeeper_test_oracle::{Noise, Record, compare};
use serde_json::Value;

use crate::look::{Found, Look};
use crate::ward::Ward;

/// Fresh sandboxes that noise is learned from: one more than the oracle needs.
const LOOKED_AT: usize = Noise::FEWEST + 1;

/// How a fresh sandbox of a template looks.
#[derive(Debug)]
pub struct Fresh {
    /// One of them.
    pub look: Look,
    /// What is noise from inside.
    pub inside: Noise,
    /// What is noise from outside.
    pub outside: Noise,
}

impl Fresh {
    /// Leases fresh sandboxes of a template, all at once, looks at each, and gives back all but
    /// the first, which are then destroyed.
    ///
    /// # Panics
    /// When they differ in what the oracle's list does not excuse.
    #[track_caller]
    pub fn learn<'a>(ward: &'a Ward, test: &str, template: &Value) -> (Self, Guest<'a>) {
        let mut guests: Vec<_> = (0..LOOKED_AT).map(|_| ward.lease(test, template)).collect();
        for guest in &guests {
            assert_eq!(guest.lease["uses"], 0, "{}", guest.lease);
        }
        let looks: Vec<_> = guests.iter().map(Look::at).collect();
        let first = guests.remove(0);
        for guest in guests {
            ward.inn()
                .line(&format!("return {} --discard --wait", guest.id));
        }
        let learn = |side: fn(&Look) -> &Record| {
            let records: Vec<_> = looks.iter().map(|look| side(look).clone()).collect();
            let noise = Noise::learn(&records)
                .unwrap_or_else(|unexcused| panic!("{}: {unexcused}", ward.form()));
            if ward.form().is_in_place() {
                noise.in_place()
            } else {
                noise
            }
        };
        let (inside, outside) = (learn(|look| &look.inside), learn(|look| &look.outside));
        let look = looks.into_iter().next().expect("at least one");
        (
            Self {
                look,
                inside,
                outside,
            },
            first,
        )
    }

    /// In what a sandbox of the same template differs.
    pub fn compare(&self, now: &Look) -> Found {
        Found {
            inside: compare(&self.look.inside, &self.inside, &now.inside),
            outside: compare(&self.look.outside, &self.outside, &now.outside),
        }
    }

    /// What of the list was noise here, a line for each pattern that was.
    pub fn noise(&self) -> Vec<String> {
        let sides = [("inside", &self.inside), ("outside", &self.outside)];
        let lines = sides.into_iter().flat_map(|(side, noise)| {
            let used = noise.used().into_iter().filter(|(_, fields)| *fields > 0);
            used.map(move |(pattern, fields)| format!("{side}: {fields} fields: {pattern}"))
        });
        lines.collect()
    }
}
