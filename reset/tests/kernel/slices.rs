//! A root that is put together of slices: captured as one tree, checked upper by upper.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use innkeeper_reset::capture::{Options, Trust};
use innkeeper_reset::files::{self, Slice};
use innkeeper_reset::tree::{Kind, Tree};
use rustix::mount::{MoveMountFlags, move_mount};

use crate::scratch::{
    Mounted, as_root, captured, fix_times, one_of_everything, open_dir, options, set_mtime, tree,
};

/// An overlay mounted at a directory of this machine, with its upper on a tmpfs; gone with this.
struct Placed {
    at: PathBuf,
    upper: Mounted,
}

impl Placed {
    fn new(lower: &Path, at: &Path) -> Self {
        let upper = Mounted::tmpfs();
        for dir in ["u", "w"] {
            fs::create_dir(upper.path().join(dir)).expect("mkdir");
        }
        set_mtime(&upper.path().join("u"), 1_600_000_000, 987_654_321);
        let text = |path: PathBuf| path.to_str().expect("utf-8").to_owned();
        let overlay = Mounted::new(
            "overlay",
            &[
                ("lowerdir", &text(lower.to_owned())),
                ("upperdir", &text(upper.path().join("u"))),
                ("workdir", &text(upper.path().join("w"))),
            ],
        );
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&overlay.0, "", rustix::fs::CWD, at, flags).expect("move_mount");
        Placed {
            at: at.to_owned(),
            upper,
        }
    }

    fn upper(&self) -> OwnedFd {
        open_dir(&self.upper.path().join("u"))
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.at, rustix::mount::UnmountFlags::DETACH);
    }
}

/// `/` with an empty `usr` and a `dir/deep/lib`, both to be slices, and what lies in them.
struct Sliced {
    // Unmounted in this order, and only then removed.
    lib: Placed,
    usr: Placed,
    root: Placed,
    whole: Mounted,
    _scratch: tempfile::TempDir,
}

const ENTERED: [&[u8]; 2] = [b"dir/deep/lib", b"usr"];

impl Sliced {
    fn new() -> Self {
        let whole = Mounted::tmpfs();
        one_of_everything(&whole.path(), false);
        for slice in ["usr", "dir/deep/lib"] {
            fs::create_dir(whole.path().join(slice)).expect("mkdir");
            one_of_everything(&whole.path().join(slice), false);
        }
        // Deeper than the walk keeps descriptors.
        let mut deep = whole.path().join("usr");
        for _ in 0..150 {
            deep.push("d");
            fs::create_dir(&deep).expect("mkdir");
        }
        fix_times(&whole.path());
        let template = Mounted::tmpfs();
        one_of_everything(&template.path(), false);
        for slice in ["usr", "dir/deep/lib"] {
            fs::create_dir(template.path().join(slice)).expect("mkdir");
        }
        fix_times(&template.path());
        let scratch = tempfile::tempdir().expect("tempdir");
        let root = Placed::new(&template.path(), scratch.path());
        let place = |name: &str| Placed::new(&whole.path().join(name), &scratch.path().join(name));
        Sliced {
            lib: place("dir/deep/lib"),
            usr: place("usr"),
            root,
            whole,
            _scratch: scratch,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.at.join(name)
    }

    fn options(&self) -> Options<'static> {
        Options {
            entered: ENTERED.map(<[u8]>::to_vec).to_vec(),
            ..options()
        }
    }

    fn swap(&self, baseline: &Tree) -> files::FilesReport {
        let uppers = [self.root.upper(), self.lib.upper(), self.usr.upper()];
        let paths: [&[u8]; 3] = [b"", ENTERED[0], ENTERED[1]];
        let slices: Vec<Slice<'_>> = paths
            .iter()
            .zip(&uppers)
            .map(|(path, upper)| Slice {
                path,
                upper: upper.as_fd(),
            })
            .collect();
        files::uppers(&slices, baseline, &options(), 10).expect("readable")
    }
}

#[test]
fn slices_hash_to_what_the_whole_tree_hashes_to() {
    if !as_root("slices_hash_to_what_the_whole_tree_hashes_to") {
        return;
    }
    let sliced = Sliced::new();
    let whole = tree(&sliced.whole.path());
    let seen = captured(&sliced.root.at, &sliced.options()).tree;
    assert_eq!(innkeeper_reset::tree::diff(&whole, &seen, 5), []);
    assert_eq!(whole.root(), seen.root());
    let closed = tree(&sliced.root.at);
    let usr = closed.get(b"usr").expect("usr");
    assert_eq!(
        usr.kind,
        Kind::Mount,
        "unless they are named they are foreign"
    );
    assert!(sliced.swap(&whole).is_equal());
}

#[test]
fn a_mount_that_is_no_slice_shows() {
    if !as_root("a_mount_that_is_no_slice_shows") {
        return;
    }
    let sliced = Sliced::new();
    let whole = tree(&sliced.whole.path());
    let extra = Placed::new(&sliced.whole.path().join("usr/dir"), &sliced.at("usr/dir"));
    let seen = captured(&sliced.root.at, &sliced.options()).tree;
    assert_eq!(seen.get(b"usr/dir").expect("there").kind, Kind::Mount);
    assert_ne!(seen.root(), whole.root());
    drop(extra);
}

#[test]
fn a_write_to_any_slice_shows_at_every_depth() {
    if !as_root("a_write_to_any_slice_shows_at_every_depth") {
        return;
    }
    for (written, named) in [
        ("file", "file"),
        ("usr/file", "usr/file"),
        ("dir/deep/lib/dir/one", "dir/deep/lib/dir"),
    ] {
        let sliced = Sliced::new();
        let whole = tree(&sliced.whole.path());
        fs::write(sliced.at(written), "another").expect("write");
        let swap = sliced.swap(&whole);
        assert!(!swap.is_equal() && swap.root() != whole.root());
        let paths: Vec<String> = swap
            .differences()
            .iter()
            .map(|d| d.path.escape_ascii().to_string())
            .collect();
        assert!(paths.iter().any(|path| path == named), "{named}: {paths:?}");
        let (root, trust) = (open_dir(&sliced.root.at), Some(Trust::ReadOnlyLower));
        let walk = files::walk(root.as_fd(), &whole, trust, &sliced.options(), 10);
        let walk = walk.expect("readable");
        assert!(!walk.is_equal());
    }
}

#[test]
fn attributes_of_a_slices_root_count() {
    if !as_root("attributes_of_a_slices_root_count") {
        return;
    }
    let sliced = Sliced::new();
    let whole = tree(&sliced.whole.path());
    set_mtime(&sliced.at("usr"), 1_600_000_001, 0);
    let swap = sliced.swap(&whole);
    let found = swap.differences().first().expect("one");
    assert_eq!(
        (found.path.as_slice(), found.what.as_str()),
        (&b"usr"[..], "mtime")
    );
}

#[test]
fn nothing_is_no_proof() {
    if !as_root("nothing_is_no_proof") {
        return;
    }
    let sliced = Sliced::new();
    let whole = tree(&sliced.whole.path());
    assert!(files::uppers(&[], &whole, &options(), 1).is_err());
    let upper = sliced.usr.upper();
    let unknown = Slice {
        path: b"opt/none",
        upper: upper.as_fd(),
    };
    assert!(files::uppers(&[unknown], &whole, &options(), 1).is_err());
}
