//! pytest's short test summary (`-rA`): lines that begin with a status word.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::ParseError;
use crate::python_text::words;
use crate::status::{STATUS_WORDS, Status, StatusMap};

static COUNT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\[\d+\]$").expect("constant"));
static COLOUR: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[(\d+)m").expect("constant"));

/// `SKIPPED [3] path:line: reason` counts skips and names no test. Only for SKIPPED: public
/// sets expect the "test" `[100%]` that a wrapped progress line makes of PASSED.
fn is_skip_count(status: &str, name: &str) -> bool {
    status == "SKIPPED" && COUNT.is_match(name)
}

fn begins_with_status(line: &str) -> bool {
    STATUS_WORDS.iter().any(|word| line.starts_with(word))
}

/// `STATUS NAME ...` of one line, the message behind the name left out.
fn summary_line(line: &str) -> Option<(Status, String)> {
    if !begins_with_status(line) {
        return None;
    }
    // A failure's message follows " - "; replacing it changes no word but a lone dash.
    let line = if line.starts_with("FAILED") {
        Cow::Owned(line.replace(" - ", " "))
    } else {
        Cow::Borrowed(line)
    };
    let mut split = words(&line);
    let (status, name) = (split.next()?, split.next()?);
    (!is_skip_count(status, name)).then(|| (Status::from(status), name.to_owned()))
}

/// The first two words of each line that begins with a status.
pub(super) fn short_summary(log: &str) -> Result<StatusMap, ParseError> {
    let lines = log.split('\n').filter_map(summary_line);
    Ok(lines.map(|(status, name)| (name, status)).collect())
}

/// As [`short_summary`], with absolute paths in parameters cut to their last part, since they
/// differ between machines.
pub(super) fn with_options(log: &str) -> Result<StatusMap, ParseError> {
    let lines = log.split('\n').filter_map(summary_line);
    Ok(lines
        .map(|(status, name)| (shorten_option(&name), status))
        .collect())
}

fn shorten_option(name: &str) -> String {
    let bounds = name.find('[').zip(name.rfind(']'));
    let Some((open, close)) = bounds.filter(|(open, close)| open < close) else {
        return name.to_owned();
    };
    let (test, option) = (&name[..open], &name[open + 1..close]);
    if option.starts_with('/') && !option.starts_with("//") && !option.contains('*') {
        let last = option.rsplit('/').next().unwrap_or_default();
        return format!("{test}[/{last}]");
    }
    format!("{test}[{option}]")
}

/// As [`short_summary`], with two enum members written as the values that older versions of
/// the project printed.
pub(super) fn matplotlib(log: &str) -> Result<StatusMap, ParseError> {
    short_summary(
        &log.replace("MouseButton.LEFT", "1")
            .replace("MouseButton.RIGHT", "3"),
    )
}

/// Coloured output, names with spaces, and the older layout with the status at the end.
pub(super) fn coloured(log: &str) -> Result<StatusMap, ParseError> {
    let mut map = StatusMap::new();
    for line in log.split('\n') {
        let mut plain = COLOUR.replace_all(line, "").into_owned();
        plain.retain(|c| !('\u{1}'..='\u{1f}').contains(&c));
        if begins_with_status(&plain) {
            let head = match plain.split_once(" - ") {
                Some((head, _)) if plain.starts_with("FAILED") => head,
                _ => &plain,
            };
            let split: Vec<_> = words(head).collect();
            if let [status, first, ..] = split[..]
                && !is_skip_count(status, first)
            {
                map.insert(split[1..].join(" "), Status::from(status));
            }
        } else if STATUS_WORDS.iter().any(|word| plain.ends_with(word)) {
            let split: Vec<_> = words(&plain).collect();
            if let [name @ .., status] = &split[..]
                && !name.is_empty()
            {
                map.insert(name.join(" "), Status::from(*status));
            }
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(map: StatusMap) -> Vec<(String, String)> {
        map.into_iter()
            .map(|(name, status)| (name, status.to_string()))
            .collect()
    }

    fn expect(map: Result<StatusMap, ParseError>, expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, status)| ((*name).to_owned(), (*status).to_owned()))
            .collect();
        assert_eq!(pairs(map.unwrap()), expected);
    }

    #[test]
    fn reads_the_short_summary() {
        let log = "PASSED t.py::a\nFAILED t.py::b - assert 1 == 2\nERROR: no such file\n\
                   SKIPPED [2] t.py:3: later\nXFAIL t.py::c\n  PASSED t.py::indented\nPASSED\n\
                   PASSED [100%]\n";
        expect(
            short_summary(log),
            &[
                ("t.py::a", "PASSED"),
                ("t.py::b", "FAILED"),
                ("no", "ERROR:"),
                ("t.py::c", "XFAIL"),
                ("[100%]", "PASSED"),
            ],
        );
    }

    #[test]
    fn a_later_line_changes_the_status_but_not_the_place() {
        expect(
            short_summary("PASSED a\nPASSED b\nFAILED a - x"),
            &[("a", "FAILED"), ("b", "PASSED")],
        );
    }

    #[test]
    fn paths_in_options_are_cut() {
        let log = "PASSED a[/x/y/z]\nPASSED b[//x/y]\nPASSED c[/x/*]\nPASSED d[q]tail\nPASSED e[open\nPASSED f]x[";
        let names: Vec<_> = with_options(log).unwrap().into_keys().collect();
        assert_eq!(
            names,
            ["a[/z]", "b[//x/y]", "c[/x/*]", "d[q]", "e[open", "f]x["]
        );
    }

    #[test]
    fn colours_and_trailing_statuses_are_understood() {
        let log = "\u{1b}[32mPASSED\u{1b}[0m t.py::\u{1b}[1ma b[x y]\u{1b}[0m\n\
                   FAILED t.py::c d - E - more\nt.py::e   f PASSED\nPASSED\nt.SKIPPED\n";
        expect(
            coloured(log),
            &[
                ("t.py::a b[x y]", "PASSED"),
                ("t.py::c d", "FAILED"),
                ("t.py::e f", "PASSED"),
            ],
        );
    }

    #[test]
    fn mouse_buttons_are_numbers() {
        expect(
            matplotlib("PASSED t::b[MouseButton.LEFT]\nFAILED t::b[MouseButton.RIGHT] - x"),
            &[("t::b[1]", "PASSED"), ("t::b[3]", "FAILED")],
        );
    }
}
