//! Random trees on a real file system: any single change is found, and its path is named.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use innkeeper_reset::tree::diff;
use proptest::prelude::*;
use rustix::fs::FileType;

use crate::scratch::{Mounted, as_root, fix_times, make_node, set_mtime, set_xattr, tree};

#[derive(Debug, Clone)]
enum Made {
    Directory,
    File(Vec<u8>),
    Symlink(String),
    Fifo,
    HardLink,
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Mode,
    Owner,
    Time,
    Attribute,
    Remove,
    Append,
    Replace,
}

fn trees() -> impl Strategy<Value = Vec<(usize, String, Made)>> {
    let made = prop_oneof![
        Just(Made::Directory),
        prop::collection::vec(any::<u8>(), 0..50).prop_map(Made::File),
        "[a-z/.]{1,20}".prop_map(Made::Symlink),
        Just(Made::Fifo),
        Just(Made::HardLink),
    ];
    prop::collection::vec((any::<usize>(), "[a-zA-Z0-9 _.-]{1,10}", made), 1..25)
}

fn changes() -> impl Strategy<Value = Change> {
    use Change::{Append, Attribute, Mode, Owner, Remove, Replace, Time};
    prop::sample::select(vec![Mode, Owner, Time, Attribute, Remove, Append, Replace])
}

/// Makes what can be made, and says what was.
fn make(root: &Path, recipe: &[(usize, String, Made)]) -> Vec<PathBuf> {
    let mut dirs = vec![root.to_owned()];
    let mut files: Vec<PathBuf> = Vec::new();
    let mut all = Vec::new();
    for (at, name, made) in recipe {
        let path = dirs[at % dirs.len()].join(name);
        if name == "." || name == ".." || path.symlink_metadata().is_ok() {
            continue;
        }
        match made {
            Made::Directory => {
                fs::create_dir(&path).expect("mkdir");
                dirs.push(path.clone());
            }
            Made::File(contents) => {
                fs::write(&path, contents).expect("write");
                files.push(path.clone());
            }
            Made::Symlink(target) => symlink(target, &path).expect("symlink"),
            Made::Fifo => make_node(&path, FileType::Fifo, 0),
            Made::HardLink if files.is_empty() => continue,
            Made::HardLink => fs::hard_link(&files[at % files.len()], &path).expect("link"),
        }
        all.push(path);
    }
    fix_times(root);
    all
}

/// Changes one thing; false when this entry cannot be changed so.
fn change(path: &Path, change: Change) -> bool {
    let stat = path.symlink_metadata().expect("stat");
    match change {
        Change::Mode if stat.is_symlink() => return false,
        Change::Mode => {
            let mode = stat.permissions().mode() ^ 0o001;
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
        }
        Change::Owner => lchown(path, Some(4242), None).expect("chown"),
        Change::Time => set_mtime(path, 5, 5),
        Change::Attribute => set_xattr(path, "trusted.changed", b"yes"),
        Change::Remove if stat.is_dir() => fs::remove_dir_all(path).expect("remove"),
        Change::Remove => fs::remove_file(path).expect("remove"),
        Change::Append if !stat.is_file() => return false,
        Change::Append => {
            let mut contents = fs::read(path).expect("read");
            contents.push(b'+');
            fs::write(path, contents).expect("write");
        }
        Change::Replace if stat.is_dir() => return false,
        Change::Replace => {
            fs::remove_file(path).expect("remove");
            fs::create_dir(path).expect("mkdir");
        }
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_single_change_is_found(recipe in trees(), which in any::<prop::sample::Index>(), how in changes()) {
        if !as_root("any_single_change_is_found") {
            return Ok(());
        }
        let mounted = Mounted::tmpfs();
        let all = make(&mounted.path(), &recipe);
        prop_assume!(!all.is_empty());
        let before = tree(&mounted.path());
        prop_assert_eq!(tree(&mounted.path()).root(), before.root());
        let path = &all[which.index(all.len())];
        prop_assume!(change(path, how));
        let after = tree(&mounted.path());
        prop_assert_ne!(after.root(), before.root());
        let relative = path.strip_prefix(mounted.path()).expect("below").as_os_str().as_encoded_bytes();
        let found = diff(&before, &after, 1000);
        prop_assert!(found.iter().any(|d| d.path == relative), "{:?} not in {:?}", path, found);
    }
}
