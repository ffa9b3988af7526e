//! What the tests of the command line share: a place of their own for the real binaries, and a
//! small image made of this machine's own programs.
//!
//! The binaries are looked for in INNKEEPER_BIN_DIR, else where cargo puts those of this build.
//! A test that cannot run says `not run: NAME: REASON` and why.

mod inn;
mod rootfs;

pub use inn::{Inn, Ran};
pub use rootfs::{BASE_FILE, Rootfs};

use std::path::PathBuf;

/// The folder that holds `innkeeper` and `execd`, or what is missing.
pub fn binaries() -> Result<PathBuf, String> {
    let folder = match std::env::var_os("INNKEEPER_BIN_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let own = std::env::current_exe().map_err(|e| e.to_string())?;
            // target/PROFILE/deps/TEST
            own.ancestors()
                .nth(2)
                .ok_or("the test lies in no target folder")?
                .to_owned()
        }
    };
    for name in ["innkeeper", "execd"] {
        if !folder.join(name).is_file() {
            return Err(format!(
                "{name} is not in {}: build the workspace first",
                folder.display()
            ));
        }
    }
    Ok(folder)
}

/// Why sandboxes cannot be made here, if they cannot.
pub fn unfit() -> Option<String> {
    if let Err(missing) = binaries() {
        return Some(missing);
    }
    (!rustix::process::geteuid().is_root()).then(|| "needs root".to_owned())
}

/// Says which test was not run, past the test harness, which keeps the output of tests that
/// pass to itself.
pub fn not_run(name: &str, reason: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "not run: {name}: {reason}");
}

/// Ends the test with a line that names it where sandboxes cannot be made.
#[macro_export]
macro_rules! needs_sandboxes {
    ($name:literal) => {
        if let Some(reason) = $crate::unfit() {
            $crate::not_run($name, &reason);
            return;
        }
    };
}

/// Ends the test with a line that names it where the binaries are not built.
#[macro_export]
macro_rules! needs_binaries {
    ($name:literal) => {
        if let Err(reason) = $crate::binaries() {
            $crate::not_run($name, &reason);
            return;
        }
    };
}
