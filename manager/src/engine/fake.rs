//! A provider that behaves like one: slots persist over managers, calls take their time, answers
//! get lost, steps fail.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};

use innkeeper_proto::v1;
use innkeeper_proto::v1::execd_client::ExecdClient;
use tokio::sync::{Semaphore, watch};
use tonic::transport::Channel;

use crate::provider::{Error, ErrorKind, NewSlot, Provider, Standing};
use crate::template::form::Form;

/// A call of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Create,
    Specialise,
    Health,
    Reset,
    Destroy,
}

/// What goes wrong with the next such call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not done, and says so.
    Refused,
    /// It is done, and the answer is lost.
    AnswerLost,
    /// Health: not well. Reset: differs.
    Bad,
}

#[derive(Debug, Default)]
struct World {
    slots: BTreeMap<String, (u64, Option<String>)>,
    faults: HashMap<Op, VecDeque<Fault>>,
    calls: HashMap<Op, usize>,
    prepared: HashMap<String, usize>,
    held: HashMap<Op, Arc<Semaphore>>,
    held_until: u64,
}

#[derive(Debug)]
pub(crate) struct Fake {
    world: Mutex<World>,
    standing: watch::Sender<Standing>,
    data: OnceLock<ExecdClient<Channel>>,
}

impl Fake {
    pub(crate) fn new() -> Arc<Self> {
        let standing = Standing {
            boots: ["boot-1".to_owned()].into(),
            platform: "fake".to_owned(),
        };
        Arc::new(Self {
            world: Mutex::default(),
            standing: watch::Sender::new(standing),
            data: OnceLock::new(),
        })
    }

    fn world(&self) -> std::sync::MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Where commands and files go.
    pub(crate) fn connect(&self, data: ExecdClient<Channel>) {
        self.data.set(data).unwrap();
    }

    /// Lets the next calls of this kind go wrong, one each.
    pub(crate) fn fail(&self, op: Op, faults: impl IntoIterator<Item = Fault>) {
        self.world().faults.entry(op).or_default().extend(faults);
    }

    /// Makes calls of this kind wait until [`Fake::release`].
    pub(crate) fn hold(&self, op: Op) {
        self.world().held.insert(op, Arc::new(Semaphore::new(0)));
    }

    pub(crate) fn release(&self, op: Op) {
        if let Some(held) = self.world().held.remove(&op) {
            held.close();
        }
    }

    /// How often calls of this kind were made.
    pub(crate) fn calls(&self, op: Op) -> usize {
        self.world().calls.get(&op).copied().unwrap_or(0)
    }

    pub(crate) fn slots(&self) -> Vec<String> {
        self.world().slots.keys().cloned().collect()
    }

    /// How often prepare ran, over all templates.
    pub(crate) fn prepared(&self) -> usize {
        self.world().prepared.values().sum()
    }

    /// Until when the daemon was asked to stay.
    pub(crate) fn held_until(&self) -> u64 {
        self.world().held_until
    }

    /// Adds a slot that no manager asked for.
    pub(crate) fn stray(&self, slot: &str) {
        self.world().slots.insert(slot.to_owned(), (0, None));
    }

    /// The daemon ends, and another starts.
    pub(crate) fn restart(&self) {
        self.world().slots.clear();
        let next = format!("{}x", self.boot());
        self.standing
            .send_modify(|standing| standing.boots = [next].into());
    }

    async fn enter(&self, op: Op) -> Option<Fault> {
        let held = {
            let mut world = self.world();
            *world.calls.entry(op).or_default() += 1;
            world.held.get(&op).cloned()
        };
        if let Some(held) = held {
            // Closing the semaphore is what lets everybody go on.
            let _ = held.acquire().await;
        }
        self.world()
            .faults
            .get_mut(&op)
            .and_then(VecDeque::pop_front)
    }

    fn boot(&self) -> String {
        let boots = &self.standing.borrow().boots;
        boots.first().cloned().unwrap_or_default()
    }
}

fn lost() -> Error {
    Error::new(ErrorKind::Unreachable, "the answer was lost")
}

fn refused() -> Error {
    Error::new(ErrorKind::Permanent, "the fake refuses")
}

fn components(key: &str) -> Vec<v1::ComponentResult> {
    ["files", "processes"]
        .map(|name| v1::ComponentResult {
            name: name.to_owned(),
            digest: format!("{name} of {key}"),
            baseline: format!("{name} of {key}"),
            equal: true,
        })
        .to_vec()
}

#[tonic::async_trait]
impl Provider for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    fn refusal(&self, form: Form) -> Option<String> {
        (form != Form::ALL[0]).then(|| "the fake has root's rights only".to_owned())
    }

    async fn list(&self) -> Result<Vec<v1::SlotInfo>, Error> {
        let world = self.world();
        let info = |(slot, (generation, _)): (&String, &(u64, Option<String>))| v1::SlotInfo {
            slot: slot.clone(),
            generation: *generation,
            ..v1::SlotInfo::default()
        };
        Ok(world.slots.iter().map(info).collect())
    }

    async fn create(&self, slot: &NewSlot) -> Result<String, Error> {
        let fault = self.enter(Op::Create).await;
        if fault == Some(Fault::Refused) {
            return Err(refused());
        }
        self.world().slots.entry(slot.slot.clone()).or_default();
        if fault == Some(Fault::AnswerLost) {
            return Err(lost());
        }
        Ok(self.boot())
    }

    async fn specialise(
        &self,
        request: v1::SpecialiseRequest,
    ) -> Result<v1::SpecialiseReply, Error> {
        let fault = self.enter(Op::Specialise).await;
        if fault == Some(Fault::Refused) {
            return Err(refused());
        }
        let key = request.template.expect("a template is sent").key;
        let mut world = self.world();
        if request.may_prepare {
            *world.prepared.entry(key.clone()).or_default() += 1;
        }
        let Some(slot) = world.slots.get_mut(&request.slot) else {
            return Err(refused());
        };
        // Numbers of its own, so that mixing them up with the pool's is noticed.
        slot.0 += 10;
        slot.1 = Some(key.clone());
        let generation = slot.0;
        if fault == Some(Fault::AnswerLost) {
            return Err(lost());
        }
        Ok(v1::SpecialiseReply {
            generation,
            first: request.may_prepare,
            components: components(&key),
            baseline: format!("all of {key}"),
            disk_limit: "hard".to_owned(),
            ..v1::SpecialiseReply::default()
        })
    }

    async fn health(&self, sandbox: v1::SandboxRef) -> Result<v1::HealthReply, Error> {
        let fault = self.enter(Op::Health).await;
        let there = self.world().slots.get(&sandbox.slot).map(|slot| slot.0);
        Ok(v1::HealthReply {
            ok: fault.is_none() && there == Some(sandbox.generation),
            reason: "the fake is not well".to_owned(),
            boot_id: self.boot(),
        })
    }

    async fn reset(&self, request: v1::ResetRequest) -> Result<v1::ResetReply, Error> {
        let fault = self.enter(Op::Reset).await;
        let sandbox = request.sandbox.clone().expect("a sandbox is sent");
        let mut world = self.world();
        let slot = world.slots.get_mut(&sandbox.slot);
        let Some(slot) = slot.filter(|slot| slot.0 == sandbox.generation) else {
            return Err(refused());
        };
        let key = slot
            .1
            .clone()
            .expect("a sandbox that is reset is of a template");
        slot.0 += 1;
        let generation = slot.0;
        match fault {
            Some(Fault::Refused) => Err(refused()),
            Some(Fault::AnswerLost) => Err(lost()),
            Some(Fault::Bad) => Ok(v1::ResetReply {
                clean: false,
                cause: "left behind /x".to_owned(),
                differs: vec![v1::Difference {
                    component: "files".to_owned(),
                    path: "/x".into(),
                    ..v1::Difference::default()
                }],
                ..v1::ResetReply::default()
            }),
            None => Ok(v1::ResetReply {
                clean: request.expected_baseline == format!("all of {key}"),
                generation,
                digest: format!("all of {key}"),
                baseline: request.expected_baseline.clone(),
                verified: request.depth,
                components: components(&key),
                ms: 1.0,
                ..v1::ResetReply::default()
            }),
        }
    }

    async fn destroy(&self, slot: &str) -> Result<(), Error> {
        let fault = self.enter(Op::Destroy).await;
        if fault == Some(Fault::Refused) {
            return Err(refused());
        }
        self.world().slots.remove(slot);
        if fault == Some(Fault::AnswerLost) {
            Err(lost())
        } else {
            Ok(())
        }
    }

    fn data(&self, _slot: &str) -> Result<ExecdClient<Channel>, Error> {
        self.data.get().cloned().ok_or_else(refused)
    }

    fn hold(&self, until_ms: u64) {
        self.world().held_until = until_ms;
    }

    async fn stop(&self) -> Result<(), Error> {
        Ok(())
    }
}
