//! Random trees, random hostile deeds: the restore gives back what was, by the capture and by a listing
//! that shares nothing with it.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::hostile::{Deed, commit, deeds};
use super::listing::Listing;
use super::{Kept, Place};
use crate::scratch::{as_root, fix_times, one_of_everything};

/// A tree with one of everything, and some hard links and directories more.
fn make(root: &Path) {
    one_of_everything(root, false);
    fs::create_dir(root.join("more")).expect("mkdir");
    for name in ["more/linked", "more/twice"] {
        fs::hard_link(root.join("dir/one"), root.join(name)).expect("link");
    }
    fs::write(root.join("more/a"), "same").expect("write");
    fs::write(root.join("more/b"), "same").expect("write");
    fs::hard_link(root.join("more/a"), root.join("more/c")).expect("link");
    fix_times(root);
}

fn check(place: &Place, deeds: &[Deed]) -> Result<(), TestCaseError> {
    let root = place.path();
    let (before, kept) = (Listing::of(&root), Kept::all(&root));
    commit(&root, deeds);
    let restored = kept.restore(&root);
    prop_assert!(restored.is_ok(), "refused: {:?}", restored);
    prop_assert_eq!(Listing::of(&root), before);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_tmpfs_is_restored(deeds in deeds()) {
        if !as_root("a_tmpfs_is_restored") {
            return Ok(());
        }
        let place = Place::tmpfs();
        make(&place.path());
        check(&place, &deeds)?;
    }

    #[test]
    fn an_overlay_is_restored(deeds in deeds()) {
        if !as_root("an_overlay_is_restored") {
            return Ok(());
        }
        check(&Place::overlay(make), &deeds)?;
    }

    #[test]
    fn an_ext4_is_restored(deeds in deeds()) {
        if !as_root("an_ext4_is_restored") {
            return Ok(());
        }
        let Some(place) = Place::ext4() else {
            println!("not run: an_ext4_is_restored: temporary files lie on another file system");
            return Ok(());
        };
        make(&place.path());
        check(&place, &deeds)?;
    }
}
