//! A pool that behaves like one: slots wear out, the most used goes first, resets may be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use innkeeper_test_fuzz::{Leased, Returned, Sandboxes, Visit};
use innkeeper_test_oracle::Record;
use innkeeper_test_script::Script;

/// What the pool does wrong.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// Verbs whose effects a reset forgets, and still calls clean.
    pub(crate) forgotten: Vec<&'static str>,
    /// Verbs whose effects a reset notices.
    pub(crate) noticed: Vec<&'static str>,
    /// Verbs that end the sandbox.
    pub(crate) deadly: Vec<&'static str>,
    /// From this sandbox on, fresh ones are not like the first.
    pub(crate) odd_from: Option<u64>,
    /// No sandbox can be had.
    pub(crate) empty: bool,
}

/// The pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fake {
    faults: Faults,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    made: u64,
    leases: u64,
    idle: Vec<Slot>,
    leased: BTreeMap<String, Slot>,
}

#[derive(Debug, Clone)]
struct Slot {
    name: String,
    number: u64,
    uses: u32,
    /// Verbs whose effects can be seen.
    dirt: BTreeSet<&'static str>,
}

impl Fake {
    pub(crate) fn with(faults: Faults) -> Self {
        Self {
            faults,
            ..Self::default()
        }
    }

    /// Leases that were never given back.
    pub(crate) fn lost(&self) -> usize {
        self.state().leased.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, slot: &Slot) -> Vec<u8> {
        let mut record = Record::new();
        record.put("file /", "type", "directory");
        record.put("file /etc", "type", "directory");
        record.put("file /etc/passwd", "type", "file");
        for verb in &slot.dirt {
            record.put("left", verb, "yes");
        }
        if self.faults.odd_from.is_some_and(|from| slot.number >= from) {
            record.put("odd", "yes", "yes");
        }
        let mut written = Vec::new();
        record.write(&mut written).expect("memory takes everything");
        written
    }

    fn act(&self, script: &Script, slot: &mut Slot, written: &mut Vec<u8>) -> Result<(), String> {
        for operation in &script.operations {
            let name = operation.verb().name;
            if self.faults.deadly.contains(&name) {
                return Err("the sandbox ended".to_owned());
            }
            slot.dirt.insert(name);
            written.extend(format!("{name} ok\n").into_bytes());
        }
        Ok(())
    }
}

impl Sandboxes for Fake {
    type Error = String;

    async fn lease(&mut self) -> Result<Leased, String> {
        if self.faults.empty {
            return Err("there is none".to_owned());
        }
        let mut state = self.state();
        state.idle.sort_by_key(|slot| slot.uses);
        let slot = state.idle.pop().unwrap_or_else(|| Slot {
            name: format!("s{}", state.made),
            number: state.made,
            uses: 0,
            dirt: BTreeSet::new(),
        });
        state.made += u64::from(slot.uses == 0);
        state.leases += 1;
        let leased = Leased {
            id: format!("l{}", state.leases),
            slot: slot.name.clone(),
            uses: slot.uses,
        };
        state.leased.insert(leased.id.clone(), slot);
        Ok(leased)
    }

    async fn visit(&mut self, leased: &Leased, visit: Visit<'_>) -> Result<Vec<u8>, String> {
        // Others have their turn, as they would.
        tokio::task::yield_now().await;
        let mut slot = self
            .state()
            .leased
            .get(&leased.id)
            .cloned()
            .ok_or("it is gone")?;
        let mut written = self.record(&slot);
        let acted = self.act(visit.script, &mut slot, &mut written);
        self.state().leased.insert(leased.id.clone(), slot);
        acted.map(|()| written)
    }

    async fn give_back(&mut self, leased: &Leased, discard: bool) -> Result<Returned, String> {
        tokio::task::yield_now().await;
        let mut state = self.state();
        let mut slot = state.leased.remove(&leased.id).ok_or("it is gone")?;
        let noticed = self
            .faults
            .noticed
            .iter()
            .find(|verb| slot.dirt.contains(*verb));
        let worn = slot.uses == 8;
        let returned = Returned {
            clean: !discard && noticed.is_none(),
            cause: noticed.map(ToString::to_string).unwrap_or_default(),
            retired: discard || noticed.is_some() || worn,
        };
        slot.dirt
            .retain(|verb| self.faults.forgotten.contains(verb));
        slot.uses += 1;
        if !returned.retired {
            state.idle.push(slot);
        }
        Ok(returned)
    }
}
