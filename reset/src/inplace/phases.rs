//! The reset in place, as phases.
//!
//! ```text
//! Returned -> Fenced -> Killed -> Cleared -> Restored -> ServicesUp -> verdict
//! ```
//!
//! As in [`crate::layered`], a step takes its phase and gives the next or ends in [`Tainted`], after the
//! sandbox has been given up. A phase comes from its step alone.

mod ground;

use std::time::{Duration, Instant};

pub use ground::{Ground, Scan};

use super::plan::{Refusal, plan};
use crate::baseline::{Baseline, Cause, Observation, Tainted, Verdict, verify};
use crate::components::Component;
use crate::difference::Difference;
use crate::files::{Depth, FilesReport};
use crate::layered::Fault;
use crate::tree::Tree;

/// Restores until a scan finds the baseline; more than this are not tried. One does, two where the file
/// system parts hard links on its own.
const ROUNDS: u32 = 4;

/// Differences that a taint names.
const NAMED: usize = 20;

/// How long each step may take before the sandbox is tainted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Fencing.
    pub fence: Duration,
    /// Until nothing of the guest is left.
    pub kill: Duration,
    /// Until nothing of it is left in the kernel: a closed connection keeps its port for a minute.
    pub clear: Duration,
    /// One scan of all files, and one restore.
    pub files: Duration,
    /// Until all services are ready.
    pub services: Duration,
    /// Observing the rest.
    pub observe: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Deadlines {
            fence: Duration::from_secs(5),
            kill: Duration::from_secs(20),
            clear: Duration::from_secs(90),
            files: Duration::from_secs(120),
            services: Duration::from_secs(60),
            observe: Duration::from_secs(10),
        }
    }
}

/// Runs all phases. `files` must be the tree whose root `baseline` names. A verdict of tainted means
/// that the ground has been told to give the sandbox up.
pub fn reset<G: Ground>(
    ground: &mut G,
    baseline: &Baseline,
    files: &Tree,
    depth: Depth,
    deadlines: &Deadlines,
) -> Verdict {
    let ctx = Ctx {
        ground,
        baseline,
        files,
        depth: depth.max(Depth::Walk),
        deadlines,
    };
    let phases = || -> Result<ServicesUp<'_, G>, Tainted> {
        let killed = Returned(ctx).fence()?.kill()?;
        killed.clear()?.restore()?.start_services()
    };
    match phases() {
        Ok(phase) => phase.verify(),
        Err(tainted) => Verdict::Tainted(tainted),
    }
}

struct Ctx<'a, G: Ground> {
    ground: &'a mut G,
    baseline: &'a Baseline,
    files: &'a Tree,
    depth: Depth,
    deadlines: &'a Deadlines,
}

struct Returned<'a, G: Ground>(Ctx<'a, G>);
/// No call reaches the sandbox any more.
struct Fenced<'a, G: Ground>(Ctx<'a, G>);
/// Nothing of the guest runs.
struct Killed<'a, G: Ground>(Ctx<'a, G>);
/// Nothing of it is left in the kernel, as far as it could be removed.
struct Cleared<'a, G: Ground>(Ctx<'a, G>);
/// A scan after the last change found the files of the baseline.
struct Restored<'a, G: Ground>(Ctx<'a, G>, FilesReport);
struct ServicesUp<'a, G: Ground>(Ctx<'a, G>, FilesReport);

impl<G: Ground> Ctx<'_, G> {
    /// Runs one effect under its deadline. Late is failed, even when it worked.
    fn run<T>(
        &mut self,
        step: &'static str,
        limit: Duration,
        effect: impl FnOnce(&mut G, Instant) -> Result<T, Fault>,
    ) -> Result<T, Tainted> {
        let by = Instant::now() + limit;
        let cause = match effect(self.ground, by) {
            Ok(_) if Instant::now() > by => Cause::Late(step),
            Ok(value) => return Ok(value),
            Err(fault) => Cause::Step(step, fault.0),
        };
        self.taint(Tainted::because(cause))
    }

    fn taint<T>(&mut self, tainted: Tainted) -> Result<T, Tainted> {
        self.ground.destroy();
        Err(tainted)
    }

    fn refused(&mut self, refusals: &[Refusal], scan: &Scan) -> Tainted {
        let first = refusals.first().map_or(String::new(), sentence);
        let differences = refusals.iter().take(NAMED).map(|refusal| Difference {
            component: Component::Files,
            path: refusal.path.clone(),
            what: refusal.why.words().to_owned(),
            baseline: None,
            now: None,
        });
        Tainted {
            cause: Cause::Step(RESTORE, first),
            differences: differences.collect(),
            digests: [(Component::Files, scan.report.root())].into(),
        }
    }
}

const RESTORE: &str = "restoring the files";

fn sentence(refusal: &Refusal) -> String {
    let path = refusal.path.escape_ascii();
    format!("/{path} is {}", refusal.why.words())
}

impl<'a, G: Ground> Returned<'a, G> {
    fn fence(mut self) -> Result<Fenced<'a, G>, Tainted> {
        let limit = self.0.deadlines.fence;
        self.0.run("fencing the lease", limit, G::fence)?;
        Ok(Fenced(self.0))
    }
}

impl<'a, G: Ground> Fenced<'a, G> {
    fn kill(mut self) -> Result<Killed<'a, G>, Tainted> {
        let limit = self.0.deadlines.kill;
        self.0.run("killing the guest", limit, G::kill)?;
        Ok(Killed(self.0))
    }
}

impl<'a, G: Ground> Killed<'a, G> {
    fn clear(mut self) -> Result<Cleared<'a, G>, Tainted> {
        let limit = self.0.deadlines.clear;
        let step = "clearing what the guest left in the kernel";
        self.0.run(step, limit, G::clear)?;
        Ok(Cleared(self.0))
    }
}

impl<'a, G: Ground> Cleared<'a, G> {
    fn restore(mut self) -> Result<Restored<'a, G>, Tainted> {
        let (depth, limit) = (self.0.depth, self.0.deadlines.files);
        for round in 0..=ROUNDS {
            let look = |ground: &mut G, by| ground.scan(depth, by);
            let scan = self.0.run("observing the files", limit, look)?;
            if scan.report.is_equal() {
                return Ok(Restored(self.0, scan.report));
            }
            let ground = &*self.0.ground;
            let planned = plan(self.0.files, &scan.tree, |content| ground.holds(content));
            match planned {
                Ok(plan) if round < ROUNDS && !plan.is_empty() => {
                    let restore = |ground: &mut G, by| ground.apply(&plan, by);
                    self.0.run(RESTORE, limit, restore)?;
                }
                Ok(_) => {
                    let tainted = Tainted {
                        cause: Cause::Differs(Component::Files),
                        differences: scan.report.differences().to_vec(),
                        digests: [(Component::Files, scan.report.root())].into(),
                    };
                    return self.0.taint(tainted);
                }
                Err(refusals) => {
                    let tainted = self.0.refused(&refusals, &scan);
                    return self.0.taint(tainted);
                }
            }
        }
        // The last round has returned.
        let cause = Cause::Differs(Component::Files);
        self.0.taint(Tainted::because(cause))
    }
}

impl<'a, G: Ground> Restored<'a, G> {
    fn start_services(mut self) -> Result<ServicesUp<'a, G>, Tainted> {
        let limit = self.0.deadlines.services;
        let start = G::start_services;
        self.0.run("starting the services", limit, start)?;
        Ok(ServicesUp(self.0, self.1))
    }
}

impl<G: Ground> ServicesUp<'_, G> {
    fn verify(mut self) -> Verdict {
        let limit = self.0.deadlines.observe;
        let surroundings = match self.0.run("observing the sandbox", limit, G::observe) {
            Ok(surroundings) => surroundings,
            Err(tainted) => return Verdict::Tainted(tainted),
        };
        let observation = Observation {
            files: Some(self.1),
            surroundings,
        };
        let verdict = verify(self.0.baseline, &observation, self.0.depth);
        if !verdict.is_clean() {
            self.0.ground.destroy();
        }
        verdict
    }
}
