//! Django's own runner at verbosity 2: `test (module.Class) ... ok`, where any output of the
//! test may stand between the dots and the word.

use std::sync::LazyLock;

use regex::Regex;

use super::ParseError;
use crate::python_text::{strip, words};
use crate::status::{Status, StatusMap};

/// A check of the command line that prints its docstring over several lines.
const VERSION_TEST: &str = "--version is equivalent to version";
/// Output of one migration test runs into the name of the next test.
const MIGRATION: &str = "Applying sites.0002_alter_domain_unique...test_no_migrations";

/// Output that is known to come between a test's dots and its `ok`, up to three lines of it.
/// `\s` is Python's, which knows four separators more.
static INTERRUPTED: LazyLock<[Regex; 3]> = LazyLock::new(|| {
    [
        r"(?m)^(.*?)[\s\x1c-\x1f]\.\.\.[\s\x1c-\x1f]Testing against Django installed in (?s:.*?) silenced\)\.\nok$",
        r"(?m)^(.*?)[\s\x1c-\x1f]\.\.\.[\s\x1c-\x1f]Internal Server Error: /.*/\nok$",
        r"(?m)^(.*?)[\s\x1c-\x1f]\.\.\.[\s\x1c-\x1f]System check identified no issues \(0 silenced\)\nok$",
    ]
    .map(|pattern| Regex::new(pattern).expect("constant"))
});

pub(super) fn verbose_runner(log: &str) -> Result<StatusMap, ParseError> {
    let mut map = StatusMap::new();
    let mut announced: Option<&str> = None;
    for (index, line) in log.split('\n').enumerate() {
        let mut line = strip(line);
        if line.contains(VERSION_TEST) {
            map.insert(VERSION_TEST.to_owned(), Status::Passed);
        }
        if let Some((test, _)) = line.split_once(" ... ") {
            announced = Some(test);
        }
        if let Some(suffix) = [" ... ok", " ... OK", " ...  OK"]
            .into_iter()
            .find(|end| line.ends_with(end))
        {
            if line.starts_with(MIGRATION) {
                line = line.split_once("...").map_or(line, |(_, rest)| strip(rest));
            }
            let test = line.rsplit_once(suffix).map_or(line, |(test, _)| test);
            map.insert(test.to_owned(), Status::Passed);
        }
        if let Some((test, _)) = line.split_once(" ... skipped") {
            map.insert(test.to_owned(), Status::Skipped);
        }
        for (status, ending, heading) in [
            (Status::Failed, " ... FAIL", "FAIL:"),
            (Status::Error, " ... ERROR", "ERROR:"),
        ] {
            if line.ends_with(ending) {
                let test = line.split_once(ending).map_or(line, |(test, _)| test);
                map.insert(test.to_owned(), status.clone());
            }
            if line.starts_with(heading) {
                let test = words(line)
                    .nth(1)
                    .ok_or(ParseError::Nameless { line: index + 1 })?;
                map.insert(test.to_owned(), status);
            }
        }
        if let Some(test) = announced
            && line.starts_with("ok")
        {
            map.insert(test.to_owned(), Status::Passed);
        }
    }
    for pattern in INTERRUPTED.iter() {
        for found in pattern.captures_iter(log) {
            map.insert(found[1].to_owned(), Status::Passed);
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(map: &StatusMap, test: &str) -> String {
        map.get(test)
            .map_or_else(|| "absent".to_owned(), ToString::to_string)
    }

    #[test]
    fn reads_each_ending() {
        let log = "test_a (x.T) ... ok\ntest_b (x.T) ... FAIL\ntest_c (x.T) ... ERROR\n\
                   test_d (x.T) ... skipped 'no'\ntest_e (x.T) ...  OK\n\
                   FAIL: test_b (x.T)\nERROR: test_c (x.T)\n";
        let map = verbose_runner(log).unwrap();
        assert_eq!(status(&map, "test_a (x.T)"), "PASSED");
        assert_eq!(status(&map, "test_b (x.T)"), "FAILED");
        assert_eq!(status(&map, "test_c (x.T)"), "ERROR");
        assert_eq!(status(&map, "test_d (x.T)"), "SKIPPED");
        assert_eq!(status(&map, "test_e (x.T)"), "PASSED");
        assert_eq!(status(&map, "test_b"), "FAILED");
        assert_eq!(status(&map, "test_c"), "ERROR");
    }

    #[test]
    fn output_between_dots_and_ok_is_skipped() {
        let log = "test_a (x.T) ... noise\nok\ntest_b (x.T) ... Internal Server Error: /p/q/\nok\n\
                   test_c (x.T) ... Testing against Django installed in 'd'\nmore\n(0 silenced).\nok\n";
        let map = verbose_runner(log).unwrap();
        for test in ["test_a (x.T)", "test_b (x.T)", "test_c (x.T)"] {
            assert_eq!(status(&map, test), "PASSED", "{test}");
        }
    }

    #[test]
    fn the_migration_line_gives_up_its_test() {
        let log = "  Applying sites.0002_alter_domain_unique...test_no_migrations (m.T) ... ok";
        let map = verbose_runner(log).unwrap();
        assert_eq!(status(&map, "test_no_migrations (m.T)"), "PASSED");
    }

    #[test]
    fn a_failure_without_a_name_is_an_error() {
        assert_eq!(
            verbose_runner("x\n FAIL: \n"),
            Err(ParseError::Nameless { line: 2 })
        );
        assert_eq!(
            verbose_runner("ERROR:x"),
            Err(ParseError::Nameless { line: 1 })
        );
    }
}
