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
                let v1::$oneof::Message::Start(start) = self.message.as_mut()? else {
                    return None;
                };
                Some(&mut start.target)
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
/// whole one. On an error this says so and never ends; the call is then dropped, which resets
/// it. An end is not believed at once either: tonic shows a request that its client cancelled as
/// one that ended. So an end is reported too, and passed on when the call's own task says that
/// it is still there ([`confirm`]).
pub(super) struct Upstream<T> {
    first: Option<T>,
    rest: Streaming<T>,
    news: Option<oneshot::Sender<News>>,
    /// Resolves when an end may be passed on.
    end: Option<oneshot::Receiver<()>>,
    /// End when nobody listens for news any more. A command's stream must, since its sending half
    /// would keep the call open at execd; a file's must not, as it would be stored.
    ends_with_call: bool,
}

/// What became of an upstream, told once.
enum News {
    Broke(Status, oneshot::Sender<()>),
    Ended(oneshot::Sender<()>),
}

impl<T: Unpin> tokio_stream::Stream for Upstream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if self.end.is_none() {
            let Some(mut news) = self.news.take() else {
                return Poll::Pending;
            };
            if self.ends_with_call && news.poll_closed(context).is_ready() {
                return Poll::Ready(None);
            }
            // Fails only where the call is dropped already; so below.
            let _ = match Pin::new(&mut self.rest).poll_next(context) {
                Poll::Ready(Some(Ok(message))) => {
                    self.news = Some(news);
                    return Poll::Ready(Some(message));
                }
                Poll::Pending => {
                    self.news = Some(news);
                    return Poll::Pending;
                }
                Poll::Ready(Some(Err(status))) => {
                    let (go, end) = oneshot::channel();
                    self.end = Some(end);
                    news.send(News::Broke(status, go))
                }
                Poll::Ready(None) => {
                    let (go, end) = oneshot::channel();
                    self.end = Some(end);
                    news.send(News::Ended(go))
                }
            };
        }
        let ends = self.ends_with_call;
        let Some(end) = self.end.as_mut() else {
            return Poll::Pending;
        };
        match ready!(Pin::new(end).poll(context)) {
            Ok(()) => Poll::Ready(None),
            Err(_) if ends => Poll::Ready(None),
            Err(_) => Poll::Pending,
        }
    }
}

/// Lets an upstream end if the call is still there. The server looks for a reset whenever the
/// call's future has to wait, and drops it then; so waiting once is enough to know.
async fn confirm(go: oneshot::Sender<()>) {
    tokio::task::yield_now().await;
    // Fails only where execd has answered without waiting for the end.
    let _ = go.send(());
}

/// The next news of an upstream; never where there is none to come.
async fn next(news: &mut Option<oneshot::Receiver<News>>) -> News {
    if let Some(receiver) = news {
        let told = receiver.await;
        *news = None;
        if let Ok(told) = told {
            return told;
        }
    }
    std::future::pending().await
}

impl Service {
    /// Reads the first message and directs the stream to the sandbox.
    async fn open<T: Targeted + Unpin>(
        &self,
        request: Request<Streaming<T>>,
    ) -> Result<(Route, Upstream<T>, oneshot::Receiver<News>), Status> {
        let tenant = tenant(&request)?;
        let mut rest = request.into_inner();
        let first = rest.message().await?;
        let mut first = first.ok_or_else(|| wrong("the stream has no message"))?;
        let route = self.direct(&tenant, first.target())?;
        let (sender, news) = oneshot::channel();
        let upstream = Upstream {
            first: Some(first),
            rest,
            news: Some(sender),
            end: None,
            ends_with_call: false,
        };
        Ok((route, upstream, news))
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
        let (route, upstream, news) = self.open(request).await?;
        let mut news = Some(news);
        let reply = while_leased(&route, send(self.execd(&route)?, upstream));
        tokio::pin!(reply);
        loop {
            tokio::select! {
                reply = &mut reply => return Ok(Response::new(reply?.into_inner())),
                told = next(&mut news) => match told {
                    News::Broke(status, _go) => return Err(status),
                    News::Ended(go) => confirm(go).await,
                },
            }
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
        let (route, mut upstream, news) = self.open(request).await?;
        upstream.ends_with_call = true;
        let mut execd = self.execd(&route)?;
        let reply = while_leased(&route, execd.exec(upstream)).await?;
        Ok(Response::new(relay(route, reply.into_inner(), Some(news))))
    }
}

/// Hands messages on until the stream ends, the client goes away or the lease is over. The
/// client's going drops execd's stream, which ends what runs there unless it was detached.
fn relay<R: Send + 'static>(
    route: Route,
    mut downstream: Streaming<R>,
    mut news: Option<oneshot::Receiver<News>>,
) -> Stream<R> {
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        // Held to the end of the call: only then may what goes up end too.
        let mut _broken = None;
        loop {
            let item = tokio::select! {
                message = downstream.message() => match message {
                    Ok(Some(message)) => Ok(message),
                    Ok(None) => return,
                    Err(error) => Err(explain(&route, error).await),
                },
                () = route.call.over() => Err(over(&route)),
                told = next(&mut news) => match told {
                    News::Broke(status, go) => {
                        _broken = Some(go);
                        Err(status)
                    }
                    // A command is no file: the client's going ends it in any case.
                    News::Ended(go) => {
                        let _ = go.send(());
                        continue;
                    }
                },
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
