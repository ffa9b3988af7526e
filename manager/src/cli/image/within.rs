//! Changing an ordinary user's store: its files belong to the ids of the user's pods, which this
//! process has not. The same command is run again, as root of a user namespace that has them.

use std::path::Path;

use innkeeper::provider::local::find_execd;

use crate::cli::failure::Failure;

/// Runs this very command line again; its exit code.
pub(super) async fn run(state_dir: &Path) -> Result<i32, Failure> {
    let execd = find_execd(None).map_err(Failure::failed)?;
    let own = std::env::current_exe().map_err(Failure::failed)?;
    let status = tokio::process::Command::new(&execd)
        .arg("ids")
        .arg(own)
        .args(std::env::args_os().skip(1))
        // In there it is root, whose directory is another.
        .env("INNKEEPER_STATE_DIR", state_dir)
        .status()
        .await
        .map_err(|error| {
            Failure::failed(format_args!("{} does not start: {error}", execd.display()))
        })?;
    Ok(status.code().unwrap_or(super::super::failure::FAILED))
}
