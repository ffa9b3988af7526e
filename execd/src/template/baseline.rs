//! First ready: prepare, freeze, build, capture, start, observe, record.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use innkeeper_proto::v1::TemplateSpec;
use innkeeper_reset::baseline::{Baseline, Captured, Surroundings};
use innkeeper_reset::capture::{Capture, Options, Trust, View, capture};
use innkeeper_reset::components::{Component, Facts};
use innkeeper_reset::files;
use innkeeper_reset::ids::IdMap;
use innkeeper_reset::tree::Tree;

use super::stored::{self, About};
use super::{
    Running, Template, TemplateError, defaults, in_place, limits, marks, own_network, prepare,
};
use super::{services, surroundings, upper_kind, workdir};
use crate::sandbox::{Machine, Plan, Sandbox};
use crate::wait;

/// How long services may take to be ready at first ready.
const SERVICES: Duration = Duration::from_secs(120);
/// How long the processes of a sandbox may take to go once killed.
const EMPTY: Duration = Duration::from_secs(10);

/// A template and the sandbox in which it was first made ready.
#[derive(Debug)]
pub struct First {
    /// The template.
    pub template: Template,
    /// A sandbox that stands ready as it.
    pub sandbox: Sandbox,
    /// Its services.
    pub services: Vec<Running>,
}

/// Makes a template ready for the first time, in the slot `slot`; the ready sandbox is
/// generation `generation` there. The prepare has a sandbox of its own, which is never
/// handed out and so is no generation of the slot.
///
/// # Errors
/// [`TemplateError`]; then nothing of it is left.
pub async fn first_ready(
    machine: &Machine,
    spec: &TemplateSpec,
    slot: &str,
    generation: u64,
) -> Result<First, TemplateError> {
    if let Some(plain) = machine.plain() {
        return in_place::first_ready(machine, plain, spec, slot, generation).await;
    }
    // Refused before any work is done.
    let upper = upper_kind(spec)?;
    let prepared = prepare::run(machine, spec, slot).await?;
    let prepared_digest = freeze(machine, spec, &prepared.name).await?;
    let lowers = stored::lowers(machine, spec);
    let sandbox = machine
        .build(Plan {
            slot: slot.to_owned(),
            generation,
            lowers: lowers.clone(),
            upper,
            copied: prepared.copied.clone(),
            own_network: own_network(spec.network()),
            limits: limits(spec.resources.as_ref()),
            defaults: defaults(spec),
        })
        .await?;
    let digests = std::iter::once(format!("prepared:{prepared_digest}"))
        .chain(spec.layers.iter().rev().cloned())
        .collect::<Vec<_>>();
    let recorded = record(machine, spec, &sandbox, &digests, &prepared).await;
    match recorded {
        Ok(Recorded {
            baseline,
            tree,
            prefilled,
            single_use,
            services,
        }) => {
            let template = Template {
                spec: spec.clone(),
                lower_marks: marks(&sandbox.lowers).map_err(TemplateError::Store)?,
                lowers,
                lower_digests: digests,
                baseline,
                tree,
                copied: prepared.copied,
                prefilled,
                leaks: Some(prepared.leaks),
                single_use,
            };
            Ok(First {
                template,
                sandbox,
                services,
            })
        }
        Err(error) => {
            let _ = wait::end(&sandbox.live, EMPTY).await;
            machine.dispose(sandbox);
            machine.store.discard(&machine.store.prepared(&spec.key));
            Err(error)
        }
    }
}

/// Makes the upper of a finished prepare the template's layer; its digest.
async fn freeze(
    machine: &Machine,
    spec: &TemplateSpec,
    name: &str,
) -> Result<String, TemplateError> {
    let target = machine.store.prepared(&spec.key);
    machine.store.discard(&target);
    let upper = machine.store.upper(name);
    fs::create_dir(&target).map_err(TemplateError::Store)?;
    let kept = machine.keep_upper(&upper, &target.join("tree"));
    machine.store.discard(&upper);
    kept?;
    let opened = prepared_layer(machine, &spec.key)?;
    let digest = blocking(move || layer_digest(opened.as_fd())).await?;
    Ok(digest)
}

/// The prepared layer of a template.
///
/// # Errors
/// When there is none.
pub(super) fn prepared_layer(machine: &Machine, key: &str) -> Result<OwnedFd, TemplateError> {
    let layer = machine.store.layer(&format!("prepared/{key}/tree"));
    layer.map_err(|e| TemplateError::Build(e.into()))
}

/// The digest of a prepared layer, contents read; blocking.
///
/// # Errors
/// When it cannot be read.
pub(super) fn layer_digest(layer: BorrowedFd<'_>) -> Result<String, TemplateError> {
    let options = Options {
        view: View::Upper,
        ..Options::new(IdMap::CANONICAL)
    };
    let captured = capture(layer, &options).map_err(|e| TemplateError::Capture(e.to_string()))?;
    Ok(captured.tree.root().to_string())
}

/// What does not stand still cannot be compared with later.
fn same_twice(first: &Surroundings, second: &Surroundings) -> Result<(), String> {
    if let Some((component, reason)) = second.failed.first_key_value() {
        return Err(format!("{component} could not be observed twice: {reason}"));
    }
    let unequal =
        |component: &&Component| first.facts.get(component) != second.facts.get(component);
    match Component::ALL.iter().find(unequal) {
        Some(component) => Err(format!(
            "two looks at {component}, one right after the other, differ"
        )),
        None => Ok(()),
    }
}

/// What is known of a template once it has been captured.
pub(super) struct Recorded {
    pub(super) baseline: Baseline,
    pub(super) tree: Arc<Tree>,
    pub(super) prefilled: Option<Arc<Tree>>,
    pub(super) single_use: Option<String>,
    pub(super) services: Vec<Running>,
}

pub(super) async fn record(
    machine: &Machine,
    spec: &TemplateSpec,
    sandbox: &Sandbox,
    lowers: &[String],
    prepared: &prepare::Prepared,
) -> Result<Recorded, TemplateError> {
    let (capture, stable) = capture_twice(sandbox).await?;
    let tree = Arc::new(capture.tree);
    let prefilled = workdir::prefilled(&tree, prepared.copied.as_deref())?;
    let services = services::start(machine, spec, sandbox, Instant::now() + SERVICES).await?;
    let seen = surroundings(machine, sandbox, &spec.key, lowers.to_vec(), &services).await;
    if let Some((component, reason)) = seen.failed.first_key_value() {
        return Err(TemplateError::Capture(format!(
            "{}: {reason}",
            component.name()
        )));
    }
    let again = surroundings(machine, sandbox, &spec.key, lowers.to_vec(), &services).await;
    let steady = same_twice(&seen, &again);
    let facts: BTreeMap<Component, Facts> = seen.facts;
    let captured = Captured {
        entries: tree.len() as u64,
        bytes: capture.bytes_read,
        at_ms: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_millis() as u64),
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
    };
    let baseline = Baseline::new(
        spec.key.clone(),
        lowers.to_vec(),
        tree.root(),
        facts,
        captured,
    );
    let leftovers = prepared.leftovers.clone();
    let single_use = leftovers
        .or(stable.err())
        .or(steady.err())
        .or_else(|| host_network(spec))
        .or_else(|| (spec.key.is_empty()).then(|| "the template has no key".to_owned()));
    let about = About {
        lower_digests: lowers.to_vec(),
        slices: sandbox.slices().to_vec(),
        copied: prepared.copied.clone(),
        single_use: single_use.clone(),
        leaks: Some(prepared.leaks.clone()),
    };
    stored::write(&machine.store.prepared(&spec.key), &baseline, &tree, &about)?;
    Ok(Recorded {
        baseline,
        tree,
        prefilled,
        single_use,
        services,
    })
}

/// What a rollout leaves in a shared network namespace outlives its own namespaces, and in
/// part carries no owner (TIME_WAIT), so it cannot be told from the machine's own.
fn host_network(spec: &TemplateSpec) -> Option<String> {
    let shared = !own_network(spec.network());
    shared
        .then(|| "it shares the host's network, where sockets outlive a sandbox unseen".to_owned())
}

/// Captures the merged tree, and looks at it again: two passes that differ mean that
/// something still changes it, and then nothing can be said to equal it.
async fn capture_twice(sandbox: &Sandbox) -> Result<(Capture, Result<(), String>), TemplateError> {
    let overlay = sandbox.overlay.try_clone().map_err(TemplateError::Store)?;
    let (options, in_place) = (sandbox.options(), sandbox.is_in_place());
    blocking(move || {
        let wrong =
            |e: innkeeper_reset::capture::CaptureError| TemplateError::Capture(e.to_string());
        let first = capture(overlay.as_fd(), &options).map_err(wrong)?;
        let trust = (!in_place).then_some(Trust::ReadOnlyLower);
        let again = files::walk(overlay.as_fd(), &first.tree, trust, &options, 1).map_err(wrong)?;
        let stable = match again.differences().first() {
            None if again.is_equal() => Ok(()),
            None => Err("two passes over its files differ".to_owned()),
            Some(difference) => Err(format!("two passes differ: {}", difference.sentence())),
        };
        Ok((first, stable))
    })
    .await
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TemplateError> + Send + 'static,
) -> Result<T, TemplateError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(TemplateError::Capture(e.to_string())))
}
