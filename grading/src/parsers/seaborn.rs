//! seaborn's pytest runs: failures from the short summary, passes from either layout.

use super::ParseError;
use crate::python_text::words;
use crate::status::{Status, StatusMap};

pub(super) fn summary_or_verbose(log: &str) -> Result<StatusMap, ParseError> {
    let mut map = StatusMap::new();
    for line in log.split('\n') {
        let mut split = words(line);
        let (Some(first), Some(second)) = (split.next(), split.next()) else {
            continue;
        };
        if line.starts_with("FAILED") {
            map.insert(second.to_owned(), Status::Failed);
        } else if line.contains(" PASSED ") {
            if second == "PASSED" {
                map.insert(first.to_owned(), Status::Passed);
            }
        } else if line.starts_with("PASSED") {
            map.insert(second.to_owned(), Status::Passed);
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_layouts() {
        let log = "t.py::a PASSED [ 10%]\nPASSED t.py::b\nFAILED t.py::c - x\nt.py::d FAILED [ 20%]\nsaid PASSED x PASSED y\n";
        let map = summary_or_verbose(log).unwrap();
        let names: Vec<_> = map
            .iter()
            .map(|(name, status)| (name.as_str(), status.as_str()))
            .collect();
        assert_eq!(
            names,
            [
                ("t.py::a", "PASSED"),
                ("t.py::b", "PASSED"),
                ("t.py::c", "FAILED"),
                ("said", "PASSED")
            ]
        );
    }
}
