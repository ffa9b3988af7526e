//! A root put together in a real user namespace: the test program starts itself again in one.

use std::path::Path;
use std::process::Command;

use innkeeper_reset::capture::capture;
use innkeeper_reset::ids::IdMap;
use innkeeper_reset::tree::{Kind, diff};

use super::*;
use crate::sliced::Layout;

/// Names the scratch directory to the part that runs inside.
const INSIDE: &str = "INNKEEPER_TEST_SLICED_ROOT";
const TEST: &str = "sliced::root::tests::a_root_of_slices_is_the_pods_root_again_after_every_reset";

/// Above the limit of what is copied.
const LARGE: u64 = 31 << 20;

#[test]
fn a_root_of_slices_is_the_pods_root_again_after_every_reset() {
    if let Some(scratch) = std::env::var_os(INSIDE) {
        return inside(Path::new(&scratch));
    }
    if !rustix::process::geteuid().is_root() {
        println!("not run: {TEST}: needs root");
        return;
    }
    let scratch = tempfile::tempdir().expect("tempdir");
    let make = |path: &str, contents: &str| {
        let path = scratch.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
        fs::write(path, contents).expect("write");
    };
    make("image/etc/passwd", "root");
    make("image/usr/bin/program", "#!");
    make("image/usr/lib/library", "l");
    make("image/opt/small", "s");
    fs::create_dir_all(scratch.path().join("image/proc")).expect("proc");
    let large = fs::File::create(scratch.path().join("image/usr/large")).expect("large");
    large.set_len(LARGE).expect("grow");
    for directory in ["template", "root", "uppers"] {
        fs::create_dir(scratch.path().join(directory)).expect("mkdir");
    }
    let own = std::env::current_exe().expect("own path");
    let done = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "--"])
        .arg(own)
        .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
        .env(INSIDE, scratch.path())
        .output()
        .expect("unshare");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(
        done.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(said.contains("1 passed"), "{said}");
}

fn mount_at((root, slices): &(Root, Slices), place: &Path) {
    let target = open(CWD, place).expect("place");
    mount::attach(root.overlay.as_fd(), target.as_fd()).expect("attach");
    for (path, slice) in &slices.0 {
        let target = open(root.overlay.as_fd(), as_path(path)).expect("slice's place");
        mount::attach(slice.as_fd(), target.as_fd()).expect("attach");
    }
}

fn tree(root: BorrowedFd<'_>, layout: &Layout) -> Tree {
    let options = Options {
        entered: layout.slices().to_vec(),
        ..Options::new(IdMap::CANONICAL)
    };
    capture(root, &options).expect("capture").tree
}

/// Several roots over one template, one after the other, each written to all over.
fn inside(scratch: &Path) {
    let image = scratch.join("image");
    let layout = Layout::of_root(&image, &scratch.join("template"), &[]).expect("layout");
    assert_eq!(layout.slices(), [b"usr".to_vec()]);
    let whole = capture(
        fs::File::open(&image).expect("image").as_fd(),
        &Options::new(IdMap::CANONICAL),
    );
    let whole = whole.expect("capture").tree;
    let memory = Upper::Memory {
        bytes: 16 << 20,
        inodes: 100,
    };
    let disk = Upper::Directory(scratch.join("uppers"));
    let place = scratch.join("root");
    let mut baseline = None;
    for uppers in [memory.clone(), memory, disk] {
        let made = assemble(&layout.base(None), &uppers).expect("assemble");
        mount_at(&made, &place);
        let root = made.0;
        let seen = tree(root.overlay.as_fd(), &layout);
        // The root's own time is no image's.
        let paths = diff(&whole, &seen, 10)
            .into_iter()
            .map(|d| (d.path, d.what));
        let paths: Vec<_> = paths
            .filter(|(path, _)| !matches!(path.as_slice(), b"" | b"dev" | b"sys" | b"proc"))
            .collect();
        assert_eq!(paths, []);
        let baseline = baseline.get_or_insert(seen.clone());
        assert_eq!(
            baseline.root(),
            seen.root(),
            "{:?}",
            diff(baseline, &seen, 9)
        );
        assert!(is_fresh(&root, &layout, baseline));
        for written in ["etc/passwd", "usr/bin/program", "usr/new", "opt/new"] {
            fs::write(place.join(written), "written by the guest").expect(written);
        }
        fs::remove_dir_all(place.join("usr/lib")).expect("remove");
        let across = fs::rename(place.join("usr/new"), place.join("opt/moved"));
        assert_eq!(
            across.map_err(|e| e.kind()),
            Err(io::ErrorKind::CrossesDevices),
            "slices are file systems"
        );
        assert!(!is_fresh(&root, &layout, baseline));
        assert_ne!(tree(root.overlay.as_fd(), &layout).root(), baseline.root());
        assert_eq!(whole.get(b"usr").map(|usr| usr.kind), Some(Kind::Directory));
        rustix::mount::unmount(&place, rustix::mount::UnmountFlags::DETACH).expect("unmount");
    }
}

fn is_fresh(root: &Root, layout: &Layout, baseline: &Tree) -> bool {
    let options = Options::new(IdMap::CANONICAL);
    let report = written(root.upper.as_fd(), layout.slices(), baseline, &options, 9);
    report.expect("readable").is_equal()
}
