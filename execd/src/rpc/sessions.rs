//! Sessions: open, run, close.

use innkeeper_proto::v1::target::Of;
use innkeeper_proto::v1::{Empty, ExecStart, SessionOpen, SessionRef, SessionResult, SessionRun};
use tonic::{Request, Response, Status};

use super::Service;
use super::exec::live;
use crate::exec::{Command, SessionError, timeout};

/// Shells that are tried where none is asked for.
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

/// Opens a session.
///
/// # Errors
/// When no shell takes commands.
pub async fn open(
    service: &Service,
    request: Request<SessionOpen>,
) -> Result<Response<SessionRef>, Status> {
    let open = request.into_inner();
    let live = live(service, open.target.as_ref())?;
    let shells: Vec<Vec<u8>> = if open.shell.is_empty() {
        SHELLS
            .iter()
            .map(|shell| shell.as_bytes().to_vec())
            .collect()
    } else {
        vec![open.shell.to_vec()]
    };
    let start = ExecStart {
        argv: shells.iter().map(|shell| shell.clone().into()).collect(),
        env: open.env,
        cwd: open.cwd,
        user: open.user,
        ..ExecStart::default()
    };
    let command = Command::new(start, &live)
        .map_err(|invalid| Status::invalid_argument(invalid.to_string()))?;
    let opened = service
        .sessions
        .open(&service.slots, &live, &shells, command.spec)
        .await;
    let session = opened.map_err(status)?;
    Ok(Response::new(SessionRef {
        target: open.target,
        session,
    }))
}

/// Runs a command in a session, when its turn has come.
///
/// # Errors
/// `NOT_FOUND` when there is no such session (any more).
pub async fn run(
    service: &Service,
    request: Request<SessionRun>,
) -> Result<Response<SessionResult>, Status> {
    let SessionRun {
        session,
        command,
        timeout_ms,
    } = request.into_inner();
    let session = session.unwrap_or_default();
    let live = live(service, session.target.as_ref())?;
    let timeout = timeout(timeout_ms).map_err(Status::invalid_argument)?;
    let result = service
        .sessions
        .run(&live, &session.session, command.to_vec(), timeout)
        .await;
    result.map(Response::new).map_err(status)
}

/// Closes a session. Idempotent; with its sandbox gone it is closed too.
///
/// # Errors
/// When the call names no sandbox.
pub async fn close(
    service: &Service,
    request: Request<SessionRef>,
) -> Result<Response<Empty>, Status> {
    let session = request.into_inner();
    match session
        .target
        .as_ref()
        .and_then(|target| target.of.as_ref())
    {
        Some(Of::Sandbox(sandbox)) => {
            let name = format!("{}.{}", sandbox.slot, sandbox.generation);
            service.sessions.close(&name, &session.session).await;
            Ok(Response::new(Empty {}))
        }
        Some(Of::Lease(_)) | None => Err(Status::invalid_argument("the call names no sandbox")),
    }
}

fn status(error: SessionError) -> Status {
    let sentence = error.to_string();
    match error {
        SessionError::Unknown(_) | SessionError::Gone(_) => Status::not_found(sentence),
        SessionError::Full | SessionError::Busy(_) => Status::resource_exhausted(sentence),
        SessionError::Shell { .. } => Status::failed_precondition(sentence),
        SessionError::Invalid(_) => Status::invalid_argument(sentence),
    }
}
