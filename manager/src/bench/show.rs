//! The table and the document of a bench, also against an earlier one.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::figure::Figure;
use crate::cli::failure::Failure;
use crate::cli::table::Table;

/// A figure of an earlier run, as its JSON has it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Before {
    name: String,
    value: f64,
    ratio: f64,
}

/// Reads the JSON of an earlier run.
pub(super) fn read(path: &Path) -> Result<Vec<Before>, Failure> {
    let shown = path.display();
    let text = std::fs::read(path)
        .map_err(|e| Failure::usage(format_args!("cannot read {shown}: {e}")))?;
    serde_json::from_slice(&text).map_err(|e| {
        Failure::usage(format_args!(
            "{shown} is not the output of `innkeeper bench --json`: {e}"
        ))
    })
}

/// The contract's array, with `before` where an earlier run is given.
pub(super) fn document(figures: &[Figure], before: Option<&[Before]>) -> Value {
    figures
        .iter()
        .map(|figure| {
            let mut object = json!({
                "name": figure.name,
                "value": rounded(figure.sample.median()),
                "unit": "ms",
                "floor": rounded(figure.floor.median()),
                "floor_name": figure.floor_name,
                "ratio": rounded(figure.ratio()),
                "n": figure.sample.len(),
                "p50": rounded(figure.sample.median()),
                "p99": rounded(figure.sample.quantile(0.99)),
                "min": rounded(figure.sample.min()),
            });
            if let Some(earlier) = earlier(figure, before) {
                object["before"] = json!({ "value": earlier.value, "ratio": earlier.ratio });
            }
            object
        })
        .collect()
}

/// The table for people.
pub(super) fn table(figures: &[Figure], before: Option<&[Before]>) -> String {
    let mut headings = vec![
        "FIGURE",
        ">MIN MS",
        ">P50 MS",
        ">P99 MS",
        ">FLOOR MS",
        ">RATIO",
        ">N",
        "FLOOR",
    ];
    if before.is_some() {
        headings.insert(6, ">RATIO BEFORE");
    }
    let mut table = Table::new(&headings);
    for figure in figures {
        let mut cells = vec![
            figure.name.to_owned(),
            format!("{:.3}", figure.sample.min()),
            format!("{:.3}", figure.sample.median()),
            format!("{:.3}", figure.sample.quantile(0.99)),
            format!("{:.3}", figure.floor.median()),
            format!("{:.2}", figure.ratio()),
            figure.sample.len().to_string(),
            figure.floor_name.clone(),
        ];
        if before.is_some() {
            let ratio = earlier(figure, before)
                .map_or_else(|| "-".to_owned(), |b| format!("{:.2}", b.ratio));
            cells.insert(6, ratio);
        }
        table.row(cells);
    }
    table.render()
}

fn earlier<'a>(figure: &Figure, before: Option<&'a [Before]>) -> Option<&'a Before> {
    before?.iter().find(|earlier| earlier.name == figure.name)
}

/// To a ten-thousandth; none where there is no number, as for a ratio to nothing.
fn rounded(value: f64) -> Option<f64> {
    value
        .is_finite()
        .then(|| (value * 10_000.0).round() / 10_000.0)
}

#[cfg(test)]
mod tests {
    use super::super::sample::Sample;
    use super::*;

    fn figure() -> Figure {
        let (mut sample, mut floor) = (Sample::default(), Sample::default());
        sample.add(2.0);
        floor.add(0.5);
        Figure {
            name: "exec",
            sample,
            floor,
            floor_name: "posix_spawn of true".into(),
        }
    }

    #[test]
    fn the_document_has_the_fields_of_the_contract() {
        let document = document(&[figure()], None);
        let object = document[0].as_object().unwrap();
        for name in [
            "name",
            "value",
            "unit",
            "floor",
            "floor_name",
            "ratio",
            "n",
            "p50",
            "p99",
        ] {
            assert!(object.contains_key(name), "{name}");
        }
        assert_eq!(object["ratio"], 4.0);
    }

    #[test]
    fn a_run_can_be_compared_with_its_own_document() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("before.json");
        std::fs::write(&path, document(&[figure()], None).to_string()).unwrap();
        let before = read(&path).unwrap();
        assert_eq!(
            document(&[figure()], Some(&before))[0]["before"]["ratio"],
            4.0
        );
        assert!(table(&[figure()], Some(&before)).contains("RATIO BEFORE"));
        std::fs::write(&path, "{}").unwrap();
        assert_eq!(read(&path).unwrap_err().code, 2);
    }
}
