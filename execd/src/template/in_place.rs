//! First ready in a container that is the sandbox: the prepare runs in its own root, which is then the
//! baseline, and copies are taken of what is to be put back.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use innkeeper_proto::v1::TemplateSpec;
use innkeeper_reset::capture::capture;
use innkeeper_reset::digest::Digest;
use innkeeper_reset::layered::Fault;
use innkeeper_reset::tree::Tree;

use super::baseline::{First, Recorded, record};
use super::{Template, TemplateError, defaults, limits, own_network, prepare, upper_kind};
use crate::inside;
use crate::plain::{Plain, contents};
use crate::sandbox::{Machine, Plan, Sandbox};
use crate::wait;

/// How long the processes of a prepare may take to go once killed.
const EMPTY: Duration = Duration::from_secs(10);

/// How long what it left in the kernel may take to go.
const CLEAR: Duration = Duration::from_secs(90);

/// The directory of a prepared template that holds what its prepare has written, by digest.
const CONTENTS: &str = "contents";

/// Where the contents lie that a prepare has written, for other containers of the template.
pub fn published(machine: &Machine, key: &str) -> PathBuf {
    machine.store.path(&format!("prepared/{key}/{CONTENTS}"))
}

/// As [`super::first_ready`].
pub(super) async fn first_ready(
    machine: &Machine,
    plain: &Plain,
    spec: &TemplateSpec,
    slot: &str,
    generation: u64,
) -> Result<First, TemplateError> {
    if !plain.claim(&spec.key) {
        return Err(TemplateError::Capture(
            "this container's root has been prepared already: it serves one template in its life"
                .to_owned(),
        ));
    }
    let image = look(plain)?;
    let prepared = prepare::run(machine, spec, slot).await?;
    clear(
        machine,
        plain,
        &build(machine, spec, slot, generation).await?,
        CLEAR,
    )
    .await
    .map_err(TemplateError::Capture)?;
    let sandbox = build(machine, spec, slot, generation).await?;
    let directory = machine.store.prepared(&spec.key);
    machine.store.discard(&directory);
    fs::create_dir(&directory).map_err(TemplateError::Store)?;
    let layers: Vec<String> = spec.layers.iter().rev().cloned().collect();
    let recorded = record(machine, spec, &sandbox, &layers, &prepared).await;
    let kept = recorded.and_then(|recorded| {
        let kept = keep(machine, plain, spec, &recorded.tree, &contents(&image));
        kept.map(|()| recorded)
    });
    match kept {
        Ok(Recorded {
            baseline,
            tree,
            prefilled,
            single_use,
            services,
        }) => Ok(First {
            template: Template {
                spec: spec.clone(),
                lowers: Vec::new(),
                lower_digests: layers,
                lower_marks: Vec::new(),
                baseline,
                tree,
                copied: None,
                prefilled,
                single_use,
                leaks: Some(prepared.leaks),
            },
            sandbox,
            services,
        }),
        Err(error) => {
            let _ = wait::end(&sandbox.live, EMPTY).await;
            machine.store.discard(&directory);
            Err(error)
        }
    }
}

async fn build(
    machine: &Machine,
    spec: &TemplateSpec,
    slot: &str,
    generation: u64,
) -> Result<Sandbox, TemplateError> {
    let plan = Plan {
        slot: slot.to_owned(),
        generation,
        lowers: Vec::new(),
        upper: upper_kind(spec)?,
        copied: None,
        own_network: own_network(spec.network()),
        limits: limits(spec.resources.as_ref()),
        defaults: defaults(spec),
    };
    Ok(machine.build(plan).await?)
}

/// The container's root as its image left it.
fn look(plain: &Plain) -> Result<Tree, TemplateError> {
    let looked =
        tokio::task::block_in_place(|| capture(plain.root.fd(), &plain.root.options(None)));
    let looked = looked.map_err(|e| TemplateError::Capture(Fault::of(&e).0))?;
    Ok(looked.tree)
}

/// Copies what is to be put back, and publishes what the prepare has written.
fn keep(
    machine: &Machine,
    plain: &Plain,
    spec: &TemplateSpec,
    tree: &Arc<Tree>,
    image: &HashSet<Digest>,
) -> Result<(), TemplateError> {
    let target = machine.store.prepared(&spec.key).join(CONTENTS);
    tokio::task::block_in_place(|| {
        let filled = plain.copy(spec, tree, image)?;
        tracing::info!(?filled, "copies of the restore roots");
        plain.remember(tree);
        plain.publish(tree, image, &target)
    })
    .map_err(TemplateError::Capture)
}

/// Removes what outlives processes in the kernel, and waits for what goes by itself.
///
/// # Errors
/// A sentence when something is left.
pub async fn clear(
    machine: &Machine,
    plain: &Plain,
    sandbox: &Sandbox,
    limit: Duration,
) -> Result<(), String> {
    let by = Instant::now() + limit;
    let call = inside::Call::Clear;
    match machine
        .spawner
        .call(&sandbox.live, None, call, Vec::new())
        .await
    {
        Ok(inside::Answer::Cleared) => {}
        Ok(inside::Answer::Failed { message, .. }) => return Err(message),
        Ok(_) => return Err("clearing gave another answer".to_owned()),
        Err(error) => return Err(error.to_string()),
    }
    sandbox.live.empty().await.map_err(|e| e.to_string())?;
    tokio::task::block_in_place(|| plain.quiet.wait(by))
}
