//! What the pool wants done, begun.

use std::sync::Arc;
use std::time::Duration;

use innkeeper_pool::{
    Action, Baseline, ClassId, Depth, Event, Lease, LeaseId, SlotId, TemplateKey,
};
use innkeeper_proto::v1;

use super::answers::OVERALL;
use super::task::{Done, Input, Task, Work};
use super::{Refused, Returned};
use crate::provider::{self, Error, ErrorKind, NewSlot, Provider};
use crate::template::Carry;

/// How often a create is tried while the daemon is not reached, with doubling pauses from
/// [`PAUSE`]: together half a minute, in which a daemon that ended has long been started again.
const CREATE_TRIES: u32 = 8;

/// The first pause between two tries.
const PAUSE: Duration = Duration::from_millis(100);

impl Task {
    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Create {
                nonce, slot, class, ..
            } => {
                let new = match (self.journal_error(), self.new_slot(&slot, &class)) {
                    (None, Ok(new)) => new,
                    // The intent is not durable, or nobody knows what to make: it must not begin.
                    (Some(error), _) | (None, Err(error)) => {
                        let result = Err(error);
                        self.answer(Done::Created { nonce, result });
                        return;
                    }
                };
                let provider = Arc::clone(&self.provider);
                self.begin(Work::Create(slot), async move {
                    let result = create(&*provider, &new).await;
                    Done::Created { nonce, result }
                });
            }
            Action::Specialise {
                slot,
                generation,
                template,
                first,
                baseline,
                ..
            } => {
                self.specialise(slot, generation, &template, first, baseline.as_ref());
            }
            Action::CheckHealth { slot, generation } => self.check(slot, generation),
            Action::Grant { request, lease } => self.grant(&request, *lease),
            Action::Refuse { request, reason } => self.refuse(&request, &reason),
            Action::LeaseEnded { lease, how, .. } => {
                self.leases.end(&lease, how);
                self.holders.remove(&lease);
            }
            Action::Reset {
                slot,
                generation,
                lease,
                depth,
                baseline,
                ..
            } => {
                self.reset(slot, generation, lease, depth, &baseline);
            }
            Action::Settled { lease, outcome } => {
                self.leases.settle(&lease, &outcome);
                self.settled(&lease);
            }
            Action::Doubt {
                slot,
                leases,
                cause,
            } => self.doubt(&slot, &leases, &cause),
            Action::Delete { slot, .. } => {
                let provider = Arc::clone(&self.provider);
                self.begin(Work::Delete(slot.clone()), async move {
                    let result = provider.destroy(slot.as_str()).await;
                    Done::Deleted { slot, result }
                });
            }
        }
    }

    /// What a slot of a class is: as any template of the class says, since all of them agree.
    fn new_slot(&self, slot: &SlotId, class: &ClassId) -> Result<NewSlot, Error> {
        let template = self.templates.of_class(class.as_str()).ok_or_else(|| {
            let sentence = format!("no template of class {class} is known any more");
            Error::new(ErrorKind::Permanent, sentence)
        })?;
        let spec = &template.spec;
        let own = template.supply.carry == Some(Carry::Own);
        Ok(NewSlot {
            slot: slot.to_string(),
            tenant: spec.tenant.clone(),
            form: template.form,
            resources: spec.resources.unwrap_or_default(),
            network: spec.network(),
            layers: if own { spec.layers.clone() } else { Vec::new() },
        })
    }

    /// Runs a slow action in a task of its own, unless the same is under way.
    fn begin(&mut self, work: Work, run: impl Future<Output = Done> + Send + 'static) {
        if !self.under_way.insert(work) {
            return;
        }
        let Some(answers) = self.answers.upgrade() else {
            return;
        };
        tokio::spawn(async move {
            let done = run.await;
            // Fails only when the engine has ended; its successor asks again.
            let _ = answers.send(Input::Done(done));
        });
    }

    /// An answer that is known at once. It still comes as an input: a step is never inside one.
    pub(super) fn answer(&self, done: Done) {
        if let Some(answers) = self.answers.upgrade() {
            let _ = answers.send(Input::Done(done));
        }
    }

    /// Why nothing new may begin, while the journal is behind.
    pub(super) fn journal_error(&mut self) -> Option<Error> {
        if !self.journal.is_behind() {
            return None;
        }
        let error = self.journal.step(Vec::new(), Vec::new()).err()?;
        Some(Error::new(ErrorKind::Transient, error.to_string()))
    }

    fn specialise(
        &mut self,
        slot: SlotId,
        generation: u64,
        template: &TemplateKey,
        first: bool,
        baseline: Option<&Baseline>,
    ) {
        let Some(resolved) = self.templates.get(template.as_str()) else {
            let error = Error::new(ErrorKind::Permanent, "the template's definition is gone");
            self.answer(Done::Specialised {
                slot,
                generation,
                result: Err(error),
            });
            return;
        };
        let request = v1::SpecialiseRequest {
            slot: slot.to_string(),
            template: Some(resolved.spec.clone()),
            expected_files: baseline
                .and_then(Baseline::files)
                .unwrap_or_default()
                .to_owned(),
            may_prepare: first,
        };
        let provider = Arc::clone(&self.provider);
        self.begin(Work::Specialise(slot.clone(), generation), async move {
            let result = provider.specialise(request).await;
            Done::Specialised {
                slot,
                generation,
                result,
            }
        });
    }

    fn check(&mut self, slot: SlotId, generation: u64) {
        let seat = self
            .seats
            .get(&slot)
            .filter(|seat| seat.generation == generation);
        let Some(seat) = seat.cloned() else {
            let result = Err("its sandbox is not known".to_owned());
            self.answer(Done::Checked {
                slot,
                generation,
                result,
            });
            return;
        };
        let sandbox = v1::SandboxRef {
            slot: slot.to_string(),
            generation: seat.built,
        };
        let provider = Arc::clone(&self.provider);
        self.begin(Work::Check(slot.clone(), generation), async move {
            let result = match provider.health(sandbox).await {
                Ok(reply) if !reply.ok => Err(reply.reason),
                Ok(reply) if reply.boot_id != seat.boot_id => {
                    Err("another execd answered".to_owned())
                }
                Ok(_) => Ok(()),
                Err(error) => Err(error.to_string()),
            };
            Done::Checked {
                slot,
                generation,
                result,
            }
        });
    }

    fn reset(
        &mut self,
        slot: SlotId,
        generation: u64,
        lease: LeaseId,
        depth: Depth,
        baseline: &Baseline,
    ) {
        let Some(seat) = self.seats.get(&slot) else {
            let error = Error::new(ErrorKind::Permanent, "its sandbox is not known");
            self.answer(Done::Reset {
                slot,
                generation,
                lease,
                result: Err(error),
            });
            return;
        };
        let request = v1::ResetRequest {
            sandbox: Some(v1::SandboxRef {
                slot: slot.to_string(),
                generation: seat.built,
            }),
            depth: wire_depth(depth).into(),
            expected_baseline: baseline
                .components
                .get(OVERALL)
                .cloned()
                .unwrap_or_default(),
        };
        let provider = Arc::clone(&self.provider);
        self.begin(Work::Reset(slot.clone(), generation), async move {
            let result = provider.reset(request).await;
            Done::Reset {
                slot,
                generation,
                lease,
                result,
            }
        });
    }

    fn grant(&mut self, request: &innkeeper_pool::RequestKey, lease: Lease) {
        let waiters = self.waiting.remove(request).unwrap_or_default();
        if let Some(error) = self.journal_error() {
            let refused = Refused::Journal(error.message);
            for waiter in waiters {
                let _ = waiter.reply.send(Err(refused.clone()));
            }
            self.return_unused(lease.id);
            return;
        }
        let granted = self.granted(lease.clone());
        if !self.leases.stands(&lease.id) {
            self.leases.put(&lease, &granted.seat);
        }
        if lease.live() {
            let pid = waiters.iter().find_map(|waiter| waiter.caller.pid);
            self.holders.insert(lease.id.clone(), pid);
        }
        let mut unnamed = false;
        let mut reached = false;
        for waiter in waiters {
            self.metrics
                .lease_seconds
                .observe(waiter.since.elapsed().as_secs_f64());
            unnamed |= waiter.caller.unnamed;
            reached |= waiter.reply.send(Ok(granted.clone())).is_ok();
        }
        if unnamed && !reached && lease.live() {
            self.return_unused(lease.id);
        }
    }

    /// Gives back a lease whose caller never had it.
    pub(super) fn return_unused(&self, lease: LeaseId) {
        let (reply, _) = tokio::sync::oneshot::channel();
        let input = Input::Return {
            lease,
            discard: false,
            verify: Depth::Swap,
            wait: false,
            reply,
        };
        if let Some(answers) = self.answers.upgrade() {
            let _ = answers.send(input);
        }
    }

    fn refuse(&mut self, request: &innkeeper_pool::RequestKey, reason: &innkeeper_pool::Refusal) {
        for waiter in self.waiting.remove(request).unwrap_or_default() {
            let _ = waiter.reply.send(Err(Refused::Pool(reason.clone())));
        }
    }

    pub(super) fn returned(&self, lease: &LeaseId) -> Option<Returned> {
        let record = self.pool.lease(lease)?.clone();
        let outcome = record
            .ended
            .as_ref()
            .and_then(|ended| ended.outcome.clone());
        Some(Returned {
            reset: self.resets.get(lease).cloned(),
            outcome,
            lease: record,
            record: None,
        })
    }

    /// Feeds a return that no caller waits for.
    pub(super) fn discard(&mut self, lease: LeaseId) {
        self.feed(Event::Returned {
            lease,
            discard: true,
            verify: Depth::Swap,
        });
    }
}

async fn create(provider: &dyn Provider, new: &NewSlot) -> Result<String, provider::Error> {
    let mut pause = PAUSE;
    let mut tries = 0;
    loop {
        tries += 1;
        match provider.create(new).await {
            Ok(boot_id) => return Ok(boot_id),
            // Not reached says nothing about whether the slot exists; the same slot is asked for
            // again, which is harmless if it does.
            Err(error) if error.kind == ErrorKind::Unreachable && tries < CREATE_TRIES => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn wire_depth(depth: Depth) -> v1::Depth {
    match depth {
        Depth::Swap => v1::Depth::Swap,
        Depth::Walk => v1::Depth::Walk,
        Depth::Full => v1::Depth::Full,
    }
}
