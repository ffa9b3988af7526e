//! A small image: the shells and core programs of the machine, and the libraries they need.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Programs of the image, by name.
const PROGRAMS: [&str; 38] = [
    "bash",
    "dash",
    "cat",
    "chmod",
    "chown",
    "cp",
    "dd",
    "env",
    "false",
    "grep",
    "head",
    "id",
    "kill",
    "ln",
    "ls",
    "mkdir",
    "mkfifo",
    "mv",
    "printenv",
    "printf",
    "pwd",
    "rm",
    "rmdir",
    "seq",
    "setsid",
    "sha256sum",
    "sleep",
    "stat",
    "stty",
    "tail",
    "tee",
    "touch",
    "tr",
    "true",
    "tty",
    "umask",
    "wc",
    "yes",
];

/// Fills an empty directory with the image's tree.
///
/// # Errors
/// When a program or library of the machine cannot be copied.
pub fn make(tree: &Path) -> Result<()> {
    for dir in [
        "usr/bin",
        "usr/sbin",
        "usr/lib",
        "usr/lib64",
        "etc",
        "root",
        "there",
        "var",
    ] {
        fs::create_dir_all(tree.join(dir))?;
    }
    for dir in ["proc", "sys", "dev", "run", "tmp"] {
        fs::create_dir(tree.join(dir))?;
    }
    fs::set_permissions(tree.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    for link in ["bin", "sbin", "lib", "lib64"] {
        symlink(Path::new("usr").join(link), tree.join(link))?;
    }
    symlink("/there", tree.join("image-link"))?;
    symlink("dash", tree.join("usr/bin/sh"))?;
    fs::write(
        tree.join("etc/passwd"),
        "root:x:0:0::/root:/bin/sh\nworker:x:1000:1000::/there:/bin/sh\n",
    )?;
    fs::write(tree.join("etc/group"), "root:x:0:\nworker:x:1000:\n")?;
    let mut libraries = BTreeSet::new();
    for name in PROGRAMS {
        // Some are built into shells only.
        let Some(program) = find(name) else { continue };
        fs::copy(&program, tree.join("usr/bin").join(name))?;
        libraries.extend(needed(&program)?);
    }
    for library in libraries {
        let (Some(dir), Some(name)) = (library.parent(), library.file_name()) else {
            continue;
        };
        // Through the machine's own links of /lib to /usr/lib.
        let dir = fs::canonicalize(dir)?;
        let to = tree.join(dir.strip_prefix("/")?);
        fs::create_dir_all(&to)?;
        fs::copy(&library, to.join(name)).with_context(|| format!("{}", library.display()))?;
    }
    Ok(())
}

fn find(name: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(name))
        .find(|path| path.is_file())
}

/// Libraries of a program, its loader included, as the machine's loader names them.
fn needed(program: &Path) -> Result<Vec<PathBuf>> {
    let said = Command::new("ldd")
        .arg(program)
        .output()
        .context("ldd cannot be run")?;
    if !said.status.success() {
        bail!(
            "ldd {}: {}",
            program.display(),
            String::from_utf8_lossy(&said.stderr)
        );
    }
    let words = String::from_utf8(said.stdout)?;
    let paths = words
        .split_ascii_whitespace()
        .filter(|word| word.starts_with('/'));
    Ok(paths.map(PathBuf::from).collect())
}
