//! What there is to grade: rows and predictions, checked before anything is leased.

use std::collections::HashMap;

use innkeeper_grading::{
    Prediction, Predictions, Row, Run, RunDir, Verdict, image_name, parsers, read_predictions,
    read_rows,
};

use super::outcome::Outcome;
use super::{Grade, attestation, template};
use crate::cli::failure::Failure;

/// Rows, predictions, and what is to be done with each.
#[derive(Debug)]
pub(super) struct Plan {
    /// All rows of the task file.
    pub(super) rows: Vec<Row>,
    /// All predictions.
    pub(super) predictions: Predictions,
    jobs: Vec<Job>,
}

/// One grading.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// The task.
    pub(super) row: Row,
    /// The prediction.
    pub(super) prediction: Prediction,
    /// The image, by the name that the store knows.
    pub(super) image: String,
    /// The template, as JSON.
    pub(super) template: String,
}

impl Plan {
    /// Reads both files. A row that cannot be graded is an error before the first lease, so
    /// that a wrong file does not leave half a run behind.
    pub(super) fn make(args: &Grade) -> Result<Self, Failure> {
        let rows = read_rows(&args.tasks).map_err(Failure::failed)?;
        let predictions = read_predictions(&args.predictions, &rows).map_err(Failure::failed)?;
        let base = template::Base::read(args.template.as_deref(), args.form)?;
        let by_id: HashMap<_, _> = rows
            .iter()
            .map(|row| (row.instance_id.as_str(), row))
            .collect();
        let mut jobs = Vec::new();
        for prediction in predictions.values() {
            let row = by_id[prediction.instance_id.as_str()];
            match prediction.run() {
                Run::Patch(_) | Run::Control => {}
                Run::Nothing => continue,
            }
            row.eval_script().map_err(Failure::failed)?;
            let spec = row.grading().map_err(Failure::failed)?;
            parsers::check_name(spec.log_parser)
                .map_err(|e| Failure::failed(format_args!("row {}: {e}", row.instance_id)))?;
            let image = image_name(row, args.images.as_deref()).map_err(Failure::usage)?;
            let template = base.for_row(row, &image);
            jobs.push(Job {
                row: row.clone(),
                prediction: prediction.clone(),
                image,
                template,
            });
        }
        // One image's gradings follow each other, so that its sandboxes are reused.
        jobs.sort_by(|a, b| (&a.image, &a.row.instance_id).cmp(&(&b.image, &b.row.instance_id)));
        Ok(Self {
            rows,
            predictions,
            jobs,
        })
    }

    /// The outcomes that are on disk already, and the jobs that are not.
    pub(super) fn split(&self, reports: &RunDir) -> Result<(Vec<Outcome>, Vec<Job>), Failure> {
        let (mut known, mut left) = (Vec::new(), Vec::new());
        for job in &self.jobs {
            let (model, id) = (&job.prediction.model_name_or_path, &job.row.instance_id);
            match reports.read_report(model, id).map_err(Failure::failed)? {
                // An infra-error is no verdict: it is tried again.
                Some(report) if !matches!(report.verdict(), Verdict::InfraError { .. }) => {
                    let record = attestation::read(reports, model, id);
                    known.push(Outcome::reported(job, report.verdict(), record));
                }
                Some(_) | None => left.push(job.clone()),
            }
        }
        Ok((known, left))
    }

    /// Instances whose prediction holds no patch: listed in the summary, not run.
    pub(super) fn without_patch(&self) -> Vec<&str> {
        let without = self
            .predictions
            .values()
            .filter(|p| matches!(p.run(), Run::Nothing));
        without.map(|p| p.instance_id.as_str()).collect()
    }
}
