//! Whether a tree is still the one that was captured, entry by entry, without building another.
//!
//! A walk of an unchanged tree need not compute its digest anew: when every entry is equal in all
//! that the digest covers, the digest is the earlier one. So each directory is compared with its
//! place in the earlier tree, on as many threads as there are processors, and the first thing that
//! is not plainly equal ends it: then the caller captures the tree and lets the digests speak. Only
//! "the same" is ever concluded here.

mod links;
mod units;
mod worker;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::{CaptureError, Contents, Options, View, directory, entry};
use crate::tree::Tree;
use links::Links;
use units::Unit;
use worker::Worker;

/// More threads than this gain little: the kernel's name cache becomes the limit.
const THREADS: usize = 4;

/// Trees smaller than this are walked by one thread: starting others takes as long.
const SMALL: usize = 2_000;

/// The work that it took to see that a tree is the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Same {
    /// Regular files whose contents were read.
    pub files_read: u64,
    /// Bytes of contents read.
    pub bytes_read: u64,
    /// Regular files that were not read because their stamp had not changed.
    pub files_trusted: u64,
}

/// Compares the merged tree below `root` with an earlier capture of it. None where they are not
/// plainly equal: [`super::capture`] then tells what they are. The contents of `options` say what may
/// be trusted; its left-out paths must be those of the earlier tree.
///
/// # Errors
/// When anything could not be read, changed meanwhile, or took too long.
pub fn same(
    root: BorrowedFd<'_>,
    earlier: &Tree,
    options: &Options<'_>,
) -> Result<Option<Same>, CaptureError> {
    if options.view != View::Merged || options.exclude != earlier.excluded() {
        return Ok(None);
    }
    if !options.entered.is_empty() || earlier.len() > options.max_entries {
        return Ok(None);
    }
    if let Contents::Reuse(tree, _) = options.contents
        && !std::ptr::eq(tree, earlier)
    {
        return Ok(None);
    }
    let threads = match earlier.len() {
        ..SMALL => 1,
        _ => thread::available_parallelism().map_or(1, |n| n.get().min(THREADS)),
    };
    let at_root = |operation| {
        move |source| CaptureError::Call {
            operation,
            path: Vec::new(),
            source,
        }
    };
    let root = directory::open(root, c".").map_err(at_root("open"))?;
    let stat = entry::stat(root.as_fd(), c"").map_err(at_root("stat"))?;
    let mount = match (options.same_mount_only, entry::mount_id(&stat)) {
        (false, _) => None,
        (true, Some(id)) => Some(id),
        (true, None) => return Err(CaptureError::NoMountIds),
    };
    let new = || Worker::new(earlier, options, mount);
    let mut first = new();
    let Some(units) = units::split(root, &mut first, threads)? else {
        return Ok(None);
    };
    let shared = Shared {
        units: &units,
        next: AtomicUsize::new(0),
        over: AtomicBool::new(false),
    };
    let workers = thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|_| scope.spawn(|| shared.work(new())))
            .collect();
        let mut workers = vec![shared.work(first)];
        workers.extend(
            others
                .into_iter()
                .map(|other| other.join().unwrap_or(Err(CaptureError::Broken))),
        );
        workers
    });
    conclude(workers)
}

/// What the threads share.
struct Shared<'u> {
    units: &'u [Unit],
    next: AtomicUsize,
    /// Somebody has found that the answer is no, or that there is none.
    over: AtomicBool,
}

impl Shared<'_> {
    fn work<'o>(&self, mut worker: Worker<'o>) -> Result<Option<Worker<'o>>, CaptureError> {
        while !self.over.load(Ordering::Relaxed) {
            let Some(unit) = self.units.get(self.next.fetch_add(1, Ordering::Relaxed)) else {
                return Ok(Some(worker));
            };
            match worker.compare(unit) {
                Ok(true) => {}
                other => {
                    self.over.store(true, Ordering::Relaxed);
                    return other.map(|_| None);
                }
            }
        }
        Ok(None)
    }
}

/// Puts together what the threads saw. Hard links and devices must agree among all of them.
fn conclude(
    workers: Vec<Result<Option<Worker<'_>>, CaptureError>>,
) -> Result<Option<Same>, CaptureError> {
    let mut all = Same::default();
    let mut links = Links::default();
    let mut equal = true;
    let mut devices = super::stamps::Devices::default();
    for worker in workers {
        let Some(worker) = worker? else {
            equal = false;
            continue;
        };
        all.files_read += worker.work.files_read;
        all.bytes_read += worker.work.bytes_read;
        all.files_trusted += worker.stamps.trusted;
        equal &= links.merge(&worker.links) && devices.merge(&worker.stamps.devices);
    }
    Ok(equal.then_some(all))
}
