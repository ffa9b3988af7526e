//! Parts of the tree that one thread compares at a time.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use super::worker::Worker;
use crate::capture::CaptureError;

/// Parts for each thread: several, since some hold more that must be read than others.
const PARTS: usize = 8;

/// A directory that is to be compared with its place in the earlier tree.
pub(super) struct Unit {
    /// The directory that it lies in: one descriptor for all units of it.
    pub(super) parent: Arc<OwnedFd>,
    /// Its index in the earlier tree.
    pub(super) index: u32,
}

/// Compares the upper levels of the tree, and gives the directories below which about an equal share
/// of the entries lies. None where something differs.
pub(super) fn split(
    root: OwnedFd,
    worker: &mut Worker<'_>,
    threads: usize,
) -> Result<Option<Vec<Unit>>, CaptureError> {
    let share = worker.earlier.len() / (threads * PARTS);
    let mut units = Vec::new();
    let mut large = vec![(Arc::new(root), 0)];
    while let Some((fd, index)) = large.pop() {
        let mut below = Vec::new();
        let mut put_off = |_: &mut Worker<'_>, child| {
            below.push(child);
            Ok(true)
        };
        if !worker.directory(fd.as_fd(), index, &mut put_off)? {
            return Ok(None);
        }
        for index in below {
            let unit = Unit {
                parent: Arc::clone(&fd),
                index,
            };
            if worker.size(index) <= share {
                units.push(unit);
            } else if let Some(fd) = worker.enter(fd.as_fd(), index)? {
                large.push((Arc::new(fd), index));
            } else {
                return Ok(None);
            }
        }
    }
    // Large ones first, so that no thread is left alone with one at the end.
    units.sort_by_key(|unit| std::cmp::Reverse(worker.size(unit.index)));
    Ok(Some(units))
}
