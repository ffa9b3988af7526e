//! Calls on a lease with one request and one reply, passed on to execd.

use innkeeper_proto::v1;
use innkeeper_proto::v1::execd_client::ExecdClient;
use innkeeper_proto::v1::target::Of;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

use super::Service;
use super::auth::tenant;
use super::status::wrong;
use crate::client::{Kind, error_status as status};
use crate::engine::Route;

/// How long a broken connection waits for the engine to learn that the daemon has ended, so that
/// the caller hears that the lease is lost and not that a connection broke.
const LEARN: Duration = Duration::from_secs(2);

/// A message that says which lease or sandbox it is about.
pub(super) trait Targeted: Send + 'static {
    /// The place of its target; None where the message has none, though it must.
    fn target(&mut self) -> Option<&mut Option<v1::Target>>;
}

macro_rules! targeted {
    ($($name:ident)*) => {$(
        impl Targeted for v1::$name {
            fn target(&mut self) -> Option<&mut Option<v1::Target>> {
                Some(&mut self.target)
            }
        }
    )*};
}
targeted!(PathRequest FileReadRequest ExecAttach SessionOpen SessionRef);

impl Targeted for v1::SessionRun {
    fn target(&mut self) -> Option<&mut Option<v1::Target>> {
        self.session.as_mut().map(|session| &mut session.target)
    }
}

impl Service {
    /// Replaces a message's lease by its sandbox.
    pub(super) fn direct(
        &self,
        tenant: &str,
        target: Option<&mut Option<v1::Target>>,
    ) -> Result<Route, Status> {
        let target = target.ok_or_else(|| wrong("the call names no lease"))?;
        let route = match target.as_ref().and_then(|target| target.of.as_ref()) {
            Some(Of::Lease(lease)) => self.engine.route(tenant, lease)?,
            // A sandbox is execd's own name for it; here it would pass the lease by.
            Some(Of::Sandbox(_)) | None => return Err(wrong("the call names no lease")),
        };
        *target = Some(v1::Target {
            of: Some(Of::Sandbox(route.sandbox())),
        });
        Ok(route)
    }

    /// A connection to the daemon that holds a route's sandbox.
    pub(super) fn execd(&self, route: &Route) -> Result<ExecdClient<Channel>, Status> {
        Ok(self.engine.provider().data(&route.sandbox().slot)?)
    }

    /// Passes a call on and its reply back.
    pub(super) async fn pass<M, R, F>(
        &self,
        request: Request<M>,
        send: impl FnOnce(ExecdClient<Channel>, M) -> F,
    ) -> Result<Response<R>, Status>
    where
        M: Targeted,
        F: Future<Output = Result<Response<R>, Status>> + Send,
    {
        let tenant = tenant(&request)?;
        let mut message = request.into_inner();
        let route = self.direct(&tenant, message.target())?;
        let reply = send(self.execd(&route)?, message);
        Ok(Response::new(
            while_leased(&route, reply).await?.into_inner(),
        ))
    }

    /// As [`Service::pass`], with the reply's sandbox replaced by the lease.
    pub(super) async fn open_session_on(
        &self,
        request: Request<v1::SessionOpen>,
    ) -> Result<Response<v1::SessionRef>, Status> {
        let target = request.get_ref().target.clone();
        let open = |mut execd: ExecdClient<Channel>, m| async move { execd.open_session(m).await };
        let mut reply = self.pass(request, open).await?;
        reply.get_mut().target = target;
        Ok(reply)
    }
}

/// Waits for a reply for as long as the lease stands.
pub(super) async fn while_leased<T>(
    route: &Route,
    reply: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    tokio::select! {
        reply = reply => match reply {
            Ok(reply) => Ok(reply),
            Err(error) => Err(explain(route, error).await),
        },
        () = route.call.over() => Err(over(route)),
    }
}

/// The error of a call whose lease ended under it.
pub(super) fn over(route: &Route) -> Status {
    match route.call.ended() {
        Some(ended) => ended.into(),
        None => status(Kind::Permanent, Code::Internal, "the lease ended"),
    }
}

/// What an error of execd means to the client: its own words, unless it could not be reached.
pub(super) async fn explain(route: &Route, error: Status) -> Status {
    // The client's end of a connection names what broke it; what execd says itself has no source.
    let broken = std::error::Error::source(&error).is_some();
    let ending = broken || error.code() == Code::Unavailable;
    // An ended lease explains every error of its calls.
    let learn = if ending { LEARN } else { Duration::ZERO };
    if tokio::time::timeout(learn, route.call.over()).await.is_ok() {
        return over(route);
    }
    if broken {
        let sentence = "the connection to execd broke; whether the call was done is unknown";
        return status(Kind::Transient, Code::Unavailable, sentence);
    }
    Status::with_metadata(error.code(), error.message(), error.metadata().clone())
}
