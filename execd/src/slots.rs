//! The slots of this daemon. A slot is one value that moves between phases; an operation
//! takes the phase out, works on it in a task of the daemon's own, and puts the next one
//! back. A caller that goes away decides nothing.

mod ground;
mod in_place;
mod operations;
mod reply;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use innkeeper_proto::v1::{SandboxRef, SlotInfo};
use tonic::Status;

use crate::live::Live;
use crate::sandbox::{Machine, Sandbox};
use crate::spawner::Spawner;
use crate::template::{Running, Template, Templates};

/// What stands in a slot.
#[derive(Debug)]
enum Phase {
    /// Nothing.
    Blank,
    /// An operation has it.
    Busy(&'static str),
    /// A sandbox stands ready or is leased.
    Ready(Box<Held>),
    /// It could not be brought to a known state; only destroying is left.
    Broken(String),
}

/// A sandbox and what it was made from.
#[derive(Debug)]
struct Held {
    sandbox: Sandbox,
    template: Arc<Template>,
    _services: Vec<Running>,
    /// Nothing has run in it since it was built or proven clean.
    pristine: AtomicBool,
}

/// One slot.
#[derive(Debug)]
struct Slot {
    name: String,
    tenant: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    generation: u64,
    phase: Phase,
}

/// All slots.
#[derive(Debug)]
pub struct Slots {
    machine: Arc<Machine>,
    templates: Templates,
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
}

impl Slots {
    /// No slots yet.
    pub fn new(machine: Arc<Machine>) -> Self {
        Self {
            machine,
            templates: Templates::default(),
            slots: Mutex::default(),
        }
    }

    /// The spawner of all of them.
    pub fn spawner(&self) -> &Spawner {
        &self.machine.spawner
    }

    /// The machine's parts.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// The sandbox that a call is about, and from now on it counts as used.
    ///
    /// # Errors
    /// `NOT_FOUND` when the slot is unknown or stands at another generation, `UNAVAILABLE`
    /// while an operation has it.
    pub fn live(&self, sandbox: &SandboxRef) -> Result<Arc<Live>, Status> {
        let slot = self.slot(&sandbox.slot)?;
        let state = lock(&slot.state);
        if state.generation != sandbox.generation {
            return Err(gone(sandbox));
        }
        match &state.phase {
            Phase::Ready(held) => {
                held.pristine.store(false, Ordering::Relaxed);
                Ok(Arc::clone(&held.sandbox.live))
            }
            Phase::Busy(what) => Err(Status::unavailable(format!(
                "slot {} is busy: {what}",
                sandbox.slot
            ))),
            Phase::Blank | Phase::Broken(_) => Err(gone(sandbox)),
        }
    }

    /// Every slot as it is.
    pub fn list(&self) -> Vec<SlotInfo> {
        let slots: Vec<_> = lock(&self.slots).values().cloned().collect();
        slots.iter().map(|slot| slot.info()).collect()
    }

    /// Makes a slot; one that exists is given as it is.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a bad name, `ALREADY_EXISTS` for another tenant's.
    pub fn create(&self, name: &str, tenant: &str) -> Result<SlotInfo, Status> {
        check_name(name, "slot")?;
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.get(name) {
            if slot.tenant != tenant {
                return Err(Status::already_exists(format!(
                    "slot {name} is another tenant's"
                )));
            }
            return Ok(slot.info());
        }
        let slot = Arc::new(Slot {
            name: name.to_owned(),
            tenant: tenant.to_owned(),
            state: Mutex::new(State {
                generation: 0,
                phase: Phase::Blank,
            }),
        });
        slots.insert(name.to_owned(), Arc::clone(&slot));
        Ok(slot.info())
    }

    /// Whether a sandbox is as it should be for a hand-out: the right generation, untouched,
    /// with its pid 1 alive.
    ///
    /// # Errors
    /// `NOT_FOUND` for an unknown slot.
    pub fn health(&self, sandbox: &SandboxRef) -> Result<Result<(), String>, Status> {
        let slot = self.slot(&sandbox.slot)?;
        let state = lock(&slot.state);
        if state.generation != sandbox.generation {
            return Ok(Err(format!("it stands at generation {}", state.generation)));
        }
        Ok(match &state.phase {
            Phase::Ready(held) => held.health(),
            Phase::Busy(what) => Err(format!("it is busy: {what}")),
            Phase::Blank => Err("it is blank".to_owned()),
            Phase::Broken(reason) => Err(reason.clone()),
        })
    }

    fn slot(&self, name: &str) -> Result<Arc<Slot>, Status> {
        let slots = lock(&self.slots);
        slots
            .get(name)
            .cloned()
            .ok_or_else(|| Status::not_found(format!("there is no slot {name}")))
    }
}

impl Held {
    fn new(sandbox: Sandbox, template: Arc<Template>, services: Vec<Running>) -> Self {
        Self {
            sandbox,
            template,
            _services: services,
            pristine: AtomicBool::new(true),
        }
    }

    fn health(&self) -> Result<(), String> {
        match self.sandbox.live.is_alive() {
            true => Ok(()),
            false => Err("its pid 1 has ended".to_owned()),
        }
    }
}

impl Slot {
    fn info(&self) -> SlotInfo {
        let state = lock(&self.state);
        let (word, key, pristine) = match &state.phase {
            Phase::Blank => ("blank".to_owned(), String::new(), false),
            Phase::Busy(what) => ((*what).to_owned(), String::new(), false),
            Phase::Ready(held) => (
                "ready".to_owned(),
                held.template.spec.key.clone(),
                held.pristine.load(Ordering::Relaxed),
            ),
            Phase::Broken(reason) => (format!("broken: {reason}"), String::new(), false),
        };
        SlotInfo {
            slot: self.name.clone(),
            tenant: self.tenant.clone(),
            generation: state.generation,
            template_key: key,
            state: word,
            pristine,
        }
    }

    /// Takes the phase out for an operation.
    fn take(&self, what: &'static str) -> Result<(u64, Phase), Status> {
        let mut state = lock(&self.state);
        if let Phase::Busy(other) = state.phase {
            return Err(Status::unavailable(format!(
                "slot {} is busy: {other}",
                self.name
            )));
        }
        let phase = std::mem::replace(&mut state.phase, Phase::Busy(what));
        Ok((state.generation, phase))
    }

    /// Puts a phase back.
    fn put(&self, generation: u64, phase: Phase) {
        let mut state = lock(&self.state);
        state.generation = generation;
        state.phase = phase;
    }
}

fn gone(sandbox: &SandboxRef) -> Status {
    Status::not_found(format!(
        "sandbox {}.{} has ended",
        sandbox.slot, sandbox.generation
    ))
}

/// Names become parts of paths.
pub fn check_name(name: &str, what: &str) -> Result<(), Status> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !name.is_empty() && name.len() <= 80 && name.bytes().all(fine) {
        return Ok(());
    }
    let rule = "1 to 80 letters, digits, - and _";
    Err(Status::invalid_argument(format!(
        "{what} name {name:?} is not allowed: {rule}"
    )))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
