//! What one layer may claim. Far above real images, low enough that a hostile one ends with an
//! error and not with an exhausted machine. A full disk ends an import on its own.

/// Entries in one layer. The largest public images have some 600,000.
pub const MAX_ENTRIES: u64 = 10_000_000;

/// Bytes of one layer's tar, and of one file in it with its holes.
pub const MAX_LAYER_BYTES: u64 = 256 << 30;

/// Bytes of one name, as the kernel has it (PATH_MAX).
pub const MAX_PATH: usize = 4096;

/// Directories above one entry. One descriptor is held for each.
pub const MAX_DEPTH: usize = 400;

/// Bytes of one extended header: a name, or all extended attributes of one file.
pub const MAX_HEADER_BYTES: u64 = 4 << 20;

/// Stretches of data in one sparse file.
pub const MAX_SPARSE_SEGMENTS: usize = 1 << 20;

/// Bytes of one manifest, index or image config.
pub const MAX_JSON_BYTES: u64 = 16 << 20;

/// Layers in one image; an overlay mount takes 500.
pub const MAX_LAYERS: usize = 490;
