//! The static program that observes inside.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The path of `innkeeper-guest`: INNKEEPER_GUEST, else it is built beside this test.
///
/// # Panics
/// When it does not build.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("INNKEEPER_GUEST") {
        return PathBuf::from(path);
    }
    let own = std::env::current_exe().expect("a path");
    // TARGET/PROFILE/deps/TEST
    let target = own.ancestors().nth(3).expect("in a target folder");
    let script = innkeeper_test_local::repository().join("tests/guest/build.sh");
    let output = Command::new(&script)
        .args(["--locked", "--profile", "tests"])
        .env("CARGO_TARGET_DIR", target)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    assert!(
        output.status.success(),
        "{} failed: {:?}",
        script.display(),
        output.status
    );
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())
}
