//! Where the public data that some tests read lies.

use std::path::PathBuf;

/// The directory that `INNKEEPER_SHARED` names, else `../shared` beside the repository, where
/// it holds the SWE-bench data.
pub(crate) fn swebench() -> Option<PathBuf> {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared"));
    let shared = std::env::var_os("INNKEEPER_SHARED").map_or_else(beside, PathBuf::from);
    Some(shared.join("swebench")).filter(|dir| dir.is_dir())
}

/// Why a test without the data did not run.
pub(crate) const ABSENT: &str =
    "no SWE-bench data (set INNKEEPER_SHARED to the directory that holds swebench/)";
