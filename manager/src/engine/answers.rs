//! What comes back: answers of slow actions and requests of callers, as pool events.

use innkeeper_pool::{
    Baseline, Created, Depth, Event, Failure, FailureKind, LeaseId, LeaseRequest, Ready,
    RequestKey, ResetResult, SlotId,
};
use innkeeper_proto::v1;
use tokio::sync::oneshot;

use super::task::{Done, Task, Waiter, Work};
use super::{Refused, Returned};
use crate::provider::{Error, ErrorKind};
use crate::state::journal::Seat;

/// The name under which a baseline keeps the digest over all of its components, which is what
/// execd is asked to reset to.
pub(crate) const OVERALL: &str = "all";

/// The digest encoding that this version compares.
pub(super) const BASELINE_FORMAT: u32 = 1;

impl Task {
    pub(super) fn ask(&mut self, request: LeaseRequest, waiter: Waiter) {
        if self.closed || self.stopping.is_some() {
            let _ = waiter.reply.send(Err(Refused::Stopping));
            return;
        }
        if let Some(error) = self.journal_error() {
            let _ = waiter.reply.send(Err(Refused::Journal(error.message)));
            return;
        }
        self.waiting
            .entry(request.key.clone())
            .or_default()
            .push(waiter);
        self.feed(Event::LeaseRequested(Box::new(request)));
    }

    /// A caller stopped waiting. The request stays while another caller of it waits.
    pub(super) fn gone(&mut self, request: &RequestKey, number: u64, unnamed: bool) {
        let Some(waiters) = self.waiting.get_mut(request) else {
            // Answered already, and the answer did not arrive.
            let lease = self.pool.lease_of(request).filter(|lease| lease.live());
            if let Some(lease) = lease.filter(|_| unnamed) {
                self.return_unused(lease.id.clone());
            }
            return;
        };
        waiters.retain(|waiter| waiter.number != number);
        if waiters.is_empty() {
            self.waiting.remove(request);
            self.feed(Event::LeaseCancelled(request.clone()));
        }
    }

    pub(super) fn give_back(
        &mut self,
        lease: LeaseId,
        discard: bool,
        verify: Depth,
        wait: bool,
        reply: oneshot::Sender<Option<Returned>>,
    ) {
        self.feed(Event::Returned {
            lease: lease.clone(),
            discard,
            verify,
        });
        let answer = self.returned(&lease);
        match &answer {
            Some(Returned { outcome: None, .. }) if wait => {
                self.returning.entry(lease).or_default().push(reply);
            }
            Some(returned) if wait => self.answer_with_record(returned.clone(), reply),
            Some(_) | None => drop(reply.send(answer)),
        }
    }

    pub(super) fn done(&mut self, done: Done) {
        match done {
            Done::Created { nonce, result } => {
                self.under_way.remove(&Work::Create(nonce.slot()));
                let result = match result {
                    Ok(boot_id) => {
                        // From here on an end of its daemon is this slot's end too.
                        let seat = Seat {
                            boot_id,
                            ..Seat::default()
                        };
                        self.put_seat(nonce.slot(), seat);
                        Ok(Created { node: None })
                    }
                    Err(error) => Err(failure(error)),
                };
                self.feed(Event::CreateSettled { nonce, result });
                // Its daemon may have ended while the answer was on its way.
                self.standing_changed();
            }
            Done::Specialised {
                slot,
                generation,
                result,
            } => {
                self.under_way
                    .remove(&Work::Specialise(slot.clone(), generation));
                let result = match result {
                    Ok(reply) => Ok(self.ready(&slot, generation, &reply)),
                    Err(error) => Err(failure(error)),
                };
                self.feed(Event::Specialised {
                    slot,
                    generation,
                    result,
                });
            }
            Done::Checked {
                slot,
                generation,
                result,
            } => {
                self.under_way
                    .remove(&Work::Check(slot.clone(), generation));
                self.feed(Event::HealthChecked {
                    slot,
                    generation,
                    result,
                });
            }
            Done::Reset {
                slot,
                generation,
                lease,
                result,
            } => {
                self.under_way
                    .remove(&Work::Reset(slot.clone(), generation));
                let result = self.after_reset(&slot, generation, lease, result);
                self.feed(Event::ResetDone {
                    slot,
                    generation,
                    result,
                });
            }
            Done::Deleted { slot, result } => {
                self.under_way.remove(&Work::Delete(slot.clone()));
                self.feed(match result {
                    Ok(()) => Event::Deleted(slot),
                    Err(error) => Event::DeleteFailed {
                        slot,
                        cause: error.message,
                    },
                });
            }
        }
    }

    fn ready(&mut self, slot: &SlotId, generation: u64, reply: &v1::SpecialiseReply) -> Ready {
        self.take_leaks(slot, &reply.leaks_json);
        self.put_seat(
            slot.clone(),
            Seat {
                generation,
                built: reply.generation,
                boot_id: self.boot_of(slot),
                disk_limit: reply.disk_limit.clone(),
            },
        );
        let observed = reply
            .single_use
            .is_empty()
            .then(|| baseline(&reply.components, &reply.baseline));
        if observed.is_none() {
            tracing::warn!(%slot, reason = %reply.single_use, "this template can be used once only");
        }
        Ready {
            observed,
            single_use: Some(reply.single_use.clone()).filter(|why| !why.is_empty()),
            depth: depth(reply.verified()),
        }
    }

    fn after_reset(
        &mut self,
        slot: &SlotId,
        generation: u64,
        lease: LeaseId,
        result: Result<v1::ResetReply, Error>,
    ) -> ResetResult {
        let reply = match result {
            Ok(reply) => reply,
            Err(error) => {
                return ResetResult::Tainted {
                    cause: error.message,
                };
            }
        };
        let result = if reply.clean {
            let disk_limit = self
                .seats
                .get(slot)
                .map(|seat| seat.disk_limit.clone())
                .unwrap_or_default();
            let built = reply.generation;
            let boot_id = self.boot_of(slot);
            self.put_seat(
                slot.clone(),
                Seat {
                    generation,
                    built,
                    boot_id,
                    disk_limit,
                },
            );
            ResetResult::Observed {
                observed: baseline(&reply.components, &reply.digest),
                depth: depth(reply.verified()),
                ready: true,
            }
        } else {
            let cause = Some(&reply.cause).filter(|cause| !cause.is_empty());
            let cause = cause.map_or("it differs from its baseline", String::as_str);
            ResetResult::Tainted {
                cause: cause.to_owned(),
            }
        };
        self.resets.insert(lease, reply);
        result
    }

    /// The boot of the daemon that a slot was made in; a slot lives in no other.
    fn boot_of(&self, slot: &SlotId) -> String {
        let seat = self.seats.get(slot);
        seat.map(|seat| seat.boot_id.clone()).unwrap_or_default()
    }

    /// Records what is in a slot.
    fn put_seat(&mut self, slot: SlotId, seat: Seat) {
        self.seats.insert(slot.clone(), seat);
        self.changed_seats.insert(slot);
    }
}

fn baseline(components: &[v1::ComponentResult], overall: &str) -> Baseline {
    let digests = components
        .iter()
        .map(|component| (&component.name, &component.digest));
    let mut components: std::collections::BTreeMap<_, _> = digests
        .map(|(name, digest)| (name.clone(), digest.clone()))
        .collect();
    components.insert(OVERALL.to_owned(), overall.to_owned());
    Baseline {
        format: BASELINE_FORMAT,
        components,
    }
}

/// A depth that execd does not name counts as the least.
fn depth(depth: v1::Depth) -> Depth {
    match depth {
        v1::Depth::Unspecified | v1::Depth::Swap => Depth::Swap,
        v1::Depth::Walk => Depth::Walk,
        v1::Depth::Full => Depth::Full,
    }
}

fn failure(error: Error) -> Failure {
    let kind = match error.kind {
        ErrorKind::Unreachable | ErrorKind::Transient => FailureKind::Transient,
        ErrorKind::Permanent => FailureKind::Permanent,
    };
    Failure {
        kind,
        cause: error.message,
    }
}
