//! The three depths at which files are checked. Each gives a [`FilesReport`], which nothing else can
//! make: it is the files' part of an observation.

mod prefilled;
mod slices;

use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use crate::capture::{self, Capture, CaptureError, Contents, Options, Trust, View, capture};
use crate::difference::Difference;
use crate::digest::Digest;
use crate::tree::{self, Builder, Kind, Tree};

pub use prefilled::prefilled;
pub use slices::{Slice, uppers};

/// How thoroughly files are checked, in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// The fresh upper entry by entry; every lower proven to be the recorded one.
    Swap,
    /// Every entry of the merged tree; contents where they could have changed.
    Walk,
    /// Every entry and all contents.
    Full,
}

impl Depth {
    /// The name used in records.
    pub fn name(self) -> &'static str {
        match self {
            Depth::Swap => "swap",
            Depth::Walk => "walk",
            Depth::Full => "full",
        }
    }
}

/// What a check of the files found.
#[derive(Debug, Clone)]
pub struct FilesReport {
    depth: Depth,
    root: Digest,
    differences: Vec<Difference>,
    equal: bool,
    bytes_read: u64,
    files_trusted: u64,
}

impl FilesReport {
    /// How thorough the check was.
    pub fn depth(&self) -> Depth {
        self.depth
    }

    /// The digest of the merged tree. After a swap check that found nothing this is the baseline's, by
    /// inference: same lowers (which the verification compares), equal upper. After one that found
    /// something it is that of the differing upper, which equals no baseline.
    pub fn root(&self) -> Digest {
        self.root
    }

    /// The first differing paths.
    pub fn differences(&self) -> &[Difference] {
        &self.differences
    }

    /// True when no difference was found.
    pub fn is_equal(&self) -> bool {
        self.equal
    }

    /// Bytes of contents that were read.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Files whose contents were not read because they lie unchanged on a read-only lower.
    pub fn files_trusted(&self) -> u64 {
        self.files_trusted
    }
}

/// Reads a fresh upper directory, contents included, and compares it with the upper that the baseline
/// was captured over.
///
/// `prepared` is the tree of that upper ([`View::Upper`]), none where it was empty. The attributes of
/// the upper's root show as those of the merged root, so they must be the ones of `baseline`'s root.
/// The contents, the view and the left-out paths of `options` are set here; at most `limit` differences are named.
///
/// # Errors
/// When the upper could not be read.
pub fn upper(
    upper: BorrowedFd<'_>,
    prepared: Option<&Tree>,
    baseline: &Tree,
    options: &Options<'_>,
    limit: usize,
) -> Result<FilesReport, CaptureError> {
    let exclude = prepared
        .map(|tree| tree.excluded().to_vec())
        .unwrap_or_default();
    let options = Options {
        contents: Contents::Read,
        view: View::Upper,
        exclude,
        ..options.clone()
    };
    let now = capture(upper, &options)?;
    let expected = expected_upper(prepared, baseline)?;
    Ok(report(Depth::Swap, &expected, &now, limit, baseline.root()))
}

/// The prepared upper with the merged root's attributes. What only a raw upper's root has (an opaque
/// mark and the like) must be as prepared.
fn expected_upper(prepared: Option<&Tree>, baseline: &Tree) -> Result<Tree, CaptureError> {
    let impossible = |source| CaptureError::Impossible {
        path: Vec::new(),
        source,
    };
    let mut root = baseline.entry(0);
    let own: Vec<_> = prepared
        .map(|tree| tree.entry(0).xattrs)
        .unwrap_or_default();
    root.xattrs.extend(
        own.into_iter()
            .filter(|(name, _)| name.starts_with(b"trusted.overlay.")),
    );
    root.xattrs.sort();
    root.xattrs.dedup_by(|a, b| a.0 == b.0);
    let mut builder = Builder::new(&root).map_err(impossible)?;
    if let Some(prepared) = prepared {
        builder.graft(prepared).map_err(impossible)?;
    }
    Ok(builder.finish(
        prepared
            .map(|tree| tree.excluded().to_vec())
            .unwrap_or_default(),
    ))
}

/// Walks the merged tree against the baseline. Contents are kept from the baseline only under
/// `trust`, and read where there is none.
///
/// # Errors
/// When the tree could not be read.
pub fn walk(
    root: BorrowedFd<'_>,
    baseline: &Tree,
    trust: Option<Trust>,
    options: &Options<'_>,
    limit: usize,
) -> Result<FilesReport, CaptureError> {
    let contents = trust.map_or(Contents::Read, |trust| Contents::Reuse(baseline, trust));
    merged(root, baseline, Depth::Walk, contents, options, limit)
}

/// Walks the tree against the baseline as [`walk`] does, or with all contents read where there is no
/// trust, and gives the tree as well: what a restore is planned from. Here the numbers of names that the
/// kernel counts for each inode must be those of the baseline too, which must be of the same mount: in a
/// tree that is put back in place, two names may be one inode without looking it.
///
/// # Errors
/// When the tree could not be read.
pub fn scan(
    root: BorrowedFd<'_>,
    baseline: &Tree,
    trust: Option<Trust>,
    options: &Options<'_>,
    limit: usize,
) -> Result<(FilesReport, Tree), CaptureError> {
    let (depth, contents) = match trust {
        Some(trust) => (Depth::Walk, Contents::Reuse(baseline, trust)),
        None => (Depth::Full, Contents::Read),
    };
    let now = capture(root, &as_merged(baseline, contents, options))?;
    let mut report = report(depth, baseline, &now, limit, baseline.root());
    if report.equal {
        report.differences = tree::wrong_links(baseline, &now.tree, limit.max(1));
        report.equal = report.differences.is_empty();
    }
    Ok((report, now.tree))
}

/// Walks the merged tree and reads all contents.
///
/// # Errors
/// When the tree could not be read.
pub fn full(
    root: BorrowedFd<'_>,
    baseline: &Tree,
    options: &Options<'_>,
    limit: usize,
) -> Result<FilesReport, CaptureError> {
    merged(root, baseline, Depth::Full, Contents::Read, options, limit)
}

fn merged(
    root: BorrowedFd<'_>,
    baseline: &Tree,
    depth: Depth,
    contents: Contents<'_>,
    options: &Options<'_>,
    limit: usize,
) -> Result<FilesReport, CaptureError> {
    let options = as_merged(baseline, contents, options);
    if let Some(same) = capture::same(root, baseline, &options)? {
        return Ok(FilesReport {
            depth,
            root: baseline.root(),
            differences: Vec::new(),
            equal: true,
            bytes_read: same.bytes_read,
            files_trusted: same.files_trusted,
        });
    }
    let now = capture(root, &options)?;
    Ok(report(depth, baseline, &now, limit, baseline.root()))
}

fn as_merged<'a>(baseline: &Tree, contents: Contents<'a>, options: &Options<'a>) -> Options<'a> {
    Options {
        contents,
        view: View::Merged,
        exclude: baseline.excluded().to_vec(),
        ..options.clone()
    }
}

fn report(
    depth: Depth,
    expected: &Tree,
    now: &Capture,
    limit: usize,
    baseline: Digest,
) -> FilesReport {
    let equal = expected.root() == now.tree.root();
    let differences = if equal {
        Vec::new()
    } else {
        tree::diff(expected, &now.tree, limit.max(1))
    };
    let root = if equal { baseline } else { now.tree.root() };
    FilesReport {
        depth,
        root,
        differences,
        equal,
        bytes_read: now.bytes_read,
        files_trusted: now.files_trusted,
    }
}

/// True for an upper tree in which nothing was written: its root alone.
pub fn is_empty_upper(upper: &Tree) -> bool {
    upper.len() == 1 && upper.entry(0).kind == Kind::Directory
}
