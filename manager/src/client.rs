//! How a command reaches a manager: addresses, the channel, and errors with a kind.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use innkeeper_proto::{limits, v1::manager_client::ManagerClient};
use tonic::service::{Interceptor, interceptor::InterceptedService};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

mod error;
pub(crate) use error::status as error_status;
pub use error::{CallError, KIND_METADATA, Kind};

/// The manager's calls, with the token put into each.
pub type Manager = ManagerClient<InterceptedService<Channel, Token>>;

/// Bytes that one stream may have under way. A command's output is bounded by what its reader
/// takes, so the window only has to cover the time between two reads.
pub(crate) const STREAM_WINDOW: u32 = 1024 * 1024;

/// Bytes that all streams of one connection may have under way: many slow readers must not stop
/// the others on the same connection, so this is the largest that HTTP/2 allows within reason.
pub(crate) const CONNECTION_WINDOW: u32 = 256 * 1024 * 1024;

/// Silence after which the other end of a call is asked whether it is there. Proxies drop links on
/// which nothing passes, the strictest that are in use after 30 s.
const PING: Duration = Duration::from_secs(20);

/// Who has not answered for so long is gone; a busy machine may take its time.
const PONG: Duration = Duration::from_secs(20);

/// Where a manager listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// `unix:///PATH`
    Unix(PathBuf),
    /// `tcp://HOST:PORT`, kept as `HOST:PORT`.
    Tcp(String),
}

/// An address that is neither of the two forms.
#[derive(Debug, thiserror::Error)]
#[error("\"{0}\" is not an address: write unix:///PATH or tcp://HOST:PORT")]
pub struct BadAddress(String);

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = || BadAddress(text.to_owned());
        if let Some(path) = text.strip_prefix("unix://") {
            return if path.starts_with('/') {
                Ok(Self::Unix(path.into()))
            } else {
                Err(bad())
            };
        }
        let place = text.strip_prefix("tcp://").ok_or_else(bad)?;
        let (host, port) = place.rsplit_once(':').ok_or_else(bad)?;
        if host.is_empty() || port.parse::<u16>().is_err() {
            return Err(bad());
        }
        Ok(Self::Tcp(place.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(place) => write!(f, "tcp://{place}"),
        }
    }
}

/// Why no manager was reached.
#[derive(Debug, thiserror::Error)]
#[error("no manager answers at {address}: {cause}")]
pub struct ConnectError {
    /// Where it was looked for.
    pub address: Address,
    /// What the connection attempt said, as one sentence.
    pub cause: String,
}

/// Puts the token into each call.
#[derive(Debug, Clone, Default)]
pub struct Token(Option<tonic::metadata::AsciiMetadataValue>);

impl Token {
    /// A token as given by the user; None sends none, which the local socket accepts.
    /// A token with bytes that a header cannot carry is dropped, and the manager then refuses.
    pub fn new(token: Option<&str>) -> Self {
        Self(token.and_then(|token| format!("Bearer {token}").parse().ok()))
    }
}

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(value) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", value.clone());
        }
        Ok(request)
    }
}

/// Connects to the manager at `address`. Fails at once where nothing listens.
/// Cancel safe: nothing is left when the future is dropped.
pub async fn connect(address: &Address, token: Option<&str>) -> Result<Manager, ConnectError> {
    let failed = |cause: String| ConnectError {
        address: address.clone(),
        cause,
    };
    let uri = match address {
        Address::Unix(path) => format!("unix://{}", path.display()),
        Address::Tcp(place) => format!("http://{place}"),
    };
    let channel = endpoint(&uri)
        .map_err(|error| failed(error.to_string()))?
        .connect()
        .await
        .map_err(|error| failed(innermost(&error)))?;
    let client = ManagerClient::with_interceptor(channel, Token::new(token));
    Ok(client
        .max_decoding_message_size(limits::MESSAGE)
        .max_encoding_message_size(limits::MESSAGE))
}

/// An endpoint with the windows that streams of output need, which keeps calls alive through
/// silence and notices when the other end is gone.
pub(crate) fn endpoint(uri: &str) -> Result<Endpoint, tonic::transport::Error> {
    Ok(Endpoint::from_shared(uri.to_owned())?
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(PING)
        .keep_alive_timeout(PONG))
}

/// The last cause in a chain of errors: tonic's own words ("transport error") say nothing.
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_two_forms() {
        assert_eq!(
            "unix:///run/x.sock".parse::<Address>().unwrap().to_string(),
            "unix:///run/x.sock"
        );
        assert_eq!(
            "tcp://[::1]:80".parse::<Address>().unwrap(),
            Address::Tcp("[::1]:80".into())
        );
        for bad in [
            "",
            "localhost:80",
            "unix://relative",
            "tcp://:80",
            "tcp://host",
            "http://a:1",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn nothing_listening_is_said_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let address = Address::Unix(dir.path().join("none.sock"));
        let error = connect(&address, None).await.unwrap_err();
        assert!(error.to_string().contains("none.sock"), "{error}");
    }
}
