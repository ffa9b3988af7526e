//! One machine, end to end. The tests share a manager, which is taken down when all have ended;
//! those of `lifecycle` have their own, because they kill it.

mod in_place;
mod inside;
mod isolation;
mod lifecycle;
mod pod;
mod pods;
mod rollouts;
mod swebench;

use std::sync::{Arc, OnceLock};

use innkeeper_test_cli::Inn;
use innkeeper_test_local::{House, trial};
use libtest_mimic::Arguments;

/// Managers, each of which starts when the first test wants it.
#[derive(Default)]
struct Shared {
    house: OnceLock<House>,
    pods: OnceLock<House>,
    /// One whose slots are containers that are their sandbox.
    in_place: OnceLock<Result<Inn, String>>,
}

impl Shared {
    fn house(&self) -> &House {
        self.house.get_or_init(House::open)
    }

    /// One whose slots are containers with a default pod's rights.
    fn pods(&self) -> &House {
        self.pods.get_or_init(|| House::with(&["--rights", "pod"]))
    }
}

/// What a test is: it panics when it fails, and returns why when it cannot run.
type Test = fn(&Shared) -> Result<(), String>;

fn main() {
    let arguments = Arguments::from_args();
    let shared = Arc::new(Shared::default());
    let themes = [
        ("in_place", in_place::TESTS),
        ("inside", inside::TESTS),
        ("isolation", isolation::TESTS),
        ("lifecycle", lifecycle::TESTS),
        ("pod", pod::TESTS),
        ("pods", pods::TESTS),
        ("rollouts", rollouts::TESTS),
        ("swebench", swebench::TESTS),
    ];
    let tests = themes.into_iter().flat_map(|(theme, tests)| {
        tests
            .iter()
            .map(move |(name, test)| (format!("{theme}::{name}"), *test))
    });
    let trials = tests.map(|(name, test)| {
        let shared = Arc::clone(&shared);
        trial(name, move || test(&shared))
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    drop(shared);
    conclusion.exit();
}
