//! Hard links that do not show as such. An overlay gives two names of one inode two inode numbers where
//! one of them came from a lower layer; only the number of names betrays them.

use super::{Kind, Tree};
use crate::components::Component;
use crate::difference::Difference;

/// Whether the tree has all names of an inode. An inode that an image left with more names than it shows
/// (a later layer replaced the others) counts as whole while nobody has touched it: then its stamp is
/// that of `earlier`. Where `earlier` knows no number (it was read from disk), nothing is asked.
pub(crate) fn is_whole(now: &Tree, n: u32, earlier: &Tree, b: u32) -> bool {
    let (is, was) = (now.node(n), earlier.node(b));
    was.link_count() == 0
        || is.link_count() == is.names()
        || is.link_count() == was.link_count() && is.stamp().is_some() && is.stamp() == was.stamp()
}

/// Names whose inode has more or fewer names than in the baseline, or hidden ones; at most `limit`.
/// The trees must be equal otherwise, and have been captured on the same mount.
pub(crate) fn wrong_links(baseline: &Tree, now: &Tree, limit: usize) -> Vec<Difference> {
    let wrong = (0..baseline.count()).filter(|i| {
        let countable = !matches!(baseline.kind(*i), Kind::Directory | Kind::Mount);
        let (was, is) = (baseline.node(*i).link_count(), now.node(*i).link_count());
        let same = was == 0 || was == is;
        countable && !(same && is_whole(now, *i, baseline, *i))
    });
    let shown = |tree: &Tree, i| Some(tree.node(i).link_count().to_string());
    let difference = |i| Difference {
        component: Component::Files,
        path: baseline.path(i),
        what: "link count".into(),
        baseline: shown(baseline, i),
        now: shown(now, i),
    };
    wrong.take(limit).map(difference).collect()
}
