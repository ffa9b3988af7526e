//! Sandboxes whose image is their pod's own root: what agents leave is undone, pods of one image are
//! equal, and a guest notices what ARCHITECTURE.md says and nothing else.

mod equal;
mod faults;
mod lowers;
#[path = "../suite/pod.rs"]
mod pod;
#[path = "../suite/rollouts.rs"]
mod rollouts;

use std::sync::{Arc, OnceLock};

use innkeeper_test_local::{House, static_execd, trial};
use libtest_mimic::Arguments;

/// A manager that starts when the first test wants it.
#[derive(Default)]
struct Shared(OnceLock<House>);

impl Shared {
    fn house(&self) -> &House {
        let options = ["--strategy", "sliced", "--rights", "pod"];
        self.0.get_or_init(|| House::with(&options))
    }

    /// As the tests of every pod want it.
    fn pods(&self) -> &House {
        self.house()
    }
}

/// What a test is: it panics when it fails, and returns why when it cannot run.
type Test = fn(&Shared) -> Result<(), String>;

fn main() {
    let arguments = Arguments::from_args();
    let shared = Arc::new(Shared::default());
    let themes = [
        ("equal", equal::TESTS),
        ("faults", faults::TESTS),
        ("lowers", lowers::TESTS),
        ("pod", pod::TESTS),
        ("rollouts", rollouts::TESTS),
    ];
    let tests = themes.into_iter().flat_map(|(theme, tests)| {
        tests
            .iter()
            .map(move |(name, test)| (format!("{theme}::{name}"), *test))
    });
    // Slices have no such copy: a rename of the image's directories is among their faults.
    let tests = tests.filter(|(name, _)| name != "pod::a_copied_workdir_can_be_renamed");
    let trials = tests.map(|(name, test)| {
        let shared = Arc::clone(&shared);
        trial(name, move || static_execd().and_then(|()| test(&shared)))
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    drop(shared);
    conclusion.exit();
}
