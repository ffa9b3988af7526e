//! Limits that both ends of a call agree on. Each bounds memory at the receiving end.

/// Bytes of payload in one chunk of output, of a file or of a tar stream.
pub const CHUNK: usize = 64 * 1024;

/// Bytes of one encoded message: the largest argv and environment that a kernel takes
/// (2 MiB, ARG_MAX at a stack limit of 8 MiB) with room for framing.
pub const MESSAGE: usize = 4 * 1024 * 1024;

/// Bytes of output kept per exec for re-attaching, in memory and spilled to a file;
/// what comes after is counted and thrown away, and the result is flagged `truncated`.
pub const OUTPUT: u64 = 256 * 1024 * 1024;

/// Bytes of output kept in memory per exec before it spills to a file.
pub const OUTPUT_IN_MEMORY: usize = 1024 * 1024;

/// Milliseconds that an exec runs when no timeout is asked for: one hour.
pub const EXEC_TIMEOUT_MS: u64 = 60 * 60 * 1000;

/// The longest timeout of an exec in milliseconds: one day, the longest default lease.
pub const EXEC_TIMEOUT_MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// Words in a command and variables in its environment, together.
pub const ARGV_WORDS: usize = 65_536;

/// Bytes of a path, larger than PATH_MAX since trees deeper than it exist.
pub const PATH: usize = 64 * 1024;

/// Entries in one directory listing.
pub const LISTING: usize = 1_000_000;
