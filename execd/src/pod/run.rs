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
use crate::plain::Plain;
use crate::sandbox::{Machine, Means};
use crate::sliced;
use crate::spawner::server::UNFILTERED;
use crate::spawner::{Spawner, launch};
use crate::store::Store;
use crate::sys::{channel, process};

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
    pub socket: Socket,
}

/// Where a daemon in a pod listens.
#[derive(Debug)]
pub enum Socket {
    /// At a path, which it makes.
    Path(PathBuf),
    /// At a descriptor that it was given: where the guest has the daemon's root, no path is safe.
    Given(i32),
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
    let standing = Standing::find().context("what this container allows cannot be found out")?;
    if let Some(refusal) = standing.refusal(options.layout) {
        anyhow::bail!(refusal);
    }
    // What the manager is to reach is made while this process still has the manager's id.
    let listener = match &options.socket {
        Socket::Path(path) => listen(path)?,
        Socket::Given(number) => given(*number)?,
    };
    let spill = options.state.join("spill");
    fs::create_dir_all(&spill).with_context(|| format!("{} cannot be made", spill.display()))?;
    let sliced = match options.layout {
        Layout::Sliced => Some(take_apart(options)?),
        Layout::Mounted | Layout::Plain => None,
    };
    let plain = match options.layout {
        Layout::Plain => Some(Plain::find(&options.state).map_err(anyhow::Error::msg)?),
        Layout::Mounted | Layout::Sliced => None,
    };
    let ids = Ids::draw().context("no id can be drawn")?;
    let mut words = vec![ids.own.to_string()];
    if plain.is_some() && !standing.no_new_privs {
        words.push(UNFILTERED.to_owned());
    }
    let launched = launch::launch(&words).context("the spawner cannot be started")?;
    leave(ids.own).context("uid 0 cannot be left")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_keep_alive(FOR_EVER)
        .build()?;
    runtime.block_on(async {
        start_threads().await?;
        serve(
            options,
            standing,
            (sliced, plain),
            ids,
            launched,
            listener,
            &spill,
        )
        .await
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
    let mut own = vec![&*program, &*options.state, &*options.store];
    if let Socket::Path(socket) = &options.socket {
        own.push(socket.parent().unwrap_or(socket));
    }
    sliced::Layout::make(&template, &own).context("the container's root cannot be taken apart")
}

/// A listening socket that came with this process.
fn given(number: i32) -> anyhow::Result<UnixListener> {
    // Nor are the volumes that came with it for the spawner, from which guests are forked.
    process::close_on_exec_from(3).context("descriptors cannot be kept back")?;
    let listener = channel::inherited(number).context("no listener was given")?;
    let listener = UnixListener::from(listener);
    listener.set_nonblocking(true)?;
    Ok(listener)
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
    (sliced, plain): (Option<sliced::Layout>, Option<Plain>),
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
        plain: plain.map(Box::new),
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
    if let Socket::Path(path) = &options.socket {
        let _ = fs::remove_file(path);
    }
    drop(launched.child);
    served
}
