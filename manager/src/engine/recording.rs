//! Records of leases that are over, and their way to those who wait for them.

use std::collections::HashSet;

use innkeeper_leaks::Report;
use innkeeper_pool::{Kind, LeaseId, LogEvent, SlotId};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use super::Returned;
use super::task::Task;
use crate::records::Record;
use crate::records::facts::{self, Beside};

impl Task {
    /// Keeps what a live lease's holder states, the first time.
    pub(super) fn state(&mut self, lease: LeaseId, stated: Map<String, Value>) {
        if self.pool.lease(&lease).is_some_and(|lease| lease.live()) {
            self.stated.entry(lease).or_insert(stated);
        }
    }

    /// Tells how a canary came out.
    pub(super) fn canary(&mut self, id: &LeaseId, outcome: &str, cause: Option<String>) {
        let Some(lease) = self.pool.lease(id) else {
            return;
        };
        if outcome == super::DIFFERS {
            tracing::error!(lease = %id, slot = %lease.slot, uses = lease.uses, ?cause, "a canary sees a reused sandbox differ from a fresh one");
        }
        let event = LogEvent {
            t: self.clock.now(),
            kind: Kind::Canary,
            slot: Some(lease.slot.clone()),
            lease: Some(id.clone()),
            job: Some(lease.job.clone()).filter(|job| !job.is_empty()),
            template: Some(lease.template.clone()),
            supply: Some(lease.supply),
            uses: Some(lease.uses),
            outcome: Some(outcome.to_owned()),
            cause,
            ms: None,
        };
        self.write_event(&event);
    }

    /// Has the record made, and then answers those who wait for the outcome of the return: who
    /// knows the outcome can have the record.
    pub(super) fn settled(&mut self, lease: &LeaseId) {
        let replies = self.returning.remove(lease).unwrap_or_default();
        let returned = self.returned(lease);
        let answer = move |record: Option<Record>| {
            for reply in replies {
                let returned = returned.clone();
                let _ = reply.send(returned.map(|returned| Returned {
                    record: record.clone(),
                    ..returned
                }));
            }
        };
        match self.facts(lease) {
            Some(facts) => self.recorder.keep(lease.to_string(), facts, answer),
            None => answer(None),
        }
    }

    /// Answers a return whose outcome is known, once its record is made.
    pub(super) fn answer_with_record(
        &self,
        returned: Returned,
        reply: oneshot::Sender<Option<Returned>>,
    ) {
        let lease = returned.lease.id.to_string();
        self.recorder.read(lease, |record| {
            let _ = reply.send(Some(Returned { record, ..returned }));
        });
    }

    /// Makes the records that an earlier manager had no time for. What only it knew is left out.
    pub(super) fn record_rest(&mut self, recorded: &HashSet<String>) {
        let leases = self.pool.leases().map(|lease| lease.id.clone());
        let rest: Vec<_> = leases
            .filter(|id| !recorded.contains(id.as_str()))
            .collect();
        for lease in rest {
            if let Some(facts) = self.facts(&lease) {
                self.recorder.keep(lease.to_string(), facts, drop);
            }
        }
    }

    /// Takes what execd saw of answers in the image of the template that a slot becomes.
    pub(super) fn take_leaks(&self, slot: &SlotId, json: &str) {
        let slot = self.pool.slot(slot);
        let template = slot.and_then(|slot| slot.state.template());
        let (Some(template), false) = (template, json.is_empty()) else {
            return;
        };
        let report: Report = match serde_json::from_str(json) {
            Ok(report) => report,
            Err(error) => Report {
                unread: vec![format!("execd's answer: {error}")],
                ..Report::default()
            },
        };
        if !report.is_clear() && self.seen_leaks.get(template.as_str()).is_none() {
            tracing::warn!(%template, ?report, "the image may hold answers: `innkeeper pools` shows them, `image import --scrub` removes them");
        }
        if let Err(error) = self.seen_leaks.know(template.as_str(), report) {
            tracing::error!(%template, %error, "what was seen of answers cannot be kept");
        }
    }

    /// What is known of a lease that is over; None while its reset runs.
    fn facts(&mut self, id: &LeaseId) -> Option<Map<String, Value>> {
        let lease = self.pool.lease(id)?;
        lease.ended.as_ref()?.outcome.as_ref()?;
        let seat = self.seats.get(&lease.slot);
        let boot_id = seat.map(|seat| seat.boot_id.clone()).unwrap_or_default();
        // A daemon that was started anew since is not the one that held the sandbox.
        let standing = self.standing.borrow();
        let holds = standing.boots.contains(&boot_id);
        let platform = holds.then(|| standing.platform.clone());
        drop(standing);
        let template = self.templates.get(lease.template.as_str());
        let beside = Beside {
            form: template.as_ref().map(|template| template.form),
            platform,
            boot_id,
            disk_limit: seat.map(|seat| seat.disk_limit.clone()).unwrap_or_default(),
            provider: self.provider.name(),
            single_use: template.is_some_and(|template| template.single_use),
            reset: self.resets.get(id).cloned(),
            leaks: self.seen_leaks.get(lease.template.as_str()),
            stated: self.stated.remove(id).unwrap_or_default(),
        };
        facts::of(lease, beside)
    }
}
