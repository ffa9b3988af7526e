//! `serve`: the manager in the foreground.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use innkeeper::serve::Options;
use tracing_subscriber::EnvFilter;

use super::Global;
use super::failure::Failure;

/// Run a manager until it is told to stop.
#[derive(Debug, Args)]
#[command(
    after_help = "SIGTERM stops it; leases are kept and found again by the next one.\n\nExample:\n  innkeeper serve --listen tcp://127.0.0.1:7070 --token-file tokens --metrics tcp://127.0.0.1:9090"
)]
pub(crate) struct Serve {
    /// Options from a YAML file: the long ones with _ for -
    #[arg(long, value_name = "F")]
    config: Option<PathBuf>,
    /// What makes sandboxes: local
    #[arg(long, value_name = "P")]
    provider: Option<String>,
    /// The cluster's namespace (not there yet)
    #[arg(long, value_name = "NS")]
    namespace: Option<String>,
    /// Where to listen [default: the local socket]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,
    /// Tokens that TCP callers need, `TOKEN TENANT` a line
    #[arg(long, value_name = "F")]
    token_file: Option<PathBuf>,
    /// A Docker API (not there yet)
    #[arg(long, value_name = "ADDR")]
    docker: Option<String>,
    /// Where Docker clients may bind from (not there yet)
    #[arg(long, value_name = "DIR")]
    docker_bind_root: Option<PathBuf>,
    /// An HTTP API (not there yet)
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Where to answer Prometheus
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,
    /// A supply policy (not there yet)
    #[arg(long, value_name = "F")]
    policy: Option<PathBuf>,
    /// How sandboxes are reset: auto, layered, sliced, in-place or none
    #[arg(long, value_name = "S")]
    strategy: Option<String>,
    /// With whose rights they are made: auto, root, pod or user
    #[arg(long, value_name = "R")]
    rights: Option<String>,
    /// The layout of pods (not there yet)
    #[arg(long, value_name = "L")]
    layout: Option<String>,
}

impl Serve {
    /// Serves until SIGTERM or SIGINT.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        // Its log is for whoever runs it: on standard error, INNKEEPER_LOG says how much.
        let filter =
            EnvFilter::try_from_env("INNKEEPER_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
        let colours = std::io::stderr().is_terminal();
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_ansi(colours)
            .with_writer(std::io::stderr);
        if global.json {
            log.json().init()
        } else {
            log.init()
        }
        let options = Options {
            config: self.config,
            provider: self.provider,
            namespace: self.namespace,
            listen: self.listen,
            state_dir: global.state_dir.clone(),
            token_file: self.token_file,
            docker: self.docker,
            docker_bind_root: self.docker_bind_root,
            http: self.http,
            metrics: self.metrics,
            policy: self.policy,
            strategy: self.strategy,
            rights: self.rights,
            layout: self.layout,
            orphan_ttl: None,
        };
        innkeeper::serve::run(options).await.map_err(|error| {
            if error.is_usage() {
                Failure::usage(error)
            } else {
                Failure::failed(error)
            }
        })?;
        Ok(0)
    }
}
