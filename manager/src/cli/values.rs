//! Values as they stand on the command line: durations, environment, places of a copy.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

/// Reads `500ms`, `40s`, `5m` or `2h`. A number without a unit is refused, and so is zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration: write it like 500ms, 40s, 5m or 2h");
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let factor = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    match number.checked_mul(factor) {
        Some(0) => Err(format!(
            "'{text}' is no time at all: leave the option out for the default"
        )),
        Some(ms) => Ok(Duration::from_millis(ms)),
        None => Err(wrong()),
    }
}

/// A duration in whole milliseconds, 0 for an absent one, as the protocol has it.
pub(crate) fn millis(duration: Option<Duration>) -> u64 {
    duration.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// `K=V`, as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable(pub(crate) Vec<u8>);

/// Checks `K=V`.
pub(crate) fn variable(text: OsString) -> Result<Variable, String> {
    let bytes = text.into_vec();
    match bytes.iter().position(|b| *b == b'=') {
        Some(at) if at > 0 => Ok(Variable(bytes)),
        Some(_) | None => Err(format!(
            "'{}' is not a variable: write it like NAME=VALUE",
            String::from_utf8_lossy(&bytes)
        )),
    }
}

/// One end of a copy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A path inside a lease's sandbox.
    Lease {
        /// The lease's id.
        lease: String,
        /// The path inside, as bytes.
        path: Vec<u8>,
    },
    /// A path on this machine.
    Local(PathBuf),
}

/// Reads `LEASE:PATH` or a local path. A local name with a colon is written `./NAME`.
pub(crate) fn place(text: &OsStr) -> Place {
    let bytes = text.as_bytes();
    match bytes.iter().position(|b| *b == b':') {
        Some(at) if at > 0 && !bytes[..at].contains(&b'/') => Place::Lease {
            lease: String::from_utf8_lossy(&bytes[..at]).into_owned(),
            path: bytes[at + 1..].to_vec(),
        },
        Some(_) | None => Place::Local(PathBuf::from(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("40s"), Ok(Duration::from_secs(40)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for wrong in [
            "",
            "5",
            "s",
            "-1s",
            "1.5s",
            "5d",
            "0s",
            "99999999999999999999h",
            "5 s",
            "18446744073709551615h",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn variables_have_names() {
        assert_eq!(variable("A=b=c".into()), Ok(Variable(b"A=b=c".to_vec())));
        assert_eq!(variable("A=".into()), Ok(Variable(b"A=".to_vec())));
        assert!(variable("A".into()).is_err());
        assert!(variable("=b".into()).is_err());
    }

    #[test]
    fn a_colon_after_a_slash_is_part_of_a_local_name() {
        assert_eq!(
            place(OsStr::new("l-1:/etc/a:b")),
            Place::Lease {
                lease: "l-1".into(),
                path: b"/etc/a:b".to_vec()
            }
        );
        assert_eq!(place(OsStr::new("./a:b")), Place::Local("./a:b".into()));
        assert_eq!(place(OsStr::new("a")), Place::Local("a".into()));
    }
}
