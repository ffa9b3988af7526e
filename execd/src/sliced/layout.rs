//! The pod's root as a ground for sandboxes: surveyed, planned and copied once, when execd starts.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Mode, OFlags};

use super::copy;
use super::plan::{self, Limits};
use super::root::Base;
use super::survey;
use crate::replica::ReplicaError;
use crate::replica::look::stat;

/// A root that sandboxes can be made from.
#[derive(Debug)]
pub struct Layout {
    root: PathBuf,
    template: PathBuf,
    slices: Vec<Vec<u8>>,
}

impl Layout {
    /// Makes the template of the pod's root in the empty directory `template`, which must not lie on
    /// an overlay: the kernel stacks two at most, and the pod's root is one. `own` are paths that were
    /// given to execd, such as its state volume: a guest sees nothing of the mounts they lie on.
    ///
    /// # Errors
    /// When something cannot be read or copied.
    pub fn make(template: &Path, own: &[&Path]) -> Result<Self, ReplicaError> {
        Self::of_root(Path::new("/"), template, own)
    }

    /// As [`Self::make`], of any directory that is a mount.
    pub(super) fn of_root(
        root: &Path,
        template: &Path,
        own: &[&Path],
    ) -> Result<Self, ReplicaError> {
        let fail = |operation| move |error| ReplicaError::at(b"", operation, error);
        let began = Instant::now();
        let opened: OwnedFd = File::open(root).map_err(fail("opening"))?.into();
        let own = own
            .iter()
            .filter_map(|path| match given(root, path) {
                // A program that runs from memory, a store that is not needed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                found => Some(found),
            })
            .collect::<io::Result<BTreeSet<_>>>()
            .map_err(fail("finding what was given to execd in"))?;
        let target = File::open(template).map_err(fail("opening the template of"))?;
        let seen = survey::survey(opened.as_fd(), &own)?;
        let parts = plan::plan(&seen.root, &Limits::default());
        copy::template(opened.as_fd(), &parts, &own, target.as_fd())?;
        let slices = plan::slices(&parts);
        let cut = plan::cut_links(&slices, &seen.linked);
        if cut > 0 {
            tracing::warn!(
                cut,
                "hard links across slices are files of their own in a sandbox"
            );
        }
        let shown = slices.iter().map(|path| path.escape_ascii().to_string());
        tracing::info!(slices = ?shown.collect::<Vec<_>>(), took = ?began.elapsed(), "took the root apart");
        Ok(Self {
            root: root.to_owned(),
            template: template.to_owned(),
            slices,
        })
    }

    /// The paths of the slices, in order.
    pub fn slices(&self) -> &[Vec<u8>] {
        &self.slices
    }

    /// What a sandbox's root is put together from. `prepared` holds what prepare wrote, part by part.
    pub fn base(&self, prepared: Option<PathBuf>) -> Base {
        Base {
            root: self.root.clone(),
            template: self.template.clone(),
            slices: self.slices.clone(),
            prepared,
        }
    }

    /// The lower of every part, opened: its identity proves that it is still the same.
    ///
    /// # Errors
    /// When one cannot be opened.
    pub fn lowers(&self) -> io::Result<Vec<OwnedFd>> {
        let slices = self.slices.iter().map(|path| {
            let path = Path::new(std::ffi::OsStr::from_bytes(path));
            self.root.join(path)
        });
        std::iter::once(self.template.clone())
            .chain(slices)
            .map(|path| File::open(path).map(OwnedFd::from))
            .collect()
    }
}

/// Directories of every system: one of these is a guest's, whatever is mounted there.
const COMMON: [&str; 12] = [
    "bin", "etc", "home", "lib", "mnt", "opt", "root", "run", "srv", "tmp", "usr", "var",
];

/// The path, relative to the root, of what was given to execd at a path: the topmost mount that
/// leads there, or the thing itself.
fn given(root: &Path, path: &Path) -> io::Result<Vec<u8>> {
    let (root, path) = (fs::canonicalize(root)?, fs::canonicalize(path)?);
    let of_root = mount_of(&root)?;
    let inside = path.strip_prefix(&root).unwrap_or(&path);
    let mut found = inside;
    for above in inside
        .ancestors()
        .filter(|path| !path.as_os_str().is_empty())
    {
        let is_common = COMMON.iter().any(|name| Path::new(name) == above);
        if !is_common && mount_of(&root.join(above))? != of_root {
            found = above;
        }
    }
    Ok(found.as_os_str().as_bytes().to_vec())
}

fn mount_of(path: &Path) -> io::Result<u64> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(stat(opened.as_fd(), c"")?.stx_mnt_id)
}
