//! The declared services of a template: started over verified files, each in a group of
//! its own, and awaited by its readiness probe.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use innkeeper_proto::v1::{Service, TemplateSpec, service::Ready};

use super::TemplateError;
use super::prepare::command_output;
use crate::inside::{self, observe::Probe};
use crate::live::ExecGroup;
use crate::sandbox::{Machine, Sandbox};
use crate::spawner::ExecSpec;

/// Between two tries of a probe.
const PAUSE: Duration = Duration::from_millis(20);

/// A service that was started.
#[derive(Debug)]
pub struct Running {
    /// Its name.
    pub name: String,
    /// Its group.
    pub group: ExecGroup,
}

/// Starts all services in their order and waits for each until `by`.
///
/// # Errors
/// [`TemplateError::Service`].
pub async fn start(
    machine: &Machine,
    spec: &TemplateSpec,
    sandbox: &Sandbox,
    by: Instant,
) -> Result<Vec<Running>, TemplateError> {
    let mut running = Vec::new();
    for service in &spec.services {
        let group = launch(machine, sandbox, service).await?;
        running.push(Running {
            name: service.name.clone(),
            group,
        });
        await_ready(machine, sandbox, service, by).await?;
    }
    Ok(running)
}

fn failed(service: &Service, reason: impl ToString) -> TemplateError {
    TemplateError::Service {
        name: service.name.clone(),
        reason: reason.to_string(),
    }
}

async fn launch(
    machine: &Machine,
    sandbox: &Sandbox,
    service: &Service,
) -> Result<ExecGroup, TemplateError> {
    let live = &sandbox.live;
    let group = live.exec_group().map_err(|e| failed(service, e))?;
    let null = || {
        File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map(OwnedFd::from)
    };
    let stdio = match (null(), null(), null()) {
        (Ok(a), Ok(b), Ok(c)) => [a, b, c],
        _ => return Err(failed(service, "/dev/null cannot be opened")),
    };
    let mut env = live.env.clone();
    let mut own: Vec<_> = service.env.iter().collect();
    own.sort();
    env.extend(
        own.into_iter()
            .map(|(k, v)| format!("{k}={v}").into_bytes()),
    );
    let spec = ExecSpec {
        argv: service
            .argv
            .iter()
            .map(|w| w.clone().into_bytes())
            .collect(),
        env,
        cwd: or(&service.cwd, &live.workdir),
        user: if service.user.is_empty() {
            live.user.clone()
        } else {
            service.user.clone()
        },
        umask: 0o022,
        terminal: None,
    };
    machine
        .spawner
        .exec(live, &group, spec, Some(stdio))
        .await
        .map_err(|e| failed(service, e))?;
    Ok(group)
}

fn or(own: &str, default: &[u8]) -> Vec<u8> {
    if own.is_empty() {
        default.to_vec()
    } else {
        own.as_bytes().to_vec()
    }
}

async fn await_ready(
    machine: &Machine,
    sandbox: &Sandbox,
    service: &Service,
    by: Instant,
) -> Result<(), TemplateError> {
    let Some(ready) = &service.ready else {
        return Ok(());
    };
    loop {
        let reason = match ask(machine, sandbox, ready).await {
            Ok(()) => return Ok(()),
            Err(reason) => reason,
        };
        if Instant::now() >= by {
            return Err(failed(service, reason));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// One try of a probe.
async fn ask(machine: &Machine, sandbox: &Sandbox, ready: &Ready) -> Result<(), String> {
    let probe = match ready {
        Ready::ReadyArgv(argv) => {
            let (code, output) = command_output(machine, sandbox, &argv.words)
                .await
                .map_err(|e| e.to_string())?;
            return if code == Some(0) {
                Ok(())
            } else {
                Err(format!("the probe said: {output}"))
            };
        }
        Ready::ReadyTcp(port) => Probe {
            port: *port as u16,
            path: None,
        },
        Ready::ReadyHttp(url) => from_url(url)?,
    };
    match machine
        .spawner
        .call(&sandbox.live, None, inside::Call::Probe(probe), Vec::new())
        .await
    {
        Ok(inside::Answer::Ready) => Ok(()),
        Ok(inside::Answer::Failed { message, .. }) => Err(message),
        Ok(_) => Err("the probe gave another answer".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// `http://HOST:PORT/PATH`; the host is always the sandbox itself.
fn from_url(url: &str) -> Result<Probe, String> {
    let wrong = || format!("{url} is not a URL of the form http://localhost:PORT/PATH");
    let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let port = host
        .rsplit_once(':')
        .map_or(Ok(80), |(_, p)| p.parse().map_err(|_| wrong()))?;
    Ok(Probe {
        port,
        path: Some(format!("/{path}")),
    })
}
