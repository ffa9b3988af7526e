//! Resets that forget one thing each, on real sandboxes: the fuzzer must find every one of them.
//!
//! What a reset forgets is what a script made, so a fault is planted only after a script that had
//! the verb which makes it: the fuzzer has to draw that verb first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use innkeeper_test_exactness::{FORMS, Fault, Planted, Ward};
use innkeeper_test_fuzz::{Leased, Returned, Run, Sandboxes, Source, Visit, Wish};
use innkeeper_test_oracle::{Depth, outside};
use serde_json::{Value, json};

/// Rollouts within which each must be found.
const WITHIN: u64 = 500;

/// The verb whose effect is forgotten.
fn verb(fault: Fault) -> &'static str {
    match fault {
        Fault::Xattr => "setxattr",
        Fault::Mtime => "times",
        Fault::Mapped => "map-store",
        Fault::Process => "daemon",
        Fault::Mount => "mount",
        Fault::Queue => "sysv-queue",
        Fault::Listener => "tcp-listen",
    }
}

/// Where the image has the program that acts.
const PROGRAM: &str = "/usr/bin/innkeeper-guest";

/// Sandboxes of a manager whose resets are made faulty by the host.
#[derive(Clone)]
struct Faulty<'a> {
    ward: &'a Ward,
    template: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Verbs that were acted out, by lease.
    acted: BTreeMap<String, BTreeSet<String>>,
    /// Faults that have had their turn.
    done: Vec<Fault>,
    /// What the next visit of a slot is to find.
    due: BTreeMap<String, Fault>,
    /// What has to stay for faults to stay.
    planted: Vec<Planted>,
}

impl Faulty<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ran(&self, line: &str, input: &[u8]) -> Result<String, String> {
        let ran = self.ward.inn().fed(line, input);
        if ran.stdout.is_empty() {
            return Err(format!("{line}: {}", ran.stderr));
        }
        Ok(ran.stdout)
    }

    fn json(&self, line: &str) -> Result<Value, String> {
        serde_json::from_str(&self.ran(line, b"")?).map_err(|error| format!("{line}: {error}"))
    }

    /// Makes the reset of this slot a faulty one, before anyone looks.
    fn plant(&self, leased: &Leased) -> Result<(), String> {
        let Some(fault) = self.state().due.remove(&leased.slot) else {
            return Ok(());
        };
        let line = format!("exec {} -- readlink /proc/self/ns/mnt", leased.id);
        let namespace = self.ran(&line, b"")?;
        let init = outside::init(namespace.trim()).map_err(|error| error.to_string())?;
        let planted = fault.plant(init).expect("planted");
        self.state().planted.push(planted);
        Ok(())
    }
}

impl Sandboxes for Faulty<'_> {
    type Error = String;

    async fn lease(&mut self) -> Result<Leased, String> {
        let lease = self.json(&format!("lease plain --json --template {}", self.template))?;
        let text = |field: &str| lease[field].as_str().expect("a word").to_owned();
        Ok(Leased {
            id: text("lease"),
            slot: text("slot"),
            uses: lease["uses"]
                .as_u64()
                .and_then(|uses| uses.try_into().ok())
                .expect("a number"),
        })
    }

    async fn visit(&mut self, leased: &Leased, visit: Visit<'_>) -> Result<Vec<u8>, String> {
        self.plant(leased)?;
        let light = if visit.depth == Depth::Light {
            "--light"
        } else {
            ""
        };
        let line = format!(
            "exec {} -i --user root --cwd / --env INNKEEPER_GUEST_MAY_ACT=yes -- {PROGRAM} visit {light}",
            leased.id
        );
        let written = self.ran(&line, visit.script.to_string().as_bytes())?;
        let acted = written
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(' '));
        let acted = acted.map(|(verb, _)| verb.to_owned()).collect();
        self.state().acted.insert(leased.id.clone(), acted);
        Ok(written.into_bytes())
    }

    async fn give_back(&mut self, leased: &Leased, discard: bool) -> Result<Returned, String> {
        let how = if discard { "--discard" } else { "--wait" };
        let back = self.json(&format!("return {} {how} --json", leased.id))?;
        let clean = back["outcome"] == "clean";
        let retired = !back["retired"].is_null();
        let mut state = self.state();
        let acted = state.acted.remove(&leased.id).unwrap_or_default();
        let forgets = |fault: &Fault| acted.contains(verb(*fault));
        let next = Fault::ALL
            .into_iter()
            .find(|fault| forgets(fault) && !state.done.contains(fault));
        if let (true, false, Some(fault)) = (clean, retired, next) {
            state.done.push(fault);
            state.due.insert(leased.slot.clone(), fault);
        }
        Ok(Returned {
            clean,
            cause: back["retired"].to_string(),
            retired,
        })
    }
}

pub(crate) fn every_fault_is_found() -> Result<(), String> {
    let ward = Ward::open(FORMS[0])?;
    let limits = json!({"memory": "768Mi", "pids": 300, "disk": "64Mi", "inodes": 20_000});
    let template = ward.template("planted", &json!({"resources": limits}));
    let template = ward.inn().file("planted.json", template.to_string());
    let mut pool = Faulty {
        ward: &ward,
        template: template.to_str().expect("a plain path").to_owned(),
        state: Arc::default(),
    };
    let wish = Wish {
        seed: 1,
        source: Source::Drawn(WITHIN),
        full_every: 1,
        failures: Fault::ALL.len(),
        in_place: false,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let run = runtime.block_on(async {
        let run = Run::prepare(&mut pool, wish)
            .await
            .expect("fresh sandboxes");
        run.work(&mut pool, &()).await.expect("sandboxes");
        run.settle(&mut pool).await.expect("sandboxes");
        run
    });
    let tally = run.tally();
    let missed: Vec<_> = Fault::ALL
        .into_iter()
        .filter(|fault| {
            let (subject, field) = fault.shown();
            !run.failures().iter().any(|failure| {
                failure
                    .differences
                    .iter()
                    .any(|d| d.contains(subject) && d.contains(field))
            })
        })
        .collect();
    assert!(
        missed.is_empty(),
        "missed after {} rollouts: {missed:?}",
        tally.iterations
    );
    assert_eq!(tally.false_clean, Fault::ALL.len() as u64);
    println!(
        "{} planted faults found within {} rollouts",
        Fault::ALL.len(),
        tally.iterations
    );
    Ok(())
}
