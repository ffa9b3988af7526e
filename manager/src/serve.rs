//! `innkeeper serve`: the manager as a daemon, from its options to its end.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_images::Store;
use tokio_util::sync::CancellationToken;

use crate::engine::{self, Handle, Parts};
use crate::metrics::{self, Metrics};
use crate::provider::local::{self, Local};
use crate::provider::{self, Provider};
use crate::rpc::{Service, auth};
use crate::state::{self, StateDir};
use crate::template::form;
use crate::{client, paths, template};

mod listen;
mod options;

pub use listen::Listener;
pub use options::Options;

/// How long running calls may go on once the manager was told to stop.
const CALLS: Duration = Duration::from_secs(5);

/// How long resets and creates that are under way may take then; what is not done is taken up
/// again at the next start.
const SETTLE: Duration = Duration::from_secs(15);

/// How long execd lives without a manager when nothing is said.
pub(crate) const ORPHAN_TTL: Duration = Duration::from_secs(15 * 60);

/// Why the manager did not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option or the configuration is wrong.
    #[error("{0}")]
    Usage(String),
    /// The state directory.
    #[error(transparent)]
    State(#[from] state::Error),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// The provider.
    #[error(transparent)]
    Provider(#[from] provider::Error),
    /// The strategy or rights that were asked for.
    #[error(transparent)]
    Form(#[from] template::Error),
    /// The image store.
    #[error(transparent)]
    Images(#[from] innkeeper_images::Error),
    /// The token file.
    #[error(transparent)]
    Tokens(#[from] auth::Error),
    /// An address.
    #[error("cannot listen at {address}: {cause}")]
    Listen {
        /// Which.
        address: String,
        /// Why, and what to do.
        cause: String,
    },
    /// A listener failed while it ran.
    #[error("the manager ended: {0}")]
    Ended(String),
}

impl Error {
    /// Whether the caller has to mend the call itself (exit code 2).
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}

/// Runs a manager until SIGTERM or SIGINT. Leases and sandboxes outlive it.
pub async fn run(options: Options) -> Result<(), Error> {
    let stop = CancellationToken::new();
    let signal = stop.clone();
    // Listening for signals begins before anything is made that they must not interrupt.
    let interrupted = crate::embedded::interrupted();
    tokio::spawn(async move {
        interrupted.await;
        signal.cancel();
    });
    run_until(options, stop).await
}

/// As [`run`], until the token is cancelled.
pub async fn run_until(options: Options, stop: CancellationToken) -> Result<(), Error> {
    let options = options.with_config()?;
    options.check()?;
    let defaults = options.defaults()?;
    let addresses = addresses(&options)?;
    let tokens = match &options.token_file {
        Some(path) => auth::Tokens::read(path)?,
        None => auth::Tokens::default(),
    };
    // Everything that can be wrong from outside is tried before a sandbox daemon is started.
    let state = StateDir::open(&options.state_dir())?;
    let state_dir = state.path().to_owned();
    let listeners = addresses
        .iter()
        .map(Listener::bind)
        .collect::<Result<Vec<_>, _>>()?;
    let metrics_listener = match &options.metrics {
        Some(address) => {
            let bound = metrics::bind(address).await;
            Some(bound.map_err(|error| listen::failed(address, &error, "--metrics"))?)
        }
        None => None,
    };
    let store = Arc::new(Store::open(paths::store_dir(&state_dir))?);
    let metrics = Arc::new(Metrics::default());
    let orphan_ttl = options.orphan_ttl.map_or(ORPHAN_TTL, |span| span.0);
    let provider = start_local(&state_dir, orphan_ttl).await?;
    form::choose(defaults.strategy, defaults.rights, |form| {
        provider.refusal(form)
    })?;
    let parts = Parts {
        state,
        provider,
        config: innkeeper_pool::Config::one_machine(),
        embedded: false,
        metrics: Arc::clone(&metrics),
    };
    let engine = engine::start(parts).await?;
    let service = Service::new(engine.clone(), store, state_dir, defaults);
    if let Some((listener, address)) = metrics_listener {
        tracing::info!("metrics at http://{address}/metrics");
        tokio::spawn(metrics::serve(listener, metrics, engine.clone()));
    }
    serve(listeners, service, tokens, &engine, stop).await
}

/// Where to listen; TCP only with tokens.
fn addresses(options: &Options) -> Result<Vec<client::Address>, Error> {
    let mut addresses = Vec::new();
    for text in &options.listen {
        let address: client::Address = text
            .parse()
            .map_err(|error| Error::Usage(format!("--listen: {error}")))?;
        addresses.push(address);
    }
    if addresses.is_empty() {
        addresses.push(client::Address::Unix(paths::default_socket(
            &options.state_dir(),
        )));
    }
    let tcp = addresses
        .iter()
        .any(|address| matches!(address, client::Address::Tcp(_)));
    if tcp && options.token_file.is_none() {
        return Err(Error::Usage(
            "listening on TCP needs tokens: write `TOKEN TENANT` lines to a file and name it with \
             --token-file"
                .to_owned(),
        ));
    }
    Ok(addresses)
}

pub(crate) async fn start_local(
    state_dir: &Path,
    orphan_ttl: Duration,
) -> Result<Arc<dyn Provider>, Error> {
    let options = local::Options {
        state_dir: state_dir.to_owned(),
        execd: None,
        orphan_ttl,
    };
    Ok(Arc::new(Local::start(options).await?))
}

async fn serve(
    listeners: Vec<Listener>,
    service: Service,
    tokens: auth::Tokens,
    engine: &Handle,
    stop: CancellationToken,
) -> Result<(), Error> {
    let mut servers = tokio::task::JoinSet::new();
    for listener in listeners {
        tracing::info!("listening at {}", listener.address());
        servers.spawn(listener.serve(service.clone(), tokens.clone(), stop.clone()));
    }
    // The listeners hold the service, and with it the engine, for as long as they run.
    drop(service);
    let mut failed = None;
    tokio::select! {
        // A listener that closes because it was told to is no failure.
        biased;
        () = stop.cancelled() => {}
        ended = servers.join_next() => {
            failed = Some(match ended {
                Some(Ok(Err(error))) => error,
                Some(Ok(Ok(()))) | None => Error::Ended("a listener closed".to_owned()),
                Some(Err(error)) => Error::Ended(error.to_string()),
            });
            stop.cancel();
        }
    }
    let finish = async { while servers.join_next().await.is_some() {} };
    if tokio::time::timeout(CALLS, finish).await.is_err() {
        servers.shutdown().await;
    }
    engine.stop(SETTLE).await;
    match failed {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
