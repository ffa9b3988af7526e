//! Overlays: the three depths, what may be trusted in a walk, and what may not.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use innkeeper_reset::capture::{Contents, Options, Trust, View};
use innkeeper_reset::files::{self, Depth, FilesReport};
use innkeeper_reset::ids::IdMap;
use innkeeper_reset::tree::{Kind, Tree};

use crate::scratch::{
    Mounted, as_root, captured, differing, fix_times, one_of_everything, open_dir, options,
    set_mtime, set_xattr, settled, tree,
};
use crate::sys::{Mapping, id_mapped_clone};

/// An overlay over one lower, with upper and work on a tmpfs of its own.
struct Overlay {
    merged: Mounted,
    upper: Mounted,
}

impl Overlay {
    fn over(lower: &Path) -> Self {
        Overlay::with(lower, |_| {})
    }

    /// `fill` writes to the upper before it is mounted.
    fn with(lower: &Path, fill: impl FnOnce(&Path)) -> Self {
        let upper = Mounted::tmpfs();
        for dir in ["u", "w"] {
            fs::create_dir(upper.path().join(dir)).expect("mkdir");
        }
        fill(&upper.path().join("u"));
        set_mtime(&upper.path().join("u"), 1_600_000_000, 987_654_321);
        let text = |path: PathBuf| path.to_str().expect("utf-8").to_owned();
        let (lower, up) = (text(lower.to_owned()), text(upper.path().join("u")));
        let work = text(upper.path().join("w"));
        let given = [
            ("lowerdir", lower.as_str()),
            ("upperdir", &up),
            ("workdir", &work),
            ("source", "test"),
        ];
        Overlay {
            merged: Mounted::new("overlay", &given),
            upper,
        }
    }

    fn path(&self) -> PathBuf {
        self.merged.path()
    }

    fn upper(&self) -> PathBuf {
        self.upper.path().join("u")
    }

    fn swap(&self, prepared: Option<&Tree>, baseline: &Tree) -> FilesReport {
        files::upper(
            open_dir(&self.upper()).as_fd(),
            prepared,
            baseline,
            &options(),
            10,
        )
        .expect("readable")
    }

    fn walk(&self, baseline: &Tree, trust: Option<Trust>) -> FilesReport {
        files::walk(self.merged.0.as_fd(), baseline, trust, &options(), 10).expect("readable")
    }
}

fn lower() -> Mounted {
    let lower = Mounted::tmpfs();
    one_of_everything(&lower.path(), false);
    lower
}

fn files_in(tree: &Tree) -> u64 {
    tree.entries()
        .filter(|(_, entry)| entry.kind == Kind::File)
        .count() as u64
}

fn named(report: &FilesReport) -> Vec<(String, &str)> {
    let differences = report.differences().iter();
    differences
        .map(|d| (d.path.escape_ascii().to_string(), d.what.as_str()))
        .collect()
}

#[test]
fn a_fresh_generation_is_equal_at_every_depth() {
    if !as_root("a_fresh_generation_is_equal_at_every_depth") {
        return;
    }
    let lower = lower();
    let baseline = settled(&Overlay::over(&lower.path()).path());
    assert_eq!(differing(&tree(&lower.path()), &baseline), []);
    let next = Overlay::over(&lower.path());
    let swap = next.swap(None, &baseline);
    assert!(swap.is_equal() && swap.depth() == Depth::Swap);
    let walk = next.walk(&baseline, Some(Trust::ReadOnlyLower));
    assert!(walk.is_equal());
    assert_eq!(
        (walk.bytes_read(), walk.files_trusted()),
        (0, files_in(&baseline)),
        "all trusted through another mount"
    );
    let full = files::full(next.merged.0.as_fd(), &baseline, &options(), 10).expect("readable");
    assert!(full.is_equal() && full.files_trusted() == 0 && full.bytes_read() > 0);
    for report in [swap, walk, full] {
        assert_eq!(report.root(), baseline.root());
    }
}

#[test]
fn a_stored_baseline_still_vouches() {
    if !as_root("a_stored_baseline_still_vouches") {
        return;
    }
    let lower = lower();
    let baseline = settled(&Overlay::over(&lower.path()).path()).encode();
    let baseline = Tree::decode(&baseline, 1 << 20).expect("decode");
    let walk = Overlay::over(&lower.path()).walk(&baseline, Some(Trust::ReadOnlyLower));
    assert!(walk.is_equal() && walk.files_trusted() == files_in(&baseline));
}

#[test]
fn whatever_stands_in_an_upper_is_found() {
    if !as_root("whatever_stands_in_an_upper_is_found") {
        return;
    }
    let lower = lower();
    let baseline = settled(&Overlay::over(&lower.path()).path());
    type Leave = fn(&Path);
    let leavings: [(&str, Leave); 8] = [
        ("new", |root| {
            fs::write(root.join("new"), "x").expect("write")
        }),
        ("file", |root| {
            fs::remove_file(root.join("file")).expect("remove")
        }),
        ("file", |root| {
            fs::write(root.join("file"), "c0ntents").expect("write")
        }),
        ("dir", |root| {
            set_xattr(&root.join("dir"), "trusted.left", b"1")
        }),
        ("dir", |root| {
            fs::remove_dir_all(root.join("dir")).expect("remove");
            fs::create_dir(root.join("dir")).expect("mkdir");
        }),
        ("", |root| set_xattr(root, "trusted.left", b"1")),
        ("", |root| {
            std::os::unix::fs::lchown(root, Some(1), None).expect("chown")
        }),
        ("listed", |root| {
            // A copy-up that leaves the same attributes and contents is still not a fresh upper.
            drop(
                OpenOptions::new()
                    .append(true)
                    .open(root.join("listed"))
                    .expect("open"),
            );
        }),
    ];
    for (path, leave) in leavings {
        let used = Overlay::over(&lower.path());
        leave(&used.path());
        set_mtime(&used.path(), 1_600_000_000, 987_654_321);
        let swap = used.swap(None, &baseline);
        assert!(!swap.is_equal(), "{path}");
        assert_eq!(
            swap.differences().first().map(|d| d.path.as_slice()),
            Some(path.as_bytes())
        );
        assert_ne!(swap.root(), baseline.root());
        if path != "listed" {
            let walk = used.walk(&baseline, Some(Trust::ReadOnlyLower));
            assert_eq!(
                walk.differences().first().map(|d| d.path.as_slice()),
                Some(path.as_bytes())
            );
        }
    }
}

#[test]
fn opaque_marks_and_whiteouts_count_in_a_raw_upper() {
    if !as_root("opaque_marks_and_whiteouts_count_in_a_raw_upper") {
        return;
    }
    let lower = lower();
    let used = Overlay::over(&lower.path());
    fs::remove_dir_all(used.path().join("dir")).expect("remove");
    fs::create_dir(used.path().join("dir")).expect("mkdir");
    fs::remove_file(used.path().join("file")).expect("remove");
    let upper = captured(
        &used.upper(),
        &Options {
            view: View::Upper,
            ..options()
        },
    )
    .tree;
    let dir = upper.get(b"dir").expect("dir");
    assert_eq!(
        dir.xattrs,
        [(b"trusted.overlay.opaque".to_vec(), b"y".to_vec())]
    );
    let whiteout = upper.get(b"file").expect("whiteout");
    assert_eq!((whiteout.kind, whiteout.rdev), (Kind::CharDevice, 0));
    assert!(
        tree(&used.path())
            .get(b"dir")
            .expect("dir")
            .xattrs
            .is_empty(),
        "hidden in the merged tree"
    );
}

#[test]
fn a_prepared_upper_is_what_is_compared() {
    if !as_root("a_prepared_upper_is_what_is_compared") {
        return;
    }
    let lower = lower();
    let fill = |contents: &'static str| {
        move |upper: &Path| {
            fs::create_dir(upper.join("work")).expect("mkdir");
            fs::write(upper.join("work/a"), contents).expect("write");
            fs::hard_link(upper.join("work/a"), upper.join("work/b")).expect("link");
            set_xattr(&upper.join("work"), "trusted.overlay.opaque", b"y");
            fix_times(upper);
        }
    };
    let first = Overlay::with(&lower.path(), fill("same"));
    let baseline = settled(&first.path());
    let prepared = captured(
        &first.upper(),
        &Options {
            view: View::Upper,
            ..options()
        },
    )
    .tree;
    assert!(!files::is_empty_upper(&prepared));
    assert!(
        Overlay::with(&lower.path(), fill("same"))
            .swap(Some(&prepared), &baseline)
            .is_equal()
    );
    let other = Overlay::with(&lower.path(), fill("diff")).swap(Some(&prepared), &baseline);
    assert_eq!(
        named(&other),
        [("work/a".into(), "content"), ("work/b".into(), "content")]
    );
    let empty = Overlay::over(&lower.path()).swap(Some(&prepared), &baseline);
    assert_eq!(named(&empty), [("work".into(), "entry")]);
}

#[test]
fn a_lower_written_behind_the_back_is_read_again() {
    if !as_root("a_lower_written_behind_the_back_is_read_again") {
        return;
    }
    let lower = lower();
    let baseline = settled(&Overlay::over(&lower.path()).path());
    let file = lower.path().join("file");
    fs::write(&file, "c0ntents").expect("write");
    set_mtime(&file, 1_700_000_008, 123_456_789);
    let walk = Overlay::over(&lower.path()).walk(&baseline, Some(Trust::ReadOnlyLower));
    assert_eq!(named(&walk), [("file".into(), "content")]);
}

#[test]
fn a_store_through_a_shared_mapping_needs_reading() {
    if !as_root("a_store_through_a_shared_mapping_needs_reading") {
        return;
    }
    let writable = lower();
    let path = writable.path().join("file");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&path)
        .expect("open");
    // The first store faults the page in, and is seen. Those after it are not.
    let mapping = Mapping::of(&file);
    mapping.store(b'W');
    let baseline = settled(&writable.path());
    let times = |path: &Path| {
        let stat = path.symlink_metadata().expect("stat");
        (
            stat.mtime(),
            stat.mtime_nsec(),
            stat.ctime(),
            stat.ctime_nsec(),
        )
    };
    let before = times(&path);
    mapping.store(b'X');
    assert_eq!(
        times(&path),
        before,
        "tmpfs changes no time stamp, which is the point"
    );

    let trusting = Options {
        contents: Contents::Reuse(&baseline, Trust::ReadOnlyLower),
        ..options()
    };
    let missed = captured(&writable.path(), &trusting).tree;
    assert_eq!(
        missed.root(),
        baseline.root(),
        "trust where it is not due misses it"
    );
    let walk = files::walk(
        open_dir(&writable.path()).as_fd(),
        &baseline,
        None,
        &options(),
        10,
    );
    assert_eq!(
        named(&walk.expect("readable")),
        [("file".into(), "content")]
    );
}

#[test]
fn a_young_change_time_is_not_relied_on() {
    if !as_root("a_young_change_time_is_not_relied_on") {
        return;
    }
    let mounted = Mounted::tmpfs();
    // A change time in the future is young however slow this test is.
    let tree_of_now = || {
        let file = File::create(mounted.path().join("f")).expect("create");
        drop(file);
        tree(&mounted.path())
    };
    // Retried, since the machine may pause between the two calls.
    let young = (0..100).any(|_| tree_of_now().get(b"f").expect("f").stamp.is_none());
    assert!(young);
}

/// A process in a user namespace of its own that does nothing until it is dropped.
struct Namespace(Child);

impl Namespace {
    fn mapped_to(base: u32) -> Self {
        let child = Command::new("unshare")
            .args(["--user", "sleep", "1000"])
            .spawn()
            .expect("unshare");
        let namespace = Namespace(child);
        let own = fs::read_link("/proc/self/ns/user").expect("link");
        while fs::read_link(namespace.proc("ns/user")).is_ok_and(|there| there == own) {
            std::thread::yield_now();
        }
        for map in ["uid_map", "gid_map"] {
            fs::write(namespace.proc(map), format!("0 {base} 65536")).expect(map);
        }
        namespace
    }

    fn proc(&self, name: &str) -> String {
        format!("/proc/{}/{name}", self.0.id())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_id_mapped_layer_shows_the_guests_view() {
    if !as_root("an_id_mapped_layer_shows_the_guests_view") {
        return;
    }
    let lower = lower();
    std::os::unix::fs::lchown(lower.path().join("dir/one"), Some(1000), Some(50)).expect("chown");
    let base = 5_000_000;
    let namespace = Namespace::mapped_to(base);
    let user = File::open(namespace.proc("ns/user")).expect("user namespace");
    let mapped = Mounted(id_mapped_clone(lower.0.as_fd(), user.as_fd()));
    let upper = Mounted::tmpfs();
    for dir in ["u", "w"] {
        fs::create_dir(upper.path().join(dir)).expect("mkdir");
    }
    set_mtime(&upper.path().join("u"), 1_600_000_000, 987_654_321);
    std::os::unix::fs::lchown(upper.path().join("u"), Some(base), Some(base)).expect("chown");
    let text = |path: PathBuf| path.to_str().expect("utf-8").to_owned();
    let merged = Mounted::new(
        "overlay",
        &[
            ("lowerdir", text(mapped.path()).as_str()),
            ("upperdir", &text(upper.path().join("u"))),
            ("workdir", &text(upper.path().join("w"))),
        ],
    );
    let uid = fs::symlink_metadata(merged.path().join("dir/one"))
        .expect("stat")
        .uid();
    assert_eq!(uid, base + 1000, "the positive control: it is shifted");
    let guests = captured(
        &merged.path(),
        &Options {
            ids: IdMap::at(base),
            ..options()
        },
    )
    .tree;
    let canonical = tree(&lower.path());
    assert_eq!(differing(&canonical, &guests), []);
    assert_eq!(guests.root(), canonical.root());
}
