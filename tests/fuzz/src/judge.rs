//! The oracle's verdict on what a visit saw.

use innkeeper_test_oracle::{Depth, Noise, Record, compare};

/// Differences that are told of one sandbox; more say nothing more.
const TOLD: usize = 20;

/// Fresh sandboxes, and in what they differ among themselves.
#[derive(Debug)]
pub struct Judge {
    light: Fresh,
    full: Fresh,
    in_place: bool,
}

#[derive(Debug)]
struct Fresh {
    record: Record,
    noise: Noise,
}

/// Fresh sandboxes cannot be compared with each other.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// What one of them wrote is no record.
    #[error("a fresh sandbox could not be observed: {0}")]
    Unread(String),
    /// They differ in what nobody excused.
    #[error(transparent)]
    Unexcused(#[from] innkeeper_test_oracle::Unexcused),
}

impl Judge {
    /// How many fresh sandboxes are needed at each depth.
    pub const FRESH: usize = Noise::FEWEST + 1;

    /// Learns from what [`Judge::FRESH`] fresh sandboxes wrote at each depth.
    ///
    /// # Errors
    /// When they cannot be read or differ.
    pub fn learn(light: &[Vec<u8>], full: &[Vec<u8>], in_place: bool) -> Result<Self, Unfit> {
        Ok(Self {
            light: Fresh::learn(light, in_place)?,
            full: Fresh::learn(full, in_place)?,
            in_place,
        })
    }

    /// A fresh sandbox in all detail.
    pub fn fresh(&self) -> &Record {
        &self.full.record
    }

    /// What tells the sandbox that wrote this from a fresh one.
    pub fn differences(&self, depth: Depth, written: &[u8]) -> Vec<String> {
        let fresh = match depth {
            Depth::Light => &self.light,
            Depth::Full => &self.full,
        };
        let record = match read(written) {
            Ok(record) => record,
            Err(error) => return vec![format!("it could not be observed: {error}")],
        };
        let mut all = compare(&fresh.record, &fresh.noise, &record);
        // Whoever reads the store on the host moves access times of layers, under fresh and reset
        // sandboxes alike. A guest cannot; where it writes to the very files, it can.
        all.retain(|difference| self.in_place || difference.field != "atime");
        let mut told: Vec<String> = all.iter().take(TOLD).map(ToString::to_string).collect();
        if let Some(more) = all.len().checked_sub(TOLD).filter(|more| *more > 0) {
            told.push(format!("and {more} more"));
        }
        told
    }
}

impl Fresh {
    fn learn(written: &[Vec<u8>], in_place: bool) -> Result<Self, Unfit> {
        let records = written
            .iter()
            .map(|written| read(written).map_err(Unfit::Unread))
            .collect::<Result<Vec<_>, _>>()?;
        let noise = Noise::learn(&records)?;
        let noise = if in_place { noise.in_place() } else { noise };
        let record = records.into_iter().next().unwrap_or_default();
        Ok(Self { record, noise })
    }
}

/// The record on the first line.
fn read(written: &[u8]) -> Result<Record, String> {
    let line = written
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    Record::read(line).map_err(|error| {
        let shown = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
        format!("{error} (it wrote {} bytes: {shown:?})", written.len())
    })
}
