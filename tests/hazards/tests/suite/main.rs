//! Every recorded fault and its neighbours, for every way of making sandboxes.

mod clients;
mod gradings;

use std::sync::{Arc, OnceLock};

use innkeeper_test_hazards::{Case, Ground, PAIRS, Pair, neighbours, replay};
use innkeeper_test_local::{built, shared, soak, trial};
use libtest_mimic::{Arguments, Trial};

/// The grounds of all pairs, each made when the first test wants it.
#[derive(Default)]
struct Grounds([OnceLock<Result<Ground, String>>; PAIRS.len()]);

impl Grounds {
    fn of(&self, pair: Pair) -> Result<&Ground, String> {
        let ground = self.0[place_of(pair)].get_or_init(|| Ground::open(pair, &layout()?));
        ground.as_ref().map_err(Clone::clone)
    }
}

/// The image, built where it is not there yet.
fn layout() -> Result<std::path::PathBuf, String> {
    let folder = shared("hazards")?;
    let lines = built(
        "hazards/build.sh",
        &[folder.to_str().expect("a plain path")],
    )?;
    Ok(lines[0][1].clone().into())
}

fn main() {
    let arguments = Arguments::from_args();
    let grounds = Arc::new(Grounds::default());
    let listed = |pair| tests(pair, arguments.list, &grounds);
    let trials = PAIRS.into_iter().flat_map(listed).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    for line in grounds.0.iter().flat_map(tally) {
        println!("{line}");
    }
    drop(grounds);
    conclusion.exit();
}

/// The reuse rate of a pair, where something ran on it.
fn tally(ground: &OnceLock<Result<Ground, String>>) -> Vec<String> {
    match ground.get() {
        Some(Ok(ground)) => ground.tally.lines(&ground.pair.to_string()),
        Some(Err(_)) | None => Vec::new(),
    }
}

/// All tests of one pair, or one that says why there are none.
fn tests(pair: Pair, only_listed: bool, grounds: &Arc<Grounds>) -> Vec<Trial> {
    let refused = if only_listed { None } else { pair.refused() };
    if let Some(why) = refused {
        return vec![trial(format!("{pair}::all"), move || Err(why))];
    }
    let others = clients::TESTS.iter().chain(gradings::TESTS);
    let others = others.map(|(name, test)| {
        let grounds = Arc::clone(grounds);
        trial(format!("{pair}::{name}"), move || {
            test(grounds.of(pair)?);
            Ok(())
        })
    });
    sampled(
        pair,
        replays(pair, grounds).into_iter().chain(others).collect(),
    )
}

/// All tests of the pair that has most users, and of each other one a part of its own, unless
/// everything is to run.
fn sampled(pair: Pair, tests: Vec<Trial>) -> Vec<Trial> {
    if pair.is_default() || soak() {
        return tests;
    }
    let (all, place) = (tests.len(), place_of(pair));
    let kept: Vec<_> = tests.into_iter().skip(place).step_by(PART).collect();
    println!(
        "{pair}: {} of {all} faults; INNKEEPER_SOAK=1 brings about all",
        kept.len()
    );
    kept
}

/// One test in so many.
const PART: usize = 16;

fn place_of(pair: Pair) -> usize {
    let place = PAIRS.iter().position(|one| *one == pair);
    place.expect("one of them")
}

/// A test for each fault that is brought about inside and looked for after the reset.
fn replays(pair: Pair, grounds: &Arc<Grounds>) -> Vec<Trial> {
    let recorded = match shared("hazards").and_then(|folder| Case::recorded(&folder, &["A", "B"])) {
        Ok(cases) => cases,
        Err(missing) => {
            let name = format!("{pair}::recorded faults");
            return vec![trial(name, move || Err(missing))];
        }
    };
    // One of them happens before the first lease.
    let cases = recorded
        .into_iter()
        .filter(|case| case.id != "A9")
        .chain(neighbours::all());
    let one = |case: Case| {
        let grounds = Arc::clone(grounds);
        trial(format!("{pair}::{}", case.id), move || {
            replay(grounds.of(pair)?, &case);
            Ok(())
        })
    };
    cases.map(one).collect()
}
