//! The swap check of a root that is put together of slices: one overlay each, with an upper each.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::{Depth, FilesReport};
use crate::capture::{CaptureError, Options, View, capture};
use crate::digest::{Digest, Fields};
use crate::tree::{self, Builder, Tree};

/// A directory that is an overlay of its own.
#[derive(Debug, Clone, Copy)]
pub struct Slice<'a> {
    /// Relative to the root, without slashes at either end; empty for the root's own overlay.
    pub path: &'a [u8],
    /// Its upper directory.
    pub upper: BorrowedFd<'a>,
}

/// Reads the fresh upper of every slice, which must hold nothing but a root with the attributes that
/// the baseline has at its path. As with [`super::upper`], that the lowers are the recorded ones is
/// for the verification to compare.
///
/// # Errors
/// When an upper could not be read, when the baseline has nothing at a slice's path, and without any
/// slice.
pub fn uppers(
    slices: &[Slice<'_>],
    baseline: &Tree,
    options: &Options<'_>,
    limit: usize,
) -> Result<FilesReport, CaptureError> {
    let missing = |path: &[u8]| CaptureError::Call {
        operation: "find a slice in the baseline:",
        path: path.to_vec(),
        source: Errno::NOENT,
    };
    if slices.is_empty() {
        return Err(missing(b""));
    }
    let options = Options {
        view: View::Upper,
        exclude: Vec::new(),
        ..options.clone()
    };
    let mut differences = Vec::new();
    let mut bytes_read = 0;
    let mut seen = Fields::new("innkeeper differing slices 1");
    let mut equal = true;
    for slice in slices {
        let expected = baseline.get(slice.path).ok_or(missing(slice.path))?;
        let builder = Builder::new(&expected).map_err(|source| CaptureError::Impossible {
            path: slice.path.to_vec(),
            source,
        })?;
        let expected = builder.finish(Vec::new());
        let now = capture(slice.upper, &options)?;
        bytes_read += now.bytes_read;
        seen.bytes(slice.path).digest(&now.tree.root());
        if now.tree.root() != expected.root() {
            equal = false;
            let found = tree::diff(&expected, &now.tree, limit.max(1));
            differences.extend(found.into_iter().map(|mut difference| {
                difference.path = joined(slice.path, &difference.path);
                difference
            }));
        }
    }
    differences.truncate(limit.max(1));
    let root: Digest = if equal {
        baseline.root()
    } else {
        seen.finish()
    };
    Ok(FilesReport {
        depth: Depth::Swap,
        root,
        differences,
        equal,
        bytes_read,
        files_trusted: 0,
    })
}

fn joined(slice: &[u8], path: &[u8]) -> Vec<u8> {
    match (slice.is_empty(), path.is_empty()) {
        (true, _) => path.to_vec(),
        (false, true) => slice.to_vec(),
        (false, false) => [slice, path].join(&b'/'),
    }
}
