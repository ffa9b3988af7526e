//! `--pristine-runner`: files that judge the patch are put back as the image has them.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use innkeeper_grading::Flag;
use innkeeper_grading::apply::WORKDIR;

use super::account::Account;
use super::sandbox::Sandbox;
use crate::cli::failure::Failure;

/// What stood at the flagged paths before the patch.
#[derive(Debug, Default)]
pub(super) struct Pristine {
    before: Vec<(PathBuf, Option<Vec<u8>>)>,
}

impl Pristine {
    /// Takes the flagged files out. Paths that lead out of the repository are left alone: no
    /// attempt to apply a patch writes there.
    pub(super) async fn take(sandbox: &mut Sandbox, flags: &[Flag]) -> Result<Self, Failure> {
        let mut before = Vec::new();
        for flag in flags.iter().filter(|flag| stays_inside(&flag.path)) {
            let path = Path::new(WORKDIR).join(&flag.path);
            let tar = sandbox.take(path.as_os_str().as_bytes()).await?;
            before.push((path, tar));
        }
        Ok(Self { before })
    }

    /// Puts them back: what was added goes, what was changed or removed comes back.
    pub(super) async fn restore(
        &self,
        sandbox: &mut Sandbox,
        account: &mut Account,
    ) -> Result<(), Failure> {
        for (path, tar) in &self.before {
            sandbox.remove(path.as_os_str().as_bytes()).await?;
            if let (Some(tar), Some(parent)) = (tar, path.parent()) {
                sandbox.put(parent.as_os_str().as_bytes(), tar).await?;
            }
            account.info(format!("Put back as in the image: {}", path.display()));
        }
        Ok(())
    }
}

fn stays_inside(path: &Path) -> bool {
    path.components().all(|component| match component {
        Component::Normal(_) | Component::CurDir => true,
        Component::ParentDir | Component::RootDir | Component::Prefix(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_the_repository_are_put_back() {
        assert!(stays_inside(Path::new("tests/conftest.py")));
        assert!(!stays_inside(Path::new("../etc/passwd")));
        assert!(!stays_inside(Path::new("/etc/passwd")));
    }
}
