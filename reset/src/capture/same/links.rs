//! Which names are one file.

use std::collections::HashMap;

use crate::capture::walker::LinkKey;

/// Files with several names, by what makes them one, and the hard-link groups of the earlier tree:
/// each must stand for exactly one of the other.
#[derive(Debug, Default)]
pub(super) struct Links {
    groups: HashMap<LinkKey, u32>,
    keys: HashMap<u32, LinkKey>,
}

impl Links {
    /// Takes up one name; false where it contradicts what was seen. A file that shares its inode with
    /// no other entry of the tree is a group of its own, under its own index.
    pub(super) fn add(&mut self, key: LinkKey, group: u32) -> bool {
        *self.groups.entry(key).or_insert(group) == group
            && *self.keys.entry(group).or_insert(key) == key
    }

    /// Takes up everything that another has seen.
    pub(super) fn merge(&mut self, other: &Links) -> bool {
        other
            .groups
            .iter()
            .all(|(key, group)| self.add(*key, *group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(inode: u64) -> LinkKey {
        (1, inode, 5, (0, 0), (0, 0))
    }

    #[test]
    fn groups_and_files_map_one_to_one() {
        let mut links = Links::default();
        assert!(links.add(key(1), 10) && links.add(key(1), 10) && links.add(key(2), 11));
        assert!(!links.add(key(2), 10), "two files in one group");
        let mut links = Links::default();
        assert!(links.add(key(1), 10));
        assert!(!links.add(key(1), 11), "one file in two groups");
    }

    #[test]
    fn threads_must_agree() {
        let (mut one, mut other) = (Links::default(), Links::default());
        assert!(one.add(key(1), 10) && other.add(key(1), 10));
        assert!(one.merge(&other));
        assert!(other.add(key(2), 12) && one.add(key(2), 13));
        assert!(!one.merge(&other));
    }
}
