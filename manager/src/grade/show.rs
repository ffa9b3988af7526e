//! What a grading shows: the bar while it runs, the table and the document at its end.

use std::io::IsTerminal;
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::outcome::Outcome;
use crate::cli::output::short;
use crate::cli::table::Table;

/// Progress on a terminal; nothing elsewhere.
#[derive(Debug)]
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// A bar of so many gradings.
    pub(super) fn new(total: usize) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        if let Ok(style) =
            ProgressStyle::with_template("{bar:30} {pos}/{len} graded, {eta} left  {msg}")
        {
            bar.set_style(style);
        }
        bar.tick();
        Self(bar)
    }

    /// One more is done.
    pub(super) fn step(&self, outcome: &Outcome) {
        self.0
            .set_message(format!("{} {}", outcome.instance_id, outcome.verdict));
        self.0.inc(1);
    }

    /// All are done; the bar goes.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// The table: a row a grading.
pub(super) fn table(outcomes: &[Outcome]) -> String {
    let mut table = Table::new(&[
        "INSTANCE",
        "MODEL",
        "VERDICT",
        "SUPPLY",
        ">USES",
        ">LEASE MS",
        ">GRADE S",
        ">RESET MS",
        "RETURN",
        "DIGEST",
        "NOTE",
    ]);
    for outcome in outcomes {
        let record = &outcome.record;
        table.row([
            outcome.instance_id.clone(),
            outcome.model.clone(),
            outcome.verdict.to_owned(),
            text(&record["lease"]["supply"]),
            text(&record["lease"]["uses"]),
            number(&per(1000.0, &record["times"]["lease_us"]), 1),
            number(&per(1e6, &record["times"]["grade_us"]), 2),
            number(&per(1000.0, &record["return"]["reset_us"]), 1),
            text(&record["return"]["outcome"]),
            short(record["return"]["digest"].as_str().unwrap_or("-")),
            note(outcome),
        ]);
    }
    table.render()
}

/// What stands under the table.
pub(super) fn closing(summary: &Path, without_patch: usize, outcomes: &[Outcome]) -> String {
    let count = |verdict| outcomes.iter().filter(|o| o.verdict == verdict).count();
    let mut text = format!(
        "\n{} resolved, {} unresolved, {} infra-errors",
        count("resolved"),
        count("unresolved"),
        count("infra-error")
    );
    if without_patch > 0 {
        text.push_str(&format!(", {without_patch} without a patch"));
    }
    text.push_str(&format!("; summary in {}\n", summary.display()));
    text
}

/// The JSON document of a run.
pub(super) fn document(
    run_id: &str,
    summary: &Path,
    without_patch: Vec<&str>,
    outcomes: &[Outcome],
) -> Value {
    json!({
        "run_id": run_id,
        "summary": summary.display().to_string(),
        "empty_patch_ids": without_patch,
        "results": outcomes.iter().map(result).collect::<Vec<_>>(),
    })
}

fn result(outcome: &Outcome) -> Value {
    let record = &outcome.record;
    json!({
        "instance_id": outcome.instance_id,
        "model_name_or_path": outcome.model,
        "verdict": outcome.verdict,
        "cause": outcome.broken.as_ref().map(|(word, _)| word),
        "detail": outcome.cause(),
        "skipped": outcome.skipped,
        "supply": record["lease"]["supply"],
        "uses": record["lease"]["uses"],
        "slot": record["lease"]["slot"],
        "generation": record["lease"]["generation"],
        "lease_ms": per(1000.0, &record["times"]["lease_us"]),
        "grade_s": per(1e6, &record["times"]["grade_us"]),
        "reset_ms": per(1000.0, &record["return"]["reset_us"]),
        "outcome": record["return"]["outcome"],
        "digest": record["return"]["digest"],
        "baseline": record["return"]["baseline"],
        "verified": record["return"]["verified"],
        "retired": record["return"]["retired"],
        "flags": record["patch"]["flags"],
    })
}

fn note(outcome: &Outcome) -> String {
    let mut notes = Vec::new();
    if outcome.skipped {
        notes.push("earlier run".to_owned());
    }
    if let Some((word, _)) = &outcome.broken {
        notes.push(word.clone());
    }
    let flags = outcome.record["patch"]["flags"]
        .as_array()
        .map_or(0, Vec::len);
    if flags > 0 {
        notes.push(format!("{flags} flagged"));
    }
    notes.join(", ")
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}

/// Microseconds of a record in a larger unit; null stays null.
fn per(unit: f64, micros: &Value) -> Value {
    micros.as_f64().map(|micros| micros / unit).into()
}

fn number(value: &Value, digits: usize) -> String {
    value
        .as_f64()
        .map_or_else(|| "-".to_owned(), |number| format!("{number:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        Outcome {
            instance_id: "a__a-1".into(),
            model: "gold".into(),
            verdict: "resolved",
            record: json!({
                "lease": {"supply": "reused", "uses": 3},
                "times": {"lease_us": 910, "grade_us": 2_500_000},
                "return": {"outcome": "clean", "reset_us": 1250, "digest": "0123456789abcdef"},
                "patch": {"flags": [{"path": "conftest.py", "kind": "conftest"}]},
            }),
            ..Outcome::default()
        }
    }

    #[test]
    fn the_table_shows_what_the_record_holds() {
        let broken = Outcome {
            verdict: "infra-error",
            broken: Some(("timeout".into(), "late".into())),
            record: Value::Null,
            ..outcome()
        };
        let shown = table(&[outcome(), broken]);
        let lines: Vec<_> = shown
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            lines[1],
            "a__a-1 gold resolved reused 3 0.9 2.50 1.2 clean 0123456789ab 1 flagged"
        );
        assert_eq!(lines[2], "a__a-1 gold infra-error - - - - - - - timeout");
    }

    #[test]
    fn the_document_has_a_result_a_grading() {
        let document = document("r", Path::new("/x/gold.r.json"), vec!["b"], &[outcome()]);
        assert_eq!(document["results"][0]["uses"], 3);
        assert_eq!(document["results"][0]["cause"], Value::Null);
        assert_eq!(document["empty_patch_ids"][0], "b");
        assert!(
            closing(Path::new("s"), 1, &[outcome()])
                .contains("1 resolved, 0 unresolved, 0 infra-errors, 1 without a patch")
        );
    }
}
