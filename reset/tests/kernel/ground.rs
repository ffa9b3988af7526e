//! A ground that behaves: a slot with a real upper, in which steps can fail, crash, do nothing or be
//! done twice.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::time::Instant;

use innkeeper_reset::baseline::{Baseline, Captured, Surroundings};
use innkeeper_reset::components::{Component, Facts};
use innkeeper_reset::files::{self, Depth, FilesReport};
use innkeeper_reset::layered::{Fault, Ground, Step};
use innkeeper_reset::tree::Tree;

use crate::scratch::{Mounted, open_dir, options, set_mtime, tree};

/// What goes wrong, and at which step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    Fails(Step),
    CrashesBefore(Step),
    CrashesAfter(Step),
    /// Reports success and does nothing.
    Lies(Step),
    /// Everything is done twice.
    Twice,
}

pub(crate) struct Slot {
    pub(crate) trouble: Trouble,
    pub(crate) generation: u64,
    pub(crate) destroyed: bool,
    pub(crate) guests: Vec<&'static str>,
    pub(crate) namespaces: Option<u64>,
    pub(crate) services: Option<u64>,
    /// An upper for each generation that has one.
    upper: Option<Mounted>,
    pub(crate) tree: Tree,
}

const KEY: &str = "a-template";

fn fresh_upper() -> Mounted {
    let upper = Mounted::tmpfs();
    set_mtime(&upper.path(), 1_600_000_000, 0);
    upper
}

/// Facts of a sandbox in which nothing but these services run.
pub(crate) fn facts(hostname: &str, services: usize) -> BTreeMap<Component, Facts> {
    let one = |key: &str, value: &str| {
        let mut facts = Facts::new();
        facts.put(key, value);
        facts
    };
    [
        (
            Component::Processes,
            one("processes", &services.to_string()),
        ),
        (Component::Mounts, one("/", "overlay")),
        (Component::Ipc, one("shm", "")),
        (Component::Network, one("dev", "lo")),
        (Component::Kernel, one("kernel/hostname", hostname)),
        (Component::Limits, one("group pids.max", "512")),
    ]
    .into()
}

pub(crate) fn surroundings() -> Surroundings {
    Surroundings {
        template_key: KEY.into(),
        lowers: vec!["layer-b".into(), "layer-a".into()],
        facts: facts("sandbox", 1),
        failed: BTreeMap::new(),
    }
}

pub(crate) fn baseline(tree: &Tree) -> Baseline {
    let like = surroundings();
    Baseline::new(
        KEY,
        like.lowers,
        tree.root(),
        like.facts,
        Captured::default(),
    )
}

impl Slot {
    /// A returned sandbox: used, dirty, with guests running.
    pub(crate) fn returned(trouble: Trouble) -> Self {
        let upper = fresh_upper();
        let tree = tree(&upper.path());
        fs::write(upper.path().join("left"), "by the guest").expect("write");
        Slot {
            trouble,
            generation: 1,
            destroyed: false,
            guests: vec!["shell", "daemon"],
            namespaces: Some(1),
            services: Some(1),
            upper: Some(upper),
            tree,
        }
    }

    fn step<T>(
        &mut self,
        step: Step,
        mut effect: impl FnMut(&mut Self) -> Result<T, Fault>,
        lie: T,
    ) -> Result<T, Fault> {
        match self.trouble {
            Trouble::Fails(at) if at == step => return Err(Fault("it was told to fail".into())),
            Trouble::Lies(at) if at == step => return Ok(lie),
            Trouble::CrashesBefore(at) if at == step => panic!("crash before {step:?}"),
            Trouble::CrashesAfter(at) if at == step => {
                let _ = effect(self);
                panic!("crash after {step:?}");
            }
            Trouble::Twice => _ = effect(self)?,
            Trouble::None
            | Trouble::Fails(_)
            | Trouble::Lies(_)
            | Trouble::CrashesBefore(_)
            | Trouble::CrashesAfter(_) => {}
        }
        effect(self)
    }

    fn upper_report(&self, depth: Depth) -> Result<FilesReport, Fault> {
        let upper = self
            .upper
            .as_ref()
            .ok_or(Fault("there is no upper".into()))?;
        let fd = open_dir(&upper.path());
        let report = match depth {
            Depth::Swap => files::upper(fd.as_fd(), None, &self.tree, &options(), 10),
            Depth::Walk => files::walk(fd.as_fd(), &self.tree, None, &options(), 10),
            Depth::Full => files::full(fd.as_fd(), &self.tree, &options(), 10),
        };
        report.map_err(|error| Fault::of(&error))
    }
}

impl Ground for Slot {
    fn fence(&mut self, _: Instant) -> Result<(), Fault> {
        self.step(
            Step::Fence,
            |slot| {
                slot.generation += 1;
                Ok(())
            },
            (),
        )
    }

    fn kill(&mut self, _: Instant) -> Result<(), Fault> {
        self.step(
            Step::Kill,
            |slot| {
                slot.guests.clear();
                slot.services = None;
                Ok(())
            },
            (),
        )
    }

    fn await_empty(&mut self, _: Instant) -> Result<(), Fault> {
        let empty = |slot: &mut Slot| match slot.guests.first() {
            None => Ok(()),
            Some(guest) => Err(Fault(format!("{guest} is still there"))),
        };
        self.step(Step::AwaitEmpty, empty, ())
    }

    fn drop_namespaces(&mut self, _: Instant) -> Result<(), Fault> {
        self.step(
            Step::DropNamespaces,
            |slot| {
                slot.namespaces = None;
                Ok(())
            },
            (),
        )
    }

    fn discard_upper(&mut self, _: Instant) -> Result<(), Fault> {
        self.step(
            Step::DiscardUpper,
            |slot| {
                slot.upper = None;
                Ok(())
            },
            (),
        )
    }

    fn build(&mut self, _: Instant) -> Result<(), Fault> {
        let build = |slot: &mut Slot| {
            slot.upper.get_or_insert_with(fresh_upper);
            slot.namespaces.get_or_insert(slot.generation);
            Ok(())
        };
        self.step(Step::Build, build, ())
    }

    fn observe_files(&mut self, depth: Depth, _: Instant) -> Result<FilesReport, Fault> {
        // A lie about files: a less thorough check than was asked for.
        let lie = Slot::returned(Trouble::None);
        let lie = lie.upper_report(Depth::Swap)?;
        self.step(Step::ObserveFiles, |slot| slot.upper_report(depth), lie)
    }

    fn start_services(&mut self, _: Instant) -> Result<(), Fault> {
        self.step(
            Step::StartServices,
            |slot| {
                slot.services = Some(slot.generation);
                Ok(())
            },
            (),
        )
    }

    fn observe(&mut self, _: Instant) -> Result<Surroundings, Fault> {
        let observe = |slot: &mut Slot| {
            // The host name tells a namespace that was kept from one that was made anew.
            let hostname = if slot.namespaces == Some(slot.generation) {
                "sandbox"
            } else {
                "used"
            };
            let services = usize::from(slot.services == Some(slot.generation)) + slot.guests.len();
            Ok(Surroundings {
                facts: facts(hostname, services),
                ..surroundings()
            })
        };
        self.step(Step::Observe, observe, Surroundings::default())
    }

    fn destroy(&mut self) {
        self.destroyed = true;
    }
}
