//! What an import tells while it works.

use crate::id::Digest;

/// One step of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The image is known; this many layers make it up.
    Layers {
        /// Number of layers.
        total: usize,
    },
    /// A layer is already in the store.
    Shared {
        /// Counted from 0, bottom first.
        index: usize,
        /// Its diff id.
        diff_id: Digest,
    },
    /// A layer is being read; repeated as it goes on.
    Reading {
        /// Counted from 0, bottom first.
        index: usize,
        /// Bytes read so far, as they are stored in the source.
        done: u64,
        /// How many there are, where the source says so.
        total: Option<u64>,
    },
    /// A layer is complete in the store.
    Unpacked {
        /// Counted from 0, bottom first.
        index: usize,
        /// Entries in it.
        entries: u64,
        /// Bytes of file content in it.
        bytes: u64,
    },
}

/// Receives the steps of an import, on the thread that called it.
pub trait Progress {
    /// Called in order; must return soon.
    fn step(&mut self, step: Step);
}

/// Shows nothing.
impl Progress for () {
    fn step(&mut self, _: Step) {}
}

impl<F: FnMut(Step)> Progress for F {
    fn step(&mut self, step: Step) {
        self(step);
    }
}
