use std::path::Path;

use innkeeper_pool::{
    ClassSpec, ImageId, Resources, Supplied, Supply, TemplateKey, Tenant, VerifyEvery,
};

use super::fake::{Fake, Fault, Op};
use super::*;
use crate::template::Template;
use crate::template::resolve::{Ground, ImageFacts, bind};

mod lives;
mod records;

/// A manager on a state directory that outlives it, over a provider that outlives it too.
struct World {
    dir: tempfile::TempDir,
    fake: Arc<Fake>,
}

impl World {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            fake: Fake::new(),
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    async fn start(&self) -> Handle {
        self.start_as(false).await
    }

    /// Starts a manager once the one before has let go of the directory.
    async fn start_as(&self, embedded: bool) -> Handle {
        let state = loop {
            match StateDir::open(self.path()) {
                Ok(state) => break state,
                Err(crate::state::Error::Locked { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        };
        let parts = Parts {
            state,
            provider: Arc::clone(&self.fake) as Arc<dyn Provider>,
            config: Config::default(),
            embedded,
            metrics: Arc::default(),
        };
        super::start(parts).await.unwrap()
    }

    /// How many events of a kind the log holds.
    fn events(&self, handle: &Handle, kind: innkeeper_pool::Kind) -> usize {
        let mut reader = handle.events().read(0);
        std::iter::from_fn(|| reader.next_written().unwrap())
            .filter(|line| line.kind == kind)
            .count()
    }
}

/// A request for a template, on-loss so that only what is asked for is made.
fn request(handle: &Handle, id: &str, prepare: &str, tenant: &str) -> LeaseRequest {
    let template: Template = format!("{{image: demo, prepare: [[{prepare}]]}}")
        .parse()
        .unwrap();
    let image = ImageFacts {
        digest: "sha256:1".to_owned(),
        ..ImageFacts::default()
    };
    let ground = Ground {
        tenant: tenant.to_owned(),
        image,
        ..Ground::default()
    };
    let resolved = bind(&template, &ground).unwrap();
    handle
        .templates()
        .know(&resolved, &template, &ground)
        .unwrap();
    LeaseRequest {
        key: RequestKey {
            tenant: Tenant(tenant.to_owned()),
            id: id.to_owned(),
        },
        template: TemplateKey(resolved.spec.key),
        image: ImageId(ground.image.digest),
        verify: VerifyEvery::default(),
        class: ClassSpec {
            id: ClassId(resolved.class),
            tenant: Tenant(tenant.to_owned()),
            resources: Resources::default(),
            supply: Supply {
                replace: innkeeper_pool::Replace::OnLoss,
                ..Supply::default()
            },
            resettable: true,
        },
        holder: String::new(),
        job: String::new(),
        ttl_ms: 3_600_000,
        max_ms: 86_400_000,
        wait_until: u64::MAX / 2,
    }
}

async fn lease(handle: &Handle, id: &str) -> Result<Granted, Refused> {
    handle
        .lease(request(handle, id, "make", "default"), Caller::default())
        .await
}

async fn give_back(handle: &Handle, lease: &LeaseId) -> Returned {
    handle
        .give_back(lease.as_str(), false, Depth::Swap, true)
        .await
        .unwrap()
}

/// Waits for a condition that tasks bring about.
async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn until_slots(handle: &Handle, holds: impl Fn(&[SlotRow]) -> bool) {
    while !holds(&handle.slots(None).await) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn ten_rollouts_use_one_slot_nine_times() {
    let world = World::new();
    let handle = world.start().await;
    let mut slots = Vec::new();
    for n in 0..10 {
        let granted = lease(&handle, &format!("r{n}")).await.unwrap();
        assert_eq!(granted.lease.uses, n % 9);
        assert_eq!(granted.lease.supply == Supplied::Reused, n % 9 != 0);
        slots.push(granted.lease.slot.clone());
        let returned = give_back(&handle, &granted.lease.id).await;
        let Some(Outcome::Clean { retired, .. }) = returned.outcome else {
            panic!("{:?}", returned.outcome)
        };
        assert_eq!(retired.is_some(), n == 8, "worn after the ninth");
        assert_eq!(returned.reset.unwrap().components.len(), 2);
    }
    assert!(slots[..9].iter().all(|slot| *slot == slots[0]));
    assert_ne!(slots[9], slots[0]);
    assert_eq!(world.fake.prepared(), 1);
    assert_eq!(world.events(&handle, innkeeper_pool::Kind::Granted), 10);
}

#[tokio::test]
async fn a_repeated_request_is_the_same_lease() {
    let world = World::new();
    let handle = world.start().await;
    let first = lease(&handle, "same").await.unwrap();
    let again = lease(&handle, "same").await.unwrap();
    assert_eq!(first.lease.id, again.lease.id);
    give_back(&handle, &first.lease.id).await;
    let over = lease(&handle, "same").await.unwrap();
    assert!(over.lease.ended.is_some());
    assert_eq!(world.fake.calls(Op::Create), 1);
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_a_create_that_settles() {
    let world = World::new();
    let handle = world.start().await;
    world.fake.hold(Op::Create);
    let asking = tokio::spawn({
        let handle = handle.clone();
        async move { lease(&handle, "gone").await }
    });
    until(|| world.fake.calls(Op::Create) == 1).await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    world.fake.release(Op::Create);
    let settled = |slots: &[SlotRow]| slots.iter().all(|slot| slot.state != "creating");
    until_slots(&handle, settled).await;
    let next = lease(&handle, "next").await.unwrap();
    assert_eq!(world.fake.calls(Op::Create), 1, "the settled slot serves");
    assert_eq!(next.lease.uses, 0);
}

#[tokio::test]
async fn an_unnamed_lease_that_reached_nobody_is_returned() {
    let world = World::new();
    let handle = world.start().await;
    world.fake.hold(Op::Specialise);
    let ask = request(&handle, "unnamed", "make", "default");
    let key = ask.key.clone();
    let (reply, answer) = oneshot::channel();
    let caller = Caller {
        unnamed: true,
        pid: None,
    };
    handle.send(Input::Ask {
        request: Box::new(ask),
        caller,
        waiter: 7,
        reply,
    });
    until(|| world.fake.calls(Op::Specialise) == 1).await;
    world.fake.release(Op::Specialise);
    // The answer has been sent when it is dropped unread, as by a connection that broke.
    let granted = answer.await.unwrap().unwrap();
    handle.send(Input::Gone {
        request: key,
        waiter: 7,
        unnamed: true,
    });
    let ended = || {
        matches!(
            route(&handle, &granted.lease.id),
            Err(NoLease::Ended { .. })
        )
    };
    until(ended).await;
}

fn route(handle: &Handle, lease: &LeaseId) -> Result<Route, NoLease> {
    handle.route("default", lease.as_str())
}

#[tokio::test]
async fn any_failure_of_a_reset_destroys_the_slot() {
    for fault in [Fault::Refused, Fault::AnswerLost, Fault::Bad] {
        let world = World::new();
        let handle = world.start().await;
        let granted = lease(&handle, "r").await.unwrap();
        world.fake.fail(Op::Reset, [fault]);
        let returned = give_back(&handle, &granted.lease.id).await;
        assert!(
            matches!(returned.outcome, Some(Outcome::Tainted { .. })),
            "{fault:?}"
        );
        let slot = granted.lease.slot.to_string();
        until(|| !world.fake.slots().contains(&slot)).await;
    }
}

#[tokio::test]
async fn a_deep_look_that_differs_marks_the_leases_before() {
    let world = World::new();
    let handle = world.start().await;
    let mut leases = Vec::new();
    for n in 0..4 {
        let granted = lease(&handle, &format!("r{n}")).await.unwrap();
        leases.push(granted.lease.id.to_string());
        if n == 3 {
            // The fourth reset of a slot walks the tree.
            world.fake.fail(Op::Reset, [Fault::Bad]);
        }
        give_back(&handle, &granted.lease.id).await;
    }
    let mut reader = handle.events().read(0);
    let doubted: Vec<_> = std::iter::from_fn(|| reader.next_written().unwrap())
        .filter(|line| line.outcome.as_deref() == Some("doubted"))
        .filter_map(|line| line.lease)
        .collect();
    assert_eq!(doubted, leases[..3]);
}

#[tokio::test]
async fn a_create_whose_answer_is_lost_makes_one_slot() {
    let world = World::new();
    let handle = world.start().await;
    world
        .fake
        .fail(Op::Create, [Fault::AnswerLost, Fault::AnswerLost]);
    lease(&handle, "r").await.unwrap();
    assert_eq!(world.fake.slots().len(), 1);
}

#[tokio::test]
async fn a_slot_that_is_not_well_is_replaced() {
    let world = World::new();
    let handle = world.start().await;
    let first = lease(&handle, "a").await.unwrap();
    give_back(&handle, &first.lease.id).await;
    // Heard of just now it needs no check; by then it does.
    tokio::time::sleep(Duration::from_millis(3)).await;
    world.fake.fail(Op::Health, [Fault::Bad]);
    let second = lease(&handle, "b").await.unwrap();
    assert_ne!(second.lease.slot, first.lease.slot);
    until(|| !world.fake.slots().contains(&first.lease.slot.to_string())).await;
}

#[tokio::test]
async fn a_template_that_cannot_be_prepared_is_refused_with_the_cause() {
    let world = World::new();
    let handle = world.start().await;
    world.fake.fail(Op::Specialise, [Fault::Refused; 8]);
    let refused = lease(&handle, "r").await.unwrap_err();
    assert!(
        refused.to_string().contains("the fake refuses"),
        "{refused}"
    );
}

#[tokio::test]
async fn tenants_do_not_see_each_other() {
    let world = World::new();
    let handle = world.start().await;
    let own = lease(&handle, "r").await.unwrap();
    let other = request(&handle, "r", "make", "other");
    let other = handle.lease(other, Caller::default()).await.unwrap();
    assert_ne!(own.lease.slot, other.lease.slot);
    let hidden = handle.route("other", own.lease.id.as_str()).unwrap_err();
    assert!(matches!(hidden, NoLease::Unknown(_)));
    assert_eq!(handle.slots(Some("other")).await.len(), 1);
    assert_eq!(handle.pools(Some("default")).await.len(), 1);
    let class = own_class(&handle).await;
    assert!(!handle.drain("other", &class).await);
}

async fn own_class(handle: &Handle) -> String {
    handle.pools(Some("default")).await[0].class.to_string()
}

#[tokio::test]
async fn a_lease_ends_by_itself_unless_a_call_runs() {
    let world = World::new();
    let handle = world.start().await;
    let short = |id| LeaseRequest {
        ttl_ms: 400,
        ..request(&handle, id, "make", "default")
    };
    let idle = handle
        .lease(short("idle"), Caller::default())
        .await
        .unwrap();
    let busy = handle
        .lease(short("busy"), Caller::default())
        .await
        .unwrap();
    let call = route(&handle, &busy.lease.id).unwrap();
    // Looking at a lease would be a sign of life, so the log is looked at.
    let expired = |n| world.events(&handle, innkeeper_pool::Kind::Expired) == n;
    until(|| expired(1)).await;
    let error = route(&handle, &idle.lease.id).unwrap_err().to_string();
    assert!(error.ends_with("has ended: expired"), "{error}");
    // The same time again: the call has kept its lease.
    handle
        .lease(short("other"), Caller::default())
        .await
        .unwrap();
    until(|| expired(2)).await;
    assert_eq!(call.call.ended(), None);
    drop(call);
    until(|| expired(3)).await;
}
