//! One struct per phase.

use std::time::{Duration, Instant};

use super::ground::{Fault, Ground, Step};
use crate::baseline::{Baseline, Cause, Observation, Tainted, Verdict, verify};
use crate::files::{Depth, FilesReport};

/// What a reset is to achieve.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    /// What the sandbox must equal.
    pub baseline: &'a Baseline,
    /// The least depth at which the files are checked.
    pub depth: Depth,
    /// How long each step may take.
    pub deadlines: Deadlines,
}

/// How long each step may take before the sandbox is tainted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Fencing, killing, dropping, discarding: each.
    pub short: Duration,
    /// Until nothing of the guest is left.
    pub empty: Duration,
    /// Building the next generation.
    pub build: Duration,
    /// Checking the files.
    pub files: Duration,
    /// Until all services are ready.
    pub services: Duration,
    /// Observing the rest.
    pub observe: Duration,
}

impl Default for Deadlines {
    /// Far above what a healthy machine needs (a thousand processes die in 50 ms), and short enough
    /// that a slot in trouble is replaced soon. Services get what container tools commonly give.
    fn default() -> Self {
        Deadlines {
            short: Duration::from_secs(5),
            empty: Duration::from_secs(10),
            build: Duration::from_secs(10),
            files: Duration::from_secs(120),
            services: Duration::from_secs(60),
            observe: Duration::from_secs(10),
        }
    }
}

impl Deadlines {
    fn of(&self, step: Step) -> Duration {
        match step {
            Step::Fence | Step::Kill | Step::DropNamespaces | Step::DiscardUpper => self.short,
            Step::AwaitEmpty => self.empty,
            Step::Build => self.build,
            Step::ObserveFiles => self.files,
            Step::StartServices => self.services,
            Step::Observe => self.observe,
        }
    }
}

/// What every phase carries on. Not public, so that a phase can come from its step alone.
struct Ctx<'a, G: Ground> {
    ground: &'a mut G,
    plan: &'a Plan<'a>,
}

impl<'a, G: Ground> Ctx<'a, G> {
    /// Runs one effect under its deadline. Late is failed, even when it worked.
    fn run<T>(
        &mut self,
        step: Step,
        effect: impl FnOnce(&mut G, Instant) -> Result<T, Fault>,
    ) -> Result<T, Tainted> {
        let by = Instant::now() + self.plan.deadlines.of(step);
        let result = effect(self.ground, by);
        let cause = match result {
            Ok(_) if Instant::now() > by => Cause::Late(step.name()),
            Ok(value) => return Ok(value),
            Err(fault) => Cause::Step(step.name(), fault.0),
        };
        self.ground.destroy();
        Err(Tainted::because(cause))
    }
}

macro_rules! phases {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $($(#[$doc])* #[must_use = "a reset that stops half way leaves the sandbox in between"] pub struct $name<'a, G: Ground>(Ctx<'a, G>);)*
    };
}

phases! {
    /// The lease has ended; nothing has been done yet.
    Returned,
    /// Nobody can reach the sandbox any more.
    Fenced,
    /// All of the guest has been killed.
    Killed,
    /// Nothing of the guest runs.
    Emptied,
    /// Its namespaces are gone.
    Dropped,
    /// A fresh generation stands over a fresh upper.
    Swapped,
}

/// The files have been looked at, and are equal.
#[must_use = "a reset that stops half way leaves the sandbox in between"]
pub struct FilesVerified<'a, G: Ground>(Ctx<'a, G>, FilesReport);

/// The services are ready.
#[must_use = "a reset that stops half way leaves the sandbox in between"]
pub struct ServicesUp<'a, G: Ground>(Ctx<'a, G>, FilesReport);

impl<'a, G: Ground> Returned<'a, G> {
    /// Starts, or after a crash starts again, at the beginning.
    pub fn new(ground: &'a mut G, plan: &'a Plan<'a>) -> Self {
        Returned(Ctx { ground, plan })
    }

    /// Raises the generation.
    pub fn fence(mut self) -> Result<Fenced<'a, G>, Tainted> {
        self.0.run(Step::Fence, G::fence)?;
        Ok(Fenced(self.0))
    }
}

impl<'a, G: Ground> Fenced<'a, G> {
    /// Kills the guest.
    pub fn kill(mut self) -> Result<Killed<'a, G>, Tainted> {
        self.0.run(Step::Kill, G::kill)?;
        Ok(Killed(self.0))
    }
}

impl<'a, G: Ground> Killed<'a, G> {
    /// Waits until nothing is left.
    pub fn await_empty(mut self) -> Result<Emptied<'a, G>, Tainted> {
        self.0.run(Step::AwaitEmpty, G::await_empty)?;
        Ok(Emptied(self.0))
    }
}

impl<'a, G: Ground> Emptied<'a, G> {
    /// Gives up the namespaces.
    pub fn drop_namespaces(mut self) -> Result<Dropped<'a, G>, Tainted> {
        self.0.run(Step::DropNamespaces, G::drop_namespaces)?;
        Ok(Dropped(self.0))
    }
}

impl<'a, G: Ground> Dropped<'a, G> {
    /// Gives up the upper and builds the next generation.
    pub fn swap(mut self) -> Result<Swapped<'a, G>, Tainted> {
        self.0.run(Step::DiscardUpper, G::discard_upper)?;
        self.0.run(Step::Build, G::build)?;
        Ok(Swapped(self.0))
    }
}

impl<'a, G: Ground> Swapped<'a, G> {
    /// Looks at the files. A difference ends the reset here: no service is started over wrong files.
    pub fn verify_files(mut self) -> Result<FilesVerified<'a, G>, Tainted> {
        let depth = self.0.plan.depth;
        let report = self.0.run(Step::ObserveFiles, |ground, by| {
            ground.observe_files(depth, by)
        })?;
        let done = report.depth();
        let cause = if done < depth {
            Cause::Depth {
                wanted: depth,
                done,
            }
        } else if !report.is_equal() {
            Cause::Differs(crate::components::Component::Files)
        } else {
            return Ok(FilesVerified(self.0, report));
        };
        self.0.ground.destroy();
        let digests = [(crate::components::Component::Files, report.root())].into();
        Err(Tainted {
            cause,
            differences: report.differences().to_vec(),
            digests,
        })
    }
}

impl<'a, G: Ground> FilesVerified<'a, G> {
    /// Starts the services.
    pub fn start_services(mut self) -> Result<ServicesUp<'a, G>, Tainted> {
        self.0.run(Step::StartServices, G::start_services)?;
        Ok(ServicesUp(self.0, self.1))
    }
}

impl<G: Ground> ServicesUp<'_, G> {
    /// Observes the rest and compares. Tainted means that the sandbox has been destroyed.
    pub fn verify(mut self) -> Verdict {
        let surroundings = match self.0.run(Step::Observe, G::observe) {
            Ok(surroundings) => surroundings,
            Err(tainted) => return Verdict::Tainted(tainted),
        };
        let observation = Observation {
            files: Some(self.1),
            surroundings,
        };
        let verdict = verify(self.0.plan.baseline, &observation, self.0.plan.depth);
        if !verdict.is_clean() {
            self.0.ground.destroy();
        }
        verdict
    }
}
