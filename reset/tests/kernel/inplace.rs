//! Restoring in place, on real file systems.

mod cases;
mod hostile;
mod killing;
mod listing;
mod order;
mod property;

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use innkeeper_reset::capture::Options;
use innkeeper_reset::files;
use innkeeper_reset::ids::IdMap;
use innkeeper_reset::inplace::{Refusal, Roots, Stash, apply, plan};
use innkeeper_reset::tree::Tree;
use rustix::fs::IFlags;

use crate::scratch::{Mounted, open_dir};

/// Rounds that a restore may take, as in the phases.
const ROUNDS: u32 = 4;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn in_place() -> Options<'static> {
    Options::new(IdMap::IDENTITY)
}

/// A place for a tree, on one of the file systems that containers have.
enum Place {
    Tmpfs(Mounted),
    Ext4(tempfile::TempDir),
    /// The merged view, and its lower.
    Overlay(Mounted, tempfile::TempDir),
}

impl Place {
    fn tmpfs() -> Self {
        Place::Tmpfs(Mounted::tmpfs())
    }

    /// On the file system of temporary files; none where that is no ext4.
    fn ext4() -> Option<Self> {
        /// `EXT4_SUPER_MAGIC` of `linux/magic.h`.
        const EXT4: i64 = 0xef53;
        let dir = tempfile::tempdir().expect("tempdir");
        let kind = rustix::fs::statfs(dir.path()).expect("statfs").f_type;
        (kind as i64 == EXT4).then_some(Place::Ext4(dir))
    }

    /// `make` fills the lower, so that everything lies there when the restore has to deal with it.
    fn overlay(make: impl FnOnce(&Path)) -> Self {
        let (lower, upper) = (tempfile::tempdir().expect("tempdir"), Mounted::tmpfs());
        let image = lower.path().join("image");
        fs::create_dir(&image).expect("mkdir");
        make(&image);
        for dir in ["u", "w"] {
            fs::create_dir(upper.path().join(dir)).expect("mkdir");
        }
        let text = |path: PathBuf| path.to_str().expect("utf-8").to_owned();
        let options = [
            ("lowerdir", text(image)),
            ("upperdir", text(upper.path().join("u"))),
            ("workdir", text(upper.path().join("w"))),
            ("source", "test".to_owned()),
        ];
        let options: Vec<_> = options.iter().map(|(k, v)| (*k, v.as_str())).collect();
        Place::Overlay(Mounted::new("overlay", &options), lower)
    }

    fn path(&self) -> PathBuf {
        match self {
            Place::Tmpfs(mounted) | Place::Overlay(mounted, _) => mounted.path(),
            Place::Ext4(dir) => dir.path().to_owned(),
        }
    }
}

impl Drop for Place {
    /// No test leaves a file that cannot be removed.
    fn drop(&mut self) {
        unlock(&self.path());
        if let Place::Overlay(_, lower) = self {
            unlock(lower.path());
        }
    }
}

fn unlock(path: &Path) {
    if let Ok(file) = fs::File::open(path)
        && let Ok(now) = rustix::fs::ioctl_getflags(&file)
    {
        let _ = rustix::fs::ioctl_setflags(&file, now - IFlags::IMMUTABLE - IFlags::APPEND);
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let kind = entry.file_type().expect("type");
        if kind.is_dir() || kind.is_file() {
            unlock(&entry.path());
        }
    }
}

/// What is kept of a tree: its capture, and copies of all contents below `roots`.
struct Kept {
    tree: Tree,
    stash: Stash,
}

impl Kept {
    fn of(root: &Path, roots: &Roots) -> Self {
        let dir = open_dir(root);
        let tree = innkeeper_reset::capture::capture(dir.as_fd(), &in_place());
        let tree = tree.expect("capture").tree;
        let apart = tempfile::tempdir().expect("tempdir");
        let mut stash = Stash::new(open_dir(apart.path()).as_fd()).expect("stash");
        let wanted = |path: &[u8], _: &_| roots.cover(path);
        let filled = stash.fill(dir.as_fd(), &tree, wanted, u64::MAX, soon());
        filled.expect("filled");
        Kept { tree, stash }
    }

    fn all(root: &Path) -> Self {
        Kept::of(root, &Roots::new(["/"]))
    }

    /// Restores until a scan finds the baseline, and says how many rounds that took.
    fn restore(&self, root: &Path) -> Result<u32, Vec<Refusal>> {
        let dir = open_dir(root);
        for round in 0..=ROUNDS {
            let scan = files::scan(dir.as_fd(), &self.tree, None, &in_place(), 20);
            let (report, now) = scan.expect("scan");
            if report.is_equal() {
                return Ok(round);
            }
            let plan = plan(&self.tree, &now, |content| self.stash.holds(content))?;
            assert!(!plan.is_empty(), "{:?}", report.differences());
            assert!(round < ROUNDS, "no end: {:?}", report.differences());
            apply(dir.as_fd(), &plan, &self.stash, soon()).expect("apply");
        }
        unreachable!("the last round has returned or failed")
    }
}
