//! The journal: what changed, step by step, so that a restart gives the same pool back.
//!
//! One line is one step: 16 hex digits of blake3 over the JSON behind them. A last line that does
//! not match was torn by a kill and is dropped, its step having had no effect yet. The journal is
//! rewritten in short form at each start, and when it has grown far beyond that form.

use std::path::{Path, PathBuf};

use innkeeper_pool::Record;
use serde::{Deserialize, Serialize};

use super::append::Append;
use super::{Error, failed, replace};

/// Raised when a line's meaning changes.
const FORMAT: u32 = 1;

/// A journal is rewritten once it is this much longer than after its last rewriting, in bytes.
/// A rewriting takes some 10 ms per 10,000 records, a step is about 1 kB: once in 60,000 steps.
const REWRITE_AFTER: u64 = 64 << 20;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first line of a journal.
    Start {
        /// The format of the writer.
        format: u32,
        /// Written by a manager that lived inside a command: its leases ended with it.
        embedded: bool,
    },
    /// All that one step changed; or, in short form, everything.
    Step {
        /// Of the pool.
        records: Vec<Record>,
        /// Of the engine.
        seats: Vec<SeatRecord>,
    },
}

/// What the engine knows of a slot's sandbox beyond what the pool does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatRecord {
    /// The slot.
    pub slot: String,
    /// What is in it; none once the slot is gone.
    pub seat: Option<Seat>,
}

/// The sandbox in a slot as its provider knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// The pool's number for it.
    pub generation: u64,
    /// The provider's number for the same.
    pub built: u64,
    /// The boot of the daemon that built it.
    pub boot_id: String,
    /// hard or soft, as the daemon said.
    pub disk_limit: String,
}

/// What a journal held.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The records, in order.
    pub records: Vec<Record>,
    /// The seats, in order.
    pub seats: Vec<SeatRecord>,
    /// Whether a manager inside a command wrote it.
    pub embedded: bool,
    /// Whether a torn last line was dropped.
    pub torn: bool,
}

/// The open journal.
#[derive(Debug)]
pub struct Journal {
    file: Append,
    embedded: bool,
    /// Its length after the last rewriting.
    short: u64,
}

/// Reads a journal; a missing one is empty.
pub fn load(path: &Path) -> Result<Loaded, Error> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(failed("reading", path)(error)),
    };
    let mut loaded = Loaded::default();
    let mut rest = bytes.as_slice();
    let mut number = 0;
    while !rest.is_empty() {
        number += 1;
        let (line, next) = match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => (Some(&rest[..end]), &rest[end + 1..]),
            None => (None, &rest[rest.len()..]),
        };
        match line.and_then(decode) {
            Some(Line::Start { format, .. }) if format != FORMAT => {
                return Err(Error::Format {
                    path: path.to_owned(),
                    found: format,
                    expected: FORMAT,
                });
            }
            Some(Line::Start { embedded, .. }) => loaded.embedded = embedded,
            Some(Line::Step { records, seats }) => {
                loaded.records.extend(records);
                loaded.seats.extend(seats);
            }
            None if next.is_empty() => loaded.torn = true,
            None => {
                return Err(Error::Damaged {
                    path: path.to_owned(),
                    line: number,
                });
            }
        }
        rest = next;
    }
    Ok(loaded)
}

impl Journal {
    /// Replaces the journal at `path` by its short form and opens it for appending.
    pub fn start(
        path: &Path,
        embedded: bool,
        records: Vec<Record>,
        seats: Vec<SeatRecord>,
    ) -> Result<Self, Error> {
        let (file, short) = rewrite(path, embedded, records, seats)?;
        Ok(Self {
            file,
            embedded,
            short,
        })
    }

    /// Appends one step. When this returns Ok a killed process does not lose it; a template's
    /// baseline is flushed to the disk as well, since it outlives the machine's sandboxes.
    pub fn step(&mut self, records: Vec<Record>, seats: Vec<SeatRecord>) -> Result<(), Error> {
        if records.is_empty() && seats.is_empty() {
            return self.file.flush();
        }
        let sync = records
            .iter()
            .any(|record| matches!(record, Record::Template(_)));
        self.file
            .append(&encode(&Line::Step { records, seats }), sync)
    }

    /// Whether steps wait for a write that works: nothing new may begin meanwhile.
    pub fn is_behind(&self) -> bool {
        self.file.is_behind()
    }

    /// Whether it is time for [`Journal::shorten`].
    pub fn is_long(&self) -> bool {
        self.file.len() > self.short + REWRITE_AFTER
    }

    /// Rewrites it in short form.
    pub fn shorten(&mut self, records: Vec<Record>, seats: Vec<SeatRecord>) -> Result<(), Error> {
        let path: PathBuf = self.file.path().to_owned();
        (self.file, self.short) = rewrite(&path, self.embedded, records, seats)?;
        Ok(())
    }
}

fn rewrite(
    path: &Path,
    embedded: bool,
    records: Vec<Record>,
    seats: Vec<SeatRecord>,
) -> Result<(Append, u64), Error> {
    let mut bytes = encode(&Line::Start {
        format: FORMAT,
        embedded,
    });
    if !(records.is_empty() && seats.is_empty()) {
        bytes.extend(encode(&Line::Step { records, seats }));
    }
    replace(path, &bytes)?;
    let length = bytes.len() as u64;
    Ok((Append::open(path, length)?, length))
}

fn encode(line: &Line) -> Vec<u8> {
    let json = serde_json::to_vec(line).expect("journal lines have only string keys");
    let mut bytes = Vec::with_capacity(json.len() + 18);
    bytes.extend_from_slice(checksum(&json).as_bytes());
    bytes.push(b' ');
    bytes.extend_from_slice(&json);
    bytes.push(b'\n');
    bytes
}

fn decode(line: &[u8]) -> Option<Line> {
    let (sum, json) = line.split_at_checked(17)?;
    if sum[16] != b' ' || sum[..16] != *checksum(json).as_bytes() {
        return None;
    }
    serde_json::from_slice(json).ok()
}

fn checksum(json: &[u8]) -> String {
    blake3::hash(json).to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests;
