//! What a caller asked to run, checked and completed from its sandbox.

use std::time::Duration;

use innkeeper_proto::limits;
use innkeeper_proto::v1::ExecStart;
use thiserror::Error;

use crate::live::Live;
use crate::spawner::ExecSpec;

/// The longest argument or variable that Linux passes to a program, its zero byte included:
/// MAX_ARG_STRLEN, 32 pages of 4 KiB (execve(2)).
const WORD: usize = 32 * 4096;

/// Where programs are looked up when nothing says it, as under Docker.
const PATH: &[u8] = b"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Mode mask when none is asked for.
const UMASK: u32 = 0o022;

/// A command that can be tried.
#[derive(Debug, Clone)]
pub struct Command {
    /// What to run, and as whom.
    pub spec: ExecSpec,
    /// The caller feeds it.
    pub stdin: bool,
    /// One pipe for both outputs.
    pub merge: bool,
    /// It may run as long.
    pub timeout: Duration,
    /// It runs on without callers.
    pub detach: bool,
}

/// Why a command is not even tried.
#[derive(Debug, Error)]
pub enum Invalid {
    /// The call makes no sense.
    #[error("{0}")]
    Call(String),
    /// No kernel would start it.
    #[error("{0}")]
    TooLong(String),
}

impl Command {
    /// Checks a call.
    ///
    /// # Errors
    /// For what could not be passed on unchanged.
    pub fn new(start: ExecStart, live: &Live) -> Result<Self, Invalid> {
        let call = |sentence: &str| Err(Invalid::Call(sentence.to_owned()));
        if start.argv.first().is_none_or(|word| word.is_empty()) {
            return call("argv has no program: give at least one word that is not empty");
        }
        if start.argv.len() + start.env.len() > limits::ARGV_WORDS {
            return Err(Invalid::Call(format!(
                "argv and env have more than {} words together",
                limits::ARGV_WORDS
            )));
        }
        if start.cwd.len() > limits::PATH || start.cwd.contains(&0) {
            return call("cwd is no path: it is too long or has a zero byte in it");
        }
        for (what, words) in [("argv", &start.argv), ("env", &start.env)] {
            for word in words {
                if word.contains(&0) {
                    return Err(Invalid::Call(format!(
                        "a word of {what} has a zero byte in it"
                    )));
                }
                if word.len() >= WORD {
                    let length = word.len();
                    return Err(Invalid::TooLong(format!(
                        "argument too long: a word of {what} has {length} bytes and a program \
                         takes at most {}; pass it as stdin or as a file",
                        WORD - 1
                    )));
                }
            }
        }
        if start
            .env
            .iter()
            .any(|word| !word[1.min(word.len())..].contains(&b'='))
        {
            return call("a word of env is not of the form NAME=VALUE");
        }
        let terminal = start
            .terminal
            .map(|size| (side(size.rows), side(size.columns)));
        Ok(Self {
            timeout: timeout(start.timeout_ms).map_err(Invalid::Call)?,
            stdin: start.stdin,
            merge: start.merge_output,
            detach: start.detach,
            spec: ExecSpec {
                argv: start.argv.into_iter().map(Vec::from).collect(),
                env: environment(
                    &live.env,
                    start.env.into_iter().map(Vec::from),
                    terminal.is_some(),
                ),
                cwd: directory(start.cwd.into(), &live.workdir),
                user: if start.user.is_empty() {
                    live.user.clone()
                } else {
                    start.user
                },
                umask: start.umask.unwrap_or(UMASK) & 0o777,
                terminal,
            },
        })
    }
}

/// A time in milliseconds as it stands in a call; 0 is the default.
///
/// # Errors
/// A sentence for the caller when it is over the limit.
pub fn timeout(ms: u64) -> Result<Duration, String> {
    if ms > limits::EXEC_TIMEOUT_MAX_MS {
        let most = limits::EXEC_TIMEOUT_MAX_MS / 3_600_000;
        return Err(format!(
            "a timeout of {ms} ms is over the limit of {most} hours"
        ));
    }
    Ok(Duration::from_millis(if ms == 0 {
        limits::EXEC_TIMEOUT_MS
    } else {
        ms
    }))
}

/// A directory to start in; a relative one begins at the template's.
fn directory(asked: Vec<u8>, workdir: &[u8]) -> Vec<u8> {
    let workdir = if workdir.is_empty() {
        b"/".as_slice()
    } else {
        workdir
    };
    match asked.first() {
        None => workdir.to_vec(),
        Some(b'/') => asked,
        Some(_) => [workdir, b"/", &asked].concat(),
    }
}

/// Rows or columns.
fn side(asked: u32) -> u16 {
    u16::try_from(asked).unwrap_or(u16::MAX)
}

/// The sandbox's environment with a caller's on top: of one name the last counts, and it
/// keeps the place of the first.
fn environment(
    base: &[Vec<u8>],
    added: impl IntoIterator<Item = Vec<u8>>,
    terminal: bool,
) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for word in base.iter().cloned().chain(added) {
        let place = *places.entry(name(&word).to_vec()).or_insert(all.len());
        match all.get_mut(place) {
            Some(old) => *old = word,
            None => all.push(word),
        }
    }
    if !places.contains_key(b"PATH".as_slice()) {
        all.push(PATH.to_vec());
    }
    if terminal && !places.contains_key(b"TERM".as_slice()) {
        all.push(b"TERM=xterm".to_vec());
    }
    all
}

fn name(word: &[u8]) -> &[u8] {
    // A name may begin with = as bash's own do.
    let end = word
        .iter()
        .skip(1)
        .position(|byte| *byte == b'=')
        .map_or(word.len(), |at| at + 1);
    &word[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn the_callers_variables_override_and_values_stay_as_they_are() {
        let base = words(&["PATH=/bin", "A=1", "B=2", "A=3"]);
        let all = environment(&base, words(&["B=x=1\ny;z", "C="]), false);
        assert_eq!(all, words(&["PATH=/bin", "A=3", "B=x=1\ny;z", "C="]));
        let all = environment(&[], [], true);
        assert!(all[0].starts_with(b"PATH=/usr/local/sbin:"));
        assert_eq!(all[1], b"TERM=xterm");
    }

    #[test]
    fn relative_directories_begin_at_the_workdir() {
        assert_eq!(directory(vec![], b"/testbed"), b"/testbed");
        assert_eq!(directory(b"/x".to_vec(), b"/testbed"), b"/x");
        assert_eq!(directory(b"x".to_vec(), b"/testbed"), b"/testbed/x");
        assert_eq!(directory(vec![], b""), b"/");
    }

    #[test]
    fn timeouts_have_a_default_and_an_end() {
        assert_eq!(timeout(0), Ok(Duration::from_secs(3600)));
        assert_eq!(timeout(5), Ok(Duration::from_millis(5)));
        assert!(timeout(limits::EXEC_TIMEOUT_MAX_MS + 1).is_err());
    }
}
