//! What the engine keeps beside the pool's records, and listings of both.

use innkeeper_pool::{ClassId, Kind, Lease, LeaseId, LogEvent, PoolRow, Record, SlotId, SlotRow};

use innkeeper_proto::v1;

use super::Granted;
use super::task::Task;
use crate::state::journal::SeatRecord;

impl Task {
    pub(super) fn slot_rows(&self, tenant: Option<&str>) -> Vec<SlotRow> {
        let mut rows = self.pool.ps(self.clock.now());
        rows.retain(|row| {
            let class = self.pool.slot(&row.slot).map(|slot| &slot.class);
            class.is_some_and(|class| self.is_of(class, tenant))
        });
        rows
    }

    pub(super) fn pool_rows(&self, tenant: Option<&str>) -> Vec<PoolRow> {
        let mut rows = self.pool.pools();
        rows.retain(|row| self.is_of(&row.class, tenant));
        rows
    }

    /// Whether a class is a tenant's; everything is None's.
    pub(super) fn is_of(&self, class: &ClassId, tenant: Option<&str>) -> bool {
        let Some(tenant) = tenant else { return true };
        self.pool
            .class(class)
            .is_some_and(|class| class.spec.tenant.as_str() == tenant)
    }

    /// Whose event it is: its lease's or its slot's tenant.
    pub(super) fn tenant_of(&self, event: &LogEvent) -> Option<String> {
        let lease = event
            .lease
            .as_ref()
            .and_then(|lease| self.pool.lease(lease));
        if let Some(lease) = lease {
            return Some(lease.request.tenant.to_string());
        }
        event
            .slot
            .as_ref()
            .and_then(|slot| self.owners.get(slot))
            .cloned()
    }

    /// Marks the leases that a deep look casts doubt on, the present one aside: each gets an event
    /// `tainted` with the outcome `doubted`. Only files that were seen to differ do that: a look
    /// that failed says nothing, and all else was looked at in every reset before.
    pub(super) fn doubt(&mut self, slot: &SlotId, leases: &[LeaseId], cause: &str) {
        let Some((present, earlier)) = leases.split_last() else {
            return;
        };
        let reset = self.resets.get(present);
        if !reset.is_some_and(|reset| differs(reset, "files")) {
            return;
        }
        for id in earlier {
            tracing::error!(%slot, lease = %id, %cause, "a deep look found what earlier ones missed");
            let lease = self.pool.lease(id);
            let event = LogEvent {
                t: self.clock.now(),
                kind: Kind::Tainted,
                slot: Some(slot.clone()),
                lease: Some(id.clone()),
                job: lease
                    .map(|lease| lease.job.clone())
                    .filter(|job| !job.is_empty()),
                template: lease.map(|lease| lease.template.clone()),
                supply: lease.map(|lease| lease.supply),
                uses: lease.map(|lease| lease.uses),
                outcome: Some("doubted".to_owned()),
                cause: Some(cause.to_owned()),
                ms: None,
            };
            self.log_event(&event);
        }
    }

    /// Keeps whose slots these are until their last event is written, when their records are gone.
    pub(super) fn own(&mut self, changed: &[Record]) {
        for record in changed {
            let Record::Slot(slot) = record else { continue };
            if let Some(class) = self.pool.class(&slot.class) {
                self.owners
                    .insert(slot.id.clone(), class.spec.tenant.to_string());
            }
        }
    }

    /// Drops what is kept beside records that are gone; the slots among them.
    pub(super) fn forget_gone(&mut self, changed: &[Record]) -> Vec<SlotId> {
        let mut gone = Vec::new();
        for record in changed {
            match record {
                Record::SlotGone { slot } => {
                    gone.push(slot.clone());
                    if self.seats.remove(slot).is_some() {
                        self.changed_seats.insert(slot.clone());
                    }
                }
                Record::LeaseGone { lease } => {
                    self.resets.remove(lease);
                    self.stated.remove(lease);
                    self.holders.remove(lease);
                    self.leases.forget(lease);
                }
                Record::Class(_)
                | Record::ClassGone { .. }
                | Record::Slot(_)
                | Record::Lease(_)
                | Record::Template(_) => {}
            }
        }
        gone
    }

    /// The seats that changed since they were last journaled.
    pub(super) fn seat_records(&mut self) -> Vec<SeatRecord> {
        std::mem::take(&mut self.changed_seats)
            .into_iter()
            .map(|slot| SeatRecord {
                seat: self.seats.get(&slot).cloned(),
                slot: slot.0,
            })
            .collect()
    }

    pub(super) fn all_seats(&self) -> Vec<SeatRecord> {
        self.seats
            .iter()
            .map(|(slot, seat)| SeatRecord {
                slot: slot.0.clone(),
                seat: Some(seat.clone()),
            })
            .collect()
    }

    /// A lease with what is beside the pool's record of it.
    pub(super) fn granted(&self, lease: Lease) -> Granted {
        let seat = self
            .seats
            .get(&lease.slot)
            .filter(|seat| seat.generation == lease.generation);
        Granted {
            seat: seat.cloned().unwrap_or_default(),
            lease,
        }
    }
}

/// Whether a reset saw a component differ.
fn differs(reset: &v1::ResetReply, name: &str) -> bool {
    let component = |component: &v1::ComponentResult| component.name == name && !component.equal;
    let entry = |entry: &v1::Difference| entry.component == name;
    reset.components.iter().any(component) || reset.differs.iter().any(entry)
}
