//! The one place that knows whose rights there are: what is done to a sandbox as a whole goes
//! through here, to root's way or to a pod's.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use innkeeper_reset::files::Depth;
use innkeeper_reset::observe::Programs;

use super::{BuildError, Plan, Root, Sandbox};
use crate::plain::Plain;
use crate::pod::{Layout, Pod};
use crate::replica::{self, ReplicaError};
use crate::sliced;
use crate::spawner::Spawner;
use crate::store::Store;

/// The parts that every sandbox of this daemon is made and looked at with.
#[derive(Debug)]
pub struct Machine {
    /// The spawner.
    pub spawner: Spawner,
    /// The layer store.
    pub store: Arc<Store>,
    /// Digests of programs that services run, by what the kernel says of their files.
    pub programs: Programs,
    /// Changes with every start of the daemon.
    pub boot_id: String,
    /// The daemon's build and the kernel.
    pub platform: String,
    /// How sandboxes are made.
    pub means: Means,
}

/// How sandboxes are made: by whose rights.
#[derive(Debug)]
pub enum Means {
    /// By root, many on one machine.
    Root(Root),
    /// In a container, by what it allows, one at a time.
    Pod(Pod),
}

impl Machine {
    /// Builds a sandbox.
    ///
    /// # Errors
    /// [`BuildError`]; nothing of the sandbox is left then.
    pub async fn build(&self, plan: Plan) -> Result<Sandbox, BuildError> {
        match &self.means {
            Means::Root(root) => root.build(plan).await,
            Means::Pod(pod) => pod.build(plan).await,
        }
    }

    /// Gives up a dead sandbox but keeps its upper on disk, which nothing can write any more
    /// when this returns.
    pub fn release(&self, sandbox: Sandbox) {
        match &self.means {
            Means::Root(root) => root.release(sandbox),
            // Its descriptors were all that kept it.
            Means::Pod(_) => drop(sandbox),
        }
    }

    /// Gives up everything of a sandbox whose processes are gone. The upper on disk is
    /// renamed away; mounts and groups go behind the path, since freeing 10,000 dirty
    /// entries takes some 20 ms.
    pub fn dispose(&self, sandbox: Sandbox) {
        match &self.means {
            Means::Root(root) => root.dispose(sandbox),
            Means::Pod(pod) => pod.dispose(sandbox),
        }
    }

    /// How sandboxes are put back.
    pub fn strategy(&self) -> &'static str {
        match &self.means {
            Means::Root(_) => "layered",
            Means::Pod(pod) => pod.layout.strategy(),
        }
    }

    /// With whose rights.
    pub fn rights(&self) -> &'static str {
        match &self.means {
            Means::Root(_) => "root",
            Means::Pod(pod) => pod.standing.rights.word(),
        }
    }

    /// Whether this daemon serves one slot in a container.
    pub fn is_pod(&self) -> bool {
        match &self.means {
            Means::Root(_) => false,
            Means::Pod(_) => true,
        }
    }

    /// Whether a copy of the work directory in the upper mends what its overlays cannot do.
    pub fn copies_workdir(&self) -> bool {
        match &self.means {
            // Its overlays can do it by themselves, with `redirect_dir`.
            Means::Root(_) => false,
            Means::Pod(pod) => pod.layout == Layout::Mounted,
        }
    }

    /// Keeps ready what is made ahead, for as long as the daemon runs.
    pub async fn make_ahead(&self) {
        match &self.means {
            Means::Root(root) => root.keep_kits_ready().await,
            Means::Pod(_) => {}
        }
    }

    /// Opens the lowers of a sandbox, by directories of the store and, where the image is the
    /// container's own root, that root's parts.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn open_lowers(&self, paths: &[String]) -> Result<Vec<OwnedFd>, BuildError> {
        match &self.means {
            Means::Root(root) => {
                let opened = paths.iter().map(|path| root.store.layer(path));
                Ok(opened.collect::<Result<_, _>>()?)
            }
            Means::Pod(pod) => pod.open_lowers(paths),
        }
    }

    /// Makes the upper of a finished prepare a lower at `target`.
    ///
    /// # Errors
    /// When it cannot be moved; then the target is of no use.
    pub fn keep_upper(&self, upper: &Path, target: &Path) -> Result<(), ReplicaError> {
        match &self.means {
            Means::Pod(pod) if pod.sliced.is_some() => sliced::keep(upper, pod.slices(), target),
            Means::Root(_) | Means::Pod(_) => replica::bring(&upper.join("u"), target),
        }
    }

    /// Paths at which another overlay is part of the root of every sandbox.
    pub fn slices(&self) -> &[Vec<u8>] {
        match &self.means {
            Means::Root(_) => &[],
            Means::Pod(pod) => pod.slices(),
        }
    }

    /// Whether the image is the container's own root, and not in the store.
    pub fn is_own_image(&self) -> bool {
        match &self.means {
            Means::Root(_) => false,
            Means::Pod(pod) => pod.sliced.is_some() || pod.plain.is_some(),
        }
    }

    /// The container that is the sandbox, where it is.
    pub fn plain(&self) -> Option<&Plain> {
        match &self.means {
            Means::Root(_) => None,
            Means::Pod(pod) => pod.plain.as_deref(),
        }
    }

    /// How thoroughly the files of a blank slot's first sandbox are checked. A store's layers have
    /// been hashed by whoever unpacked them; a container's own root is vouched for by nobody here.
    pub fn first_depth(&self) -> Depth {
        if self.is_own_image() {
            Depth::Full
        } else {
            Depth::Swap
        }
    }
}
