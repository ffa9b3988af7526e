//! Exec and attach: a command's replies as a stream.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_proto::v1::exec_reply::Message as Reply;
use innkeeper_proto::v1::exec_request::Message as Asked;
use innkeeper_proto::v1::target::Of;
use innkeeper_proto::v1::{
    ExecAttach, ExecFinished, ExecReply, ExecRequest, ExecStarted, SandboxRef, Target,
};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::Service;
use crate::exec::{Command, Control, Cursor, Ending, Exec, Invalid, Join, Next, StartError, gone};
use crate::live::Live;

/// Replies of one command.
pub type ReplyStream = Pin<Box<dyn Stream<Item = Result<ExecReply, Status>> + Send>>;

/// An end of requests that nobody announced counts as the end of the input after this, unless
/// the caller turns out to have gone: tonic shows both alike.
const UNANNOUNCED: Duration = Duration::from_millis(50);

/// Replies that wait for a slow caller.
const AHEAD: usize = 4;

/// Starts a command and follows it, or follows the one that has this id already. A caller
/// that goes away has it killed, unless it is detached or others follow it.
///
/// # Errors
/// When nothing was started.
pub async fn exec(
    service: &Service,
    request: Request<Streaming<ExecRequest>>,
) -> Result<Response<ReplyStream>, Status> {
    let mut inbound = request.into_inner();
    let Some(ExecRequest {
        message: Some(Asked::Start(start)),
    }) = inbound.message().await?
    else {
        return Err(Status::invalid_argument(
            "the first message of an exec must be its start",
        ));
    };
    let live = live(service, start.target.as_ref())?;
    let id = start.exec_id.clone();
    let command = match Command::new(start, &live) {
        Ok(command) => command,
        Err(Invalid::Call(sentence)) => return Err(Status::invalid_argument(sentence)),
        Err(Invalid::TooLong(sentence)) => return Ok(Response::new(never_ran(sentence))),
    };
    let started = service.execs.start(&service.slots, &live, id, command);
    let join = started.map_err(|error| match error {
        StartError::Full { .. } => Status::resource_exhausted(error.to_string()),
        StartError::Name => Status::invalid_argument(error.to_string()),
        StartError::Random(_) => Status::internal(error.to_string()),
    })?;
    let left = CancellationToken::new();
    tokio::spawn(listen(inbound, join.exec.clone(), left.clone()));
    Ok(Response::new(replies(join, Cursor::default(), &live, left)))
}

/// Follows a command from an offset of its output on.
///
/// # Errors
/// `NOT_FOUND` for a command that is not known (any more), `OUT_OF_RANGE` for an offset
/// that its output has not reached.
pub async fn attach(
    service: &Service,
    request: Request<ExecAttach>,
) -> Result<Response<ReplyStream>, Status> {
    let request = request.into_inner();
    let live = live(service, request.target.as_ref())?;
    let id = request.exec_id;
    let join = service.execs.find(&live.sandbox, &id).ok_or_else(|| {
        Status::not_found(format!("there is no exec {id} in sandbox {}", live.sandbox))
    })?;
    let cursor = join.exec.output.read_from(request.offset).ok_or_else(|| {
        let offset = request.offset;
        Status::out_of_range(format!(
            "the output of exec {id} has not come to byte {offset}"
        ))
    })?;
    let left = CancellationToken::new();
    Ok(Response::new(replies(join, cursor, &live, left)))
}

/// The sandbox that a call names.
pub(super) fn live(service: &Service, target: Option<&Target>) -> Result<Arc<Live>, Status> {
    service.slots.live(sandbox(target)?)
}

fn sandbox(target: Option<&Target>) -> Result<&SandboxRef, Status> {
    match target.and_then(|target| target.of.as_ref()) {
        Some(Of::Sandbox(sandbox)) => Ok(sandbox),
        Some(Of::Lease(_)) => Err(Status::invalid_argument(
            "execd knows no leases; name a slot and a generation",
        )),
        None => Err(Status::invalid_argument("the call names no sandbox")),
    }
}

/// What a call is told when its sandbox went away under it.
pub(super) fn gone_status(sandbox: &str) -> Status {
    Status::not_found(gone(sandbox))
}

/// Passes on what the caller sends, as fast as the command takes it.
async fn listen(mut inbound: Streaming<ExecRequest>, exec: Arc<Exec>, left: CancellationToken) {
    let ear = async {
        loop {
            match inbound.message().await {
                Ok(Some(ExecRequest { message })) => match message {
                    Some(Asked::Stdin(bytes)) => exec.feed(bytes).await,
                    Some(Asked::StdinEnd(_)) => exec.end_stdin(),
                    Some(Asked::Resize(size)) => {
                        exec.control(Control::resize(&size)).await;
                    }
                    Some(Asked::Signal(number)) => exec.control(Control::Signal(number)).await,
                    Some(Asked::Start(_)) | None => {}
                },
                Ok(None) => break,
                // The link broke: one who comes back may go on with the input.
                Err(_) => return,
            }
        }
        tokio::select! {
            () = left.cancelled() => {}
            () = tokio::time::sleep(UNANNOUNCED) => exec.end_stdin(),
        }
    };
    tokio::select! {
        () = exec.ended() => {}
        () = ear => {}
    }
}

/// The replies of a command from a cursor on. `left` tells that nobody takes them any more.
fn replies(join: Join, mut cursor: Cursor, live: &Live, left: CancellationToken) -> ReplyStream {
    let (replies, stream) = mpsc::channel(AHEAD);
    let (boot_id, sandbox) = (live.boot_id.clone(), live.sandbox.clone());
    let Join { exec, caller } = join;
    let follow = async move {
        loop {
            let next = tokio::select! {
                biased;
                () = replies.closed() => {
                    left.cancel();
                    break;
                }
                next = exec.output.next(&mut cursor) => next,
            };
            let (reply, last) = match next {
                Next::Started(pid) => {
                    let (exec_id, boot_id) = (exec.id.clone(), boot_id.clone());
                    (
                        Ok(Reply::Started(ExecStarted {
                            exec_id,
                            pid,
                            boot_id,
                        })),
                        false,
                    )
                }
                Next::Output(output) => (Ok(Reply::Output(output)), false),
                Next::Ended(Ending::Finished(done)) => (Ok(Reply::Finished(done)), true),
                Next::Ended(Ending::Gone) => (Err(gone_status(&sandbox)), true),
                Next::Ended(Ending::Lost(why)) => (Err(Status::unknown(why)), true),
            };
            let reply = reply.map(|message| ExecReply {
                message: Some(message),
            });
            if replies.send(reply).await.is_err() || last {
                break;
            }
        }
        // Held until here: without it the command may be killed.
        drop(caller);
    };
    tokio::spawn(follow);
    Box::pin(ReceiverStream::new(stream))
}

/// The only reply of a command that no kernel would start: 126, as shells say it.
fn never_ran(not_started: String) -> ReplyStream {
    let done = ExecFinished {
        exit_code: Some(126),
        not_started,
        ..ExecFinished::default()
    };
    Box::pin(tokio_stream::once(Ok(ExecReply {
        message: Some(Reply::Finished(done)),
    })))
}
