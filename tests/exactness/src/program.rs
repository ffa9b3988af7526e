//! Programs that run in images, so they are static.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The path of `innkeeper-guest`: INNKEEPER_GUEST, else it is built beside this test.
///
/// # Panics
/// When it does not build.
pub fn program() -> PathBuf {
    let named = std::env::var_os("INNKEEPER_GUEST");
    named.map_or_else(|| built("innkeeper-guest"), PathBuf::from)
}

/// The path of a static execd, built beside this test.
///
/// # Panics
/// When it does not build.
pub(crate) fn execd() -> PathBuf {
    built("execd")
}

fn built(package: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    // TARGET/PROFILE/deps/TEST
    let target = own.ancestors().nth(3).expect("in a target folder");
    let script = innkeeper_test_local::repository().join("tests/static.sh");
    let output = Command::new(&script)
        .args([package, "--locked", "--profile", "tests"])
        .env("CARGO_TARGET_DIR", target)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    assert!(
        output.status.success(),
        "{package} was not built: {:?}",
        output.status
    );
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
}
