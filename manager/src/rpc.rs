//! The manager's calls, as clients make them.
//!
//! Calls about leases go to the engine. Calls on a lease (commands, sessions, files) are passed
//! on to execd with the lease replaced by its sandbox; each is a sign of life, and each ends with
//! a typed error once its lease is over.

use std::path::PathBuf;
use std::sync::Arc;

use innkeeper_images::Store;
use innkeeper_proto::v1;
use innkeeper_proto::v1::manager_server::Manager;
use tonic::{Request, Response, Status, Streaming};

use crate::engine::Handle;
use crate::template::form::Defaults;

pub mod auth;
mod calls;
mod canary;
mod leases;
mod listings;
mod stated;
mod status;
mod streams;

use auth::tenant;
use streams::Stream;

/// Answers the manager's calls.
#[derive(Debug, Clone)]
pub struct Service {
    engine: Handle,
    store: Arc<Store>,
    state_dir: PathBuf,
    defaults: Defaults,
}

impl Service {
    /// A service over an engine and the image store of its state directory.
    pub fn new(engine: Handle, store: Arc<Store>, state_dir: PathBuf, defaults: Defaults) -> Self {
        Self {
            engine,
            store,
            state_dir,
            defaults,
        }
    }
}

#[tonic::async_trait]
impl Manager for Service {
    async fn info(&self, _: Request<v1::Empty>) -> Result<Response<v1::ManagerInfo>, Status> {
        let form = self.usual_form();
        let word = |word: Option<&str>| word.unwrap_or("none").to_owned();
        Ok(Response::new(v1::ManagerInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state_dir: self.state_dir.display().to_string(),
            provider: self.engine.provider().name().to_owned(),
            strategy: word(form.map(|form| form.strategy().as_str())),
            rights: word(form.map(|form| form.rights().as_str())),
            pid: std::process::id() as i32,
            forms: self.forms(),
        }))
    }

    async fn lease(
        &self,
        request: Request<v1::LeaseRequest>,
    ) -> Result<Response<v1::LeaseReply>, Status> {
        let (tenant, pid) = (tenant(&request)?, auth::peer(&request));
        self.ask_lease(&tenant, pid, request.into_inner())
            .await
            .map(Response::new)
    }

    async fn renew(
        &self,
        request: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::LeaseReply>, Status> {
        let tenant = tenant(&request)?;
        self.renew_lease(&tenant, request.into_inner())
            .await
            .map(Response::new)
    }

    async fn r#return(
        &self,
        request: Request<v1::ReturnRequest>,
    ) -> Result<Response<v1::ReturnReply>, Status> {
        let tenant = tenant(&request)?;
        self.return_lease(&tenant, request.into_inner())
            .await
            .map(Response::new)
    }

    type ExecStream = Stream<v1::ExecReply>;

    async fn exec(
        &self,
        request: Request<Streaming<v1::ExecRequest>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        self.pass_exec(request).await
    }

    type AttachStream = Stream<v1::ExecReply>;

    async fn attach(
        &self,
        request: Request<v1::ExecAttach>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        self.pass_down(request, |mut execd, request| async move {
            execd.attach(request).await
        })
        .await
    }

    async fn open_session(
        &self,
        request: Request<v1::SessionOpen>,
    ) -> Result<Response<v1::SessionRef>, Status> {
        self.open_session_on(request).await
    }

    async fn run_in_session(
        &self,
        request: Request<v1::SessionRun>,
    ) -> Result<Response<v1::SessionResult>, Status> {
        self.pass(request, |mut execd, request| async move {
            execd.run_in_session(request).await
        })
        .await
    }

    async fn close_session(
        &self,
        request: Request<v1::SessionRef>,
    ) -> Result<Response<v1::Empty>, Status> {
        self.pass(request, |mut execd, request| async move {
            execd.close_session(request).await
        })
        .await
    }

    async fn stat(
        &self,
        request: Request<v1::PathRequest>,
    ) -> Result<Response<v1::FileInfo>, Status> {
        self.pass(request, |mut execd, request| async move {
            execd.stat(request).await
        })
        .await
    }

    async fn list(
        &self,
        request: Request<v1::PathRequest>,
    ) -> Result<Response<v1::FileList>, Status> {
        self.pass(request, |mut execd, request| async move {
            execd.list(request).await
        })
        .await
    }

    async fn remove(
        &self,
        request: Request<v1::PathRequest>,
    ) -> Result<Response<v1::Empty>, Status> {
        self.pass(request, |mut execd, request| async move {
            execd.remove(request).await
        })
        .await
    }

    type ReadFileStream = Stream<v1::DataChunk>;

    async fn read_file(
        &self,
        request: Request<v1::FileReadRequest>,
    ) -> Result<Response<Self::ReadFileStream>, Status> {
        self.pass_down(request, |mut execd, request| async move {
            execd.read_file(request).await
        })
        .await
    }

    async fn write_file(
        &self,
        request: Request<Streaming<v1::FileWriteRequest>>,
    ) -> Result<Response<v1::FileWritten>, Status> {
        self.pass_up(request, |mut execd, stream| async move {
            execd.write_file(stream).await
        })
        .await
    }

    type TarOutStream = Stream<v1::DataChunk>;

    async fn tar_out(
        &self,
        request: Request<v1::PathRequest>,
    ) -> Result<Response<Self::TarOutStream>, Status> {
        self.pass_down(request, |mut execd, request| async move {
            execd.tar_out(request).await
        })
        .await
    }

    async fn tar_in(
        &self,
        request: Request<Streaming<v1::TarInRequest>>,
    ) -> Result<Response<v1::TarInReply>, Status> {
        self.pass_up(request, |mut execd, stream| async move {
            execd.tar_in(stream).await
        })
        .await
    }

    async fn ps(&self, request: Request<v1::Empty>) -> Result<Response<v1::JsonReply>, Status> {
        let tenant = tenant(&request)?;
        self.list_slots(&tenant).await.map(Response::new)
    }

    async fn pools(&self, request: Request<v1::Empty>) -> Result<Response<v1::JsonReply>, Status> {
        let tenant = tenant(&request)?;
        self.list_pools(&tenant).await.map(Response::new)
    }

    async fn drain(
        &self,
        request: Request<v1::DrainRequest>,
    ) -> Result<Response<v1::JsonReply>, Status> {
        let tenant = tenant(&request)?;
        self.drain_pool(&tenant, &request.into_inner().pool)
            .await
            .map(Response::new)
    }

    async fn record(
        &self,
        request: Request<v1::RecordRequest>,
    ) -> Result<Response<v1::JsonReply>, Status> {
        let tenant = tenant(&request)?;
        self.read_record(&tenant, &request.into_inner().lease)
            .await
            .map(Response::new)
    }

    async fn canary(
        &self,
        request: Request<v1::CanaryRequest>,
    ) -> Result<Response<v1::JsonReply>, Status> {
        let tenant = tenant(&request)?;
        self.take_canary(&tenant, request.into_inner())
            .await
            .map(Response::new)
    }

    type EventsStream = Stream<v1::JsonReply>;

    async fn events(
        &self,
        request: Request<v1::EventsRequest>,
    ) -> Result<Response<Self::EventsStream>, Status> {
        let tenant = tenant(&request)?;
        Ok(Response::new(
            self.read_events(tenant, request.into_inner()),
        ))
    }
}

#[cfg(test)]
mod tests;
