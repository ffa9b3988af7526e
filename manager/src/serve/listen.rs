//! Sockets: bound before anything else, served until the manager stops.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use innkeeper_proto::limits;
use innkeeper_proto::v1::manager_server::ManagerServer;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;

use super::Error;
use crate::client::{Address, CONNECTION_WINDOW, STREAM_WINDOW};
use crate::rpc::{Service, auth};

/// Between two signs of life on an idle connection: a silent command must not lose it to
/// whatever lies between.
const KEEPALIVE: std::time::Duration = std::time::Duration::from_secs(30);

/// The longest path that a unix socket's address holds, its final zero left out.
const LONGEST_PATH: usize = 107;

/// A bound socket.
#[derive(Debug)]
pub struct Listener {
    address: Address,
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Unix(UnixListener),
    Tcp(std::net::TcpListener),
}

/// The error of an address that cannot be listened at.
pub(super) fn failed(address: impl ToString, error: &io::Error, option: &str) -> Error {
    let cause = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("it is in use: stop what listens there or choose another with {option}")
        }
        io::ErrorKind::PermissionDenied => {
            format!("{error}: run as root or choose another with {option}")
        }
        _ => error.to_string(),
    };
    Error::Listen {
        address: address.to_string(),
        cause,
    }
}

impl Listener {
    /// Binds an address. A socket file that a dead manager left is replaced; one that answers is
    /// refused. The new file has mode 0600 from the moment that it can be found.
    pub fn bind(address: &Address) -> Result<Self, Error> {
        let bound = match address {
            Address::Unix(path) => bind_unix(path).map(Socket::Unix),
            Address::Tcp(place) => std::net::TcpListener::bind(place).map(Socket::Tcp),
        };
        let socket = bound.map_err(|error| failed(address, &error, "--listen"))?;
        Ok(Self {
            address: address.clone(),
            socket,
        })
    }

    /// Where it listens, with the port that the system chose where 0 was asked for.
    pub fn address(&self) -> Address {
        match &self.socket {
            Socket::Unix(_) => self.address.clone(),
            Socket::Tcp(listener) => match listener.local_addr() {
                Ok(local) => Address::Tcp(local.to_string()),
                Err(_) => self.address.clone(),
            },
        }
    }

    /// Answers calls until `stop`, then lets running ones end; a socket file is removed first, so
    /// that nobody finds a manager that takes no more.
    pub async fn serve(
        self,
        service: Service,
        tokens: auth::Tokens,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let gate = match &self.socket {
            Socket::Unix(_) => auth::Gate::local(tokens),
            Socket::Tcp(_) => auth::Gate::remote(tokens),
        };
        let manager = ManagerServer::new(service)
            .max_decoding_message_size(limits::MESSAGE)
            .max_encoding_message_size(limits::MESSAGE);
        let router = Server::builder()
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .tcp_nodelay(true)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .add_service(InterceptedService::new(manager, gate));
        let address = self.address();
        let broken = |error: &dyn std::error::Error| {
            Error::Ended(format!("{address}: {}", crate::client::innermost(error)))
        };
        let served = match self.socket {
            Socket::Unix(listener) => {
                let listener = async_unix(listener).map_err(|error| broken(&error))?;
                let file = SocketFile::of(&self.address);
                let stop = async move {
                    stop.cancelled().await;
                    file.remove();
                };
                let incoming = UnixListenerStream::new(listener);
                router.serve_with_incoming_shutdown(incoming, stop).await
            }
            Socket::Tcp(listener) => {
                let listener = async_tcp(listener).map_err(|error| broken(&error))?;
                let incoming = TcpListenerStream::new(listener);
                router
                    .serve_with_incoming_shutdown(incoming, stop.cancelled_owned())
                    .await
            }
        };
        served.map_err(|error| broken(&error))
    }
}

fn async_unix(listener: UnixListener) -> io::Result<tokio::net::UnixListener> {
    listener.set_nonblocking(true)?;
    tokio::net::UnixListener::from_std(listener)
}

fn async_tcp(listener: std::net::TcpListener) -> io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

/// The file of a socket, known by its inode: a later manager's socket may stand at the same path.
struct SocketFile(Option<(PathBuf, u64)>);

impl SocketFile {
    fn of(address: &Address) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self(match address {
            Address::Unix(path) => std::fs::symlink_metadata(path)
                .ok()
                .map(|meta| (path.clone(), meta.ino())),
            Address::Tcp(_) => None,
        })
    }

    fn remove(&self) {
        use std::os::unix::fs::MetadataExt;
        let Some((path, inode)) = &self.0 else { return };
        if std::fs::symlink_metadata(path).is_ok_and(|meta| meta.ino() == *inode) {
            // A file that stays is replaced by the next manager.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let fresh = path.with_extension(format!("sock-{}", std::process::id()));
    if fresh.as_os_str().len() > LONGEST_PATH {
        let sentence = format!("the path is too long for a socket (at most {LONGEST_PATH} bytes)");
        return Err(io::Error::other(sentence));
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)?;
    }
    match UnixStream::connect(path) {
        Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            use std::os::unix::fs::FileTypeExt;
            if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
                return Err(io::Error::other("there is a file that is not a socket"));
            }
        }
        Err(error) => return Err(error),
    }
    // Bound under another name and renamed, so that it never stands there with a wider mode.
    let _ = std::fs::remove_file(&fresh);
    let listener = UnixListener::bind(&fresh)?;
    let placed = std::fs::set_permissions(&fresh, Permissions::from_mode(0o600))
        .and_then(|()| std::fs::rename(&fresh, path));
    if let Err(error) = placed {
        let _ = std::fs::remove_file(&fresh);
        return Err(error);
    }
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_dead_managers_socket_is_replaced_and_a_live_one_refused() {
        let dir = tempfile::tempdir().unwrap();
        let address = Address::Unix(dir.path().join("deep/manager.sock"));
        let Address::Unix(path) = &address else {
            unreachable!()
        };
        let first = Listener::bind(&address).unwrap();
        assert_eq!(std::fs::metadata(path).unwrap().mode() & 0o777, 0o600);
        let error = Listener::bind(&address).unwrap_err().to_string();
        assert!(error.contains("in use"), "{error}");
        drop(first);
        Listener::bind(&address).unwrap();
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1
        );
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("precious");
        std::fs::write(&path, "text").unwrap();
        assert!(Listener::bind(&Address::Unix(path.clone())).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"text");
    }

    #[test]
    fn a_port_in_use_is_said() {
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(held.local_addr().unwrap().to_string());
        let error = Listener::bind(&address).unwrap_err().to_string();
        assert!(
            error.contains("in use") && error.contains("--listen"),
            "{error}"
        );
    }
}
