//! Where things are when nobody says: the state directory, the socket, and what lies in them.

use std::path::{Path, PathBuf};

/// The state directory when neither option nor INNKEEPER_STATE_DIR names one:
/// `/var/lib/innkeeper` for root, else `$XDG_STATE_HOME/innkeeper` or `~/.local/state/innkeeper`.
pub fn default_state_dir() -> PathBuf {
    if is_root() {
        return PathBuf::from("/var/lib/innkeeper");
    }
    let base = absolute_env("XDG_STATE_HOME").unwrap_or_else(|| {
        let home = absolute_env("HOME").unwrap_or_else(|| PathBuf::from("/"));
        home.join(".local/state")
    });
    base.join("innkeeper")
}

/// The socket at which a manager of `state_dir` listens and its clients look for it.
///
/// For the default state directory that is a well known place, `/run/innkeeper` for root and
/// `$XDG_RUNTIME_DIR/innkeeper` otherwise; any other state directory holds its own socket, so
/// that two managers never meet.
pub fn default_socket(state_dir: &Path) -> PathBuf {
    let own = state_dir.join("innkeeper.sock");
    if state_dir != default_state_dir() {
        return own;
    }
    if is_root() {
        return PathBuf::from("/run/innkeeper/innkeeper.sock");
    }
    match absolute_env("XDG_RUNTIME_DIR") {
        Some(runtime) => runtime.join("innkeeper/innkeeper.sock"),
        None => own,
    }
}

/// The socket of a manager that a command runs for its own duration.
pub fn embedded_socket(state_dir: &Path) -> PathBuf {
    manager_dir(state_dir).join("embedded.sock")
}

/// The manager's own part of the state directory.
pub fn manager_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("manager")
}

/// The image store.
pub fn store_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("store")
}

/// The socket of the state directory's execd.
pub fn execd_socket(state_dir: &Path) -> PathBuf {
    state_dir.join("execd/execd.sock")
}

/// Whether this process has root's id.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn absolute_env(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(name)?);
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_state_directory_has_its_own_socket() {
        let dir = Path::new("/somewhere/else");
        assert_eq!(default_socket(dir), dir.join("innkeeper.sock"));
        assert!(embedded_socket(dir).starts_with(dir));
    }
}
