//! The summary of a run, `MODEL.RUN.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::files::{REPORT, RUN_LOG, TEST_OUTPUT};
use super::{ReportError, RunDir, read_if_there, to_report_json, write_whole};
use crate::infra::{self, Tier};
use crate::predictions::{Predictions, Run};
use crate::python_text::log_text;
use crate::rows::Row;

/// Which instances came out how: the harness's fields, in its order, schema version 2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Rows of the task file.
    pub total_instances: usize,
    /// Predictions.
    pub submitted_instances: usize,
    /// Instances with a report.
    pub completed_instances: usize,
    /// Instances whose report says resolved.
    pub resolved_instances: usize,
    /// Instances whose report says otherwise.
    pub unresolved_instances: usize,
    /// Instances not resolved with a sure sign of a broken environment in their logs.
    pub infra_failure_instances: usize,
    /// Instances not resolved with an unsure sign.
    pub ambiguous_failure_instances: usize,
    /// Predictions without a patch.
    pub empty_patch_instances: usize,
    /// Instances that were to be run and have no usable report.
    pub error_instances: usize,
    /// Ids, as counted above.
    pub completed_ids: BTreeSet<String>,
    /// Rows without a prediction.
    pub incomplete_ids: BTreeSet<String>,
    /// Ids, as counted above.
    pub empty_patch_ids: BTreeSet<String>,
    /// Ids of all predictions.
    pub submitted_ids: BTreeSet<String>,
    /// Ids, as counted above.
    pub resolved_ids: BTreeSet<String>,
    /// Ids, as counted above.
    pub unresolved_ids: BTreeSet<String>,
    /// Ids, as counted above.
    pub infra_failure_ids: BTreeSet<String>,
    /// Ids, as counted above.
    pub ambiguous_failure_ids: BTreeSet<String>,
    /// The sign by id, for both kinds.
    pub failure_reasons: BTreeMap<String, String>,
    /// Ids, as counted above.
    pub error_ids: BTreeSet<String>,
    /// 2.
    pub schema_version: u32,
    /// Sandboxes of the run that still run; the caller fills them in.
    pub unstopped_instances: usize,
    /// Their names.
    pub unstopped_containers: BTreeSet<String>,
    /// Images of the rows that the run left behind. Always empty: a store keeps its images.
    pub unremoved_images: BTreeSet<String>,
}

/// What an instance's `report.json` amounts to.
enum Found {
    Absent,
    Broken,
    Resolved(bool),
}

impl RunDir {
    /// Counts the run up from what lies on disk.
    ///
    /// # Errors
    /// [`ReportError`] when a file is there but cannot be read.
    pub fn summarise(
        &self,
        rows: &[Row],
        predictions: &Predictions,
    ) -> Result<Summary, ReportError> {
        let mut summary = Summary {
            total_instances: rows.len(),
            submitted_instances: predictions.len(),
            submitted_ids: predictions.keys().cloned().collect(),
            schema_version: 2,
            ..Summary::default()
        };
        for row in rows {
            let id = row.instance_id.clone();
            let Some(prediction) = predictions.get(&id) else {
                summary.incomplete_ids.insert(id);
                continue;
            };
            match prediction.run() {
                Run::Nothing => {
                    summary.empty_patch_ids.insert(id);
                    continue;
                }
                Run::Patch(_) | Run::Control => {}
            }
            let dir = self.instance(&prediction.model_name_or_path, &id)?;
            let found = found(&dir.join(REPORT), &id)?;
            match found {
                Found::Absent => {}
                Found::Broken | Found::Resolved(_) => {
                    summary.completed_ids.insert(id.clone());
                }
            }
            match found {
                Found::Resolved(true) => {
                    summary.resolved_ids.insert(id);
                    continue;
                }
                Found::Resolved(false) => summary.unresolved_ids.insert(id.clone()),
                Found::Absent | Found::Broken => summary.error_ids.insert(id.clone()),
            };
            if let Some((reason, tier)) = classify_files(&dir)? {
                summary
                    .failure_reasons
                    .insert(id.clone(), reason.to_owned());
                match tier {
                    Tier::Environment => summary.infra_failure_ids.insert(id),
                    Tier::Ambiguous => summary.ambiguous_failure_ids.insert(id),
                };
            }
        }
        summary.count();
        Ok(summary)
    }

    /// Writes the summary, under the model name of the first prediction, and says where.
    ///
    /// # Errors
    /// [`ReportError`].
    pub fn write_summary(
        &self,
        predictions: &Predictions,
        summary: &Summary,
    ) -> Result<PathBuf, ReportError> {
        let model = predictions
            .values()
            .next()
            .map_or("None", |first| &first.model_name_or_path);
        let path = self.summary_path(model)?;
        write_whole(&path, (to_report_json(summary) + "\n").as_bytes())?;
        Ok(path)
    }
}

impl Summary {
    fn count(&mut self) {
        self.completed_instances = self.completed_ids.len();
        self.resolved_instances = self.resolved_ids.len();
        self.unresolved_instances = self.unresolved_ids.len();
        self.infra_failure_instances = self.infra_failure_ids.len();
        self.ambiguous_failure_instances = self.ambiguous_failure_ids.len();
        self.empty_patch_instances = self.empty_patch_ids.len();
        self.error_instances = self.error_ids.len();
        self.unstopped_instances = self.unstopped_containers.len();
    }
}

fn found(path: &Path, id: &str) -> Result<Found, ReportError> {
    let Some(content) = read_if_there(path)? else {
        return Ok(Found::Absent);
    };
    let report: Option<IndexMap<String, Value>> = serde_json::from_slice(&content).ok();
    let resolved = report
        .as_ref()
        .and_then(|report| report.get(id)?.get("resolved")?.as_bool());
    Ok(resolved.map_or(Found::Broken, Found::Resolved))
}

/// The first sign in the test output and the run log, taken together.
fn classify_files(dir: &Path) -> Result<Option<(&'static str, Tier)>, ReportError> {
    let mut logs = Vec::new();
    for name in [TEST_OUTPUT, RUN_LOG] {
        logs.extend(read_if_there(&dir.join(name))?.map(|bytes| log_text(&bytes)));
    }
    Ok(infra::classify(&logs.join("\n")))
}
