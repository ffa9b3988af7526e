//! Calls of a client that is not the command line: arguments of any size, many streams on one
//! connection, connections that break.

use std::path::Path;

use innkeeper_proto::limits;
use innkeeper_proto::v1::exec_reply::Message as Reply;
use innkeeper_proto::v1::exec_request::Message as Asked;
use innkeeper_proto::v1::file_write_request::Message as Written;
use innkeeper_proto::v1::manager_client::ManagerClient;
use innkeeper_proto::v1::target::Of;
use innkeeper_proto::v1::{
    ExecAttach, ExecFinished, ExecReply, ExecRequest, ExecStart, FileReadRequest, FileWriteRequest,
    FileWriteStart, Target,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

/// A connection of one's own to a manager, for one lease.
#[derive(Debug, Clone)]
pub struct Wire {
    client: ManagerClient<Channel>,
    lease: String,
}

/// A command under way. Dropped, its caller is gone.
#[derive(Debug)]
pub struct Talk {
    replies: Streaming<ExecReply>,
    // Held open: at its end the caller would have nothing more to say.
    _requests: mpsc::Sender<ExecRequest>,
}

/// What was heard of a command.
#[derive(Debug, Default)]
pub struct Heard {
    /// All output in the order of offsets.
    pub bytes: Vec<u8>,
    /// The last frame; none where the stream ended without one.
    pub finished: Option<ExecFinished>,
}

impl Wire {
    /// Connects to the socket of a manager.
    ///
    /// # Panics
    /// When nobody takes the connection.
    pub async fn open(socket: &Path, lease: &str) -> Self {
        let address = format!("unix://{}", socket.display());
        let endpoint = Endpoint::from_shared(address).expect("an address");
        let channel = endpoint.connect().await.expect("a manager listens");
        let client = ManagerClient::new(channel)
            .max_decoding_message_size(limits::MESSAGE)
            .max_encoding_message_size(limits::MESSAGE);
        Self {
            client,
            lease: lease.to_owned(),
        }
    }

    /// A command with the defaults of its template.
    pub fn command(&self, argv: &[&str]) -> ExecStart {
        ExecStart {
            target: Some(self.target()),
            argv: argv
                .iter()
                .map(|word| word.as_bytes().to_vec().into())
                .collect(),
            ..ExecStart::default()
        }
    }

    /// Starts a command.
    ///
    /// # Errors
    /// What the manager says.
    pub async fn start(&self, start: ExecStart) -> Result<Talk, Status> {
        let (requests, stream) = mpsc::channel(1);
        let message = Some(Asked::Start(start));
        let first = requests.send(ExecRequest { message }).await;
        first.expect("there is room for one");
        let replies = self
            .client
            .clone()
            .exec(ReceiverStream::new(stream))
            .await?;
        Ok(Talk {
            replies: replies.into_inner(),
            _requests: requests,
        })
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// What the manager says.
    pub async fn run(&self, argv: &[&str]) -> Result<Heard, Status> {
        let mut talk = self.start(self.command(argv)).await?;
        talk.rest().await
    }

    /// Hears a command on from some byte of its output.
    ///
    /// # Errors
    /// What the manager says.
    pub async fn attach(&self, exec_id: &str, offset: u64) -> Result<Talk, Status> {
        let request = ExecAttach {
            target: Some(self.target()),
            exec_id: exec_id.to_owned(),
            offset,
        };
        let replies = self.client.clone().attach(request).await?.into_inner();
        Ok(Talk {
            replies,
            _requests: mpsc::channel(1).0,
        })
    }

    /// Writes a file.
    ///
    /// # Errors
    /// What the sandbox says.
    pub async fn write(&self, path: &str, data: &[u8]) -> Result<(), Status> {
        let start = FileWriteStart {
            target: Some(self.target()),
            path: path.as_bytes().to_vec().into(),
            ..FileWriteStart::default()
        };
        let messages = [Written::Start(start), Written::Data(data.to_vec().into())];
        let messages = messages.map(|message| FileWriteRequest {
            message: Some(message),
        });
        let written = self
            .client
            .clone()
            .write_file(tokio_stream::iter(messages))
            .await;
        written.map(drop)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// What the sandbox says.
    pub async fn read(&self, path: &str) -> Result<Vec<u8>, Status> {
        let request = FileReadRequest {
            target: Some(self.target()),
            path: path.as_bytes().to_vec().into(),
            ..FileReadRequest::default()
        };
        let mut chunks = self.client.clone().read_file(request).await?.into_inner();
        let mut whole = Vec::new();
        while let Some(chunk) = chunks.message().await? {
            whole.extend_from_slice(&chunk.data);
        }
        Ok(whole)
    }

    fn target(&self) -> Target {
        Target {
            of: Some(Of::Lease(self.lease.clone())),
        }
    }
}

impl Talk {
    /// Hears some output: at least one byte, or the end.
    ///
    /// # Errors
    /// How the stream broke off.
    pub async fn some(&mut self) -> Result<Heard, Status> {
        let mut heard = Heard::default();
        while heard.bytes.is_empty() && heard.finished.is_none() {
            let Some(reply) = self.replies.message().await? else {
                break;
            };
            heard.take(reply);
        }
        Ok(heard)
    }

    /// Hears it to its end.
    ///
    /// # Errors
    /// How the stream broke off.
    pub async fn rest(&mut self) -> Result<Heard, Status> {
        let mut heard = Heard::default();
        while let Some(reply) = self.replies.message().await? {
            heard.take(reply);
        }
        Ok(heard)
    }
}

impl Heard {
    fn take(&mut self, reply: ExecReply) {
        match reply.message {
            Some(Reply::Output(output)) => self.bytes.extend_from_slice(&output.data),
            Some(Reply::Finished(finished)) => self.finished = Some(finished),
            Some(Reply::Started(_)) | None => {}
        }
    }

    /// Its exit code.
    ///
    /// # Panics
    /// When there was no last frame, or none with a code.
    #[track_caller]
    pub fn code(&self) -> i32 {
        let finished = self.finished.as_ref().expect("a last frame");
        finished
            .exit_code
            .unwrap_or_else(|| panic!("no code: {finished:?}"))
    }
}
