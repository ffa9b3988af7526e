//! Scripts that were kept.

use std::path::{Path, PathBuf};

use innkeeper_test_script::Script;

use crate::cli::failure::Failure;

/// Reads files, and those of folders that end in `.act`, by name.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Script>, Failure> {
    let mut scripts = Vec::new();
    for path in paths {
        if path.is_dir() {
            for file in inside(path)? {
                scripts.push(script(&file)?);
            }
        } else {
            scripts.push(script(path)?);
        }
    }
    if scripts.is_empty() {
        return Err(Failure::usage(
            "--script names folders without a script: their files end in .act",
        ));
    }
    Ok(scripts)
}

fn inside(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(folder).map_err(|error| unread(folder, error))?;
    let mut files: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "act"))
        .collect();
    files.sort();
    Ok(files)
}

fn script(path: &Path) -> Result<Script, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| unread(path, error))?;
    Script::parse(&text)
        .map_err(|error| Failure::usage(format_args!("{}: {error}", path.display())))
}

fn unread(path: &Path, error: std::io::Error) -> Failure {
    Failure::usage(format_args!(
        "cannot read {} ({error}): give --script a file or folder that exists",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_gives_its_scripts_by_name() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("b.act", "spin\n"), ("a.act", "child\n"), ("c.txt", "?")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let scripts = read(&[folder.path().to_owned()]).unwrap();
        let texts: Vec<_> = scripts.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["child\n", "spin\n"]);
    }

    #[test]
    fn what_is_no_script_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let wrong = |path: PathBuf| read(&[path]).unwrap_err();
        assert!(wrong(folder.path().to_owned()).message.contains(".act"));
        let file = folder.path().join("x.act");
        assert!(wrong(file.clone()).message.contains("x.act"));
        std::fs::write(&file, "fly\n").unwrap();
        let failure = wrong(file);
        assert_eq!(failure.code, 2);
        assert!(failure.message.contains("line 1"), "{}", failure.message);
    }
}
