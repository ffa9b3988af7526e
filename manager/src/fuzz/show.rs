//! What a run found, while it goes and at its end.

use std::fmt::Write;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use innkeeper_test_fuzz::{Failure as Found, Progress, Tally};
use serde_json::{Value, json};

use crate::cli::failure::Failure;
use crate::cli::table::Table;

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// What was counted.
    pub(super) tally: Tally,
    /// The false cleans, cut down.
    pub(super) failures: Vec<Found>,
    /// How long the rollouts took, without what came before and after them.
    pub(super) seconds: f64,
}

impl Ended {
    fn per_second(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "no run has 2^53 iterations")]
        let iterations = self.tally.iterations as f64;
        iterations / self.seconds.max(1e-3)
    }
}

/// Progress on a terminal; nothing elsewhere.
#[derive(Debug)]
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// A bar of so many rollouts.
    pub(super) fn new(total: u64) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        if let Ok(style) = ProgressStyle::with_template(
            "{bar:30} {pos}/{len} rollouts, {per_sec}, {eta} left  {msg}",
        ) {
            bar.set_style(style);
        }
        bar.tick();
        Self(bar)
    }

    /// What comes now.
    pub(super) fn shrinks(&self, failures: usize) {
        if failures > 0 {
            self.0
                .set_message(format!("cutting {failures} scripts down"));
        }
    }

    /// The bar goes.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Progress for Bar {
    fn step(&self, tally: &Tally) {
        self.0.set_position(tally.iterations);
        self.0.set_message(format!(
            "{} clean, {} tainted, {} false",
            tally.clean, tally.tainted, tally.false_clean
        ));
    }
}

/// Saves the scripts of all failures; their paths.
pub(super) fn save(found: &[Found], out: &Path, again: &str) -> Result<Vec<PathBuf>, Failure> {
    let save = |failure: &Found| {
        failure.save(out, again).map_err(|error| {
            Failure::failed(format_args!(
                "a false clean was found, and its script could not be saved to {} ({error}); it is:\n{}",
                out.display(),
                failure.script
            ))
        })
    };
    found.iter().map(save).collect()
}

/// The contract's JSON.
pub(super) fn document(ended: &Ended, saved: &[PathBuf]) -> Value {
    let tally = &ended.tally;
    let kinds: serde_json::Map<String, Value> = tally
        .kinds
        .iter()
        .map(|(kind, count)| (kind.name().to_owned(), (*count).into()))
        .collect();
    let failures = ended.failures.iter().zip(saved).map(|(failure, path)| {
        json!({
            "seed": failure.seed,
            "iteration": failure.iteration,
            "script": path.display().to_string(),
            "differences": failure.differences,
            "repeats": failure.repeats,
        })
    });
    json!({
        "iterations": tally.iterations,
        "clean": tally.clean,
        "checked": tally.checked,
        "tainted": tally.tainted,
        "false_clean": tally.false_clean,
        "odd_fresh": tally.odd_fresh,
        "per_second": (ended.per_second() * 10.0).round() / 10.0,
        "kinds": kinds,
        "verbs": tally.verbs.len(),
        "causes": tally.causes,
        "failures": failures.collect::<Vec<_>>(),
    })
}

/// The same for people.
pub(super) fn text(seed: u64, ended: &Ended, saved: &[PathBuf]) -> String {
    let tally = &ended.tally;
    let mut table = Table::new(&["KIND", ">ACTED", ">DONE"]);
    for (kind, acted) in &tally.kinds {
        let done = tally.done.get(kind).copied().unwrap_or_default();
        table.row([kind.name().to_owned(), acted.to_string(), done.to_string()]);
    }
    let mut text = table.render();
    let _ = writeln!(
        text,
        "\nseed {seed}: {} rollouts, {:.1} per second: {} clean, of them {} looked at again; {} tainted; {} false clean",
        tally.iterations,
        ended.per_second(),
        tally.clean,
        tally.checked,
        tally.tainted,
        tally.false_clean,
    );
    for (cause, count) in &tally.causes {
        let _ = writeln!(text, "  tainted {count} times: {cause}");
    }
    for kind in tally.uncovered() {
        let _ = writeln!(text, "  nothing was acted out of the kind {kind}");
    }
    if tally.odd_fresh > 0 {
        let _ = writeln!(
            text,
            "{} fresh sandboxes were not like the first ones: nothing can be said about resets on this machine",
            tally.odd_fresh
        );
    }
    for (failure, path) in ended.failures.iter().zip(saved) {
        let _ = writeln!(text, "\nfalse clean, saved as {}:", path.display());
        let _ = write!(text, "{}", failure.script);
        for difference in &failure.differences {
            let _ = writeln!(text, "  {difference}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_fields_of_the_contract() {
        let failure = Found {
            seed: 1,
            iteration: 2,
            script: Default::default(),
            differences: vec!["file /a mode".into()],
            repeats: true,
        };
        let ended = Ended {
            tally: Tally {
                iterations: 10,
                false_clean: 1,
                ..Tally::default()
            },
            failures: vec![failure],
            seconds: 4.0,
        };
        let saved = [PathBuf::from("/out/x.act")];
        let document = document(&ended, &saved);
        for field in "iterations clean tainted false_clean per_second kinds failures".split(' ') {
            assert!(!document[field].is_null(), "{field}");
        }
        assert_eq!(document["per_second"], 2.5);
        assert_eq!(document["failures"][0]["script"], "/out/x.act");
        assert!(text(1, &ended, &saved).contains("file /a mode"));
    }
}
