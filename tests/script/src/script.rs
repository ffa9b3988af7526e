//! Scripts: operations in order, as text.

use std::fmt;

use crate::{Verb, Word, find};

/// A verb with its arguments; they fit its shapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    verb: &'static Verb,
    arguments: Vec<Word>,
}

impl Operation {
    /// An operation. None where the arguments do not fit the verb.
    pub fn new(verb: &'static Verb, arguments: Vec<Word>) -> Option<Self> {
        let fit = verb.shapes.len() == arguments.len()
            && verb
                .shapes
                .iter()
                .zip(&arguments)
                .all(|(shape, word)| shape.fits(word));
        fit.then_some(Self { verb, arguments })
    }

    /// The verb.
    pub fn verb(&self) -> &'static Verb {
        self.verb
    }

    /// The arguments.
    pub fn arguments(&self) -> &[Word] {
        &self.arguments
    }

    /// The same with one argument changed; None where it does not fit.
    pub fn with(&self, index: usize, word: Word) -> Option<Self> {
        let mut arguments = self.arguments.clone();
        *arguments.get_mut(index)? = word;
        Self::new(self.verb, arguments)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.verb.name)?;
        self.arguments
            .iter()
            .try_for_each(|word| write!(f, " {word}"))
    }
}

/// Operations in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Script {
    /// The operations.
    pub operations: Vec<Operation>,
}

/// A line that says nothing known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl Script {
    /// Reads a script. Empty lines and remarks are left out.
    ///
    /// # Errors
    /// The first line that is no operation.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut operations = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            if line.trim().is_empty() {
                continue;
            }
            let operation = operation(line).map_err(|what| ParseError {
                line: index + 1,
                what,
            })?;
            operations.push(operation);
        }
        Ok(Self { operations })
    }
}

fn operation(line: &str) -> Result<Operation, String> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next().unwrap_or_default();
    let verb = find(name).ok_or_else(|| format!("there is no verb \"{name}\""))?;
    let read = |word: &str| {
        Word::read(word).ok_or_else(|| format!("\"{word}\" holds an escape that is not \\xNN"))
    };
    let arguments = words.map(read).collect::<Result<Vec<_>, _>>()?;
    if arguments.len() != verb.shapes.len() {
        return Err(format!(
            "{name} takes {} arguments, not {}",
            verb.shapes.len(),
            arguments.len()
        ));
    }
    for (shape, word) in verb.shapes.iter().zip(&arguments) {
        if !shape.fits(word) {
            return Err(format!("{name}: \"{word}\" is not {}", shape.expected()));
        }
    }
    Ok(Operation { verb, arguments })
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.operations
            .iter()
            .try_for_each(|operation| writeln!(f, "{operation}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_script_reads_as_it_is_written() {
        let text = "# a remark\n\nwrite /a\\x20b\\xff 10   # more\nchmod /etc/passwd 4755\n";
        let script = Script::parse(text).expect("a script");
        assert_eq!(script.operations.len(), 2);
        assert_eq!(script.operations[0].arguments()[0].bytes(), b"/a b\xff");
        assert_eq!(
            script.to_string(),
            "write /a\\x20b\\xff 10\nchmod /etc/passwd 4755\n"
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let wrong = |text: &str| Script::parse(text).expect_err("wrong").to_string();
        assert_eq!(wrong("\nfly /a\n"), "line 2: there is no verb \"fly\"");
        assert_eq!(wrong("write /a"), "line 1: write takes 2 arguments, not 1");
        assert!(wrong("write /a -1").contains("is not a number from 0"));
        assert!(wrong("chmod /a 9").contains("octal"));
        assert!(wrong("unlink /a\\x0").contains("escape"));
        assert!(wrong("unlink /a\\x00").contains("escape"));
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_a_path(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let word = Word::new(bytes);
            let verb = find("unlink").expect("a verb");
            let operation = Operation::new(verb, vec![word]).expect("it fits");
            let script = Script { operations: vec![operation] };
            prop_assert_eq!(Script::parse(&script.to_string()), Ok(script));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC*") {
            let _ = Script::parse(&text);
        }
    }
}
