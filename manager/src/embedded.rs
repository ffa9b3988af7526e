//! A manager for one command's own duration.
//!
//! [`connect`] uses the manager that runs, and starts one inside this process where none does. The
//! latter listens at a private socket, so that a second command beside it shares it, and takes
//! everything down at [`Session::close`]: sandboxes, slots and, once it is empty, execd. What a
//! killed command leaves is found by the next manager of the state directory, whose first act is
//! to end the leases that the dead one granted; and execd ends itself when none comes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use innkeeper_images::Store;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::client::{self, Address, ConnectError, Manager};
use crate::engine::{self, Handle, Parts};
use crate::metrics::Metrics;
use crate::paths;
use crate::provider::{self, Provider};
use crate::rpc::{Service, auth};
use crate::serve::{self, Listener};
use crate::state::{self, StateDir};
use crate::template::form::Defaults;

/// How long a manager that holds the state directory may take to answer: it starts or ends.
const PATIENCE: Duration = Duration::from_secs(20);

/// Pauses between two looks meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// After how long of waiting for other commands' leases a person is told.
const TELL: Duration = Duration::from_secs(2);

/// How long connections may take to end once nothing is left to do.
const GOODBYE: Duration = Duration::from_millis(500);

/// What to connect to.
#[derive(Debug, Clone)]
pub struct Options {
    /// The state directory.
    pub state_dir: PathBuf,
    /// A manager that was named; no other is used or started then.
    pub endpoint: Option<Address>,
    /// The caller's token.
    pub token: Option<String>,
    /// Say nothing on stderr.
    pub quiet: bool,
}

/// Why there is no manager.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The named one does not answer.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The state directory.
    #[error(transparent)]
    State(#[from] state::Error),
    /// It did not start.
    #[error(transparent)]
    Start(#[from] serve::Error),
    /// The user did not wait for the end.
    #[error(
        "interrupted before all sandboxes were removed: the next command on this state \
         directory removes the rest"
    )]
    Interrupted,
    /// Something of it could not be taken down.
    #[error("not everything was taken down: {0}")]
    Left(#[from] provider::Error),
}

/// A connection to a manager, and the manager itself where it lives in this process.
#[derive(Debug)]
pub struct Session {
    manager: Manager,
    own: Option<Own>,
}

#[derive(Debug)]
struct Own {
    engine: Handle,
    provider: Arc<dyn Provider>,
    server: tokio::task::JoinHandle<Result<(), serve::Error>>,
    stop: CancellationToken,
    socket: PathBuf,
    quiet: bool,
}

/// Connects to the manager that runs, or starts one.
///
/// Not cancel safe: a future dropped half way may leave an execd without a manager, which then
/// ends itself after its orphan ttl.
pub async fn connect(options: Options) -> Result<Session, Error> {
    let token = options.token.as_deref();
    if let Some(endpoint) = &options.endpoint {
        let manager = client::connect(endpoint, token).await?;
        return Ok(Session { manager, own: None });
    }
    let places = [
        Address::Unix(paths::default_socket(&options.state_dir)),
        Address::Unix(paths::embedded_socket(&options.state_dir)),
    ];
    let start = tokio::time::Instant::now();
    loop {
        for place in &places {
            if let Ok(manager) = client::connect(place, token).await {
                return Ok(Session { manager, own: None });
            }
        }
        match StateDir::open(&options.state_dir) {
            Ok(state) => return begin(state, options.quiet).await,
            // Another one starts or ends right now.
            Err(state::Error::Locked { .. }) if start.elapsed() < PATIENCE => {
                tokio::time::sleep(LOOK).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn begin(state: StateDir, quiet: bool) -> Result<Session, Error> {
    let state_dir = state.path().to_owned();
    let address = Address::Unix(paths::embedded_socket(&state_dir));
    let listener = Listener::bind(&address)?;
    let provider = serve::start_local(&state_dir, serve::ORPHAN_TTL).await?;
    let started = start(state, &state_dir, Arc::clone(&provider)).await;
    let (engine, service) = match started {
        Ok(parts) => parts,
        Err(error) => {
            // What an earlier manager granted may still be in the daemon.
            if provider.list().await.is_ok_and(|slots| slots.is_empty()) {
                provider.stop().await?;
            }
            return Err(error);
        }
    };
    let stop = CancellationToken::new();
    let serving = listener.serve(service, auth::Tokens::default(), stop.clone());
    let own = Own {
        engine,
        provider,
        server: tokio::spawn(serving),
        stop,
        socket: paths::embedded_socket(&state_dir),
        quiet,
    };
    match client::connect(&address, None).await {
        Ok(manager) => Ok(Session {
            manager,
            own: Some(own),
        }),
        Err(error) => {
            own.close().await?;
            Err(error.into())
        }
    }
}

async fn start(
    state: StateDir,
    state_dir: &Path,
    provider: Arc<dyn Provider>,
) -> Result<(Handle, Service), Error> {
    let store = Store::open(paths::store_dir(state_dir)).map_err(serve::Error::from)?;
    let parts = Parts {
        state,
        provider,
        config: innkeeper_pool::Config::one_machine(),
        embedded: true,
        metrics: Arc::new(Metrics::default()),
    };
    let engine = engine::start(parts).await.map_err(serve::Error::from)?;
    let service = Service::new(
        engine.clone(),
        Arc::new(store),
        state_dir.to_owned(),
        Defaults::default(),
    );
    Ok((engine, service))
}

impl Session {
    /// The manager's calls. Clones share one connection.
    pub fn manager(&self) -> Manager {
        self.manager.clone()
    }

    /// Whether the manager lives in this process.
    pub fn is_embedded(&self) -> bool {
        self.own.is_some()
    }

    /// Ends the session. A manager of this process first refuses new leases, ends this process's
    /// own, waits for those of other commands, and then removes every slot and the daemon.
    pub async fn close(self) -> Result<(), Error> {
        match self.own {
            Some(own) => own.close().await,
            None => Ok(()),
        }
    }
}

impl Own {
    async fn close(self) -> Result<(), Error> {
        // From here on a second command starts a manager of its own, once this one is gone. A file
        // that cannot be removed is replaced by that one.
        let _ = std::fs::remove_file(&self.socket);
        let empty = self.engine.empty();
        tokio::pin!(empty);
        // The signal that ended the work was another one's; one that comes now ends the waiting.
        let impatient = interrupted();
        tokio::pin!(impatient);
        let left = tokio::select! {
            left = &mut empty => Some(left),
            () = &mut impatient => None,
            () = tokio::time::sleep(TELL) => {
                if !self.quiet {
                    eprintln!(
                        "innkeeper: removing sandboxes, once other commands that use this \
                         manager are done; interrupt to leave them to the next command"
                    );
                }
                tokio::select! {
                    left = &mut empty => Some(left),
                    () = &mut impatient => None,
                }
            }
        };
        self.stop.cancel();
        // Connections of idle clients end when they are told so; others have had their time.
        let abort = self.server.abort_handle();
        if tokio::time::timeout(GOODBYE, self.server).await.is_err() {
            abort.abort();
        }
        self.engine.stop(Duration::from_secs(5)).await;
        match left {
            Some(0) => Ok(self.provider.stop().await?),
            Some(_) => Ok(()),
            None => Err(Error::Interrupted),
        }
    }
}

/// Resolves at SIGINT or SIGTERM. The signals are caught from the call on, not from the first
/// poll of what it returns, and stay caught.
pub fn interrupted() -> impl Future<Output = ()> + Send {
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    async move {
        let [interrupt, terminate] = signals;
        let (Ok(mut interrupt), Ok(mut terminate)) = (interrupt, terminate) else {
            // Signals cannot be caught here; they end the process as they always did.
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
