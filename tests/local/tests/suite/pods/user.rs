//! The commands as an ordinary user runs them: in a mount namespace of its own, whose /etc knows
//! a user of no other rights.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use innkeeper_test_cli::Rootfs;
use serde_json::Value;
use tempfile::TempDir;

use crate::Shared;

/// An id that no machine gives anybody.
const ID: u32 = 41_414;

const SCRIPT: &str = r#"
for file in passwd subuid subgid; do mount --bind "$1/$file" "/etc/$file"; done
shift
exec setpriv --reuid 41414 --regid 41414 --clear-groups "$@"
"#;

struct User {
    folder: TempDir,
    binaries: PathBuf,
}

impl User {
    /// A user with this range of further ids, `FIRST:COUNT`.
    fn make(range: &str) -> Result<Self, String> {
        if !Path::new("/etc/subuid").exists() || !Path::new("/etc/subgid").exists() {
            return Err("/etc/subuid and /etc/subgid are not there to be covered".to_owned());
        }
        if Command::new("newuidmap").output().is_err() {
            return Err("newuidmap is missing: install uidmap".to_owned());
        }
        let folder = tempfile::Builder::new().prefix("innkeeper-user-").tempdir();
        let folder = folder.expect("a folder");
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).expect("opened");
        let passwd = std::fs::read_to_string("/etc/passwd").expect("users");
        let home = folder.path().join("home");
        let own = format!("guestkeeper:x:{ID}:{ID}::{}:/bin/sh\n", home.display());
        let line = format!("guestkeeper:{range}\n");
        for (name, text) in [
            ("passwd", passwd + &own),
            ("subuid", line.clone()),
            ("subgid", line),
        ] {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        std::fs::create_dir(&home).expect("a home");
        chown(&home, Some(ID), Some(ID)).expect("given away");
        // Where the user may read them: target folders of a build may be closed.
        let binaries = folder.path().join("bin");
        std::fs::create_dir(&binaries).expect("a folder");
        for name in ["innkeeper", "execd"] {
            let from = innkeeper_test_cli::binaries().expect("checked before");
            std::fs::copy(from.join(name), binaries.join(name)).expect("copied");
        }
        Ok(Self { folder, binaries })
    }

    fn run(&self, words: &[&str]) -> innkeeper_test_cli::Ran {
        let home = self.folder.path().join("home");
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", SCRIPT, "sh"])
            .arg(self.folder.path())
            .arg(self.binaries.join("innkeeper"))
            .args(words)
            .env("HOME", &home)
            .env("XDG_RUNTIME_DIR", &home)
            .env_remove("XDG_STATE_HOME")
            .env_remove("INNKEEPER_STATE_DIR")
            .env_remove("INNKEEPER_EXECD")
            .output()
            .expect("started");
        innkeeper_test_cli::Ran::of(output)
    }
}

pub(super) fn sandboxes(_: &Shared) -> Result<(), String> {
    let user = User::make("2000000:65536")?;
    let tree = Rootfs::make(&user.folder.path().join("rootfs"));
    let tree = tree.folder.to_str().expect("a plain path");
    user.run(&["image", "import", tree, "--name", "t"]).ok();
    let ran = user.run(&[
        "run",
        "t",
        "--",
        "bash",
        "-c",
        "echo $EUID; chown 7:7 /tmp; cat /proc/self/uid_map",
    ]);
    let said = ran.ok().stdout;
    assert!(said.starts_with("0\n"), "{said}");
    let doctor = user.run(&["doctor", "--json"]).ok().json();
    assert_eq!(doctor["rights"], "user", "{doctor}");
    let pods = user.folder.path().join("home/.local/state/innkeeper/pods");
    let left = std::fs::read_dir(pods).expect("a folder").flatten();
    let left: Vec<_> = left
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    user.run(&["image", "rm", "t"]).ok();
    Ok(())
}

pub(super) fn missing(_: &Shared) -> Result<(), String> {
    let user = User::make("2000000:10")?;
    let doctor: Value = user.run(&["doctor", "--json"]).fails(1, "").json();
    let forms = doctor["forms"].as_array().expect("forms");
    let own = forms.iter().find(|form| form["rights"] == "user");
    let reason = own.expect("one of the user's")["reason"].as_str();
    assert!(
        reason.is_some_and(|reason| reason.contains("/etc/subuid") && reason.contains("usermod")),
        "{doctor}"
    );
    user.run(&["run", "t", "--", "true"]).fails(125, "");
    Ok(())
}
