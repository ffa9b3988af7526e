//! Everything about a sandbox that is not a file, observed from outside and inside.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;

use innkeeper_reset::baseline::Surroundings;
use innkeeper_reset::components::{Component, processes};
use innkeeper_reset::observe::{self, Observer, ProcDir};

use super::{Running, Template, marks};
use crate::inside::{self, observe::Observe};
use crate::sandbox::{Machine, Sandbox};

/// What a process is called that belongs to no service: pid 1 by its role, others as extra.
const INIT: &str = "init";
const EXTRA: &str = "extra";

/// Observes a sandbox. What cannot be observed stands in `failed`, and taints.
pub async fn surroundings(
    machine: &Machine,
    sandbox: &Sandbox,
    key: &str,
    lowers: Vec<String>,
    services: &[Running],
) -> Surroundings {
    let mut seen = Surroundings {
        template_key: key.to_owned(),
        lowers,
        ..Surroundings::default()
    };
    // Without services nothing has run since pid 1 looked; services need a fresh look.
    let inside = if services.is_empty() {
        Ok(sandbox.seen_at_birth.facts.clone())
    } else {
        inside(machine, sandbox).await
    };
    match inside {
        Ok(facts) => seen.facts.extend(facts),
        Err(reason) => {
            for component in [
                Component::Mounts,
                Component::Ipc,
                Component::Network,
                Component::Kernel,
            ] {
                seen.failed.insert(component, reason.clone());
            }
        }
    }
    let running = match machine.plain() {
        Some(_) => processes_from_inside(machine, sandbox, services).await,
        None => processes(machine, sandbox, services),
    };
    for (component, facts) in [
        (Component::Processes, running),
        (Component::Limits, limits(sandbox)),
    ] {
        match facts {
            Ok(facts) => {
                seen.facts.insert(component, facts);
            }
            Err(reason) => {
                seen.failed.insert(component, reason);
            }
        }
    }
    seen
}

type Facts = innkeeper_reset::components::Facts;

async fn inside(
    machine: &Machine,
    sandbox: &Sandbox,
) -> Result<BTreeMap<Component, Facts>, String> {
    let call = Observe {
        base: sandbox.base,
        own_network: sandbox.has_own_network(),
    };
    let call = inside::Call::Observe(call);
    match machine
        .spawner
        .call(&sandbox.live, None, call, Vec::new())
        .await
    {
        Ok(inside::Answer::Observed(view)) => match machine.plain() {
            Some(plain) => plain.comparable(*view).map(|view| view.facts),
            None => Ok(view.facts),
        },
        Ok(inside::Answer::Failed { message, .. }) => Err(message),
        Ok(_) => Err("the observer gave another answer".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn host_proc() -> Result<ProcDir, String> {
    let proc = File::open("/proc").map_err(|e| e.to_string())?;
    ProcDir::new(proc.into()).map_err(|e| e.to_string())
}

/// In a container that is the sandbox the daemon has no right to look into its processes.
async fn processes_from_inside(
    machine: &Machine,
    sandbox: &Sandbox,
    services: &[Running],
) -> Result<Facts, String> {
    let mut last = String::new();
    for _ in 0..TRIES {
        let owners = owners(sandbox, services)?;
        let pids = sandbox.live.pids().map_err(|e| e.to_string())?;
        let list = pids.iter().map(|pid| {
            let name = owners.get(pid).map_or(EXTRA, String::as_str);
            (pid.unsigned_abs(), name.to_owned())
        });
        let call = inside::Call::Processes(list.collect());
        match machine
            .spawner
            .call(&sandbox.live, None, call, Vec::new())
            .await
        {
            Ok(inside::Answer::Processes(views)) => return Ok(processes::facts(&views)),
            Ok(inside::Answer::Failed { message, .. }) => last = message,
            Ok(_) => last = "the observer gave another answer".to_owned(),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

/// The service of each pid.
fn owners(sandbox: &Sandbox, services: &[Running]) -> Result<HashMap<i32, String>, String> {
    let init = sandbox.live.init_pid().map(|pid| (pid, INIT.to_owned()));
    let mut owners: HashMap<i32, String> = init.into_iter().collect();
    for service in services {
        for pid in service.group.pids().map_err(|e| e.to_string())? {
            owners.insert(pid, service.name.clone());
        }
    }
    Ok(owners)
}

/// One that ends while it is read was on its way out: then all are read again.
fn processes(machine: &Machine, sandbox: &Sandbox, services: &[Running]) -> Result<Facts, String> {
    let mut last = String::new();
    for _ in 0..TRIES {
        match processes_now(machine, sandbox, services) {
            Ok(facts) => return Ok(facts),
            Err(reason) => last = reason,
        }
    }
    Err(last)
}

/// Readings of processes until one succeeds.
const TRIES: usize = 5;

fn processes_now(
    machine: &Machine,
    sandbox: &Sandbox,
    services: &[Running],
) -> Result<Facts, String> {
    let proc = host_proc()?;
    let ids = sandbox.ids();
    let pids = sandbox.live.pids().map_err(|e| e.to_string())?;
    let owners = owners(sandbox, services)?;
    let mut observer = Observer::new(&proc, ids, &machine.programs);
    let views = pids
        .iter()
        .map(|pid| {
            let number = pid.unsigned_abs();
            let view = match owners.get(pid).map(String::as_str) {
                Some(INIT) => observer.own_init(number, INIT),
                Some(name) => observer.process(number, name),
                None => observer.process(number, EXTRA),
            };
            view.map_err(|e| e.to_string())
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(processes::facts(&views))
}

fn limits(sandbox: &Sandbox) -> Result<Facts, String> {
    let (Some(group), Some(pid)) = (sandbox.live.group(), sandbox.live.init_pid()) else {
        return sandbox.limits_at_birth();
    };
    let groups = group.limits().map_err(|e| e.to_string())?;
    let groups = groups.into_iter().collect();
    observe::limits(&host_proc()?, pid.unsigned_abs(), &groups).map_err(|e| e.to_string())
}

/// The digests of the lowers that a sandbox was built over, if each is the recorded one:
/// opened by its digest in a store that no guest can write, and the same directory.
///
/// # Errors
/// A sentence that names the layer that is another.
pub fn proven_lowers(template: &Template, sandbox: &Sandbox) -> Result<Vec<String>, String> {
    let now = marks(&sandbox.lowers).map_err(|e| e.to_string())?;
    if now.len() != template.lower_marks.len() {
        return Err("another number of layers was recorded".to_owned());
    }
    for (place, mark) in now.iter().enumerate() {
        if template.lower_marks.get(place) != Some(mark) {
            let path = template.lowers.get(place);
            let path = path.map_or("of the container's own root", String::as_str);
            return Err(format!(
                "layer {path} is not the directory that was recorded"
            ));
        }
    }
    Ok(template.lower_digests.clone())
}
