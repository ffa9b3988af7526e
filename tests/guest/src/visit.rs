//! One rollout in one call: observes, and acts out a script.
//!
//! What a rollout sees before it acts is what the reset before it left. One command for both
//! saves half of the calls of a fuzzing run. A program that is no part of the image takes itself
//! away first, and puts the time of its directory back: then it leaves nothing of its own in what
//! it observes.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use innkeeper_test_script::Script;

use crate::{act, observe};

/// `[--light] [PROGRAM NANOSECONDS]`: where this program lies and when its directory was modified
/// before it was put there; without them it stays. The script comes on standard input; without one, nothing is acted.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let (depth, rest) = match arguments.split_first() {
        Some((first, rest)) if first == "--light" => (&arguments[..1], rest),
        Some(_) | None => (&arguments[..0], arguments),
    };
    let script = match read() {
        Ok(script) => script,
        Err(message) => {
            eprintln!("standard input: {message}");
            return ExitCode::from(2);
        }
    };
    match rest {
        [] => {}
        [program, modified] => {
            if let Err(error) = remove(Path::new(program), modified) {
                eprintln!("{} could not be removed: {error}", program.display());
                return ExitCode::FAILURE;
            }
        }
        _ => {
            eprintln!("name this program's path and the time of its directory, or neither");
            return ExitCode::from(2);
        }
    }
    let observed = observe::run(depth);
    if !script.operations.is_empty() {
        if let Err(message) = act::permitted() {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
        act::perform(&script);
    }
    observed
}

fn read() -> Result<Script, String> {
    let mut text = String::new();
    let read = io::stdin().read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    Script::parse(&text).map_err(|error| error.to_string())
}

fn remove(program: &Path, modified: &OsString) -> io::Result<()> {
    fs::remove_file(program)?;
    let nanoseconds: i64 = modified
        .to_str()
        .and_then(|text| text.parse().ok())
        .ok_or(io::ErrorKind::InvalidInput)?;
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    let time = if nanoseconds < 0 {
        SystemTime::UNIX_EPOCH - distance
    } else {
        SystemTime::UNIX_EPOCH + distance
    };
    let folder = program.parent().unwrap_or(Path::new("/"));
    File::open(folder)?.set_modified(time)
}
