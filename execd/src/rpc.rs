//! The gRPC service: each call finds its sandbox and goes to the module that does it.

pub mod exec;
pub mod files;
pub mod sessions;

use std::path::PathBuf;
use std::sync::Arc;

use innkeeper_proto::v1::{self, execd_server::Execd};
use tokio::sync::OnceCell;
use tonic::{Request, Response, Status, Streaming};

use crate::doctor;
use crate::exec::{Execs, sessions::Sessions};
use crate::orphan::Orphan;
use crate::slots::Slots;

/// The service.
#[derive(Debug)]
pub struct Service {
    /// The daemon's own end.
    pub orphan: Orphan,
    /// What this machine allows: found out by trying, once, though managers ask every minute.
    pub facts: OnceCell<Vec<v1::Fact>>,
    /// Where sandboxes are.
    pub slots: Arc<Slots>,
    /// Commands, running and ended.
    pub execs: Arc<Execs>,
    /// Shells that keep their state between commands.
    pub sessions: Arc<Sessions>,
}

impl Service {
    /// A service over slots; output that memory does not hold goes to unnamed files in
    /// the directory `spill`.
    pub fn new(slots: Arc<Slots>, spill: PathBuf, orphan: Orphan) -> Self {
        Self {
            orphan,
            facts: OnceCell::new(),
            slots,
            execs: Arc::new(Execs::new(spill)),
            sessions: Arc::default(),
        }
    }
}

#[tonic::async_trait]
impl Execd for Service {
    async fn hello(&self, _: Request<v1::Empty>) -> Result<Response<v1::HelloReply>, Status> {
        let machine = self.slots.machine();
        Ok(Response::new(v1::HelloReply {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: machine.boot_id.clone(),
            strategy: machine.strategy().to_owned(),
            rights: machine.rights().to_owned(),
            facts: self
                .facts
                .get_or_init(|| doctor::facts(machine))
                .await
                .clone(),
            pid: std::process::id() as i32,
            platform: machine.platform.clone(),
        }))
    }

    async fn list_slots(&self, _: Request<v1::Empty>) -> Result<Response<v1::SlotList>, Status> {
        let boot_id = self.slots.machine().boot_id.clone();
        Ok(Response::new(v1::SlotList {
            slots: self.slots.list(),
            boot_id,
        }))
    }

    async fn create_slot(
        &self,
        request: Request<v1::CreateSlotRequest>,
    ) -> Result<Response<v1::SlotInfo>, Status> {
        let request = request.into_inner();
        self.slots
            .create(&request.slot, &request.tenant)
            .map(Response::new)
    }

    async fn specialise(
        &self,
        request: Request<v1::SpecialiseRequest>,
    ) -> Result<Response<v1::SpecialiseReply>, Status> {
        Arc::clone(&self.slots)
            .specialise(request.into_inner())
            .await
            .map(Response::new)
    }

    async fn health(
        &self,
        request: Request<v1::SandboxRef>,
    ) -> Result<Response<v1::HealthReply>, Status> {
        let health = self.slots.health(&request.into_inner())?;
        Ok(Response::new(v1::HealthReply {
            ok: health.is_ok(),
            reason: health.err().unwrap_or_default(),
            boot_id: self.slots.machine().boot_id.clone(),
        }))
    }

    async fn hold(&self, request: Request<v1::HoldRequest>) -> Result<Response<v1::Empty>, Status> {
        self.orphan.hold(request.into_inner().until_ms);
        Ok(Response::new(v1::Empty {}))
    }

    async fn reset(
        &self,
        request: Request<v1::ResetRequest>,
    ) -> Result<Response<v1::ResetReply>, Status> {
        Arc::clone(&self.slots)
            .reset(request.into_inner())
            .await
            .map(Response::new)
    }

    async fn destroy_slot(
        &self,
        request: Request<v1::SlotRef>,
    ) -> Result<Response<v1::Empty>, Status> {
        Arc::clone(&self.slots)
            .destroy(request.into_inner().slot)
            .await?;
        Ok(Response::new(v1::Empty {}))
    }

    type ExecStream = exec::ReplyStream;

    async fn exec(
        &self,
        request: Request<Streaming<v1::ExecRequest>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        exec::exec(self, request).await
    }

    type AttachStream = exec::ReplyStream;

    async fn attach(
        &self,
        request: Request<v1::ExecAttach>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        exec::attach(self, request).await
    }

    async fn open_session(
        &self,
        request: Request<v1::SessionOpen>,
    ) -> Result<Response<v1::SessionRef>, Status> {
        sessions::open(self, request).await
    }

    async fn run_in_session(
        &self,
        request: Request<v1::SessionRun>,
    ) -> Result<Response<v1::SessionResult>, Status> {
        sessions::run(self, request).await
    }

    async fn close_session(
        &self,
        request: Request<v1::SessionRef>,
    ) -> Result<Response<v1::Empty>, Status> {
        sessions::close(self, request).await
    }

    async fn stat(
        &self,
        request: Request<v1::PathRequest>,
    ) -> Result<Response<v1::FileInfo>, Status> {
        files::stat(self, request).await
    }

    async fn list(
        &self,
        request: Request<v1::PathRequest>,
    ) -> Result<Response<v1::FileList>, Status> {
        files::list(self, request).await
    }

    async fn remove(
        &self,
        request: Request<v1::PathRequest>,
    ) -> Result<Response<v1::Empty>, Status> {
        files::remove(self, request).await
    }

    type ReadFileStream = files::ChunkStream;

    async fn read_file(
        &self,
        request: Request<v1::FileReadRequest>,
    ) -> Result<Response<Self::ReadFileStream>, Status> {
        files::read_file(self, request).await
    }

    async fn write_file(
        &self,
        request: Request<Streaming<v1::FileWriteRequest>>,
    ) -> Result<Response<v1::FileWritten>, Status> {
        files::write_file(self, request).await
    }

    type TarOutStream = files::ChunkStream;

    async fn tar_out(
        &self,
        request: Request<v1::PathRequest>,
    ) -> Result<Response<Self::TarOutStream>, Status> {
        files::tar_out(self, request).await
    }

    async fn tar_in(
        &self,
        request: Request<Streaming<v1::TarInRequest>>,
    ) -> Result<Response<v1::TarInReply>, Status> {
        files::tar_in(self, request).await
    }
}
