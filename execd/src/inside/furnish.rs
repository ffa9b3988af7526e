//! A sandbox's private files: fixed texts, the same in every sandbox of a template. Written
//! once at first ready, before anything of the guest has run, and then part of its layer.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Answer;

/// What to write.
#[derive(Debug, Serialize, Deserialize)]
pub struct Furnish {
    /// The host's name.
    pub hostname: String,
    /// Text of `/etc/resolv.conf`.
    pub resolv: Vec<u8>,
    /// A directory to make where it is missing.
    pub workdir: String,
}

pub(super) fn run(call: &Furnish) -> Answer {
    match furnish(call) {
        Ok(()) => Answer::Furnished,
        Err((path, error)) => Answer::Failed {
            errno: error.raw_os_error().unwrap_or(0),
            message: format!("the image does not let {path} be written: {error}"),
        },
    }
}

fn furnish(call: &Furnish) -> Result<(), (String, io::Error)> {
    let name = &call.hostname;
    let hosts = format!(
        "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t{name}\n"
    );
    make_directory("/etc")?;
    write("/etc/hosts", hosts.as_bytes())?;
    write("/etc/hostname", format!("{name}\n").as_bytes())?;
    write("/etc/resolv.conf", &call.resolv)?;
    if !call.workdir.is_empty() {
        make_directory(&call.workdir)?;
    }
    Ok(())
}

fn make_directory(path: &str) -> Result<(), (String, io::Error)> {
    fs::create_dir_all(path).map_err(|e| (path.to_owned(), e))
}

/// Replaces whatever lies there: an image may have a link in its place.
fn write(path: &str, text: &[u8]) -> Result<(), (String, io::Error)> {
    let fail = |e| (path.to_owned(), e);
    if Path::new(path).symlink_metadata().is_ok() {
        match fs::remove_file(path) {
            // A container runtime mounts its own file there, which stays the same file.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            other => other.map_err(fail)?,
        }
    }
    fs::write(path, text).map_err(fail)
}
