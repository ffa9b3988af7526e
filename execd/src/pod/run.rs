//! The daemon's life in a container: one slot, from its start to the container's end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use anyhow::Context;
use innkeeper_reset::observe::Programs;

use super::{Ids, Layout, Own, Pod, Standing, leave};
use crate::daemon;
use crate::sandbox::{Machine, Means};
use crate::sliced;
use crate::spawner::{Spawner, launch};
use crate::store::Store;

/// What the command line says.
#[derive(Debug)]
pub struct Options {
    /// How the image comes here.
    pub layout: Layout,
    /// Unpacked image layers, read only: `layers/ID/tree`.
    pub store: PathBuf,
    /// A volume of the pod's own.
    pub state: PathBuf,
    /// Where to listen.
    pub socket: PathBuf,
}

/// Threads for blocking work, made before any guest runs and kept: one that has used up every
/// pid of the container must not keep its own reset from running.
const THREADS: usize = 8;
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Serves until a signal, or until its spawner is gone.
///
/// # Errors
/// When this container allows no sandboxes, with a sentence that says what to change.
pub fn run(options: &Options) -> anyhow::Result<()> {
    daemon::log_to_stderr();
    if options.layout == Layout::Plain {
        anyhow::bail!("this build has the layouts mounted and sliced alone");
    }
    let standing = Standing::find().context("what this container allows cannot be found out")?;
    if let Some(refusal) = standing.refusal() {
        anyhow::bail!(refusal);
    }
    // What the manager is to reach is made while this process still has the manager's id.
    let listener = listen(&options.socket)?;
    let spill = options.state.join("spill");
    fs::create_dir_all(&spill).with_context(|| format!("{} cannot be made", spill.display()))?;
    let sliced = match options.layout {
        Layout::Sliced => Some(take_apart(options)?),
        Layout::Mounted | Layout::Plain => None,
    };
    let ids = Ids::draw().context("no id can be drawn")?;
    let launched =
        launch::launch(&[ids.own.to_string()]).context("the spawner cannot be started")?;
    leave(ids.own).context("uid 0 cannot be left")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_keep_alive(FOR_EVER)
        .build()?;
    runtime.block_on(async {
        start_threads().await?;
        serve(options, standing, sliced, ids, launched, listener, &spill).await
    })
}

/// Makes the container's own root a ground for sandboxes, anew at every start: what an earlier
/// one made may be of another root.
fn take_apart(options: &Options) -> anyhow::Result<sliced::Layout> {
    let template = options.state.join("template");
    match fs::remove_dir_all(&template) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).context("an old template cannot be removed");
        }
        Ok(()) | Err(_) => {}
    }
    fs::create_dir(&template).context("a template cannot be made")?;
    let program = std::env::current_exe().unwrap_or_default();
    let socket = options.socket.parent().unwrap_or(&options.socket);
    let own = [&program, &options.state, &options.store, socket];
    sliced::Layout::make(&template, &own).context("the container's root cannot be taken apart")
}

/// A socket that only this process's user opens.
fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    let _ = fs::remove_file(path);
    let bound =
        UnixListener::bind(path).with_context(|| format!("{} cannot be bound", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    bound.set_nonblocking(true)?;
    Ok(bound)
}

async fn start_threads() -> anyhow::Result<()> {
    let all = Arc::new(Barrier::new(THREADS));
    let started: Vec<_> = (0..THREADS)
        .map(|_| {
            let all = Arc::clone(&all);
            tokio::task::spawn_blocking(move || all.wait())
        })
        .collect();
    for thread in started {
        thread.await.context("a thread cannot be started")?;
    }
    Ok(())
}

async fn serve(
    options: &Options,
    standing: Standing,
    sliced: Option<sliced::Layout>,
    ids: Ids,
    launched: launch::Launched,
    listener: UnixListener,
    spill: &Path,
) -> anyhow::Result<()> {
    let spawner = Spawner::attach(launched.socket)?;
    let store = Arc::new(Store::open_apart(&options.state, &options.store)?);
    let boot_id = daemon::boot_id()?;
    let pod = Pod {
        spawner: spawner.clone(),
        store: Arc::clone(&store),
        own: Arc::new(Own::new(launched.child.id() as i32)?),
        ids,
        layout: options.layout,
        sliced,
        standing,
        boot_id: boot_id.clone(),
    };
    tracing::info!(standing = ?pod.standing, ?ids, boot_id, "serving in a pod");
    let machine = Machine {
        spawner,
        store,
        programs: Programs::default(),
        boot_id,
        platform: daemon::platform()?,
        means: Means::Pod(pod),
    };
    let listener = tokio::net::UnixListener::from_std(listener)?;
    let served = daemon::serve(Arc::new(machine), listener, spill).await;
    // The container ends with its first process, and all in it.
    let _ = fs::remove_file(&options.socket);
    drop(launched.child);
    served
}
