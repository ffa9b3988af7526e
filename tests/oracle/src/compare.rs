//! What tells two observations apart, noise left out.

use std::collections::BTreeSet;
use std::fmt;

use crate::noise::short;
use crate::{Noise, Record};

/// One field of one subject that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What differs, such as `file /etc/passwd`.
    pub subject: String,
    /// In what, such as `mtime`.
    pub field: String,
    /// The value of the fresh sandbox; none when only the other one has this.
    pub fresh: Option<String>,
    /// The value found now; none when only the fresh one has this.
    pub now: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<String>| short(value.as_deref().unwrap_or("nothing"));
        let (fresh, now) = (show(&self.fresh), show(&self.now));
        write!(
            f,
            "{} {}: {fresh} when fresh, {now} now",
            self.subject, self.field
        )
    }
}

/// Every difference between a fresh sandbox and one now that is not noise.
pub fn compare(fresh: &Record, noise: &Noise, now: &Record) -> Vec<Difference> {
    let mut found = Vec::new();
    differing(fresh, now, |subject, field, before, after| {
        if !noise.covers(fresh, subject, field) {
            found.push(Difference {
                subject: subject.to_owned(),
                field: field.to_owned(),
                fresh: before.map(str::to_owned),
                now: after.map(str::to_owned),
            });
        }
    });
    found
}

/// Calls back for each field that is not the same in both.
pub(crate) fn differing(
    one: &Record,
    other: &Record,
    mut each: impl FnMut(&str, &str, Option<&str>, Option<&str>),
) {
    let names: BTreeSet<_> = one
        .subjects()
        .keys()
        .chain(other.subjects().keys())
        .collect();
    for name in names {
        let (here, there) = (one.subjects().get(name), other.subjects().get(name));
        if here == there {
            continue;
        }
        let fields: BTreeSet<_> = [here, there]
            .into_iter()
            .flatten()
            .flat_map(|subject| subject.keys())
            .collect();
        for field in fields {
            let value = |subject: Option<&'_ crate::Subject>| {
                subject.and_then(|fields| fields.get(field)).cloned()
            };
            let (a, b) = (value(here), value(there));
            if a != b {
                each(name, field, a.as_deref(), b.as_deref());
            }
        }
    }
}
