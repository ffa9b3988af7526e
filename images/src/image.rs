//! Images and layers as the store records them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{Digest, LayerId};

/// An image in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Names it goes by, with their tags, sorted. May be empty.
    #[serde(default)]
    pub names: Vec<String>,
    /// Digest of the image config: the image's id, equal wherever the image came from.
    pub digest: Digest,
    /// Digest of the manifest it was imported by, where there was one: what a registry calls the
    /// image's digest.
    pub manifest_digest: Option<Digest>,
    /// Its layers, bottom first.
    pub layers: Vec<LayerId>,
    /// How it wants to be run.
    pub config: ImageConfig,
    /// Bytes of file content over all layers, holes included.
    pub bytes: u64,
    /// Archive entries over all layers.
    pub entries: u64,
    /// It was pulled with a secret: not for those who could not have pulled it themselves.
    #[serde(default)]
    pub private: bool,
    /// Templates of it remove answers that it holds, as the last step of their prepare.
    #[serde(default)]
    pub scrub: bool,
}

/// The part of an image's config that matters for running it, verbatim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// `NAME=VALUE`, in order.
    pub env: Vec<String>,
    /// `USER[:GROUP]`, names or numbers; none means root.
    pub user: Option<String>,
    /// Absolute; none means `/`.
    pub workdir: Option<String>,
    /// Put before `cmd`.
    pub entrypoint: Vec<String>,
    /// The command, or its arguments where there is an entrypoint.
    pub cmd: Vec<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// `PORT/PROTOCOL`, sorted.
    pub exposed_ports: Vec<String>,
    /// Paths that are meant to be volumes, sorted.
    pub volumes: Vec<String>,
    /// Name or number of the signal that asks the command to end.
    pub stop_signal: Option<String>,
    /// As Go names it: `amd64`, `arm64`, ...
    pub architecture: String,
    /// As Go names it: `linux`.
    pub os: String,
    /// When the image was made, RFC 3339.
    pub created: Option<String>,
}

/// What the store knows about one unpacked layer: the content of its `layer.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// Form of this record: 1.
    pub version: u32,
    /// Digest of the layer's uncompressed tar.
    pub diff_id: Digest,
    /// Entries of its archive.
    pub entries: u64,
    /// Bytes of file content, holes included.
    pub bytes: u64,
    /// Names that it deletes from the layers beneath.
    pub whiteouts: u64,
    /// Directories that hide all that lies beneath.
    pub opaque_dirs: u64,
    /// Device nodes that were left out.
    pub dropped_devices: u64,
    /// Extended attributes that were left out: forged overlay metadata, and names that this
    /// file system has no room for.
    pub dropped_xattrs: u64,
    /// Files owned by an id above 65535. A sandbox shows them as nobody's.
    pub foreign_ids: u64,
    /// It took something from the layers beneath it, so that it is good over these only.
    pub depends_on_lower: bool,
}
