//! The daemon's life: one per state directory, from lock to last sandbox.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use innkeeper_proto::limits;
use innkeeper_proto::v1::execd_server::ExecdServer;
use innkeeper_reset::observe::Programs;
use rustix::fs::FlockOperation;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::service::interceptor::InterceptedService;
use tracing_subscriber::EnvFilter;

use crate::cgroup::Hierarchy;
use crate::orphan::Orphan;
use crate::rpc::Service;
use crate::sandbox::{Machine, Means, Root};
use crate::slots::Slots;
use crate::spawner::{Spawner, launch};
use crate::store::Store;

/// Between two signs of life on an idle connection: a silent command must not lose it.
const KEEPALIVE: std::time::Duration = std::time::Duration::from_secs(30);

/// Serves until a signal, or until its spawner is gone. At once done where another daemon
/// serves this directory.
pub fn run(state: &Path) -> anyhow::Result<()> {
    log_to_stderr();
    let home = state.join("execd");
    fs::create_dir_all(&home).with_context(|| format!("{} cannot be made", home.display()))?;
    let lock = File::create(home.join("lock"))?;
    if !take(&lock, &home) {
        tracing::info!("another execd serves {}", state.display());
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        anyhow::bail!("this build of sandboxes needs root: start innkeeper as root");
    }
    crate::sys::caps::keep_over_id_changes().context("capabilities cannot be kept")?;
    // Before there are threads, since the spawner is forked from this process.
    let launched = launch::launch(&[]).context("the spawner cannot be started")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve_machine(state, &home, launched));
    drop(lock);
    served
}

/// What is worth telling goes to standard error.
pub fn log_to_stderr() {
    let level = EnvFilter::try_from_env("INNKEEPER_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
}

/// Takes the lock of a state directory, waiting for a daemon that is on its way out. False
/// where another one serves, or does not go.
fn take(lock: &File, home: &Path) -> bool {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    loop {
        if rustix::fs::flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        let serves = std::os::unix::net::UnixStream::connect(home.join("execd.sock")).is_ok();
        if serves || std::time::Instant::now() > until {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

async fn serve_machine(
    state: &Path,
    home: &Path,
    mut launched: launch::Launched,
) -> anyhow::Result<()> {
    let name = blake3::hash(state.as_os_str().as_encoded_bytes()).to_hex()[..12].to_owned();
    let groups = Hierarchy::open(&name).context("control groups cannot be used")?;
    groups.sweep();
    if let Err(error) = groups.enter_own() {
        tracing::warn!(%error, "no control group of its own; who ends the manager's ends this too");
    }
    let spawner = Spawner::attach(launched.socket)?;
    let store = Arc::new(Store::open(&state.join("store"))?);
    let boot_id = boot_id()?;
    let root = Root {
        spawner: spawner.clone(),
        store: Arc::clone(&store),
        groups,
        kits: Arc::default(),
        host_network: File::open("/proc/self/ns/net")?.into(),
        boot_id: boot_id.clone(),
    };
    let machine = Arc::new(Machine {
        spawner,
        store,
        programs: Programs::default(),
        boot_id,
        platform: platform()?,
        means: Means::Root(root),
    });
    let path = home.join("execd.sock");
    let _ = fs::remove_file(&path);
    let listener = listen(home, &path)?;
    tracing::info!(socket = %path.display(), boot_id = machine.boot_id, "serving");
    let served = serve(Arc::clone(&machine), listener, home).await;
    let _ = fs::remove_file(&path);
    drop(launched.program);
    if let Means::Root(root) = &machine.means {
        tokio::task::block_in_place(|| root.groups.remove());
    }
    let _ = launched.child.kill();
    let _ = launched.child.wait();
    served
}

/// Serves calls until a signal, until the spawner is gone or nobody will come any more; then
/// destroys every sandbox. Output that memory does not hold goes to unnamed files in `spill`.
pub async fn serve(
    machine: Arc<Machine>,
    listener: UnixListener,
    spill: &Path,
) -> anyhow::Result<()> {
    let slots = Arc::new(Slots::new(Arc::clone(&machine)));
    let janitor = tokio::spawn(empty_trash(Arc::clone(&machine)));
    let here = Arc::clone(&machine);
    let outfitter = tokio::spawn(async move { here.make_ahead().await });
    let orphan = Orphan::from_env();
    let service = Service::new(Arc::clone(&slots), spill.to_owned(), orphan.clone());
    let service = ExecdServer::new(service)
        .max_decoding_message_size(limits::MESSAGE)
        .max_encoding_message_size(limits::MESSAGE);
    let caller = orphan.clone();
    let service = InterceptedService::new(service, move |request| {
        caller.heard();
        Ok::<tonic::Request<()>, tonic::Status>(request)
    });
    let end = until_told_or_lost(machine.spawner.clone(), orphan);
    let server = tonic::transport::Server::builder()
        .max_concurrent_streams(Some(100_000))
        .http2_keepalive_interval(Some(KEEPALIVE))
        .initial_stream_window_size(Some(1 << 20))
        .initial_connection_window_size(Some(16 << 20))
        .add_service(service);
    tokio::select! {
        served = server.serve_with_incoming(UnixListenerStream::new(listener)) => served?,
        () = end => {}
    }
    janitor.abort();
    outfitter.abort();
    slots.destroy_all().await;
    machine.store.empty_trash();
    Ok(())
}

/// A socket in a directory that only root enters. A path beyond the limit of a socket's
/// address is bound through the directory's descriptor.
fn listen(home: &Path, path: &Path) -> anyhow::Result<UnixListener> {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(home, fs::Permissions::from_mode(0o700))?;
    let directory = File::open(home)?;
    let short = format!("/proc/self/fd/{}/execd.sock", directory.as_raw_fd());
    UnixListener::bind(short).with_context(|| format!("{} cannot be bound", path.display()))
}

async fn until_told_or_lost(spawner: Spawner, orphan: Orphan) {
    let (Ok(mut term), Ok(mut int)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return spawner.lost().await;
    };
    tokio::select! {
        _ = term.recv() => tracing::info!("told to end"),
        _ = int.recv() => tracing::info!("told to end"),
        () = orphan.abandoned() => tracing::warn!("no manager was heard of for the orphan ttl"),
        () = spawner.lost() => tracing::error!("the spawner has ended; so do all sandboxes"),
    }
}

/// Frees old uppers behind the path.
async fn empty_trash(machine: Arc<Machine>) {
    loop {
        let here = Arc::clone(&machine);
        let _ = tokio::task::spawn_blocking(move || here.store.empty_trash()).await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}

/// This build and this kernel. What a fresh sandbox looks like depends on both.
pub fn platform() -> anyhow::Result<String> {
    let program = blake3::Hasher::new()
        .update_reader(File::open("/proc/self/exe")?)?
        .finalize();
    let kernel = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    Ok(format!("execd {} linux {kernel}", &program.to_hex()[..16]))
}

/// Changes with every start.
pub fn boot_id() -> anyhow::Result<String> {
    let mut bytes = [0u8; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(hex::encode(bytes))
}
