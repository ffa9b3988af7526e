//! An execd that only moves messages, to see what the manager passes on.

use std::pin::Pin;
use std::sync::{Arc, Mutex};

use innkeeper_proto::v1;
use innkeeper_proto::v1::exec_reply::Message as Reply;
use innkeeper_proto::v1::exec_request::Message as Ask;
use innkeeper_proto::v1::execd_server::Execd;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

type Stream<T> = Pin<Box<dyn tokio_stream::Stream<Item = Result<T, Status>> + Send>>;

/// What arrived.
#[derive(Debug, Clone, Default)]
pub(super) struct Echo {
    /// Files whose streams ended well, with what they held.
    pub(super) stored: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Commands and writes that are running.
    pub(super) running: Arc<Mutex<usize>>,
}

/// `SLOT.GENERATION` of a target that must be a sandbox.
fn sandbox(target: Option<v1::Target>) -> Result<String, Status> {
    match target.and_then(|target| target.of) {
        Some(v1::target::Of::Sandbox(sandbox)) => {
            Ok(format!("{}.{}", sandbox.slot, sandbox.generation))
        }
        Some(v1::target::Of::Lease(_)) | None => Err(Status::invalid_argument("no sandbox")),
    }
}

fn absent<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("the echo does not have it"))
}

struct Running(Arc<Mutex<usize>>);

impl Running {
    fn new(count: &Arc<Mutex<usize>>) -> Self {
        *count.lock().unwrap() += 1;
        Self(Arc::clone(count))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        *self.0.lock().unwrap() -= 1;
    }
}

#[tonic::async_trait]
impl Execd for Echo {
    type ExecStream = Stream<v1::ExecReply>;

    /// Says which sandbox it is about, then sends back what comes in, until stdin ends.
    async fn exec(
        &self,
        request: Request<Streaming<v1::ExecRequest>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        let mut asked = request.into_inner();
        let Some(Ask::Start(start)) = asked.message().await?.and_then(|m| m.message) else {
            return Err(Status::invalid_argument("no start"));
        };
        let exec_id = sandbox(start.target)?;
        let running = Running::new(&self.running);
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            let _running = running;
            let reply = |message| {
                Ok(v1::ExecReply {
                    message: Some(message),
                })
            };
            let started = v1::ExecStarted {
                exec_id,
                pid: 1,
                boot_id: "boot".to_owned(),
            };
            if sender.send(reply(Reply::Started(started))).await.is_err() {
                return;
            }
            loop {
                let next = tokio::select! {
                    next = asked.message() => next,
                    () = sender.closed() => return,
                };
                let answer = match next {
                    Ok(Some(v1::ExecRequest {
                        message: Some(Ask::Stdin(data)),
                    })) => {
                        let stream = v1::Stream::Stdout.into();
                        Reply::Output(v1::ExecOutput {
                            stream,
                            offset: 0,
                            data,
                        })
                    }
                    Ok(Some(v1::ExecRequest {
                        message: Some(Ask::StdinEnd(_)),
                    })) => {
                        let done = v1::ExecFinished {
                            exit_code: Some(7),
                            ..Default::default()
                        };
                        let _ = sender.send(reply(Reply::Finished(done))).await;
                        return;
                    }
                    // The client sends no more, and waits.
                    Ok(None) => return sender.closed().await,
                    Ok(Some(_)) => continue,
                    Err(_) => return,
                };
                if sender.send(reply(answer)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn stat(
        &self,
        request: Request<v1::PathRequest>,
    ) -> Result<Response<v1::FileInfo>, Status> {
        let about = sandbox(request.into_inner().target)?;
        Ok(Response::new(v1::FileInfo {
            path: about.into(),
            ..Default::default()
        }))
    }

    async fn remove(&self, _: Request<v1::PathRequest>) -> Result<Response<v1::Empty>, Status> {
        Err(Status::not_found("there is no such file"))
    }

    async fn open_session(
        &self,
        request: Request<v1::SessionOpen>,
    ) -> Result<Response<v1::SessionRef>, Status> {
        let target = request.into_inner().target;
        let session = sandbox(target.clone())?;
        Ok(Response::new(v1::SessionRef { target, session }))
    }

    async fn write_file(
        &self,
        request: Request<Streaming<v1::FileWriteRequest>>,
    ) -> Result<Response<v1::FileWritten>, Status> {
        let mut asked = request.into_inner();
        let _running = Running::new(&self.running);
        let mut held = Vec::new();
        while let Some(message) = asked.message().await? {
            match message.message {
                Some(v1::file_write_request::Message::Start(start)) => {
                    sandbox(start.target)?;
                }
                Some(v1::file_write_request::Message::Data(data)) => held.extend_from_slice(&data),
                None => {}
            }
        }
        // A call that was cancelled is dropped here.
        tokio::task::yield_now().await;
        let size = held.len() as u64;
        self.stored.lock().unwrap().push(held);
        Ok(Response::new(v1::FileWritten {
            size,
            ..Default::default()
        }))
    }

    type AttachStream = Stream<v1::ExecReply>;
    type ReadFileStream = Stream<v1::DataChunk>;
    type TarOutStream = Stream<v1::DataChunk>;

    async fn hello(&self, _: Request<v1::Empty>) -> Result<Response<v1::HelloReply>, Status> {
        absent()
    }
    async fn list_slots(&self, _: Request<v1::Empty>) -> Result<Response<v1::SlotList>, Status> {
        absent()
    }
    async fn create_slot(
        &self,
        _: Request<v1::CreateSlotRequest>,
    ) -> Result<Response<v1::SlotInfo>, Status> {
        absent()
    }
    async fn specialise(
        &self,
        _: Request<v1::SpecialiseRequest>,
    ) -> Result<Response<v1::SpecialiseReply>, Status> {
        absent()
    }
    async fn health(
        &self,
        _: Request<v1::SandboxRef>,
    ) -> Result<Response<v1::HealthReply>, Status> {
        absent()
    }
    async fn reset(
        &self,
        _: Request<v1::ResetRequest>,
    ) -> Result<Response<v1::ResetReply>, Status> {
        absent()
    }
    async fn destroy_slot(&self, _: Request<v1::SlotRef>) -> Result<Response<v1::Empty>, Status> {
        absent()
    }
    async fn hold(&self, _: Request<v1::HoldRequest>) -> Result<Response<v1::Empty>, Status> {
        absent()
    }
    async fn attach(
        &self,
        _: Request<v1::ExecAttach>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        absent()
    }
    async fn run_in_session(
        &self,
        _: Request<v1::SessionRun>,
    ) -> Result<Response<v1::SessionResult>, Status> {
        absent()
    }
    async fn close_session(
        &self,
        _: Request<v1::SessionRef>,
    ) -> Result<Response<v1::Empty>, Status> {
        absent()
    }
    async fn list(&self, _: Request<v1::PathRequest>) -> Result<Response<v1::FileList>, Status> {
        Err(Status::unavailable("slot s-1 is busy: resetting"))
    }
    async fn read_file(
        &self,
        _: Request<v1::FileReadRequest>,
    ) -> Result<Response<Self::ReadFileStream>, Status> {
        absent()
    }
    async fn tar_out(
        &self,
        _: Request<v1::PathRequest>,
    ) -> Result<Response<Self::TarOutStream>, Status> {
        absent()
    }
    async fn tar_in(
        &self,
        _: Request<Streaming<v1::TarInRequest>>,
    ) -> Result<Response<v1::TarInReply>, Status> {
        absent()
    }
}
