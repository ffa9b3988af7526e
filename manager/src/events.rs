//! The event log: one JSON line per event, numbered without gaps over restarts.
//!
//! Readers read the file itself and are told when it has grown, so a slow reader costs no memory.
//! A file that has grown long is put aside as `events.1.jsonl`, in place of the one before it: what
//! is kept is between one and two files' length, and a reader that comes late gets all of that.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use innkeeper_pool::{Kind, LogEvent, Supplied};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::state::append::Append;
use crate::state::{Error, failed};

mod reader;

pub use reader::Reader;

/// Bytes after which a file is put aside: some 80,000 events, 10,000 rollouts.
const LONG: u64 = 16 << 20;

/// One line, as the file has it and clients get it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// From 1, without gaps.
    pub seq: u64,
    /// Seconds since the Unix epoch.
    pub t: f64,
    /// What happened.
    pub kind: Kind,
    /// To which slot.
    pub slot: Option<String>,
    /// Under which lease.
    pub lease: Option<String>,
    /// Of which job.
    pub job: Option<String>,
    /// The template key.
    pub template: Option<String>,
    /// fresh, warm or reused.
    pub supply: Option<String>,
    /// Earlier rollouts of the slot.
    pub uses: Option<u32>,
    /// How it ended.
    pub outcome: Option<String>,
    /// Why.
    pub cause: Option<String>,
    /// How long it took.
    pub ms: Option<u64>,
    /// Whose event it is. In the file only: a client sees none but its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

impl Line {
    /// The line as a client gets it, without the tenant.
    pub fn for_client(mut self) -> String {
        self.tenant = None;
        serde_json::to_string(&self).expect("events have only string keys")
    }
}

/// The word for how a lease was supplied.
pub(crate) fn supply_word(supply: Supplied) -> &'static str {
    match supply {
        Supplied::Fresh => "fresh",
        Supplied::Warm => "warm",
        Supplied::Reused => "reused",
    }
}

/// The writing end.
#[derive(Debug)]
pub struct EventLog {
    file: Append,
    long: u64,
    last: watch::Sender<u64>,
}

/// The reading end; clones share nothing but the file.
#[derive(Debug, Clone)]
pub struct Events {
    path: PathBuf,
    last: watch::Receiver<u64>,
}

impl EventLog {
    /// Opens the log; numbering goes on behind the last whole line, and a torn one is cut off.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, LONG)
    }

    fn open_with(path: &Path, long: u64) -> Result<Self, Error> {
        let (good, mut last) = end_of(path)?;
        if last == 0 {
            // Killed after the old file was put aside and before a new one had a line.
            (_, last) = end_of(&aside(path))?;
        }
        Ok(Self {
            file: Append::open(path, good)?,
            long,
            last: watch::Sender::new(last),
        })
    }

    /// A reader of this log.
    pub fn events(&self) -> Events {
        Events {
            path: self.file.path().to_owned(),
            last: self.last.subscribe(),
        }
    }

    /// Writes one event of `tenant`.
    ///
    /// # Errors
    /// The disk is full or broken. The line is kept and written with the next one that works.
    pub fn write(&mut self, event: &LogEvent, tenant: Option<&str>) -> Result<(), Error> {
        let seq = *self.last.borrow() + 1;
        let line = Line {
            seq,
            t: event.t as f64 / 1000.0,
            kind: event.kind,
            slot: event.slot.as_ref().map(ToString::to_string),
            lease: event.lease.as_ref().map(ToString::to_string),
            job: event.job.clone(),
            template: event.template.as_ref().map(ToString::to_string),
            supply: event.supply.map(|supply| supply_word(supply).to_owned()),
            uses: event.uses,
            outcome: event.outcome.clone(),
            cause: event.cause.clone(),
            ms: event.ms,
            tenant: tenant.map(str::to_owned),
        };
        let mut json = serde_json::to_vec(&line).expect("events have only string keys");
        json.push(b'\n');
        let written = self.file.append(&json, false).and_then(|()| self.shorten());
        self.last.send_replace(seq);
        written
    }

    /// Puts a long file aside and begins another.
    fn shorten(&mut self) -> Result<(), Error> {
        if self.file.len() < self.long {
            return Ok(());
        }
        let path = self.file.path().to_owned();
        std::fs::rename(&path, aside(&path)).map_err(failed("renaming", &path))?;
        self.file = Append::open(&path, 0)?;
        Ok(())
    }
}

/// Where the last whole line of a file ends, and its number; zeros where there is none.
fn end_of(path: &Path) -> Result<(u64, u64), Error> {
    match File::open(path) {
        Ok(file) => tail(&file).map_err(failed("reading", path)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok((0, 0)),
        Err(error) => Err(failed("opening", path)(error)),
    }
}

/// The place of the file before this one.
fn aside(path: &Path) -> PathBuf {
    path.with_extension("1.jsonl")
}

/// Where the last whole line ends, and its number.
fn tail(file: &File) -> std::io::Result<(u64, u64)> {
    // Lines are far shorter than this, so a window of it holds at least one whole line.
    const WINDOW: u64 = 1 << 20;
    let size = file.metadata()?.len();
    let start = size.saturating_sub(WINDOW);
    let mut reader = BufReader::new(file);
    reader.seek(SeekFrom::Start(start))?;
    let (mut at, mut good, mut seq) = (start, start, 0);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        at += line.len() as u64;
        if line.ends_with(b"\n")
            && let Ok(parsed) = serde_json::from_slice::<Line>(&line)
        {
            (good, seq) = (at, parsed.seq);
        }
        line.clear();
    }
    Ok((good, seq))
}

impl Events {
    /// Reads events with a number above `since`.
    pub fn read(&self, since: u64) -> Reader {
        Reader::new(&self.path, self.last.clone(), since)
    }

    /// The number of the newest event.
    pub fn last(&self) -> u64 {
        *self.last.borrow()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(t: u64) -> LogEvent {
        serde_json::from_value(serde_json::json!({
            "t": t, "kind": "granted", "slot": "s-1", "lease": null, "job": null,
            "template": null, "supply": "fresh", "uses": 0, "outcome": null, "cause": null, "ms": 3,
        }))
        .unwrap()
    }

    #[tokio::test]
    async fn numbers_go_on_after_a_restart_and_a_torn_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut log = EventLog::open(&path).unwrap();
        log.write(&event(1000), Some("default")).unwrap();
        log.write(&event(2500), Some("default")).unwrap();
        drop(log);
        std::io::Write::write_all(
            &mut std::fs::OpenOptions::new()
                .append(true)
                .open(&path)
                .unwrap(),
            b"{\"seq\":3,",
        )
        .unwrap();

        let mut log = EventLog::open(&path).unwrap();
        let mut reader = log.events().read(1);
        let second = reader.next().await.unwrap().unwrap();
        assert_eq!(
            (second.seq, second.t, second.supply.as_deref()),
            (2, 2.5, Some("fresh"))
        );
        assert_eq!(reader.next_written().unwrap(), None);

        let waiting = tokio::spawn(async move { reader.next().await.unwrap().unwrap().seq });
        log.write(&event(3000), None).unwrap();
        assert_eq!(waiting.await.unwrap(), 3);
    }
    #[tokio::test]
    async fn a_long_log_keeps_its_newest_events_and_its_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut log = EventLog::open_with(&path, 1000).unwrap();
        let mut early = log.events().read(0);
        for t in 1..=100 {
            log.write(&event(t * 1000), None).unwrap();
            assert_eq!(
                early.next_written().unwrap().unwrap().seq,
                t,
                "none is missed"
            );
        }
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |data| data.len());
        assert!(size(&path) < 1200 && size(&aside(&path)) < 1200);
        let mut late = log.events().read(0);
        let all: Vec<u64> = std::iter::from_fn(|| late.next_written().unwrap())
            .map(|line| line.seq)
            .collect();
        assert!(all.len() > 4 && all.len() < 20, "{all:?}");
        assert!(all.is_sorted() && all.last() == Some(&100), "{all:?}");
        drop(log);
        std::fs::write(&path, b"").unwrap();
        let mut again = EventLog::open_with(&path, 1000).unwrap();
        let before = again.events().last();
        again.write(&event(1), None).unwrap();
        assert!(before > 90 && again.events().last() == before + 1);
    }
}
