//! From the statuses of a run to a report and a verdict.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::infra::{self, Tier};
use crate::log::read_log;
use crate::parsers::ParseError;
use crate::status::{Status, StatusMap};

/// How a row's tests are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvalType {
    /// A test has to be seen to pass.
    #[default]
    PassAndFail,
    /// A test counts as passed unless it is seen to fail, for runners that are silent about
    /// passes.
    FailOnly,
}

/// What of a row grading needs. [`crate::Row::grading`] makes one.
#[derive(Clone, Copy, Debug)]
pub struct GradeSpec<'a> {
    /// The instance.
    pub instance_id: &'a str,
    /// Name of the log parser.
    pub log_parser: &'a str,
    /// How tests are judged.
    pub eval_type: EvalType,
    /// Tests that the right patch repairs.
    pub fail_to_pass: &'a [String],
    /// Tests that have to go on passing.
    pub pass_to_pass: &'a [String],
}

/// Tests that came out as they should, and those that did not, in the row's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    /// As they should.
    pub success: Vec<String>,
    /// Not as they should.
    pub failure: Vec<String>,
}

/// The four lists of a report. The last two are always empty; the layout has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub struct TestsStatus {
    /// Tests that the right patch repairs.
    pub fail_to_pass: Outcomes,
    /// Tests that have to go on passing.
    pub pass_to_pass: Outcomes,
    /// Kept empty.
    pub fail_to_fail: Outcomes,
    /// Kept empty.
    pub pass_to_fail: Outcomes,
}

/// The harness's report of one instance: the value under its id in `report.json`, field by
/// field in the same order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceReport {
    /// The prediction holds no patch at all.
    #[serde(rename = "patch_is_None")]
    pub patch_is_none: bool,
    /// The prediction holds a patch, be it empty.
    pub patch_exists: bool,
    /// The log shows that the tests ran.
    pub patch_successfully_applied: bool,
    /// Every listed test came out as it should.
    pub resolved: bool,
    /// The log shows no tests, and a sign that the environment broke.
    pub infra_failure: bool,
    /// The sign found in a log that shows no tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra_failure_reason: Option<String>,
    /// Test by test, where the log shows that the tests ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests_status: Option<TestsStatus>,
}

/// What a `report.json` holds: the instance's id and its report.
pub type ReportFile = IndexMap<String, InstanceReport>;

/// The verdict on one grading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// Every listed test came out as it should.
    Resolved,
    /// It did not, for all that can be told through the patch's own doing.
    Unresolved,
    /// The run says nothing about the patch.
    InfraError {
        /// Why, as a short word such as `out_of_memory`.
        cause: String,
    },
}

/// A run that ended without a report. The harness writes no `report.json` then and lists the
/// instance under `error_ids`, whatever the cause; verdicts tell the causes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreported {
    /// The patch does not apply ([`crate::apply`]).
    PatchDoesNotApply,
    /// The eval script was stopped at its timeout. A patch can do that, so it is no excuse.
    TimedOut,
    /// The log cannot be parsed ([`ParseError`]).
    LogUnreadable,
}

impl Unreported {
    /// The verdict on the run.
    #[must_use]
    pub fn verdict(self) -> Verdict {
        match self {
            Self::PatchDoesNotApply | Self::TimedOut => Verdict::Unresolved,
            Self::LogUnreadable => Verdict::InfraError {
                cause: "log_unreadable".to_owned(),
            },
        }
    }
}

impl InstanceReport {
    /// The report for a prediction without a patch.
    #[must_use]
    pub fn without_patch() -> Self {
        Self {
            patch_is_none: true,
            ..Self::default()
        }
    }

    /// The verdict that the report amounts to. A sign that can be the patch's own doing
    /// (a missing module, say) is no excuse.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.resolved, self.infra_failure) {
            (true, _) => Verdict::Resolved,
            (false, false) => Verdict::Unresolved,
            (false, true) => {
                let cause = self
                    .infra_failure_reason
                    .clone()
                    .unwrap_or_else(|| "environment".to_owned());
                Verdict::InfraError { cause }
            }
        }
    }
}

/// Grades one run by its log.
///
/// `log` is the content of `test_output.txt` with universal newlines ([`crate::log_text`]).
///
/// # Errors
/// Those of [`read_log`]; the harness writes no report then and counts the instance as an error.
pub fn grade(spec: &GradeSpec<'_>, log: &str) -> Result<InstanceReport, ParseError> {
    let mut report = InstanceReport {
        patch_exists: true,
        ..InstanceReport::default()
    };
    let Some(map) = read_log(spec.log_parser, log)? else {
        if let Some((reason, tier)) = infra::classify(log) {
            report.infra_failure = tier == Tier::Environment;
            report.infra_failure_reason = Some(reason.to_owned());
        }
        return Ok(report);
    };
    report.patch_successfully_applied = true;
    let tests = judge(spec, &map);
    // With nothing to repair and nothing to keep the harness's ratios are both 1: resolved.
    report.resolved = tests.fail_to_pass.is_whole() && tests.pass_to_pass.is_whole();
    report.tests_status = Some(tests);
    Ok(report)
}

/// Sorts the row's tests into those that came out as they should and those that did not.
#[must_use]
pub fn judge(spec: &GradeSpec<'_>, map: &StatusMap) -> TestsStatus {
    let mut tests = TestsStatus::default();
    for (listed, outcomes, skip_is_fine) in [
        (spec.fail_to_pass, &mut tests.fail_to_pass, false),
        (spec.pass_to_pass, &mut tests.pass_to_pass, true),
    ] {
        for test in listed {
            let good = match spec.eval_type {
                EvalType::FailOnly => Some(map.get(test) != Some(&Status::Failed)),
                EvalType::PassAndFail => came_out_well(status_of(test, map), skip_is_fine),
            };
            match good {
                Some(true) => outcomes.success.push(test.clone()),
                Some(false) => outcomes.failure.push(test.clone()),
                None => {}
            }
        }
    }
    tests
}

/// `None` for a word that is no status: the harness puts such a test into neither list.
fn came_out_well(status: Option<&Status>, skip_is_fine: bool) -> Option<bool> {
    match status {
        Some(Status::Passed | Status::Xfail) => Some(true),
        Some(Status::Skipped) => Some(skip_is_fine),
        Some(Status::Failed | Status::Error) | None => Some(false),
        Some(Status::Other(_)) => None,
    }
}

/// The status that stands for a listed test.
///
/// Public sets hold ids that were cut within a parameter (`test_x[log(photon`). Only for
/// those, recognised by an open bracket, a status of any test with that beginning is taken,
/// provided that all of them agree on whether they passed.
fn status_of<'a>(test: &str, map: &'a StatusMap) -> Option<&'a Status> {
    if let Some(status) = map.get(test) {
        return Some(status);
    }
    if test.matches('[').count() <= test.matches(']').count() {
        return None;
    }
    let mut candidates = map
        .iter()
        .filter(|(name, _)| name.starts_with(test))
        .map(|(_, status)| status);
    let first = candidates.next()?;
    candidates
        .all(|other| other.is_pass() == first.is_pass())
        .then_some(first)
}

impl Outcomes {
    /// Whether nothing counts against it. That holds for a list without tests, and for one
    /// whose tests all fell into neither list: the harness's ratio is 1 in both cases.
    fn is_whole(&self) -> bool {
        self.failure.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    fn judged(
        eval_type: EvalType,
        repair: &[&str],
        keep: &[&str],
        lines: &[(&str, &str)],
    ) -> TestsStatus {
        let (fail_to_pass, pass_to_pass) = (names(repair), names(keep));
        let spec = GradeSpec {
            instance_id: "a__a-1",
            log_parser: "parse_log_pytest",
            eval_type,
            fail_to_pass: &fail_to_pass,
            pass_to_pass: &pass_to_pass,
        };
        let map = lines
            .iter()
            .map(|(name, status)| ((*name).to_owned(), Status::from(*status)))
            .collect();
        judge(&spec, &map)
    }

    #[test]
    fn a_skip_keeps_but_does_not_repair() {
        let tests = judged(
            EvalType::PassAndFail,
            &["a"],
            &["b", "c"],
            &[("a", "SKIPPED"), ("b", "SKIPPED"), ("c", "XFAIL")],
        );
        assert_eq!(tests.fail_to_pass.failure, ["a"]);
        assert_eq!(tests.pass_to_pass.success, ["b", "c"]);
    }

    #[test]
    fn an_absent_test_fails_unless_only_failures_count() {
        assert_eq!(
            judged(EvalType::PassAndFail, &["a"], &[], &[])
                .fail_to_pass
                .failure,
            ["a"]
        );
        assert_eq!(
            judged(EvalType::FailOnly, &["a"], &[], &[])
                .fail_to_pass
                .success,
            ["a"]
        );
        let error = judged(
            EvalType::FailOnly,
            &["a"],
            &["b"],
            &[("a", "ERROR"), ("b", "FAILED")],
        );
        assert_eq!(
            (error.fail_to_pass.success, error.pass_to_pass.failure),
            (names(&["a"]), names(&["b"]))
        );
    }

    #[test]
    fn a_cut_id_takes_its_status_from_those_it_begins() {
        let run = |lines: &[(&str, &str)]| {
            judged(EvalType::PassAndFail, &[], &["t[inv"], lines).pass_to_pass
        };
        assert_eq!(
            run(&[("t[inv a]", "PASSED"), ("t[inv b]", "XFAIL")]).success,
            ["t[inv"]
        );
        assert_eq!(
            run(&[("t[inv a]", "PASSED"), ("t[inv b]", "FAILED")]).failure,
            ["t[inv"]
        );
        // They agree on not having passed, and the first one decides.
        assert_eq!(
            run(&[("t[inv a]", "SKIPPED"), ("t[inv b]", "FAILED")]).success,
            ["t[inv"]
        );
        assert_eq!(
            run(&[("t[inv a]", "FAILED"), ("t[inv b]", "SKIPPED")]).failure,
            ["t[inv"]
        );
        let whole = judged(
            EvalType::PassAndFail,
            &[],
            &["t[a]"],
            &[("t[a]b", "PASSED")],
        );
        assert_eq!(whole.pass_to_pass.failure, ["t[a]"]);
    }

    #[test]
    fn a_word_that_is_no_status_is_in_neither_list() {
        let tests = judged(EvalType::PassAndFail, &["a"], &[], &[("a", "ERROR:")]);
        assert_eq!(tests.fail_to_pass, Outcomes::default());
    }

    #[test]
    fn only_a_sure_sign_excuses_a_run_without_tests() {
        let spec = GradeSpec {
            instance_id: "a__a-1",
            log_parser: "parse_log_pytest",
            eval_type: EvalType::PassAndFail,
            fail_to_pass: &[],
            pass_to_pass: &[],
        };
        let sure = grade(&spec, "OSError: Cannot allocate memory").unwrap();
        assert_eq!(
            sure.verdict(),
            Verdict::InfraError {
                cause: "out_of_memory".to_owned()
            }
        );
        let unsure = grade(&spec, "ModuleNotFoundError: No module named 'x'").unwrap();
        assert_eq!(
            unsure.infra_failure_reason.as_deref(),
            Some("missing_module")
        );
        assert_eq!(unsure.verdict(), Verdict::Unresolved);
        assert_eq!(grade(&spec, "").unwrap().verdict(), Verdict::Unresolved);
    }
}
