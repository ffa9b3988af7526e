//! Starting: what the journal says, compared with what exists.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use innkeeper_pool::{Event, LeaseId, Pool, Reported, SlotId};
use innkeeper_proto::v1;
use tokio::sync::mpsc;

use super::clock::Clock;
use super::table::Leases;
use super::task::Task;
use super::{Handle, Parts};
use crate::events::EventLog;
use crate::provider;
use crate::records::{self, Recorder};
use crate::state;
use crate::state::journal::{Journal, Seat, SeatRecord, load};
use crate::state::leaks::Leaks as SeenLeaks;
use crate::state::templates::Templates;

/// Why the engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The state directory.
    #[error(transparent)]
    State(#[from] state::Error),
    /// The provider.
    #[error(transparent)]
    Provider(#[from] provider::Error),
    /// Records.
    #[error(transparent)]
    Records(#[from] records::Error),
    /// The system gave no random number.
    #[error("no random numbers from the system: {0}")]
    Random(std::io::Error),
}

/// Takes up what an earlier manager left and starts the engine's task.
///
/// Leases of the journal stand again, each with a full ttl; slots without a record are deleted;
/// unfinished work is asked again. The task ends with the last handle.
pub async fn start(parts: Parts) -> Result<Handle, Error> {
    let Parts {
        state,
        provider,
        mut config,
        embedded,
        metrics,
    } = parts;
    let loaded = load(&state.journal_path())?;
    if loaded.torn {
        tracing::info!("dropped the journal's last line, torn by a kill before it had any effect");
    }
    config.baseline_format = super::answers::BASELINE_FORMAT;
    let clock = Clock::new();
    let pool = Pool::restore(config, seed()?, clock.now(), loaded.records);
    let seats = seats_of(loaded.seats);
    let templates = Arc::new(Templates::open(&state.templates_path())?);
    let seen_leaks = Arc::new(SeenLeaks::open(&state.leaks_path())?);
    let log = EventLog::open(&state.events_path())?;
    let ids = pool.leases().map(|lease| lease.id.to_string());
    let (recorder, recorded) = Recorder::start(state.path(), ids)?;
    let slots = provider.list().await?;

    let leases = Arc::new(Leases::default());
    let mut orphans = Vec::new();
    for lease in pool.leases() {
        let seat = seats.get(&lease.slot).cloned().unwrap_or_default();
        leases.put(lease, &seat);
        if lease.live() && loaded.embedded {
            orphans.push(lease.id.clone());
        }
    }
    let (sender, inputs) = mpsc::unbounded_channel();
    let mut task = Task {
        journal: Journal::start(
            &state.journal_path(),
            embedded,
            pool.records(),
            records(&seats),
        )?,
        clock,
        pool,
        metrics,
        standing: provider.standing(),
        provider: Arc::clone(&provider),
        templates: Arc::clone(&templates),
        seen_leaks: Arc::clone(&seen_leaks),
        leases: Arc::clone(&leases),
        inputs,
        answers: sender.downgrade(),
        seats,
        owners: HashMap::new(),
        changed_seats: BTreeSet::new(),
        under_way: HashSet::new(),
        waiting: HashMap::new(),
        returning: HashMap::new(),
        resets: HashMap::new(),
        stated: HashMap::new(),
        recorder: recorder.clone(),
        holders: HashMap::new(),
        embedded,
        held_until: 0,
        closed: false,
        emptying: Vec::new(),
        stopping: None,
        wake: None,
        _state: state,
        log,
    };
    let events = task.log.events();
    task.own(&task.pool.records());
    task.record_rest(&recorded);
    task.adopt(&slots, orphans);
    tokio::spawn(task.run());
    let waiters = Arc::new(AtomicU64::new(0));
    Ok(Handle {
        inputs: sender,
        leases,
        templates,
        leaks: seen_leaks,
        provider,
        events,
        recorder,
        waiters,
    })
}

impl Task {
    /// Tells the pool what exists, in its own numbers.
    fn adopt(&mut self, slots: &[v1::SlotInfo], orphans: Vec<LeaseId>) {
        self.standing.borrow_and_update();
        let reported = slots.iter().map(|info| {
            let slot = SlotId(info.slot.clone());
            let seat = self.seats.get(&slot);
            let generation = match seat {
                // What the journal knows is what is there.
                Some(seat) if seat.built == info.generation => seat.generation,
                None if info.generation == 0 => 0,
                // Something was built whose record was lost: no generation of the pool's.
                Some(_) | None => u64::MAX,
            };
            Reported { slot, generation }
        });
        let reported = reported.collect();
        self.feed(Event::Adopt(reported));
        // Their holders lived in, or were served by, a command that is gone.
        for lease in orphans {
            self.discard(lease);
        }
    }
}

fn seats_of(records: Vec<SeatRecord>) -> HashMap<SlotId, Seat> {
    let mut seats = HashMap::new();
    for SeatRecord { slot, seat } in records {
        match seat {
            Some(seat) => drop(seats.insert(SlotId(slot), seat)),
            None => drop(seats.remove(&SlotId(slot))),
        }
    }
    seats
}

fn records(seats: &HashMap<SlotId, Seat>) -> Vec<SeatRecord> {
    let record = |(slot, seat): (&SlotId, &Seat)| SeatRecord {
        slot: slot.to_string(),
        seat: Some(seat.clone()),
    };
    seats.iter().map(record).collect()
}

/// A number that no earlier run used.
fn seed() -> Result<u64, Error> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Error::Random(error.into()))?;
    Ok(u64::from_le_bytes(bytes))
}
