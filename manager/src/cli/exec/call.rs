//! The call itself: one stream there, one back, and an explicit last frame.

use innkeeper_proto::v1::exec_reply::Message as Reply;
use innkeeper_proto::v1::exec_request::Message as Request;
use innkeeper_proto::v1::{ExecRequest, ExecStart, Stream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::input;
use super::outcome::Outcome;
use crate::cli::connect::Client;
use crate::cli::failure::{Failure, OWN_FAILURE};

/// Runs a command joined to this process's streams and signals. With `collect`, the output is
/// kept for the outcome instead of being written. Dropping the future kills the command, and so
/// does a second signal that asks for the end.
pub(crate) async fn joined(
    client: &mut Client,
    start: ExecStart,
    collect: bool,
) -> Result<Outcome, Failure> {
    let cannot = |e| Failure::failed(format_args!("cannot listen for signals: {e}"));
    let insisted = input::insisted().map_err(cannot)?;
    tokio::select! {
        outcome = followed(client, start, collect) => outcome,
        signal = insisted => Err(Failure::insisted(signal)),
    }
}

async fn followed(
    client: &mut Client,
    start: ExecStart,
    collect: bool,
) -> Result<Outcome, Failure> {
    let (to, requests) = mpsc::channel(input::QUEUE);
    let (wants_stdin, has_terminal) = (start.stdin, start.terminal.is_some());
    put_first(&to, start)?;
    // Before the command starts, so that no signal falls into the gap.
    input::pass_signals(&to, has_terminal)
        .map_err(|e| Failure::failed(format_args!("cannot listen for signals: {e}")))?;
    let mut replies = client
        .exec(ReceiverStream::new(requests))
        .await?
        .into_inner();
    if wants_stdin {
        input::pass_stdin(to.clone());
    }
    let mut outcome = Outcome::default();
    let mut sink = Sink {
        collect,
        broken: false,
    };
    while let Some(reply) = replies.message().await? {
        match reply.message {
            Some(Reply::Output(output)) => sink.take(&mut outcome, output.stream(), &output.data),
            Some(Reply::Finished(finished)) => {
                outcome.finished = finished;
                return Ok(outcome);
            }
            Some(Reply::Started(_)) | None => {}
        }
        if sink.broken {
            // Nobody reads any more: the command is told as a pipe would tell it.
            let _ = to
                .send(ExecRequest {
                    message: Some(Request::Signal(SIGPIPE)),
                })
                .await;
            sink = Sink {
                collect: false,
                broken: false,
            };
        }
    }
    Err(unknown())
}

const SIGPIPE: i32 = 13;

/// Runs a command without input and collects its output.
/// Dropping the future kills the command.
pub(crate) async fn collected(client: &mut Client, start: ExecStart) -> Result<Outcome, Failure> {
    let (to, requests) = mpsc::channel(1);
    put_first(&to, start)?;
    let mut replies = client
        .exec(ReceiverStream::new(requests))
        .await?
        .into_inner();
    let mut outcome = Outcome::default();
    let mut sink = Sink {
        collect: true,
        broken: false,
    };
    while let Some(reply) = replies.message().await? {
        match reply.message {
            Some(Reply::Output(output)) => sink.take(&mut outcome, output.stream(), &output.data),
            Some(Reply::Finished(finished)) => {
                outcome.finished = finished;
                return Ok(outcome);
            }
            Some(Reply::Started(_)) | None => {}
        }
    }
    Err(unknown())
}

/// The start is the first message of a call, whatever arrives meanwhile.
fn put_first(to: &mpsc::Sender<ExecRequest>, start: ExecStart) -> Result<(), Failure> {
    to.try_send(ExecRequest {
        message: Some(Request::Start(start)),
    })
    .map_err(|_| unknown())
}

fn unknown() -> Failure {
    Failure {
        code: OWN_FAILURE,
        message: "the call broke off before the command's end was told: how it ended is unknown"
            .to_owned(),
    }
}

struct Sink {
    collect: bool,
    broken: bool,
}

impl Sink {
    fn take(&mut self, outcome: &mut Outcome, stream: Stream, data: &[u8]) {
        use std::io::Write;
        match (self.collect, stream) {
            (true, Stream::Stderr) => outcome.stderr.extend_from_slice(data),
            (true, Stream::Stdout | Stream::Merged | Stream::Unspecified) => {
                outcome.stdout.extend_from_slice(data)
            }
            (false, Stream::Stderr) => {
                let mut err = std::io::stderr().lock();
                self.broken |= err.write_all(data).and_then(|()| err.flush()).is_err();
            }
            (false, Stream::Stdout | Stream::Merged | Stream::Unspecified) => {
                let mut out = std::io::stdout().lock();
                self.broken |= out.write_all(data).and_then(|()| out.flush()).is_err();
            }
        }
    }
}
