//! From the log of a test run to a status for each test.
//!
//! A row names its parser (`log_parser`). The registry holds every name that the public
//! SWE-bench sets use for Python projects; several names share one implementation, because the
//! sets name parsers after projects while the logs differ only by runner.

mod django;
mod pytest;
mod seaborn;
mod sympy;

use crate::status::StatusMap;

/// A log that could not be turned into statuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The row asks for a parser that does not exist here.
    #[error(
        "no log parser is called `{name}`: set the row's log_parser to one of {}",
        names().join(", ")
    )]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// A line announces a failure but names no test. The harness's parser stops with an
    /// exception there and counts the instance as an error, never as graded.
    #[error(
        "line {line} of the test log announces a failure without naming a test, so the log cannot be graded: look for output that is mixed into the runner's own"
    )]
    Nameless {
        /// Number of the line, from 1, within the part of the log that was parsed.
        line: usize,
    },
}

type Parser = fn(&str) -> Result<StatusMap, ParseError>;

/// Every parser by the name that rows use.
const REGISTRY: [(&str, Parser); 20] = [
    ("parse_log_pytest", pytest::short_summary),
    ("parse_log_pytest_options", pytest::with_options),
    ("parse_log_pytest_v2", pytest::coloured),
    ("parse_log_django", django::verbose_runner),
    ("parse_log_seaborn", seaborn::summary_or_verbose),
    ("parse_log_sympy", sympy::bin_test),
    ("parse_log_matplotlib", pytest::matplotlib),
    ("parse_log_astroid", pytest::short_summary),
    ("parse_log_flask", pytest::short_summary),
    ("parse_log_marshmallow", pytest::short_summary),
    ("parse_log_pvlib", pytest::short_summary),
    ("parse_log_pyvista", pytest::short_summary),
    ("parse_log_sqlfluff", pytest::short_summary),
    ("parse_log_xarray", pytest::short_summary),
    ("parse_log_pydicom", pytest::with_options),
    ("parse_log_requests", pytest::with_options),
    ("parse_log_pylint", pytest::with_options),
    ("parse_log_astropy", pytest::coloured),
    ("parse_log_scikit", pytest::coloured),
    ("parse_log_sphinx", pytest::coloured),
];

/// The project a row belongs to, and the parser that its set uses for it. For rows of the
/// classic layout, which have no `log_parser`.
const BY_REPO: [(&str, &str); 18] = [
    ("astropy/astropy", "parse_log_astropy"),
    ("django/django", "parse_log_django"),
    ("marshmallow-code/marshmallow", "parse_log_marshmallow"),
    ("matplotlib/matplotlib", "parse_log_matplotlib"),
    ("mwaskom/seaborn", "parse_log_seaborn"),
    ("pallets/flask", "parse_log_flask"),
    ("psf/requests", "parse_log_requests"),
    ("pvlib/pvlib-python", "parse_log_pvlib"),
    ("pydata/xarray", "parse_log_xarray"),
    ("pydicom/pydicom", "parse_log_pydicom"),
    ("pylint-dev/astroid", "parse_log_astroid"),
    ("pylint-dev/pylint", "parse_log_pylint"),
    ("pytest-dev/pytest", "parse_log_pytest"),
    ("pyvista/pyvista", "parse_log_pyvista"),
    ("scikit-learn/scikit-learn", "parse_log_scikit"),
    ("sqlfluff/sqlfluff", "parse_log_sqlfluff"),
    ("sphinx-doc/sphinx", "parse_log_sphinx"),
    ("sympy/sympy", "parse_log_sympy"),
];

/// The names of all parsers.
pub fn names() -> Vec<&'static str> {
    REGISTRY.iter().map(|(name, _)| *name).collect()
}

/// The parser for a project's logs, by `owner/name`, where one is known.
#[must_use]
pub fn for_repo(repo: &str) -> Option<&'static str> {
    BY_REPO
        .iter()
        .find(|(known, _)| *known == repo)
        .map(|(_, parser)| *parser)
}

/// Runs the parser called `name` over `log`.
///
/// `log` is text with `\n` line ends; [`crate::log_text`] makes it from bytes. Equal, name by
/// name and in order, to what the `swebench` package 5.x makes of the same text.
///
/// # Errors
/// [`ParseError::Unknown`] when there is no such parser, [`ParseError::Nameless`] where the
/// harness itself fails on the log.
pub fn parse(name: &str, log: &str) -> Result<StatusMap, ParseError> {
    find(name)?(log)
}

/// Checks that the parser exists, so that a bad row is refused before anything runs.
///
/// # Errors
/// [`ParseError::Unknown`] when there is no such parser.
pub fn check_name(name: &str) -> Result<(), ParseError> {
    find(name).map(|_| ())
}

fn find(name: &str) -> Result<Parser, ParseError> {
    REGISTRY
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, parser)| *parser)
        .ok_or_else(|| ParseError::Unknown {
            name: name.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_parser_is_named() {
        let message = parse("parse_log_nothing", "").unwrap_err().to_string();
        assert!(message.contains("`parse_log_nothing`"), "{message}");
        assert!(message.contains("parse_log_django"), "{message}");
    }

    #[test]
    fn every_project_has_a_parser_that_exists() {
        for (repo, name) in BY_REPO {
            assert_eq!(for_repo(repo), Some(name));
            check_name(name).unwrap();
        }
        assert_eq!(for_repo("nobody/nothing"), None);
    }
}
