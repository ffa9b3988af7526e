//! The effects of a reset on this machine: what the phases of `innkeeper_reset::layered`
//! do, in their order, to one slot. Runs on a blocking thread and decides nothing.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use innkeeper_reset::baseline::Surroundings;
use innkeeper_reset::capture::{Options, Trust};
use innkeeper_reset::files::{self, Depth, FilesReport};
use innkeeper_reset::ids::IdMap;
use innkeeper_reset::layered::{Fault, Ground};
use tokio::runtime::Handle;

use super::Held;
use crate::sandbox::{Machine, Plan, Sandbox};
use crate::template::{self, Running, Template};
use crate::wait;

/// Differences that a report names.
pub(super) const NAMED: usize = 20;

/// Logs when each step begins, at debug level: where a reset spends its time.
pub(super) fn begin(step: &'static str, slot: &str) {
    tracing::debug!(slot, step, "reset");
}

/// One slot on its way from a returned (or blank) to a verified sandbox.
pub(super) struct SlotGround {
    pub(super) runtime: Handle,
    pub(super) machine: Arc<Machine>,
    pub(super) template: Arc<Template>,
    pub(super) slot: String,
    /// Generation of the next sandbox.
    pub(super) next: u64,
    /// The sandbox that was returned; none where the slot was blank.
    pub(super) old: Option<Sandbox>,
    pub(super) new: Option<Sandbox>,
    pub(super) services: Vec<Running>,
}

impl SlotGround {
    /// What stands in the slot after a clean verdict.
    pub(super) fn into_held(mut self) -> Option<Held> {
        let sandbox = self.new.take()?;
        Some(Held::new(
            sandbox,
            Arc::clone(&self.template),
            std::mem::take(&mut self.services),
        ))
    }

    pub(super) fn built(&self) -> Result<&Sandbox, Fault> {
        self.new
            .as_ref()
            .ok_or_else(|| Fault("no sandbox has been built".to_owned()))
    }
}

pub(super) fn left(by: Instant) -> std::time::Duration {
    by.saturating_duration_since(Instant::now())
}

impl Ground for SlotGround {
    fn fence(&mut self, _by: Instant) -> Result<(), Fault> {
        begin("fence", &self.slot);
        if let Some(old) = &self.old {
            old.live.fenced().cancel();
        }
        Ok(())
    }

    fn kill(&mut self, _by: Instant) -> Result<(), Fault> {
        begin("kill", &self.slot);
        self.old
            .as_ref()
            .map_or(Ok(()), |old| wait::kill(&old.live))
            .map_err(Fault)
    }

    fn await_empty(&mut self, by: Instant) -> Result<(), Fault> {
        begin("await_empty", &self.slot);
        let Some(old) = &self.old else { return Ok(()) };
        self.runtime
            .block_on(wait::empty(&old.live, left(by)))
            .map_err(Fault)
    }

    fn drop_namespaces(&mut self, _by: Instant) -> Result<(), Fault> {
        begin("drop", &self.slot);
        // The namespaces went with pid 1; what keeps descriptors of them goes with the upper.
        self.services.clear();
        Ok(())
    }

    fn discard_upper(&mut self, _by: Instant) -> Result<(), Fault> {
        begin("discard", &self.slot);
        if let Some(old) = self.old.take() {
            let _runtime = self.runtime.enter();
            self.machine.dispose(old);
        }
        Ok(())
    }

    fn build(&mut self, by: Instant) -> Result<(), Fault> {
        begin("build", &self.slot);
        let template = &self.template;
        let plan = Plan {
            slot: self.slot.clone(),
            generation: self.next,
            lowers: template.lowers.clone(),
            upper: template.upper().map_err(|e| Fault::of(&e))?,
            copied: template.copied.clone(),
            own_network: template.own_network(),
            limits: template.limits(),
            defaults: template.defaults(),
        };
        let built = self
            .runtime
            .block_on(async { tokio::time::timeout(left(by), self.machine.build(plan)).await });
        match built {
            Ok(Ok(sandbox)) => self.new = Some(sandbox),
            Ok(Err(error)) => return Err(Fault::of(&error)),
            Err(_) => return Err(Fault("it took too long".to_owned())),
        }
        Ok(())
    }

    fn observe_files(&mut self, depth: Depth, by: Instant) -> Result<FilesReport, Fault> {
        begin("files", &self.slot);
        let sandbox = self.built()?;
        let tree = &self.template.tree;
        let within = |ids: IdMap| Options {
            deadline: Some(by),
            entered: sandbox.slices().to_vec(),
            ..Options::new(ids)
        };
        let merged = sandbox.overlay.as_fd();
        let report = match depth {
            Depth::Swap => sandbox.written(
                tree,
                self.template.prefilled.as_deref(),
                &within(IdMap::CANONICAL),
                NAMED,
            ),
            Depth::Walk => files::walk(
                merged,
                tree,
                Some(Trust::ReadOnlyLower),
                &within(sandbox.ids()),
                NAMED,
            ),
            Depth::Full => files::full(merged, tree, &within(sandbox.ids()), NAMED),
        };
        let report = report.map_err(|e| Fault::of(&e))?;
        let (read, trusted) = (report.bytes_read(), report.files_trusted());
        tracing::debug!(slot = self.slot, read, trusted, "files");
        Ok(report)
    }

    fn start_services(&mut self, by: Instant) -> Result<(), Fault> {
        begin("services", &self.slot);
        let started = self.runtime.block_on(template::start(
            &self.machine,
            &self.template.spec,
            self.built()?,
            by,
        ));
        self.services = started.map_err(|e| Fault::of(&e))?;
        Ok(())
    }

    fn observe(&mut self, by: Instant) -> Result<Surroundings, Fault> {
        begin("observe", &self.slot);
        let sandbox = self.built()?;
        let lowers = template::proven_lowers(&self.template, sandbox).map_err(Fault)?;
        let looking = template::surroundings(
            &self.machine,
            sandbox,
            &self.template.spec.key,
            lowers,
            &self.services,
        );
        self.runtime
            .block_on(async { tokio::time::timeout(left(by), looking).await })
            .map_err(|_| Fault("it took too long".to_owned()))
    }

    fn destroy(&mut self) {
        let _runtime = self.runtime.enter();
        for sandbox in self.old.take().into_iter().chain(self.new.take()) {
            end_in_background(Arc::clone(&self.machine), sandbox);
        }
    }
}

/// Kills a sandbox and gives it up, however long it resists.
pub(super) fn end_in_background(machine: Arc<Machine>, sandbox: Sandbox) {
    tokio::spawn(async move { end(&machine, sandbox).await });
}

/// Kills a sandbox, waits until nothing is left, and gives it up.
pub(super) async fn end(machine: &Machine, sandbox: Sandbox) {
    while let Err(reason) = wait::end(&sandbox.live, std::time::Duration::from_secs(10)).await {
        tracing::warn!(
            sandbox = sandbox.live.sandbox,
            reason,
            "a killed sandbox is not gone yet"
        );
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    machine.dispose(sandbox);
}
