//! The effects of a reset in place. Beside the files it does what [`SlotGround`] does for every
//! strategy.

use std::sync::Arc;
use std::time::Instant;

use innkeeper_reset::baseline::{Surroundings, Verdict};
use innkeeper_reset::digest::Digest;
use innkeeper_reset::files::{self, Depth};
use innkeeper_reset::inplace::{self, Deadlines, Ground, Plan, Scan};
use innkeeper_reset::layered::{Fault, Ground as _};
use innkeeper_reset::tree::Tree;

use super::ground::{NAMED, SlotGround, begin, left};
use crate::plain::{Plain, contents};
use crate::template::{self, Template};

/// A slot whose sandbox is put back entry by entry.
struct InPlace(SlotGround);

/// Runs all phases of a reset in place.
pub(super) fn reset(
    ground: SlotGround,
    template: &Arc<Template>,
    depth: Depth,
) -> (Verdict, SlotGround) {
    let mut ground = InPlace(ground);
    let tree = ground.baseline_tree();
    let (baseline, deadlines) = (&template.baseline, Deadlines::default());
    let verdict = inplace::reset(&mut ground, baseline, &tree, depth, &deadlines);
    (verdict, ground.0)
}

impl InPlace {
    fn plain(&self) -> Result<&Plain, Fault> {
        let plain = self.0.machine.plain();
        plain.ok_or_else(|| Fault("this container is no sandbox".to_owned()))
    }

    /// As captured here, or, in a container that is about to become its template's, as published.
    fn baseline_tree(&self) -> Arc<Tree> {
        let captured = self.plain().ok().and_then(Plain::tree);
        Arc::clone(captured.unwrap_or(&self.0.template.tree))
    }

    /// A container that has not been made its template's yet learns what its prepare wrote.
    fn become_its_templates(&self) -> Result<(), Fault> {
        let (plain, key) = (self.plain()?, &self.0.template.spec.key);
        if plain.is_of(key) {
            return Ok(());
        }
        if !plain.claim(key) {
            let words = "this container's root is another template's";
            return Err(Fault(words.to_owned()));
        }
        plain
            .take_in(&template::published(&self.0.machine, key))
            .map_err(Fault)
    }
}

impl Ground for InPlace {
    fn fence(&mut self, by: Instant) -> Result<(), Fault> {
        self.0.fence(by)
    }

    fn kill(&mut self, by: Instant) -> Result<(), Fault> {
        begin("kill", &self.0.slot);
        self.0.services.clear();
        let Some(old) = self.0.old.take() else {
            return Ok(());
        };
        // What enters no more is all that there is: the fence is closed.
        let stay = old.live.stay();
        let stay = stay.ok_or_else(|| Fault("its processes are held by other means".to_owned()))?;
        let killed = stay.kill_all(by).map_err(Fault)?;
        tracing::debug!(slot = self.0.slot, ?killed, "reset");
        Ok(())
    }

    fn clear(&mut self, by: Instant) -> Result<(), Fault> {
        begin("clear", &self.0.slot);
        self.become_its_templates()?;
        // Nothing may be read across mounts that a guest has made.
        self.plain()?.root.same_mounts().map_err(Fault)?;
        self.0.build(by)?;
        let machine = Arc::clone(&self.0.machine);
        let plain = self.plain()?;
        let clear = template::clear(&machine, plain, self.0.built()?, left(by));
        let cleared = self
            .0
            .runtime
            .block_on(async { tokio::time::timeout(left(by), clear).await });
        cleared
            .unwrap_or_else(|_| Err("it took too long".to_owned()))
            .map_err(Fault)
    }

    fn scan(&mut self, _depth: Depth, by: Instant) -> Result<Scan, Fault> {
        begin("files", &self.0.slot);
        let plain = self.plain()?;
        let options = plain.root.options(Some(by));
        let baseline = self.baseline_tree();
        let scan = files::scan(plain.root.fd(), &baseline, None, &options, NAMED);
        let (report, tree) = scan.map_err(|e| Fault::of(&e))?;
        if report.is_equal() {
            plain.remember(&Arc::new(tree.clone()));
        }
        Ok(Scan { report, tree })
    }

    fn holds(&self, content: &Digest) -> bool {
        self.plain().is_ok_and(|plain| plain.stash().holds(content))
    }

    fn apply(&mut self, plan: &Plan, by: Instant) -> Result<(), Fault> {
        begin("restore", &self.0.slot);
        tracing::debug!(slot = self.0.slot, steps = plan.steps.len(), "reset");
        let plain = self.plain()?;
        inplace::apply(plain.root.fd(), plan, &plain.stash(), by).map_err(|e| Fault::of(&e))
    }

    fn start_services(&mut self, by: Instant) -> Result<(), Fault> {
        let (plain, template) = (self.plain()?, &self.0.template);
        // At its first sandbox: the files are the template's now.
        let there = contents(&template.tree);
        plain
            .copy(&template.spec, &template.tree, &there)
            .map_err(Fault)?;
        // What it looked like before the ipc objects went is of no use.
        self.0.new = None;
        self.0.build(by)?;
        self.0.start_services(by)
    }

    fn observe(&mut self, by: Instant) -> Result<Surroundings, Fault> {
        self.0.observe(by)
    }

    fn destroy(&mut self) {
        self.0.destroy();
    }
}
