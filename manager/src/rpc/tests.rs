use std::sync::Arc;
use std::time::Duration;

use innkeeper_images::{Source, Store};
use innkeeper_proto::v1::execd_client::ExecdClient;
use innkeeper_proto::v1::execd_server::ExecdServer;
use innkeeper_proto::v1::{self, exec_reply::Message as Reply, exec_request::Message as Ask};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::{Service, auth};
use crate::client::{self, Address, CallError, Kind, Manager};
use crate::engine::fake::Fake;
use crate::engine::{self, Parts};
use crate::paths;
use crate::serve::Listener;
use crate::state::StateDir;

mod execd;
use execd::Echo;

const ALPHA: &str = "alpha-alpha-alpha";
const BETA: &str = "beta-beta-beta-beta";

/// A manager with sockets of both kinds, a fake provider and an echoing execd.
struct World {
    _dir: tempfile::TempDir,
    echo: Echo,
    fake: Arc<Fake>,
    local: Manager,
    tcp: Address,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = dir.path().join("state");
        let state = StateDir::open(&state_dir).unwrap();
        let store = Store::open(paths::store_dir(&state_dir)).unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("etc")).unwrap();
        let source = Source::parse(root.to_str().unwrap()).unwrap();
        store.import(&source, Some("demo"), &mut ()).unwrap();

        let echo = Echo::default();
        let fake = Fake::new();
        fake.connect(serve_echo(dir.path(), echo.clone()).await);
        let parts = Parts {
            state,
            provider: Arc::clone(&fake) as Arc<dyn crate::provider::Provider>,
            config: innkeeper_pool::Config::default(),
            embedded: false,
            metrics: Arc::default(),
        };
        let engine = engine::start(parts).await.unwrap();
        let service = Service::new(engine, Arc::new(store), state_dir, Default::default());

        let tokens = dir.path().join("tokens");
        std::fs::write(&tokens, format!("{ALPHA} alpha\n{BETA} beta\n")).unwrap();
        let tokens = auth::Tokens::read(&tokens).unwrap();
        let stop = CancellationToken::new();
        let unix = Address::Unix(dir.path().join("manager.sock"));
        let mut bound = Vec::new();
        for address in [unix, "tcp://127.0.0.1:0".parse().unwrap()] {
            let listener = Listener::bind(&address).unwrap();
            bound.push(listener.address());
            tokio::spawn(listener.serve(service.clone(), tokens.clone(), stop.clone()));
        }
        let local = client::connect(&bound[0], None).await.unwrap();
        Self {
            _dir: dir,
            echo,
            fake,
            local,
            tcp: bound.remove(1),
            stop,
        }
    }

    async fn remote(&self, token: Option<&str>) -> Manager {
        client::connect(&self.tcp, token).await.unwrap()
    }
}

async fn serve_echo(dir: &std::path::Path, echo: Echo) -> ExecdClient<tonic::transport::Channel> {
    let path = dir.join("execd.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let router = tonic::transport::Server::builder().add_service(ExecdServer::new(echo));
    tokio::spawn(router.serve_with_incoming(UnixListenerStream::new(listener)));
    let endpoint = client::endpoint(&format!("unix://{}", path.display())).unwrap();
    ExecdClient::new(endpoint.connect().await.unwrap())
}

async fn lease(manager: &mut Manager) -> v1::LeaseReply {
    let request = v1::LeaseRequest {
        image: "demo".to_owned(),
        ..Default::default()
    };
    manager.lease(request).await.unwrap().into_inner()
}

fn on(lease: &str) -> Option<v1::Target> {
    Some(v1::Target {
        of: Some(v1::target::Of::Lease(lease.to_owned())),
    })
}

fn path_on(lease: &str) -> v1::PathRequest {
    v1::PathRequest {
        target: on(lease),
        ..Default::default()
    }
}

/// A command whose client holds the sending end.
async fn exec(
    manager: &mut Manager,
    lease: &str,
) -> (
    mpsc::Sender<v1::ExecRequest>,
    tonic::Streaming<v1::ExecReply>,
) {
    let (sender, receiver) = mpsc::channel(4);
    let start = v1::ExecStart {
        target: on(lease),
        ..Default::default()
    };
    sender
        .send(v1::ExecRequest {
            message: Some(Ask::Start(start)),
        })
        .await
        .unwrap();
    let replies = manager.exec(ReceiverStream::new(receiver)).await.unwrap();
    (sender, replies.into_inner())
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn calls_on_a_lease_reach_its_sandbox() {
    let world = World::new().await;
    let mut manager = world.local.clone();
    let lease = lease(&mut manager).await;
    assert_eq!(
        (lease.supply.as_str(), lease.uses, lease.disk_limit.as_str()),
        ("fresh", 0, "hard")
    );
    // The provider counts its generations differently, and it is its number that goes to execd.
    let sandbox = format!("{}.10", lease.slot);
    let info = manager
        .stat(path_on(&lease.lease))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(info.path, sandbox.as_bytes());

    let (stdin, mut replies) = exec(&mut manager, &lease.lease).await;
    let Some(Reply::Started(started)) = replies.message().await.unwrap().unwrap().message else {
        panic!("started comes first")
    };
    assert_eq!(started.exec_id, sandbox);
    stdin
        .send(v1::ExecRequest {
            message: Some(Ask::Stdin("hi".into())),
        })
        .await
        .unwrap();
    let Some(Reply::Output(output)) = replies.message().await.unwrap().unwrap().message else {
        panic!("output comes back")
    };
    assert_eq!(output.data, "hi");
    stdin
        .send(v1::ExecRequest {
            message: Some(Ask::StdinEnd(true)),
        })
        .await
        .unwrap();
    drop(stdin);
    let Some(Reply::Finished(done)) = replies.message().await.unwrap().unwrap().message else {
        panic!("an end comes last")
    };
    assert_eq!(done.exit_code, Some(7));
    assert!(replies.message().await.unwrap().is_none());

    let open = v1::SessionOpen {
        target: on(&lease.lease),
        ..Default::default()
    };
    let session = manager.open_session(open).await.unwrap().into_inner();
    assert_eq!(
        (session.target, session.session),
        (on(&lease.lease), sandbox)
    );
}

#[tokio::test]
async fn execds_own_errors_come_through() {
    let world = World::new().await;
    let mut manager = world.local.clone();
    let lease = lease(&mut manager).await;
    let error = manager.remove(path_on(&lease.lease)).await.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::NotFound, "there is no such file")
    );
}

#[tokio::test]
async fn a_lease_that_ends_ends_its_calls_with_a_typed_error() {
    let world = World::new().await;
    let mut manager = world.local.clone();
    let lease = lease(&mut manager).await;
    let (_stdin, mut replies) = exec(&mut manager, &lease.lease).await;
    replies.message().await.unwrap();
    let back = v1::ReturnRequest {
        lease: lease.lease.clone(),
        wait: true,
        ..Default::default()
    };
    let returned = manager.r#return(back.clone()).await.unwrap().into_inner();
    assert_eq!(
        (returned.outcome.as_str(), returned.verified.as_str()),
        ("clean", "swap")
    );

    let ended = format!("lease {} has ended: returned", lease.lease);
    let error = CallError::from(replies.message().await.unwrap_err());
    assert_eq!((error.code, error.kind), (Code::NotFound, Kind::Permanent));
    assert_eq!(error.message, ended);
    let error = manager.stat(path_on(&lease.lease)).await.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::NotFound, ended.as_str())
    );
    until(|| *world.echo.running.lock().unwrap() == 0).await;
    // Asked again, the return gives the same answer.
    assert_eq!(manager.r#return(back).await.unwrap().into_inner(), returned);
}

#[tokio::test]
async fn the_daemons_end_is_told_to_running_calls() {
    let world = World::new().await;
    let mut manager = world.local.clone();
    let lease = lease(&mut manager).await;
    let (_stdin, mut replies) = exec(&mut manager, &lease.lease).await;
    replies.message().await.unwrap();
    world.fake.restart();
    let error = replies.message().await.unwrap_err();
    assert!(
        error.message().contains("has ended: lost"),
        "{}",
        error.message()
    );
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_command() {
    let world = World::new().await;
    let mut manager = world.local.clone();
    let lease = lease(&mut manager).await;
    let (stdin, mut replies) = exec(&mut manager, &lease.lease).await;
    replies.message().await.unwrap();
    until(|| *world.echo.running.lock().unwrap() == 1).await;
    drop((stdin, replies));
    until(|| *world.echo.running.lock().unwrap() == 0).await;
}

#[tokio::test]
async fn an_upload_that_breaks_is_not_stored_as_whole() {
    use v1::file_write_request::Message;
    let world = World::new().await;
    let mut manager = world.local.clone();
    let lease = lease(&mut manager).await.lease;
    let start = v1::FileWriteStart {
        target: on(&lease),
        ..Default::default()
    };
    let messages =
        [Message::Start(start), Message::Data("half".into())].map(|message| v1::FileWriteRequest {
            message: Some(message),
        });

    let whole = tokio_stream::iter(messages);
    assert_eq!(
        manager.write_file(whole).await.unwrap().into_inner().size,
        4
    );

    let start = v1::FileWriteStart {
        target: on(&lease),
        ..Default::default()
    };
    let (sender, receiver) = mpsc::channel(2);
    for message in [Message::Start(start), Message::Data("half".into())] {
        sender
            .send(v1::FileWriteRequest {
                message: Some(message),
            })
            .await
            .unwrap();
    }
    let upload = tokio::spawn({
        let mut manager = manager.clone();
        async move { manager.write_file(ReceiverStream::new(receiver)).await }
    });
    let running = || *world.echo.running.lock().unwrap();
    until(|| running() == 1).await;
    upload.abort();
    assert!(upload.await.unwrap_err().is_cancelled());
    until(|| running() == 0).await;
    assert_eq!(
        *world.echo.stored.lock().unwrap(),
        [b"half".to_vec()],
        "only the whole one"
    );
}

#[tokio::test]
async fn tokens_keep_tenants_apart() {
    let world = World::new().await;
    let error = world
        .remote(None)
        .await
        .info(v1::Empty {})
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated);
    let mut alpha = world.remote(Some(ALPHA)).await;
    let mut beta = world.remote(Some(BETA)).await;
    let own = lease(&mut alpha).await;
    let hidden = beta.stat(path_on(&own.lease)).await.unwrap_err();
    assert_eq!(hidden.message(), format!("there is no lease {}", own.lease));
    let rows = |json: &str| {
        serde_json::from_str::<Vec<serde_json::Value>>(json)
            .unwrap()
            .len()
    };
    let seen = async |manager: &mut Manager| {
        let ps = manager.ps(v1::Empty {}).await.unwrap().into_inner().json;
        let pools = manager.pools(v1::Empty {}).await.unwrap().into_inner().json;
        let events = manager
            .events(v1::EventsRequest::default())
            .await
            .unwrap()
            .into_inner();
        let events = events
            .map(|event| event.unwrap().json)
            .collect::<Vec<_>>()
            .await;
        assert!(events.iter().all(|event| !event.contains("tenant")));
        (rows(&ps) > 0, rows(&pools), events.len() > 3)
    };
    assert_eq!(seen(&mut alpha).await, (true, 1, true));
    assert_eq!(seen(&mut beta).await, (false, 0, false));
}

#[tokio::test]
async fn a_template_without_a_strategy_is_used_once() {
    let world = World::new().await;
    let mut manager = world.local.clone();
    let request = v1::LeaseRequest {
        image: "demo".to_owned(),
        template_json: "{\"strategy\": \"none\"}".to_owned(),
        ..Default::default()
    };
    let lease = manager.lease(request).await.unwrap().into_inner();
    assert_eq!(lease.strategy, "none");
    let back = v1::ReturnRequest {
        lease: lease.lease,
        wait: true,
        ..Default::default()
    };
    let returned = manager.r#return(back).await.unwrap().into_inner();
    assert_eq!(returned.outcome, "discarded");
    assert!(
        returned.retired.contains("single use"),
        "{}",
        returned.retired
    );
}

#[tokio::test]
async fn what_execd_cannot_do_now_is_said_in_its_words() {
    let world = World::new().await;
    let mut manager = world.local.clone();
    let granted = lease(&mut manager).await;
    let error = manager.list(path_on(&granted.lease)).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::Unavailable);
    assert_eq!(error.message(), "slot s-1 is busy: resetting");
}

#[tokio::test]
async fn wrong_requests_are_usage_errors() {
    let world = World::new().await;
    let mut manager = world.local.clone();
    let ask = |image: &str, template: &str| v1::LeaseRequest {
        image: image.to_owned(),
        template_json: template.to_owned(),
        ..Default::default()
    };
    for (request, word, kind) in [
        (ask("", ""), "image is missing", Kind::Usage),
        (ask("demo", "{\"workdri\": \"/\"}"), "workdri", Kind::Usage),
        (
            ask("demo", "{\"network\": \"pod\"}"),
            "network: pod",
            Kind::Usage,
        ),
        (ask("nothing", ""), "no image `nothing`", Kind::Permanent),
    ] {
        let error = CallError::from(manager.lease(request).await.unwrap_err());
        assert!(error.message.contains(word), "{error}");
        assert_eq!(error.kind, kind, "{error}");
    }
}
