//! Requests as they come and go.

use super::{ClassEntry, Dirty, Pool};
use crate::action::Action;
use crate::class::{Class, ClassSpec};
use crate::demand::Peak;
use crate::ids::RequestKey;
use crate::lease::{LeaseRequest, Refusal};
use crate::pool::timing::Timer;
use std::collections::{BTreeSet, VecDeque};

impl ClassEntry {
    pub(super) fn new(record: Class) -> Self {
        Self {
            record,
            slots: BTreeSet::new(),
            blank: 0,
            held: 0,
            peak: Peak::default(),
            owed: 0,
            failures: 0,
            backoff_until: 0,
            fruitless: 0,
            standby_after: 0,
            last_failure: None,
            recent: VecDeque::new(),
        }
    }
}

impl Pool {
    pub(super) fn declare(&mut self, spec: ClassSpec) {
        self.touched.insert(spec.id.clone());
        self.dirty.insert(Dirty::Class(spec.id.clone()));
        match self.classes.get_mut(&spec.id) {
            Some(entry) => {
                // What its slots take was counted by the first declaration, and its id stands for both.
                let old = &entry.record.spec;
                let (tenant, resources) = (old.tenant.clone(), old.resources);
                entry.record.spec = ClassSpec {
                    tenant,
                    resources,
                    ..spec
                };
            }
            None => {
                let record = Class {
                    spec,
                    draining: false,
                    resets_since_full: 0,
                    creates: 0,
                    leases: 0,
                    warm: 0,
                };
                self.classes
                    .insert(record.spec.id.clone(), ClassEntry::new(record));
            }
        }
    }

    pub(super) fn request(&mut self, request: LeaseRequest) {
        let key = request.key.clone();
        if let Some(id) = self.requests.get(&key).cloned() {
            self.repeat_of_lease(&request, &id);
            return;
        }
        if let Some(waiting) = self.queue.get_mut(&key) {
            if waiting.request.template != request.template {
                self.act(Action::Refuse {
                    request: key,
                    reason: Refusal::Conflict,
                });
                return;
            }
            waiting.request.wait_until = request.wait_until;
            self.arm(request.wait_until, Timer::Request(key));
            return;
        }
        if let Some(reason) = self.reason_against(&request) {
            self.act(Action::Refuse {
                request: key,
                reason,
            });
            return;
        }
        if !self.classes.contains_key(&request.class.id) {
            self.declare(request.class.clone());
        }
        self.touched.insert(request.class.id.clone());
        self.arm(request.wait_until, Timer::Request(key));
        self.queue.push(request, self.seq, self.now);
    }

    fn repeat_of_lease(&mut self, request: &LeaseRequest, id: &crate::ids::LeaseId) {
        let Some(lease) = self.leases.get(id) else {
            return;
        };
        let action = if lease.template == request.template {
            self.alive(id, None);
            let Some(lease) = self.leases.get(id) else {
                return;
            };
            Action::Grant {
                request: request.key.clone(),
                lease: Box::new(lease.clone()),
            }
        } else {
            Action::Refuse {
                request: request.key.clone(),
                reason: Refusal::Conflict,
            }
        };
        self.act(action);
    }

    fn reason_against(&self, request: &LeaseRequest) -> Option<Refusal> {
        let known = self
            .classes
            .get(&request.class.id)
            .map(|entry| &entry.record);
        let spec = known.map_or(&request.class, |class| &class.spec);
        if spec.tenant != request.key.tenant {
            return Some(Refusal::Conflict);
        }
        if known.is_some_and(|class| class.draining) {
            return Some(Refusal::Draining);
        }
        let budget = &self.config.budget;
        let too_large = |what: &str| {
            Some(Refusal::TooLarge {
                what: what.to_owned(),
            })
        };
        if budget.slots == Some(0) || self.config.class_slots == 0 {
            return too_large("slots");
        }
        if budget
            .cpu_milli
            .is_some_and(|most| spec.resources.cpu_milli > most)
        {
            return too_large("cpu");
        }
        if budget
            .memory_bytes
            .is_some_and(|most| spec.resources.memory_bytes > most)
        {
            return too_large("memory");
        }
        None
    }

    pub(super) fn cancel(&mut self, key: &RequestKey) {
        if self.queue.get(key).is_some() {
            self.refuse(key, Refusal::Cancelled);
        }
    }

    /// Answers a waiting request with a refusal. A slot that was on its way to it goes on without it.
    pub(super) fn refuse(&mut self, key: &RequestKey, reason: Refusal) {
        let Some(waiting) = self.queue.remove(key, false) else {
            return;
        };
        self.disarm(Timer::Request(key.clone()));
        if let Some(entry) = waiting.slot.and_then(|slot| self.slots.get_mut(&slot)) {
            entry.reserved = None;
            self.unblock();
        }
        self.touched.insert(waiting.request.class.id.clone());
        self.act(Action::Refuse {
            request: key.clone(),
            reason,
        });
    }

    pub(super) fn request_due(&mut self, key: &RequestKey) {
        let Some(waiting) = self.queue.get(key) else {
            return;
        };
        if waiting.request.wait_until > self.now {
            let at = waiting.request.wait_until;
            self.arm(at, Timer::Request(key.clone()));
            return;
        }
        let class = self.classes.get(&waiting.request.class.id);
        let last = class.and_then(|class| class.last_failure.clone());
        self.refuse(key, Refusal::TimedOut { last });
    }
}
