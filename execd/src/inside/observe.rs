//! What only a process in the sandbox's namespaces can read: ipc objects, host name,
//! namespaced sysctls, its mounts and sockets. The reader is our own code, entered by the
//! kernel's means; nothing in the sandbox can stand in for it.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use innkeeper_reset::components::network::Scope;
use innkeeper_reset::ids::IdMap;
use innkeeper_reset::observe::{self, Ahead, InsideScope, InsideView, ProcDir};
use serde::{Deserialize, Serialize};

use super::Answer;

/// How a sandbox is to be observed.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Observe {
    /// First host id of its range.
    pub base: u32,
    /// Whether the network namespace is its own.
    pub own_network: bool,
}

/// What was seen.
pub type Inside = InsideView;

pub(super) fn run(call: Observe) -> Answer {
    match look(call) {
        Ok(view) => Answer::Observed(Box::new(view)),
        Err(message) => Answer::Failed { errno: 0, message },
    }
}

/// Looks, in a process of the sandbox that no guest made.
pub fn look(call: Observe) -> Result<Inside, String> {
    let proc = proc()?;
    let queues = open("/dev/mqueue")?;
    observe::inside(&proc, queues.as_fd(), call.scope(true)).map_err(|e| e.to_string())
}

/// Looks, in a pid 1 that stands by, at all that will be the same once it has its root and
/// its ids; gives its /proc for the rest.
pub fn look_ahead(call: Observe) -> Result<(ProcDir, Ahead), String> {
    let proc = proc()?;
    let queues = open("/dev/mqueue")?;
    let seen = observe::ahead(&proc, queues.as_fd(), call.scope(false));
    Ok((proc, seen.map_err(|e| e.to_string())?))
}

fn proc() -> Result<ProcDir, String> {
    ProcDir::new(open("/proc")?).map_err(|e| e.to_string())
}

fn open(path: &str) -> Result<OwnedFd, String> {
    File::open(path)
        .map(OwnedFd::from)
        .map_err(|e| format!("{path} cannot be opened: {e}"))
}

impl Observe {
    fn scope(self, entered_user_namespace: bool) -> InsideScope {
        InsideScope {
            ids: IdMap {
                base: self.base,
                count: crate::spawner::build::IDS,
            },
            entered_user_namespace,
            network: if self.own_network {
                Scope::Own
            } else {
                Scope::Shared
            },
        }
    }
}

/// A readiness probe from within the sandbox's network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Probe {
    /// The port on the loopback address.
    pub port: u16,
    /// The path to get, for HTTP; none: the connection alone counts.
    pub path: Option<String>,
}

/// A probe that gets no answer in this time has failed.
const PROBE: Duration = Duration::from_secs(2);

pub(super) fn probe(call: &Probe) -> Answer {
    match try_probe(call) {
        Ok(()) => Answer::Ready,
        Err(message) => Answer::Failed { errno: 0, message },
    }
}

fn try_probe(call: &Probe) -> Result<(), String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, call.port));
    let text = |e: std::io::Error| format!("port {}: {e}", call.port);
    let mut stream = TcpStream::connect_timeout(&address, PROBE).map_err(text)?;
    let Some(path) = &call.path else {
        return Ok(());
    };
    stream.set_read_timeout(Some(PROBE)).map_err(text)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(text)?;
    let mut status = [0u8; 12];
    stream.read_exact(&mut status).map_err(text)?;
    match &status[9..10] {
        b"2" | b"3" => Ok(()),
        _ => Err(format!(
            "port {} answered {}",
            call.port,
            String::from_utf8_lossy(&status)
        )),
    }
}
