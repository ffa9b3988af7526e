//! Where recorded data and built images are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The root of the repository.
pub fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).expect("tests/local").to_owned()
}

/// A folder of the recorded data, or what is missing.
///
/// # Errors
/// A sentence that says where it was looked for.
pub fn shared(folder: &str) -> Result<PathBuf, String> {
    let root = std::env::var_os("INNKEEPER_SHARED").map_or_else(
        || {
            repository()
                .parent()
                .unwrap_or(Path::new("/"))
                .join("shared")
        },
        PathBuf::from,
    );
    let folder = root.join(folder);
    if folder.is_dir() {
        return Ok(folder);
    }
    let shown = folder.display();
    Err(format!(
        "no recorded data at {shown}: name its folder in INNKEEPER_SHARED"
    ))
}

/// Runs a recipe below `fixtures/` and returns its lines, split at tabs.
///
/// # Errors
/// What the recipe says when this machine lacks an interpreter that it copies.
///
/// # Panics
/// When the recipe fails otherwise: then the tests cannot say anything about the product.
pub fn built(recipe: &str, arguments: &[&str]) -> Result<Vec<Vec<String>>, String> {
    let script = repository().join("fixtures").join(recipe);
    let output = Command::new(&script)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    let said = String::from_utf8_lossy(&output.stderr);
    eprint!("{said}");
    let lacking = said.lines().find(|line| line.contains("pyenv install"));
    if let (false, Some(lacking)) = (output.status.success(), lacking) {
        return Err(lacking.to_owned());
    }
    assert!(
        output.status.success(),
        "{} failed: {:?}",
        script.display(),
        output.status
    );
    let text = String::from_utf8(output.stdout).expect("names and paths");
    let split = |line: &str| line.split('\t').map(str::to_owned).collect();
    Ok(text.lines().map(split).collect())
}
