//! Calls on a lease that stream: commands, files, tar.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use innkeeper_proto::v1;
use innkeeper_proto::v1::execd_client::ExecdClient;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use super::Service;
use super::auth::tenant;
use super::calls::{Targeted, explain, over, while_leased};
use super::status::wrong;
use crate::engine::Route;

/// A reply that streams.
pub(super) type Stream<T> =
    Pin<Box<dyn tokio_stream::Stream<Item = Result<T, Status>> + Send + 'static>>;

/// Messages between execd's stream and the client's; each is at most a chunk of 64 KiB.
const AHEAD: usize = 4;

/// The target of a stream's first message.
macro_rules! opening {
    ($($message:ident $oneof:ident)*) => {$(
        impl Targeted for v1::$message {
            fn target(&mut self) -> Option<&mut Option<v1::Target>> {
                match self.message.as_mut()? {
                    v1::$oneof::Message::Start(start) => Some(&mut start.target),
                    _ => None,
                }
            }
        }
    )*};
}
opening!(
    ExecRequest exec_request
    FileWriteRequest file_write_request
    TarInRequest tar_in_request
);

/// A client's messages on their way to execd.
///
/// A stream that breaks must not look like one that ended, or half a file would be stored as a
/// whole one. So on an error this says so on `broken` and never ends; the call is then dropped,
/// which resets it.
pub(super) struct Upstream<T> {
    first: Option<T>,
    rest: Streaming<T>,
    broken: Option<oneshot::Sender<Status>>,
}

impl<T: Unpin> tokio_stream::Stream for Upstream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if self.broken.is_none() {
            return Poll::Pending;
        }
        match ready!(Pin::new(&mut self.rest).poll_next(context)) {
            Some(Ok(message)) => Poll::Ready(Some(message)),
            None => Poll::Ready(None),
            Some(Err(status)) => {
                if let Some(broken) = self.broken.take() {
                    // Fails only where the call is dropped already.
                    let _ = broken.send(status);
                }
                Poll::Pending
            }
        }
    }
}

/// Resolves when an upstream broke; never when it ended well.
async fn broke(broken: &mut oneshot::Receiver<Status>) -> Status {
    // It may be asked again after it ended well, and must not be polled then.
    if broken.is_terminated() {
        return std::future::pending().await;
    }
    match broken.await {
        Ok(status) => status,
        Err(_) => std::future::pending().await,
    }
}

impl Service {
    /// Reads the first message and directs the stream to the sandbox.
    async fn open<T: Targeted + Unpin>(
        &self,
        request: Request<Streaming<T>>,
    ) -> Result<(Route, Upstream<T>, oneshot::Receiver<Status>), Status> {
        let tenant = tenant(&request)?;
        let mut rest = request.into_inner();
        let first = rest.message().await?;
        let mut first = first.ok_or_else(|| wrong("the stream has no message"))?;
        let route = self.direct(&tenant, first.target())?;
        let (broken, breaks) = oneshot::channel();
        Ok((
            route,
            Upstream {
                first: Some(first),
                rest,
                broken: Some(broken),
            },
            breaks,
        ))
    }

    /// Passes a call up that streams and has one reply.
    pub(super) async fn pass_up<T, R, F>(
        &self,
        request: Request<Streaming<T>>,
        send: impl FnOnce(ExecdClient<Channel>, Upstream<T>) -> F,
    ) -> Result<Response<R>, Status>
    where
        T: Targeted + Unpin,
        F: Future<Output = Result<Response<R>, Status>> + Send,
    {
        let (route, upstream, mut breaks) = self.open(request).await?;
        let reply = send(self.execd(&route)?, upstream);
        tokio::select! {
            reply = while_leased(&route, reply) => Ok(Response::new(reply?.into_inner())),
            broken = broke(&mut breaks) => Err(broken),
        }
    }

    /// Passes a call on whose reply streams.
    pub(super) async fn pass_down<M, R, F>(
        &self,
        request: Request<M>,
        send: impl FnOnce(ExecdClient<Channel>, M) -> F,
    ) -> Result<Response<Stream<R>>, Status>
    where
        M: Targeted,
        R: Send + 'static,
        F: Future<Output = Result<Response<Streaming<R>>, Status>> + Send,
    {
        let tenant = tenant(&request)?;
        let mut message = request.into_inner();
        let route = self.direct(&tenant, message.target())?;
        let reply = send(self.execd(&route)?, message);
        let downstream = while_leased(&route, reply).await?.into_inner();
        Ok(Response::new(relay(route, downstream, None)))
    }

    /// Passes a command on: streams both ways.
    pub(super) async fn pass_exec(
        &self,
        request: Request<Streaming<v1::ExecRequest>>,
    ) -> Result<Response<Stream<v1::ExecReply>>, Status> {
        let (route, upstream, breaks) = self.open(request).await?;
        let mut execd = self.execd(&route)?;
        let reply = while_leased(&route, execd.exec(upstream)).await?;
        Ok(Response::new(relay(
            route,
            reply.into_inner(),
            Some(breaks),
        )))
    }
}

/// Hands messages on until the stream ends, the client goes away or the lease is over. The
/// client's going drops execd's stream, which ends what runs there unless it was detached.
fn relay<R: Send + 'static>(
    route: Route,
    mut downstream: Streaming<R>,
    mut breaks: Option<oneshot::Receiver<Status>>,
) -> Stream<R> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        loop {
            let item = tokio::select! {
                message = downstream.message() => match message {
                    Ok(Some(message)) => Ok(message),
                    Ok(None) => return,
                    Err(error) => Err(explain(&route, error).await),
                },
                () = route.call.over() => Err(over(&route)),
                broken = async {
                    match breaks.as_mut() {
                        Some(breaks) => broke(breaks).await,
                        None => std::future::pending().await,
                    }
                } => Err(broken),
                () = sender.closed() => return,
            };
            let last = item.is_err();
            if sender.send(item).await.is_err() || last {
                return;
            }
        }
    });
    Box::pin(ReceiverStream::new(receiver))
}
