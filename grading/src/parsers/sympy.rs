//! SymPy's `bin/test -C --verbose`: `test_name ok`, and headings with underscores for failures.

use std::sync::LazyLock;

use regex::Regex;

use super::ParseError;
use crate::python_text::{strip, words};
use crate::status::{Status, StatusMap};

static HEADING: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"_* (.*)\.py:(.*) _*").expect("constant"));

pub(super) fn bin_test(log: &str) -> Result<StatusMap, ParseError> {
    let mut map = StatusMap::new();
    for heading in HEADING.captures_iter(log) {
        map.insert(
            format!("{}.py:{}", &heading[1], &heading[2]),
            Status::Failed,
        );
    }
    for line in log
        .split('\n')
        .map(strip)
        .filter(|line| line.starts_with("test_"))
    {
        let ending = [
            (" E", Status::Error),
            (" F", Status::Failed),
            (" ok", Status::Passed),
        ]
        .into_iter()
        .find(|(ending, _)| line.ends_with(ending));
        if let (Some((_, status)), Some(test)) = (ending, words(line).next()) {
            map.insert(test.to_owned(), status);
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines_and_headings() {
        let log =
            "test_a ok\n  test_b F\ntest_c E   \ntest_d f\n____ sympy/x/test_y.py:test_b ____\n";
        let map = bin_test(log).unwrap();
        let names: Vec<_> = map
            .iter()
            .map(|(name, status)| (name.as_str(), status.as_str()))
            .collect();
        assert_eq!(
            names,
            [
                ("sympy/x/test_y.py:test_b", "FAILED"),
                ("test_a", "PASSED"),
                ("test_b", "FAILED"),
                ("test_c", "ERROR")
            ]
        );
    }
}
