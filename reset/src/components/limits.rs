//! Limits: of the control groups, and of the sandbox's first process.

use std::collections::BTreeMap;

use super::Facts;

/// The table of `/proc/PID/limits` as name to "soft hard". None for another form.
pub fn table(text: &str) -> Option<BTreeMap<String, String>> {
    // Names have blanks and are padded to the place where the heading has its second column.
    let width = text.lines().next()?.find("Soft Limit")?;
    let row = |line: &str| {
        let (name, rest) = line.split_at_checked(width)?;
        let mut values = rest.split_whitespace();
        Some((
            name.trim().to_owned(),
            format!("{} {}", values.next()?, values.next()?),
        ))
    };
    text.lines().skip(1).map(row).collect()
}

/// Facts of a first process's `/proc/PID/limits` and of the control groups' files, by names that the
/// caller chooses (`memory.max`, `pids.max` and so on), with their contents. None for another form, or
/// when no limit at all is given.
pub fn facts(limits: &str, groups: &BTreeMap<String, String>) -> Option<Facts> {
    let mut facts = Facts::new();
    for (name, value) in table(limits)? {
        facts.put(format!("process {name}"), value);
    }
    for (name, value) in groups {
        facts.put(format!("group {name}"), value.trim_end());
    }
    Some(facts).filter(|facts| !facts.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_table() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max cpu time              unlimited            unlimited            seconds   \n\
                    Max nice priority         0                    0                    \n";
        let table = table(text).expect("a table");
        assert_eq!(table["Max cpu time"], "unlimited unlimited");
        assert_eq!(table["Max nice priority"], "0 0");
        let groups = [("pids.max".to_owned(), "512\n".to_owned())].into();
        let found = facts(text, &groups).expect("facts");
        assert_eq!(found.get("group pids.max"), Some("512"));
        assert!(facts("", &groups).is_none());
    }
}
