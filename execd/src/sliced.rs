//! The sliced layout: a sandbox's root where a pod has nothing but its own root file system and a
//! default pod's rights.
//!
//! `survey` looks at the pod's root, `plan` decides what becomes of each part, `copy` makes the
//! template directory. All of that happens once in a pod's life; what a reset does is in `root`.

mod copy;
mod layout;
mod plan;
mod root;
mod survey;

pub use layout::Layout;
pub use root::{Base, assemble, keep, written};
