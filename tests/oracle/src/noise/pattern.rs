//! The list of what may be noise.

use std::fmt;

/// When a field that a pattern fits is noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// When fresh sandboxes were seen to differ in it.
    Seen,
    /// Ever: it moves by itself, so that equal values in fresh ones are chance.
    Ever,
}

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// When it counts.
    pub when: When,
    /// Subjects; `*` stands for any text.
    pub subject: String,
    /// Fields; `*` stands for any text.
    pub field: String,
    /// Why a difference there tells nothing about a reset.
    pub why: String,
}

impl Pattern {
    /// Whether it speaks of this field.
    pub fn fits(&self, subject: &str, field: &str) -> bool {
        fits(self.field.as_bytes(), field.as_bytes())
            && fits(self.subject.as_bytes(), subject.as_bytes())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = match self.when {
            When::Seen => "where seen",
            When::Ever => "ever",
        };
        write!(
            f,
            "{} / {} ({when}): {}",
            self.subject, self.field, self.why
        )
    }
}

/// Reads lines `WHEN | SUBJECT | FIELD | WHY`; empty lines and such as begin with # say nothing.
pub(super) fn parse(text: &str) -> Result<Vec<Pattern>, String> {
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(line).collect()
}

fn line(line: &str) -> Result<Pattern, String> {
    let words: Vec<_> = line.split('|').map(str::trim).collect();
    let [when, subject, field, why] = words[..] else {
        return Err(format!("not four columns: {line}"));
    };
    let when = match when {
        "seen" => When::Seen,
        "ever" => When::Ever,
        other => return Err(format!("no such case: {other}")),
    };
    if [subject, field, why].contains(&"") {
        return Err(format!("an empty column: {line}"));
    }
    Ok(Pattern {
        when,
        subject: subject.to_owned(),
        field: field.to_owned(),
        why: why.to_owned(),
    })
}

/// Whether a text fits a pattern in which `*` stands for any text.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else {
        return pattern == text;
    };
    let (head, tail) = (&pattern[..star], &pattern[star + 1..]);
    let Some(rest) = text.strip_prefix(head) else {
        return false;
    };
    (0..=rest.len()).any(|from| fits(tail, &rest[from..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        assert!(fits(b"process * #0", b"process /bin/sh -c x #0"));
        assert!(fits(b"*", b""));
        assert!(fits(b"a*b*c", b"a--b--b-c"));
        assert!(!fits(b"a*b", b"a--bc"));
        assert!(!fits(b"ctime", b"ctimes"));
    }

    #[test]
    fn a_line_needs_all_its_columns() {
        assert!(
            parse("ever | clock | * | tells the time\n# nothing\n").is_ok_and(|all| all.len() == 1)
        );
        assert!(parse("ever | clock | *").is_err());
        assert!(parse("often | clock | * | why").is_err());
        assert!(parse("ever | clock | * | ").is_err());
    }
}
