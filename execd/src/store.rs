//! The layer store as the daemon uses it: read-only image layers by digest, frozen
//! prepare layers, uppers on disk and the trash. Canonical ids on disk; a sandbox sees all
//! of it through one id-mapped clone of the whole store's mount.

mod trash;

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use thiserror::Error;

use crate::sys::mount;

/// Why the store cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// A directory of it cannot be made or opened.
    #[error("the layer store at {} cannot be used", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A layer is missing or incomplete.
    #[error("layer {layer} is not in the store: import its image again")]
    NoLayer {
        /// Its name.
        layer: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The file system cannot map ids.
    #[error(
        "the file system of the layer store cannot map ids: use ext4, xfs or btrfs on Linux 5.19 or later"
    )]
    NoIdMap(#[source] io::Error),
}

/// The store.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    fd: OwnedFd,
    /// Where `layers` lies, if not in the root, with `prepared` of other pods beside it: read only,
    /// and another's.
    layers: Option<(PathBuf, OwnedFd)>,
}

/// The store as one range of ids sees it.
#[derive(Debug)]
pub struct Mapped(OwnedFd);

impl Store {
    /// Opens the store below a state directory and empties what a dead daemon left in it.
    ///
    /// # Errors
    /// [`StoreError::Open`].
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::Open { path, source }
        };
        for name in ["layers", "prepared", "uppers", "blanks", "trash"] {
            let directory = root.join(name);
            fs::create_dir_all(&directory).map_err(fail(&directory))?;
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(root, flags, Mode::empty()).map_err(|e| fail(root)(e.into()))?;
        let store = Self {
            root: root.to_owned(),
            fd,
            layers: None,
        };
        for left in fs::read_dir(root.join("uppers"))
            .map_err(fail(root))?
            .flatten()
        {
            store.discard(&left.path());
        }
        Ok(store)
    }

    /// Opens a store whose image layers lie elsewhere, at `layers/layers/ID/tree`.
    ///
    /// # Errors
    /// [`StoreError::Open`].
    pub fn open_apart(root: &Path, layers: &Path) -> Result<Self, StoreError> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(layers, flags, Mode::empty());
        let fd = fd.map_err(|e| StoreError::Open {
            path: layers.to_owned(),
            source: e.into(),
        })?;
        Ok(Self {
            layers: Some((layers.to_owned(), fd)),
            ..Self::open(root)?
        })
    }

    /// A clone of the store's mount for the ids of a user namespace.
    ///
    /// # Errors
    /// [`StoreError::NoIdMap`].
    pub fn mapped(&self, users: BorrowedFd<'_>) -> Result<Mapped, StoreError> {
        let clone = mount::clone_mount(self.fd.as_fd()).map_err(StoreError::NoIdMap)?;
        mount::set_attributes(clone.as_fd(), 0, Some(users)).map_err(StoreError::NoIdMap)?;
        Ok(Mapped(clone))
    }

    /// Where a frozen prepare layer of a template lies.
    pub fn prepared(&self, key: &str) -> PathBuf {
        self.root.join("prepared").join(key)
    }

    /// Where an upper on disk lies.
    pub fn upper(&self, sandbox: &str) -> PathBuf {
        self.root.join("uppers").join(sandbox)
    }

    /// Where blank file systems for uppers lie.
    pub fn blanks(&self) -> PathBuf {
        self.root.join("blanks")
    }

    /// Opens a directory of the store, unmapped.
    ///
    /// # Errors
    /// [`StoreError::NoLayer`].
    pub fn layer(&self, path: &str) -> Result<OwnedFd, StoreError> {
        match self.apart(path) {
            Some((_, layers)) => open_beneath(layers.as_fd(), path),
            None => open_beneath(self.fd.as_fd(), path),
        }
    }

    /// Where a directory of the store lies.
    pub fn path(&self, path: &str) -> PathBuf {
        match self.apart(path) {
            Some((layers, _)) => layers.join(path),
            None => self.root.join(path),
        }
    }

    /// The other place, where that is where a path lies: an image layer, or a prepared one that
    /// this store has not made itself, or has no more since it was published.
    fn apart(&self, path: &str) -> Option<&(PathBuf, OwnedFd)> {
        let other = path.starts_with("prepared/") && !self.root.join(path).exists();
        self.layers
            .as_ref()
            .filter(|_| other || is_image_layer(path))
    }

    /// Puts a directory out of reach at once and frees it later, on a thread of its own.
    pub fn discard(&self, path: &Path) {
        trash::discard(&self.root.join("trash"), path);
    }

    /// Frees what is in the trash; blocking.
    pub fn empty_trash(&self) {
        trash::empty(&self.root.join("trash"));
    }
}

impl Mapped {
    /// Opens a directory of the store through this map.
    ///
    /// # Errors
    /// [`StoreError::NoLayer`].
    pub fn open(&self, path: &str) -> Result<OwnedFd, StoreError> {
        open_beneath(self.0.as_fd(), path)
    }
}

/// `layers/HEX/tree` of an image layer.
pub fn layer_path(layer: &str) -> String {
    format!("layers/{layer}/tree")
}

fn is_image_layer(path: &str) -> bool {
    path.starts_with("layers/")
}

fn open_beneath(root: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, StoreError> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(root, path, flags, Mode::empty(), how).map_err(|e| StoreError::NoLayer {
        layer: path.to_owned(),
        source: e.into(),
    })
}
