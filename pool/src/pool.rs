//! The pool: its state, and the step that takes an event.

mod creating;
mod ending;
mod granting;
mod intake;
mod restoring;
mod retiring;
mod scheduling;
mod specialising;
mod supplying;
mod timing;
pub(crate) mod views;

use crate::action::{Action, Step};
use crate::bucket::Bucket;
use crate::class::Class;
use crate::config::Config;
use crate::demand::Peak;
use crate::event::Event;
use crate::ids::{ClassId, IdSource, ImageId, LeaseId, Millis, RequestKey, SlotId, TemplateKey};
use crate::lease::Lease;
use crate::log::{Kind, LogEvent};
use crate::queue::Queue;
use crate::record::Record;
use crate::slot::Slot;
use crate::slot::state::{Move, RetireCause, SlotState};
use crate::template::Template;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use timing::Timer;

/// All classes, slots, leases and templates of one manager. See the crate's page for how to drive it.
#[derive(Debug)]
pub struct Pool {
    config: Config,
    ids: IdSource,
    now: Millis,
    /// Number of the step.
    seq: u64,
    /// Restored, and not told yet what exists.
    adopting: bool,
    classes: BTreeMap<ClassId, ClassEntry>,
    slots: BTreeMap<SlotId, SlotEntry>,
    leases: BTreeMap<LeaseId, Lease>,
    requests: BTreeMap<RequestKey, LeaseId>,
    /// Ended leases, the oldest first.
    ended: VecDeque<LeaseId>,
    templates: BTreeMap<TemplateKey, Template>,
    /// Templates whose first sandbox is being made, and where.
    preparing: BTreeMap<TemplateKey, SlotId>,
    /// Slots found without a record, and how often their delete was asked.
    strays: BTreeMap<SlotId, u32>,
    queue: Queue,
    bucket: Bucket,
    timers: BTreeSet<(Millis, Timer)>,
    armed: BTreeMap<Timer, Millis>,
    usage: Usage,
    /// Classes to be looked at in this step.
    touched: BTreeSet<ClassId>,
    /// Classes with slots that stood unused for their time.
    overdue: BTreeSet<ClassId>,
    /// Classes that wanted more slots than they could get.
    blocked: BTreeSet<ClassId>,
    dirty: BTreeSet<Dirty>,
    out: Step,
}

#[derive(Debug)]
struct ClassEntry {
    record: Class,
    slots: BTreeSet<SlotId>,
    /// Slots without a sandbox.
    blank: u32,
    /// Live leases.
    held: u32,
    peak: Peak,
    /// Replacements due for hand-outs (`on-lease`).
    owed: u32,
    /// Failed creates in a row.
    failures: u32,
    /// No create before this.
    backoff_until: Millis,
    /// Slots in a row that came to nothing before they served, failed creates included.
    fruitless: u32,
    /// No create that no request waits for before this.
    standby_after: Millis,
    last_failure: Option<String>,
    /// Templates of the latest leases, the newest last.
    recent: VecDeque<(TemplateKey, ImageId)>,
}

/// A slot with what is known of it beside its durable record.
#[derive(Debug)]
struct SlotEntry {
    record: Slot,
    /// The request that it is being made ready for.
    reserved: Option<RequestKey>,
    /// When its health check was asked.
    checking: Option<Millis>,
    /// When it last gave proof of itself.
    heard: Option<Millis>,
    /// The step in which its create settled.
    settled_seq: u64,
    /// How often its create or delete was asked.
    asks: u32,
    /// When to ask again.
    ask_at: Millis,
}

impl SlotEntry {
    fn new(record: Slot) -> Self {
        Self {
            record,
            reserved: None,
            checking: None,
            heard: None,
            settled_seq: 0,
            asks: 0,
            ask_at: 0,
        }
    }
}

/// What all slots together take, those in flight and those being deleted included.
#[derive(Debug, Default)]
struct Usage {
    slots: u32,
    starting: u32,
    cpu_milli: u64,
    memory_bytes: u64,
}

/// Records that this step changed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Dirty {
    Class(ClassId),
    Slot(SlotId),
    Lease(LeaseId),
    Template(TemplateKey),
}

impl Pool {
    /// An empty pool. `seed` must not be one that an earlier run used: names of slots and leases come from it.
    pub fn new(config: Config, seed: u64, now: Millis) -> Self {
        Self {
            ids: IdSource::new(seed),
            now,
            seq: 0,
            adopting: false,
            classes: BTreeMap::new(),
            slots: BTreeMap::new(),
            leases: BTreeMap::new(),
            requests: BTreeMap::new(),
            ended: VecDeque::new(),
            templates: BTreeMap::new(),
            preparing: BTreeMap::new(),
            strays: BTreeMap::new(),
            queue: Queue::new(config.rules()),
            bucket: Bucket::new(config.creates_per_s, config.create_burst, now),
            timers: BTreeSet::new(),
            armed: BTreeMap::new(),
            usage: Usage::default(),
            touched: BTreeSet::new(),
            overdue: BTreeSet::new(),
            blocked: BTreeSet::new(),
            dirty: BTreeSet::new(),
            out: Step::default(),
            config,
        }
    }

    /// Takes an event in at a time, and says what to do.
    pub fn step(&mut self, now: Millis, event: Event) -> Step {
        self.now = self.now.max(now);
        self.seq += 1;
        match event {
            Event::Declare(spec) => self.declare(spec),
            Event::LeaseRequested(request) => self.request(*request),
            Event::LeaseCancelled(key) => self.cancel(&key),
            Event::CreateSettled { nonce, result } => self.create_settled(&nonce, result),
            Event::Specialised {
                slot,
                generation,
                result,
            } => {
                self.specialised(&slot, generation, result);
            }
            Event::HealthChecked {
                slot,
                generation,
                result,
            } => {
                self.health_checked(&slot, generation, result);
            }
            Event::Heartbeat(lease) => self.alive(&lease, None),
            Event::Renew { lease, ttl_ms } => self.alive(&lease, ttl_ms),
            Event::Returned {
                lease,
                discard,
                verify,
            } => self.returned(&lease, discard, verify),
            Event::ResetDone {
                slot,
                generation,
                result,
            } => {
                self.reset_done(&slot, generation, result);
            }
            Event::Deleted(slot) => self.deleted(&slot),
            Event::DeleteFailed { slot, cause } => self.delete_failed(&slot, &cause),
            Event::SlotLost { slot, cause } => self.slot_lost(&slot, &cause),
            Event::Drain(class) => self.drain(&class),
            Event::Adopt(reported) => self.adopt(&reported),
            Event::Tick => {}
        }
        self.fire_timers();
        self.schedule();
        self.finish()
    }

    /// Collects what the step changed, as it is now.
    fn finish(&mut self) -> Step {
        for dirty in std::mem::take(&mut self.dirty) {
            let record = match dirty {
                Dirty::Class(class) => match self.classes.get(&class) {
                    Some(entry) => Record::Class(entry.record.clone()),
                    None => Record::ClassGone { class },
                },
                Dirty::Slot(slot) => match self.slots.get(&slot) {
                    Some(entry) => Record::Slot(entry.record.clone()),
                    None => Record::SlotGone { slot },
                },
                Dirty::Lease(lease) => match self.leases.get(&lease) {
                    Some(record) => Record::Lease(Box::new(record.clone())),
                    None => Record::LeaseGone { lease },
                },
                Dirty::Template(key) => match self.templates.get(&key) {
                    Some(template) => Record::Template(template.clone()),
                    None => continue,
                },
            };
            self.out.changed.push(record);
        }
        self.out.wake_at = self.timers.first().map(|(at, _)| *at);
        std::mem::take(&mut self.out)
    }

    fn act(&mut self, action: Action) {
        self.out.actions.push(action);
    }

    /// A line about a slot, with what its record says.
    fn log_slot(&mut self, kind: Kind, slot: &SlotId, fill: impl FnOnce(&mut LogEvent)) {
        let mut line = LogEvent::new(self.now, kind);
        line.slot = Some(slot.clone());
        if let Some(entry) = self.slots.get(slot) {
            line.template = entry.record.state.template().cloned();
            line.uses = Some(entry.record.uses);
        }
        fill(&mut line);
        self.out.events.push(line);
    }

    /// A line about a lease, with what its record says.
    fn log_lease(&mut self, kind: Kind, lease: &LeaseId, fill: impl FnOnce(&mut LogEvent)) {
        let mut line = LogEvent::new(self.now, kind);
        line.lease = Some(lease.clone());
        if let Some(record) = self.leases.get(lease) {
            line.slot = Some(record.slot.clone());
            line.job = (!record.job.is_empty()).then(|| record.job.clone());
            line.template = Some(record.template.clone());
            line.supply = Some(record.supply);
            line.uses = Some(record.uses);
        }
        fill(&mut line);
        self.out.events.push(line);
    }

    /// Moves a slot. The one place that changes a state.
    fn shift(&mut self, slot: &SlotId, asked: Move) {
        let Some(entry) = self.slots.get_mut(slot) else {
            return;
        };
        let was_creating = matches!(entry.record.state, SlotState::Creating { .. });
        let was_blank = entry.record.state == SlotState::Blank;
        entry.record.state = match entry.record.state.next(asked) {
            Ok(state) => state,
            Err(illegal) => {
                // A defect of the pool must not hand anything out: the slot ends.
                debug_assert!(false, "{illegal}");
                SlotState::Retiring {
                    cause: RetireCause::Unknown(illegal.to_string()),
                }
            }
        };
        let is_creating = matches!(entry.record.state, SlotState::Creating { .. });
        if let Some(class) = self.classes.get_mut(&entry.record.class) {
            class.blank += u32::from(entry.record.state == SlotState::Blank);
            class.blank -= u32::from(was_blank);
        }
        if was_creating && !is_creating {
            self.usage.starting -= 1;
        }
        if let SlotState::Idle { .. } | SlotState::Blank = entry.record.state {
            // It may serve, or make room for, a request that found no room before.
            self.touched.append(&mut self.blocked);
        }
        entry.record.since = self.now;
        self.touched.insert(entry.record.class.clone());
        self.dirty.insert(Dirty::Slot(slot.clone()));
    }

    fn template_usable(&self, key: &TemplateKey) -> bool {
        let baseline = self
            .templates
            .get(key)
            .and_then(|template| template.baseline.as_ref());
        baseline.is_some_and(|baseline| baseline.usable(self.config.baseline_format))
    }
}
