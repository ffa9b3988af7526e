//! The table of verbs.

mod files;
mod outside;
mod running;

use crate::Verb;

/// All verbs.
pub fn verbs() -> impl Iterator<Item = &'static Verb> {
    [files::VERBS, running::VERBS, outside::VERBS]
        .into_iter()
        .flatten()
}

/// A verb by its name.
pub fn find(name: &str) -> Option<&'static Verb> {
    verbs().find(|verb| verb.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Kind;

    #[test]
    fn names_are_unique_and_every_kind_has_some() {
        let names: BTreeSet<_> = verbs().map(|verb| verb.name).collect();
        assert_eq!(names.len(), verbs().count());
        for kind in Kind::ALL {
            let of_it = verbs().filter(|verb| verb.kind == kind).count();
            assert!(of_it >= 3, "{kind}: {of_it}");
        }
        println!("{} verbs of {} kinds", names.len(), Kind::ALL.len());
    }
}
