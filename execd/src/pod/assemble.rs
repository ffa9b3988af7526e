//! The daemon's side of a sandbox in a pod.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{CWD, Gid, Mode, OFlags, Uid, openat};

use super::recipe::{Recipe, Source, Upper};
use super::{Ids, Layout, Own, Spaces, Standing};
use crate::inside::observe::{Observe, look};
use crate::live::Live;
use crate::plain::Plain;
use crate::sandbox::{
    BuildError, HOSTNAME, Parts, Plan, SHM, Sandbox, device, step, upper, upper::make_pair,
};
use crate::sliced;
use crate::spawner::{SpawnError, Spawner};
use crate::store::Store;

/// Threads and processes of the daemon at most: they count against the sandbox's.
const OWN_THREADS: u64 = 64;

/// What sandboxes are made with in a pod.
#[derive(Debug)]
pub struct Pod {
    /// The spawner.
    pub spawner: Spawner,
    /// Layers, prepared layers and uppers.
    pub store: Arc<Store>,
    /// The daemon's own processes.
    pub own: Arc<Own>,
    /// The pod's two ids.
    pub ids: Ids,
    /// How the image comes here.
    pub layout: Layout,
    /// The container's own root as a ground for sandboxes, where that is the image.
    pub sliced: Option<sliced::Layout>,
    /// The container itself as the sandbox, where that is the layout.
    pub plain: Option<Box<Plain>>,
    /// What this container allows.
    pub standing: Standing,
    /// Changes with every start of the daemon.
    pub boot_id: String,
}

impl Pod {
    /// Builds a sandbox.
    ///
    /// # Errors
    /// [`BuildError`]; nothing of the sandbox is left then.
    pub async fn build(&self, plan: Plan) -> Result<Sandbox, BuildError> {
        let name = format!("{}.{}", plan.slot, plan.generation);
        if let Some(plain) = &self.plain {
            return self.take_as_is(plain, &plan, &name);
        }
        let built = self.put_together(&plan, &name).await;
        if built.is_err() {
            self.store.discard(&self.store.upper(&name));
        }
        built
    }

    /// A sandbox that is there already: what it is made of is looked at.
    fn take_as_is(&self, plain: &Plain, plan: &Plan, name: &str) -> Result<Sandbox, BuildError> {
        let wrong = |text: String| step("looking at the container")(io::Error::other(text));
        let seen = look(Observe {
            base: 0,
            own_network: plan.own_network,
        });
        let seen = seen
            .and_then(|seen| plain.comparable(seen))
            .map_err(wrong)?;
        let limits = plain.inherited(&self.own);
        let stay = plain.stay(&self.spawner, &self.own);
        Ok(Sandbox {
            live: Arc::new(Live::in_place(name, plan, &self.boot_id, stay)),
            overlay: plain.root.open().map_err(step("opening the root"))?,
            lowers: Vec::new(),
            base: 0,
            own_network: plan.own_network,
            seen_at_birth: seen,
            parts: Parts::Plain {
                options: plain.root.options(None),
                limits: limits.map_err(step("looking at what commands inherit"))?,
            },
        })
    }

    async fn put_together(&self, plan: &Plan, name: &str) -> Result<Sandbox, BuildError> {
        let lowers = self.open_lowers(&plan.lowers)?;
        let mut paths = plan.lowers.iter().map(|path| self.store.path(path));
        let source = match &self.sliced {
            None => Source::Trees(paths.collect()),
            Some(layout) => Source::Slices(layout.base(paths.next())),
        };
        let upper = match plan.upper {
            upper::Kind::Memory { bytes, inodes } => Upper::Memory { bytes, inodes },
            upper::Kind::Image { .. } | upper::Kind::Disk => Upper::Directory(
                self.on_disk(name, &lowers)
                    .map_err(step("making the upper on disk"))?,
            ),
        };
        // A write to a terminal sets the time of its node, which is the container's.
        device::settle_nodes();
        let recipe = Recipe {
            source,
            upper,
            copied: plan.copied.clone(),
            own_network: plan.own_network,
            processes: plan.limits.pids + OWN_THREADS,
            left_out: self.ids.own,
            killer: self.ids.killer,
            hostname: HOSTNAME.to_owned(),
            shm_bytes: SHM,
        };
        let (seen, killer, descriptors) = self.spawner.assemble(recipe).await?;
        self.own
            .add(killer)
            .map_err(step("finding the killer of a sandbox"))?;
        let mut namespaces = descriptors;
        let rest = namespaces.split_off(namespaces.len().saturating_sub(3));
        let [overlay, upper, killer] =
            <[OwnedFd; 3]>::try_from(rest).map_err(|_| SpawnError::Lost)?;
        let spaces = Spaces {
            namespaces,
            network: plan.own_network,
            killer,
            spawner: self.spawner.clone(),
            own: Arc::clone(&self.own),
        };
        Ok(Sandbox {
            live: Arc::new(Live::in_pod(name, plan, &self.boot_id, spaces)),
            overlay,
            lowers,
            base: 0,
            own_network: plan.own_network,
            seen_at_birth: seen.inside,
            parts: Parts::Pod {
                upper,
                slices: self.sliced.as_ref().map(|layout| layout.slices().to_vec()),
                limits: seen.limits,
            },
        })
    }

    /// Opens the lowers of a sandbox: directories of the store, then the parts of the container's
    /// own root, where that is the image.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn open_lowers(&self, paths: &[String]) -> Result<Vec<OwnedFd>, BuildError> {
        let mut opened = Vec::new();
        for path in paths {
            opened.push(self.store.layer(path)?);
        }
        if let Some(layout) = &self.sliced {
            opened.extend(
                layout
                    .lowers()
                    .map_err(step("opening the container's root"))?,
            );
        }
        Ok(opened)
    }

    /// The slices of the root of every sandbox here.
    pub fn slices(&self) -> &[Vec<u8>] {
        self.sliced.as_ref().map_or(&[], sliced::Layout::slices)
    }

    /// A directory of the store, which the guest's root owns.
    fn on_disk(&self, name: &str, lowers: &[OwnedFd]) -> io::Result<PathBuf> {
        let path = self.store.upper(name);
        fs::create_dir(&path)?;
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let directory = openat(CWD, &path, flags, Mode::empty())?;
        if self.sliced.is_some() {
            rustix::fs::fchown(&directory, Some(Uid::ROOT), Some(Gid::ROOT))?;
            return Ok(path);
        }
        make_pair(directory.as_fd(), lowers)?;
        for part in ["w", "u"] {
            let root = (Some(Uid::ROOT), Some(Gid::ROOT));
            if part == "w" || lowers.is_empty() {
                rustix::fs::chownat(
                    &directory,
                    part,
                    root.0,
                    root.1,
                    rustix::fs::AtFlags::empty(),
                )?;
            }
        }
        Ok(path)
    }

    /// Gives up everything of a sandbox whose processes are gone. Its mounts go with the last
    /// of its descriptors, behind the path.
    pub fn dispose(&self, sandbox: Sandbox) {
        self.store.discard(&self.store.upper(&sandbox.live.sandbox));
        tokio::task::spawn_blocking(move || drop(sandbox));
    }
}
