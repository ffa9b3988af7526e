//! One sandbox and the calls that tests make in it.

use anyhow::{Context, Result, bail};
use innkeeper_proto::v1::exec_reply::Message as Reply;
use innkeeper_proto::v1::exec_request::Message as Asked;
use innkeeper_proto::v1::target::Of;
use innkeeper_proto::v1::{
    ExecAttach, ExecFinished, ExecReply, ExecRequest, ExecStart, PathRequest, SandboxRef, Stream,
    Target,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::daemon::Client;

/// A sandbox.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// Its connection.
    pub client: Client,
    /// Its name.
    pub sandbox: SandboxRef,
}

/// What a command said and how it ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// By stream.
    pub stdout: Vec<u8>,
    /// By stream.
    pub stderr: Vec<u8>,
    /// Both in order, or the terminal's.
    pub merged: Vec<u8>,
    /// All in the order of offsets.
    pub bytes: u64,
    /// The last frame; none where the stream ended without one.
    pub finished: Option<ExecFinished>,
    /// The pid inside.
    pub pid: i32,
}

impl Outcome {
    /// The exit code; an error without a last frame or with a signal.
    ///
    /// # Errors
    /// See above.
    pub fn code(&self) -> Result<i32> {
        let finished = self.finished.as_ref().context("there was no last frame")?;
        finished
            .exit_code
            .with_context(|| format!("no exit code: {finished:?}"))
    }

    /// Its stdout as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// A command under way.
#[derive(Debug)]
pub struct Talk {
    /// Requests to it; dropped, the input is at its end.
    pub requests: mpsc::Sender<ExecRequest>,
    /// What it says.
    pub replies: Streaming<ExecReply>,
    /// Bytes of output that were read already.
    pub read: u64,
}

impl Talk {
    /// Sends one message.
    ///
    /// # Errors
    /// When nobody takes it any more.
    pub async fn send(&self, message: Asked) -> Result<()> {
        Ok(self
            .requests
            .send(ExecRequest {
                message: Some(message),
            })
            .await?)
    }

    /// Reads until some bytes have been said.
    ///
    /// # Errors
    /// When the command ends first.
    pub async fn expect(&mut self, wanted: &[u8]) -> Result<Vec<u8>> {
        let mut said = Vec::new();
        while !said.windows(wanted.len()).any(|window| window == wanted) {
            match self
                .replies
                .message()
                .await?
                .and_then(|reply| reply.message)
            {
                Some(Reply::Output(output)) => {
                    self.read += output.data.len() as u64;
                    said.extend_from_slice(&output.data);
                }
                Some(Reply::Started(_)) => {}
                Some(Reply::Finished(_)) | None => {
                    let (wanted, said) = (wanted.escape_ascii(), said.escape_ascii());
                    bail!("the command ended before it said {wanted}: {said}")
                }
            }
        }
        Ok(said)
    }

    /// Follows it to its end.
    ///
    /// # Errors
    /// When the stream ends with an error, or output is missing or doubled.
    pub async fn finish(mut self) -> Result<Outcome> {
        drop(self.requests);
        follow(&mut self.replies, self.read).await
    }
}

/// Reads replies to the last; the first output must begin at `offset`.
///
/// # Errors
/// When the stream ends with an error, or output is missing or doubled.
pub async fn follow(replies: &mut Streaming<ExecReply>, offset: u64) -> Result<Outcome> {
    let mut outcome = Outcome {
        bytes: offset,
        ..Outcome::default()
    };
    while let Some(reply) = replies.message().await? {
        if outcome.finished.is_some() {
            bail!("there is a frame after the last one");
        }
        match reply.message {
            Some(Reply::Started(started)) => outcome.pid = started.pid,
            Some(Reply::Output(output)) => {
                if output.offset != outcome.bytes {
                    bail!(
                        "output at {} where {} comes next",
                        output.offset,
                        outcome.bytes
                    );
                }
                outcome.bytes += output.data.len() as u64;
                match output.stream() {
                    Stream::Stdout => outcome.stdout.extend_from_slice(&output.data),
                    Stream::Stderr => outcome.stderr.extend_from_slice(&output.data),
                    Stream::Merged => outcome.merged.extend_from_slice(&output.data),
                    Stream::Unspecified => bail!("output of no stream"),
                }
            }
            Some(Reply::Finished(finished)) => outcome.finished = Some(finished),
            None => bail!("an empty reply"),
        }
    }
    Ok(outcome)
}

impl Sandbox {
    /// A sandbox by its name.
    pub fn new(client: Client, sandbox: SandboxRef) -> Self {
        Self { client, sandbox }
    }

    /// As calls name it.
    pub fn target(&self) -> Option<Target> {
        Some(Target {
            of: Some(Of::Sandbox(self.sandbox.clone())),
        })
    }

    /// A command to start.
    pub fn command<W: AsRef<[u8]>>(&self, argv: &[W]) -> ExecStart {
        ExecStart {
            target: self.target(),
            argv: argv
                .iter()
                .map(|word| word.as_ref().to_vec().into())
                .collect(),
            ..ExecStart::default()
        }
    }

    /// A shell command to start.
    pub fn script(&self, text: &str) -> ExecStart {
        self.command(&["/bin/sh", "-c", text])
    }

    /// Starts a command.
    ///
    /// # Errors
    /// What the call answers.
    pub async fn start(&self, start: ExecStart) -> Result<Talk> {
        let (requests, stream) = mpsc::channel(4);
        requests
            .send(ExecRequest {
                message: Some(Asked::Start(start)),
            })
            .await?;
        let replies = self
            .client
            .clone()
            .exec(ReceiverStream::new(stream))
            .await?
            .into_inner();
        Ok(Talk {
            requests,
            replies,
            read: 0,
        })
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// What the call answers.
    pub async fn run(&self, start: ExecStart) -> Result<Outcome> {
        self.start(start).await?.finish().await
    }

    /// Runs a shell command to its end.
    ///
    /// # Errors
    /// What the call answers.
    pub async fn sh(&self, text: &str) -> Result<Outcome> {
        self.run(self.script(text)).await
    }

    /// Follows a command again.
    ///
    /// # Errors
    /// What the call answers.
    pub async fn attach(&self, exec_id: &str, offset: u64) -> Result<Streaming<ExecReply>> {
        let request = ExecAttach {
            target: self.target(),
            exec_id: exec_id.to_owned(),
            offset,
        };
        Ok(self.client.clone().attach(request).await?.into_inner())
    }

    /// A path to call about.
    pub fn path(&self, path: impl AsRef<[u8]>) -> PathRequest {
        PathRequest {
            target: self.target(),
            path: path.as_ref().to_vec().into(),
            ..PathRequest::default()
        }
    }
}
