//! The plan of a restore, made of two trees and nothing else: what was, and what is.
//!
//! Order: flags that forbid changes are cleared; additions and what cannot be changed into its
//! baseline go, deepest first; what is missing is made, parents first; contents are written; then
//! attributes are set, children before their directories, times last of all that moves them, flags at
//! the very end.

mod pairing;
mod steps;

use crate::digest::Digest;
use crate::tree::{Flags, Kind, Tree};

/// One change of one entry. Paths are bytes relative to the root; the empty one is the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Which entry.
    pub path: Vec<u8>,
    /// What happens to it.
    pub change: Change,
}

/// What happens to an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Clears the flags by which an inode refuses changes.
    Unlock {
        /// Regular file or directory.
        openable: bool,
        /// The flags that stay.
        flags: Flags,
    },
    /// Removes a directory (empty by then) or anything else.
    Remove {
        /// Whether it is a directory.
        directory: bool,
    },
    /// Makes an empty directory, an empty file, a pipe, a socket or a device.
    Make {
        /// Type.
        kind: Kind,
        /// `major << 32 | minor` of a device.
        rdev: u64,
    },
    /// Makes a symbolic link.
    Symlink {
        /// Its target.
        target: Vec<u8>,
    },
    /// Makes a further name of another entry.
    Link {
        /// The entry, which is there by then.
        to: Vec<u8>,
    },
    /// Replaces the contents of a regular file.
    Write {
        /// BLAKE3 of the contents; the stash holds them, unless `size` is 0.
        content: Digest,
        /// Bytes.
        size: u64,
    },
    /// Sets owner and group.
    Owner {
        /// User id in the guest's view.
        uid: u32,
        /// Group id in the guest's view.
        gid: u32,
    },
    /// Gives exactly these extended attributes, access lists and file capabilities among them.
    Xattrs {
        /// Sorted by name.
        exactly: Vec<(Vec<u8>, Vec<u8>)>,
    },
    /// Sets permission bits.
    Mode {
        /// 12 bits.
        mode: u16,
    },
    /// Sets the modification time.
    Time {
        /// Seconds.
        seconds: i64,
        /// Nanoseconds within the second.
        nanoseconds: u32,
    },
    /// Sets the inode flags.
    Flags {
        /// Regular file or directory.
        openable: bool,
        /// The flags.
        flags: Flags,
    },
}

/// What is to be done, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
}

impl Plan {
    /// True where nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Something that cannot be undone here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its path relative to the root.
    pub path: Vec<u8>,
    /// Why.
    pub why: Why,
}

/// Why an entry cannot be put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Its contents changed or went, and nobody kept a copy.
    NoCopy,
    /// A mount appeared or went.
    Mount,
    /// The two trees leave out other paths.
    Excluded,
}

impl Why {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Why::NoCopy => "not undoable: it lies outside of the template's restore roots",
            Why::Mount => "not undoable: a mount appeared or went",
            Why::Excluded => "not undoable: other paths are left out than in the baseline",
        }
    }
}

/// What turns `now` into `baseline`. `held` says whether the contents of a digest can be had.
///
/// The plan is empty where there is nothing that it could do. Carrying it out may take another round: on
/// an overlay, changing one name of a file of the image parts it from its hard links.
///
/// # Errors
/// All that cannot be undone, in canonical order.
pub fn plan(
    baseline: &Tree,
    now: &Tree,
    held: impl Fn(&Digest) -> bool,
) -> Result<Plan, Vec<Refusal>> {
    let pairs = pairing::pair(baseline, now);
    let mut refusals = pairs.refusals.clone();
    let steps = steps::steps(baseline, now, &pairs, |index| {
        let entry = baseline.entry_without_names(index);
        let possible = entry.size == 0 || held(&entry.content);
        if !possible {
            refusals.push(Refusal {
                path: baseline.path(index),
                why: Why::NoCopy,
            });
        }
    });
    if refusals.is_empty() {
        Ok(Plan { steps })
    } else {
        refusals.sort_by(|a, b| a.path.cmp(&b.path));
        Err(refusals)
    }
}

#[cfg(test)]
mod tests;
