//! Acting out a script of hostile operations.
//!
//! Each operation is done by a child of its own, which says how it went; one that is to leave
//! something alive stays. An operation that hangs or takes its child down with it does not end the
//! script, and what one does to its own process the next does not see.

mod attributes;
mod cgroups;
mod deed;
mod devices;
mod exhaustion;
mod files;
mod held;
mod ipc;
mod kernel;
mod keyrings;
mod mounts;
mod network;
mod proc;
mod processes;
mod stage;
#[allow(unsafe_code)]
mod sys;

use std::ffi::OsString;
use std::fmt;
use std::io::{Read, Write};
use std::process::ExitCode;

use innkeeper_test_script::Script;

use deed::Arguments;

/// Runs the script that the argument names, `-` for standard input, and says of each operation
/// how it went. `--stay` does nothing but stay.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let [name] = arguments else {
        eprintln!("name one script, or - for standard input");
        return ExitCode::from(2);
    };
    if name == "--stay" {
        sys::stay();
    }
    if let Err(message) = permitted() {
        eprintln!("{message}");
        return ExitCode::from(2);
    }
    let script = match read(name) {
        Ok(script) => script,
        Err(message) => {
            eprintln!("{}: {message}", name.display());
            return ExitCode::from(2);
        }
    };
    perform(&script);
    ExitCode::SUCCESS
}

/// The variable without which nothing is acted out.
const PERMISSION: &str = "INNKEEPER_GUEST_MAY_ACT";

/// The first pid namespace of a machine, by the number that every kernel gives it
/// (`PROC_PID_INIT_INO`).
const OF_THE_MACHINE: &str = "pid:[4026531836]";

/// Whether this process may act: some deeds would be the end of a machine that is no sandbox.
pub(crate) fn permitted() -> Result<(), String> {
    let own = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if std::env::var_os(PERMISSION).is_none_or(|value| value != "yes") {
        return Err(format!(
            "this is no place for it: scripts are acted out in sandboxes, where {PERMISSION}=yes"
        ));
    }
    if own.as_os_str().is_empty() || own == std::path::Path::new(OF_THE_MACHINE) {
        return Err("this is no place for it: here are the machine's own processes".to_owned());
    }
    Ok(())
}

/// Acts out a script and says how each operation went.
pub(crate) fn perform(script: &Script) {
    for operation in &script.operations {
        let outcome = match deed::find(operation.verb().name) {
            Some(deed) => stage::play(deed, Arguments::of(operation)),
            None => Outcome::Unknown,
        };
        // Whoever does not listen does not stop the script.
        let _ = writeln!(std::io::stdout(), "{} {outcome}", operation.verb().name);
    }
}

fn read(name: &OsString) -> Result<Script, String> {
    let mut text = String::new();
    if name == "-" {
        std::io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(name).and_then(|mut file| file.read_to_string(&mut text))
    }
    .map_err(|error| error.to_string())?;
    Script::parse(&text).map_err(|error| error.to_string())
}

/// How an operation went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It was done.
    Done,
    /// The kernel refused it with this number.
    Refused(i32),
    /// Its process died.
    Died,
    /// It did not end in time.
    Hung,
    /// No process could be made for it.
    Unplayed,
    /// This program has no such deed.
    Unknown,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("ok"),
            Self::Refused(number) => {
                write!(f, "{}", std::io::Error::from_raw_os_error(*number))
            }
            Self::Died => f.write_str("died"),
            Self::Hung => f.write_str("hung"),
            Self::Unplayed => f.write_str("no process"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn nothing_is_acted_out_where_it_was_not_asked_for() {
        assert_eq!(run(&["-".into()]), ExitCode::from(2));
    }

    #[test]
    fn there_is_a_deed_for_each_verb_and_no_other() {
        let verbs: BTreeSet<_> = innkeeper_test_script::verbs()
            .map(|verb| verb.name)
            .collect();
        let deeds: BTreeSet<_> = deed::all().map(|(name, _)| *name).collect();
        assert_eq!(verbs, deeds);
        assert_eq!(deed::all().count(), deeds.len());
    }
}
