//! A full listing of a sandbox's files, taken by a program that runs inside.

use std::collections::BTreeMap;

/// Path (as JSON text) to everything else about the entry.
#[derive(Debug, PartialEq, Eq)]
pub struct Listing(BTreeMap<String, String>);

impl Listing {
    /// Prints a line per entry; /proc, /sys and /dev/pts are left out.
    pub const PROGRAM: &str = include_str!("listing/inside.py");

    /// Reads what the program printed.
    ///
    /// # Panics
    /// When the listing is not whole.
    pub fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let last = lines.next_back().unwrap_or_default();
        let entries: BTreeMap<_, _> = lines
            .map(|line| line.split_once('\t').expect("a path and the rest"))
            .map(|(path, rest)| (path.to_owned(), rest.to_owned()))
            .collect();
        assert_eq!(
            last,
            format!("entries\t{}", entries.len()),
            "the listing ended early"
        );
        Self(entries)
    }

    /// This one with the entries of another in place of its own.
    #[must_use]
    pub fn updated(&self, by: &Self) -> Self {
        let mut all = self.0.clone();
        all.extend(by.0.clone());
        Self(all)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Paths that are in one only or differ, with both sides; the first twenty.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut paths: Vec<_> = self.0.keys().chain(other.0.keys()).collect();
        paths.sort();
        paths.dedup();
        let differ = |path: &&String| self.0.get(*path) != other.0.get(*path);
        let show =
            |path: &String| format!("{path}: {:?} and {:?}", self.0.get(path), other.0.get(path));
        paths
            .into_iter()
            .filter(differ)
            .take(20)
            .map(show)
            .collect()
    }

    /// Fails with the first differing paths when the two are not the same.
    #[track_caller]
    pub fn assert_equal(&self, other: &Self) {
        let found = self.differences(other);
        assert!(
            found.is_empty(),
            "the listings differ:\n{}",
            found.join("\n")
        );
    }
}
