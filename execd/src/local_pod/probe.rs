//! Whether pods can be made on this machine, found out by trying.

use std::io;

use serde::Serialize;

use super::options::Rights;
use super::{PodError, ids};

#[derive(Debug, Serialize)]
struct Probe {
    platform: String,
    missing: Option<String>,
}

/// Prints what the manager's provider asks for, as JSON.
///
/// # Errors
/// Where this program cannot be read.
pub(super) fn run(rights: Rights) -> Result<(), PodError> {
    let missing = match rights {
        Rights::Pod => (!rustix::process::geteuid().is_root())
            .then(|| "rights pod need root: run innkeeper as root".to_owned()),
        Rights::User => user(),
    };
    let platform = crate::daemon::platform().map_err(|error| {
        let error = io::Error::other(error);
        PodError::at("naming this platform")(error)
    })?;
    let probe = Probe { platform, missing };
    let text = serde_json::to_string(&probe).map_err(|e| PodError::at("saying so")(e.into()))?;
    println!("{text}");
    Ok(())
}

/// Why a user can make no pods, and what to do.
fn user() -> Option<String> {
    let most = std::fs::read_to_string("/proc/sys/user/max_user_namespaces");
    if most.is_ok_and(|most| most.trim() == "0") {
        let sentence = "user namespaces are switched off: as root, run sysctl \
                        user.max_user_namespaces=10000";
        return Some(sentence.to_owned());
    }
    match ids::within(|| Ok(())) {
        Ok(()) => None,
        Err(error) => Some(format!("{:#}", anyhow::Error::new(error))),
    }
}
