//! The event log: one JSON line per event, numbered without gaps over restarts.
//!
//! Readers read the file itself and are told when it has grown, so a slow reader costs no memory
//! and a reader that comes late misses nothing.

use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use innkeeper_pool::{Kind, LogEvent, Supplied};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::state::append::Append;
use crate::state::{Error, failed};

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
        let (good, last) = match File::open(path) {
            Ok(file) => tail(&file).map_err(failed("reading", path))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (0, 0),
            Err(error) => return Err(failed("opening", path)(error)),
        };
        Ok(Self {
            file: Append::open(path, good)?,
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
        let written = self.file.append(&json, false);
        self.last.send_replace(seq);
        written
    }
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

/// A position in the log.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    last: watch::Receiver<u64>,
    file: Option<BufReader<File>>,
    /// Events up to this one are skipped.
    since: u64,
    partial: Vec<u8>,
}

impl Events {
    /// Reads events with a number above `since`.
    pub fn read(&self, since: u64) -> Reader {
        let (path, last) = (self.path.clone(), self.last.clone());
        Reader {
            path,
            last,
            file: None,
            since,
            partial: Vec::new(),
        }
    }

    /// The number of the newest event.
    pub fn last(&self) -> u64 {
        *self.last.borrow()
    }
}

impl Reader {
    /// The next event that is in the log by now; None at its end.
    pub fn next_written(&mut self) -> Result<Option<Line>, Error> {
        if self.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.file = Some(BufReader::new(file)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(failed("opening", &self.path)(error)),
            }
        }
        let Some(file) = &mut self.file else {
            return Ok(None);
        };
        loop {
            file.read_until(b'\n', &mut self.partial)
                .map_err(failed("reading", &self.path))?;
            if !self.partial.ends_with(b"\n") {
                return Ok(None);
            }
            let line = serde_json::from_slice::<Line>(&self.partial).ok();
            self.partial.clear();
            if let Some(line) = line.filter(|line| line.seq > self.since) {
                self.since = line.seq;
                return Ok(Some(line));
            }
        }
    }

    /// The next event, waiting for it; None once the log is closed. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Line>, Error> {
        loop {
            if let Some(line) = self.next_written()? {
                return Ok(Some(line));
            }
            if self.last.changed().await.is_err() {
                return self.next_written();
            }
        }
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
}
