//! Reaching a manager: a running one, or one of this command's own.

use std::path::PathBuf;

use innkeeper::client::{self, Address};
use innkeeper::embedded::{self, Session};
use innkeeper::paths;

use super::Global;
use super::failure::{Failure, INTERRUPTED};

/// The manager's calls.
pub(crate) type Client = client::Manager;

/// The state directory that this command works on.
pub(crate) fn state_dir(global: &Global) -> PathBuf {
    global
        .state_dir
        .clone()
        .unwrap_or_else(paths::default_state_dir)
}

/// The address at which a manager is looked for.
pub(crate) fn address(global: &Global) -> Result<Address, Failure> {
    match &global.endpoint {
        Some(text) => text
            .parse()
            .map_err(|e: client::BadAddress| Failure::usage(format_args!("--endpoint: {e}"))),
        None => Ok(Address::Unix(paths::default_socket(&state_dir(global)))),
    }
}

/// The token of this caller, from INNKEEPER_TOKEN.
pub(crate) fn token() -> Option<String> {
    std::env::var("INNKEEPER_TOKEN")
        .ok()
        .filter(|token| !token.is_empty())
}

/// Connects to a running manager, or fails with exit code 69.
pub(crate) async fn running(global: &Global) -> Result<Client, Failure> {
    let address = address(global)?;
    client::connect(&address, token().as_deref())
        .await
        .map_err(|e| Failure::no_manager(e.address, e.cause))
}

/// A session with a running manager, or with one that this command starts for its own
/// duration. It must be closed at the end: see [`Session::close`].
pub(crate) async fn own(global: &Global) -> Result<Session, Failure> {
    let endpoint = match &global.endpoint {
        Some(_) => Some(address(global)?),
        None => None,
    };
    let options = embedded::Options {
        state_dir: state_dir(global),
        endpoint: endpoint.clone(),
        token: token(),
        quiet: true,
    };
    embedded::connect(options)
        .await
        .map_err(|e| match endpoint {
            // A named manager that does not answer is not replaced by another.
            Some(address) => Failure::no_manager(address, e),
            None => Failure::failed(e),
        })
}

/// Does `work` in a session and closes it, also when the user interrupts.
pub(crate) async fn within<T, F>(
    global: &Global,
    work: impl FnOnce(Client) -> F,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    // Caught from here on: a signal while the manager starts must not leave its daemon behind.
    let interrupted = embedded::interrupted();
    let session = own(global).await?;
    let done = tokio::select! {
        done = work(session.manager()) => done,
        () = interrupted => {
            let message = "interrupted".to_owned();
            Err(Failure { code: INTERRUPTED, message })
        }
    };
    let closed = session.close().await.map_err(Failure::failed);
    let done = done?;
    closed?;
    Ok(done)
}
