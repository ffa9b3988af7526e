//! A real execd of one's own, with a state directory of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use innkeeper_proto::limits;
use innkeeper_proto::v1::execd_client::ExecdClient;
use innkeeper_proto::v1::{
    CreateSlotRequest, Empty, Network, Resources, SandboxRef, SpecialiseRequest, TemplateSpec,
};
use tokio::process::{Child, Command};
use tonic::transport::{Channel, Endpoint};

use crate::rootfs;
use crate::sandbox::Sandbox;

/// A client of execd.
pub type Client = ExecdClient<Channel>;

/// The image's one layer.
const LAYER: &str = "ca115ca115ca115ca115ca115ca115ca115ca115ca115ca115ca115ca115ca11";

/// Memory of each sandbox.
pub const MEMORY: u64 = 512 << 20;

/// A running execd.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    state: tempfile::TempDir,
    slots: AtomicU32,
}

impl Daemon {
    /// Starts execd over a fresh image and waits until it answers.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn start() -> Result<Self> {
        let program = program()?;
        let state = tempfile::Builder::new()
            .prefix("innkeeper-calls-")
            .tempdir()?;
        let tree = state.path().join("store/layers").join(LAYER).join("tree");
        std::fs::create_dir_all(&tree)?;
        rootfs::make(&tree)?;
        let log = std::fs::File::create(state.path().join("log"))?;
        let child = Command::new(program)
            .arg("--state")
            .arg(state.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let mut daemon = Self {
            child,
            state,
            slots: AtomicU32::new(0),
        };
        for _ in 0..200 {
            if let Ok(mut client) = daemon.connect().await
                && client.hello(Empty {}).await.is_ok()
            {
                return Ok(daemon);
            }
            if daemon.child.try_wait()?.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("execd does not come up:\n{}", daemon.log())
    }

    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.state.path().join("log")).unwrap_or_default()
    }

    /// A connection of one's own.
    ///
    /// # Errors
    /// When execd does not take it.
    pub async fn connect(&self) -> Result<Client> {
        connect(&self.state.path().join("execd/execd.sock")).await
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.state.path().join("execd/execd.sock")
    }

    /// A fresh sandbox in a slot of its own.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn sandbox(&self) -> Result<Sandbox> {
        let mut client = self.connect().await?;
        let slot = format!("calls-{}", self.slots.fetch_add(1, Ordering::Relaxed));
        let tenant = "default".to_owned();
        client
            .create_slot(CreateSlotRequest {
                slot: slot.clone(),
                tenant: tenant.clone(),
            })
            .await?;
        let template = TemplateSpec {
            key: "calls".to_owned(),
            image_digest: format!("sha256:{LAYER}"),
            layers: vec![LAYER.to_owned()],
            env: vec![
                b"FROM_IMAGE=yes".as_slice().into(),
                b"HOME=/root".as_slice().into(),
            ],
            workdir: "/there".to_owned(),
            user: "root".to_owned(),
            resources: Some(Resources {
                memory_bytes: MEMORY,
                pids: 2048,
                disk_bytes: 128 << 20,
                ..Resources::default()
            }),
            network: Network::None.into(),
            prepare_network: Network::None.into(),
            tenant,
            ..TemplateSpec::default()
        };
        let request = SpecialiseRequest {
            slot: slot.clone(),
            template: Some(template),
            expected_files: String::new(),
            may_prepare: true,
        };
        let made = client.specialise(request).await?.into_inner();
        Ok(Sandbox::new(
            client,
            SandboxRef {
                slot,
                generation: made.generation,
            },
        ))
    }

    /// Ends it in good order, so that nothing of it is left.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop(mut self) -> Result<()> {
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok())
            && let Some(pid) = rustix::process::Pid::from_raw(pid)
        {
            rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        }
        let ended = tokio::time::timeout(Duration::from_secs(60), self.child.wait()).await;
        ended.context("execd does not end when it is told to")??;
        Ok(())
    }
}

/// Connects to a socket of execd.
///
/// # Errors
/// When nobody takes the connection.
pub async fn connect(socket: &Path) -> Result<Client> {
    let channel = Endpoint::from_shared(format!("unix://{}", socket.display()))?
        .initial_connection_window_size(16 << 20)
        .connect()
        .await?;
    Ok(ExecdClient::new(channel)
        .max_decoding_message_size(limits::MESSAGE + 65_536)
        .max_encoding_message_size(limits::MESSAGE))
}

/// The execd to test: INNKEEPER_EXECD, else the one that was built beside this test.
fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("INNKEEPER_EXECD") {
        return Ok(path.into());
    }
    let test = std::env::current_exe()?;
    let built = test.ancestors().nth(2).map(|dir| dir.join("execd"));
    match built.filter(|path| path.is_file()) {
        Some(path) => Ok(path),
        None => {
            bail!("there is no execd to test: run cargo build -p execd, or set INNKEEPER_EXECD")
        }
    }
}
