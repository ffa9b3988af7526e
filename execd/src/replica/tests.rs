//! Uppers as overlays leave them, brought to another file system.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use innkeeper_reset::capture::{Options, View as Captured, capture};
use innkeeper_reset::ids::IdMap;
use innkeeper_reset::tree::{Tree, diff};
use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use super::*;
use crate::sys::mount::Filesystem;

fn tree(path: &Path) -> Tree {
    let options = Options {
        view: Captured::Upper,
        ..Options::new(IdMap::CANONICAL)
    };
    let directory = fs::File::open(path).expect("open");
    capture(directory.as_fd(), &options).expect("capture").tree
}

#[test]
fn an_upper_hides_the_same_on_another_file_system() {
    if !rustix::process::geteuid().is_root() {
        println!("not run: an_upper_hides_the_same_on_another_file_system: needs root");
        return;
    }
    let mounted: OwnedFd = Filesystem::open(c"tmpfs")
        .and_then(|fs| fs.mount(0))
        .expect("tmpfs");
    let upper = PathBuf::from(format!("/proc/self/fd/{}/u", mounted.as_raw_fd()));
    fs::create_dir_all(upper.join("replaced")).expect("mkdir");
    fs::write(upper.join("replaced/new"), "n").expect("write");
    fs::hard_link(upper.join("replaced/new"), upper.join("again")).expect("link");
    let set = |path: &Path, name: &str| {
        rustix::fs::lsetxattr(path, name, b"y", XattrFlags::empty()).expect(name);
    };
    set(&upper.join("replaced"), "user.overlay.opaque");
    set(&upper, "user.overlay.origin");
    set(&upper.join("replaced/new"), "user.note");
    let kind = FileType::CharacterDevice;
    rustix::fs::mknodat(CWD, upper.join("gone"), kind, Mode::empty(), 0).expect("whiteout");
    // The kernel shares one whiteout among many names.
    fs::hard_link(upper.join("gone"), upper.join("gone too")).expect("link");
    let place = tempfile::tempdir().expect("tempdir");
    let target = place.path().join("tree");
    let before = tree(&upper);
    bring(&upper, &target).expect("bring");
    let after = tree(&target);
    assert_eq!(diff(&before, &after, 9), []);
    assert_eq!(before.root(), after.root());
    let mut value = [0; 8];
    let origin = rustix::fs::lgetxattr(&target, "user.overlay.origin", &mut value);
    assert!(origin.is_err(), "it names a file of the other file system");
}

#[test]
fn what_is_there_already_is_not_touched() {
    let place = tempfile::tempdir().expect("tempdir");
    let (upper, target) = (place.path().join("u"), place.path().join("t"));
    for directory in [&upper, &target] {
        fs::create_dir(directory).expect("mkdir");
    }
    fs::write(target.join("kept"), "k").expect("write");
    assert!(bring(&upper, &target).is_err());
    assert!(target.join("kept").is_file());
}
