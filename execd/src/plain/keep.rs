//! What the daemon keeps for a plain container: its root, and copies of what the template's restore
//! roots hold. Its root can be made one template's, once.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use innkeeper_proto::v1::TemplateSpec;
use innkeeper_reset::components::{Component, Facts};
use innkeeper_reset::digest::Digest;
use innkeeper_reset::inplace::{Filled, Roots, Stash};
use innkeeper_reset::layered::Fault;
use innkeeper_reset::tree::{Kind, Tree};

use super::{Quiet, Root, Stay, root, steady};
use crate::inside::observe::Inside;
use crate::pod::Own;
use crate::spawner::Spawner;

/// Copying may take this long.
const COPY: Duration = Duration::from_secs(600);

/// Bytes of copies at most: what is beyond is not undoable.
const BUDGET: u64 = 8 << 30;

/// A plain container.
#[derive(Debug)]
pub struct Plain {
    /// Its root.
    pub root: Root,
    /// What was in the kernel before anything of a guest ran.
    pub quiet: Quiet,
    stash: Mutex<Stash>,
    template: OnceLock<String>,
    tree: OnceLock<Arc<Tree>>,
}

impl Plain {
    /// Looks at the container; copies will lie in files without names in `volume`. Call it before
    /// anything of a guest runs.
    ///
    /// # Errors
    /// A sentence.
    pub fn find(volume: &Path) -> Result<Self, String> {
        let text = |e: io::Error| e.to_string();
        let volume = File::open(volume).map_err(text)?;
        Ok(Self {
            root: Root::find().map_err(text)?,
            quiet: Quiet::find().map_err(text)?,
            stash: Mutex::new(Stash::new(volume.as_fd()).map_err(|e| Fault::of(&e).0)?),
            template: OnceLock::new(),
            tree: OnceLock::new(),
        })
    }

    /// Makes this container one of a template. False where it is another's already, or where an
    /// earlier try has left nobody knows what in its root.
    pub fn claim(&self, key: &str) -> bool {
        self.template.set(key.to_owned()).is_ok()
    }

    /// The hold on the sandbox that this container is.
    pub fn stay(&self, spawner: &Spawner, own: &Arc<Own>) -> Stay {
        Stay {
            spawner: spawner.clone(),
            own: Arc::clone(own),
        }
    }

    /// The copies.
    pub fn stash(&self) -> MutexGuard<'_, Stash> {
        self.stash.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this container is one of that template.
    pub fn is_of(&self, key: &str) -> bool {
        self.template.get().is_some_and(|own| own == key)
    }

    /// Remembers the baseline as it was captured here, with what the kernel says of each inode. The
    /// first stays.
    pub fn remember(&self, tree: &Arc<Tree>) {
        let _ = self.tree.set(Arc::clone(tree));
    }

    /// The baseline as it was captured here, once it has been.
    pub fn tree(&self) -> Option<&Arc<Tree>> {
        self.tree.get()
    }

    /// Copies everything below the restore roots of a template, and all contents that `image` does not
    /// have: what its prepare has written. Blocks.
    ///
    /// # Errors
    /// A sentence.
    pub fn copy(
        &self,
        spec: &TemplateSpec,
        tree: &Tree,
        image: &HashSet<Digest>,
    ) -> Result<Filled, String> {
        let (by, roots) = (Instant::now() + COPY, roots(spec));
        let wanted = |path: &[u8], content: &Digest| roots.cover(path) || !image.contains(content);
        self.stash()
            .fill(self.root.fd(), tree, wanted, BUDGET, by)
            .map_err(|e| Fault::of(&e).0)
    }

    /// Writes what the prepare has written to `directory`, for other containers of the template. Blocks.
    ///
    /// # Errors
    /// A sentence.
    pub fn publish(
        &self,
        tree: &Tree,
        image: &HashSet<Digest>,
        directory: &Path,
    ) -> Result<(), String> {
        let text = |e: io::Error| e.to_string();
        let by = Instant::now() + COPY;
        fs::create_dir(directory).map_err(text)?;
        for content in contents(tree).difference(image) {
            let file = File::create_new(directory.join(content.to_string())).map_err(text)?;
            let written = self.stash().write_to(content, &file, by);
            written.map_err(|e| Fault::of(&e).0)?;
        }
        Ok(())
    }

    /// Takes in what another container has published. Blocks.
    ///
    /// # Errors
    /// A sentence, also where something is not what its name says.
    pub fn take_in(&self, directory: &Path) -> Result<(), String> {
        let text = |e: io::Error| e.to_string();
        let by = Instant::now() + COPY;
        for entry in fs::read_dir(directory).map_err(text)? {
            let entry = entry.map_err(text)?;
            let name = entry.file_name();
            let content = name.to_str().and_then(|name| name.parse().ok());
            let content = content.ok_or_else(|| format!("{name:?} is no name of contents"))?;
            let file = File::open(entry.path()).map_err(text)?;
            let taken = self.stash().take(&file, &content, by);
            taken.map_err(|e| Fault::of(&e).0)?;
        }
        Ok(())
    }

    /// What was seen inside, fit to be compared between containers, if nothing was mounted since.
    ///
    /// # Errors
    /// A sentence.
    pub fn comparable(&self, mut seen: Inside) -> Result<Inside, String> {
        self.root.same_mounts()?;
        if let Some(mounts) = seen.facts.get_mut(&Component::Mounts) {
            *mounts = root::without_sources(mounts);
        }
        Ok(seen)
    }

    /// What later commands inherit.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn inherited(&self, own: &Own) -> io::Result<Facts> {
        steady::facts(own)
    }
}

/// Digests of the contents of all files that are not empty.
pub fn contents(tree: &Tree) -> HashSet<Digest> {
    let entries = tree.entries().map(|(_, entry)| entry);
    let files = entries.filter(|entry| entry.kind == Kind::File && entry.size > 0);
    files.map(|entry| entry.content).collect()
}

fn roots(spec: &TemplateSpec) -> Roots {
    if spec.restore.is_empty() {
        Roots::usual(spec.workdir.as_bytes())
    } else {
        Roots::new(&spec.restore)
    }
}
