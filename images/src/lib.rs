//! The content-addressed image store of one machine, and its importers.
//!
//! A [`Store`] keeps image layers unpacked, one directory each, ready to be stacked as the lower
//! layers of an overlay mount. [`Store::import`] fills it from a [`Source`]: a root file system
//! folder, an OCI layout, a docker or OCI archive, or (feature `registry`) a registry.
//!
//! Guarantees:
//! - A layer is named by a digest of its content, which is checked while it is unpacked. What
//!   stands under `layers/` is complete: an import that is killed at any moment leaves only
//!   litter under `tmp/`, which the next [`Store::open`] sweeps.
//! - Owners, modes, times and extended attributes are kept as the layer states them, with the
//!   ids of the image (0, 1000, ...), not shifted. Device nodes never reach the store, and a layer
//!   cannot forge overlay metadata.
//! - No entry of a hostile layer touches anything outside its own tree.
//! - Several processes may use one store at once.
//!
//! Durability: nothing is flushed to the disk explicitly. A killed process loses nothing that was
//! complete; after a power failure [`Store::layer`] may accept a layer whose last writes were lost.

#![forbid(unsafe_code)]

mod attributes;
mod error;
mod feed;
mod id;
mod image;
mod import;
mod paths;
mod progress;
mod source;
mod store;
mod tarstream;
mod unpack;

pub use error::{Error, ErrorKind};
pub use id::{BadDigest, Digest, LayerId};
pub use image::{Image, ImageConfig, LayerRecord};
pub use progress::{Progress, Step};
pub use source::{ArchiveFormat, Source};
pub use store::{Removed, Store};
pub use unpack::{Error as UnpackError, limits};
