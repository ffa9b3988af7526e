//! What is compared beside the files: components, and their canonical form as facts.

pub mod ipc;
pub mod kernel;
pub mod limits;
pub mod mounts;
pub mod network;
pub mod processes;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::difference::Difference;
use crate::digest::{Digest, Fields};

/// The parts of a sandbox that are compared, each with a digest of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Component {
    /// The merged tree.
    Files,
    /// Processes of services, and that there are no others.
    Processes,
    /// The mount table.
    Mounts,
    /// System V objects and message queues.
    Ipc,
    /// Interfaces, addresses, routes and sockets.
    Network,
    /// Host name and namespaced sysctls.
    Kernel,
    /// Limits of the control groups and of the first process.
    Limits,
}

impl Component {
    /// All of them: a baseline and an observation must have each.
    pub const ALL: [Component; 7] = [
        Component::Files,
        Component::Processes,
        Component::Mounts,
        Component::Ipc,
        Component::Network,
        Component::Kernel,
        Component::Limits,
    ];

    /// The name used in records.
    pub fn name(self) -> &'static str {
        match self {
            Component::Files => "files",
            Component::Processes => "processes",
            Component::Mounts => "mounts",
            Component::Ipc => "ipc",
            Component::Network => "network",
            Component::Kernel => "kernel",
            Component::Limits => "limits",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The canonical text of a component: keys with values, sorted. What is in it is compared byte by byte,
/// so a reader puts in everything but the noise that [`crate::noise`] lists.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Facts(BTreeMap<String, String>);

impl Facts {
    /// No facts yet. An empty set is never accepted by a verification.
    pub fn new() -> Self {
        Facts::default()
    }

    /// Adds a fact. A key that is there already gets a number, so that nothing is lost.
    pub fn put(&mut self, key: impl Into<String>, value: impl Into<String>) {
        let key = key.into();
        let mut free = key.clone();
        let mut number = 1;
        while self.0.contains_key(&free) {
            number += 1;
            free = format!("{key} #{number}");
        }
        self.0.insert(free, value.into());
    }

    /// Adds lines under one key in sorted order, for tables whose order says nothing.
    pub fn put_sorted(&mut self, key: &str, mut lines: Vec<String>) {
        lines.sort();
        self.put(key, lines.join("\n"));
    }

    /// Takes over all facts of another set.
    pub fn extend(&mut self, other: Facts) {
        for (key, value) in other.0 {
            self.put(key, value);
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// True when nothing was observed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The digest of all facts, under the name of their component.
    pub fn digest(&self, component: Component) -> Digest {
        let mut fields = Fields::new("innkeeper facts 1");
        fields.bytes(component.name().as_bytes());
        for (key, value) in &self.0 {
            fields.bytes(key.as_bytes()).bytes(value.as_bytes());
        }
        fields.finish()
    }

    /// Where two sets differ, at most `limit` differences.
    pub fn diff(&self, now: &Facts, component: Component, limit: usize) -> Vec<Difference> {
        let mut keys: Vec<&String> = self.0.keys().chain(now.0.keys()).collect();
        keys.sort();
        keys.dedup();
        let differing = keys
            .into_iter()
            .filter(|key| self.0.get(*key) != now.0.get(*key));
        let differences = differing.map(|key| Difference {
            component,
            path: key.clone().into_bytes(),
            what: "value".into(),
            baseline: self.0.get(key).cloned(),
            now: now.0.get(key).cloned(),
        });
        differences.take(limit).collect()
    }
}

/// One digest over those of all components, in their fixed order.
pub fn combine(digests: &BTreeMap<Component, Digest>) -> Digest {
    let mut fields = Fields::new("innkeeper components 1");
    for (component, digest) in digests {
        fields.bytes(component.name().as_bytes()).digest(digest);
    }
    fields.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_key_loses_nothing() {
        let mut facts = Facts::new();
        facts.put("a", "1");
        facts.put("a", "2");
        assert_eq!(
            facts.iter().collect::<Vec<_>>(),
            [("a", "1"), ("a #2", "2")]
        );
        assert_ne!(
            facts.digest(Component::Ipc),
            facts.digest(Component::Mounts)
        );
    }

    /// Baselines outlive this program: another digest of the same facts needs another version.
    #[test]
    fn the_digests_are_frozen() {
        let mut facts = Facts::new();
        facts.put("kernel/hostname", "sandbox");
        facts.put_sorted("lines", vec!["b".into(), "a".into()]);
        let digest = facts.digest(Component::Kernel);
        assert_eq!(
            digest.to_string(),
            "6ad68b3544f7be796c47791857a21784da3581e9117779b1fcbc1b9ae78a478d"
        );
        assert_eq!(
            combine(&[(Component::Kernel, digest)].into()).to_string(),
            "91290f4638c16e435b137c6faac58815a769591ab137f8b45eb89d897a6665a8"
        );
    }

    #[test]
    fn differences_name_the_key() {
        let (mut old, mut new) = (Facts::new(), Facts::new());
        old.put("hostname", "a");
        new.put("hostname", "b");
        new.put("extra", "x");
        let found = old.diff(&new, Component::Kernel, 10);
        let keys: Vec<_> = found.iter().map(|d| d.path.as_slice()).collect();
        assert_eq!(keys, [b"extra".as_slice(), b"hostname"]);
        assert_eq!(old.diff(&new, Component::Kernel, 1).len(), 1);
    }
}
