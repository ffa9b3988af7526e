//! Maps of sparse files.

use super::header::number;
use super::pax::decimal;
use crate::limits::MAX_SPARSE_SEGMENTS;

/// A stretch of stored bytes and where it goes in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Adds the pairs of an old GNU header; an empty pair ends them.
pub(super) fn add_old(
    segments: &mut Vec<Segment>,
    pairs: &[tar::GnuSparseHeader],
) -> Result<(), &'static str> {
    const BROKEN: &str = "a sparse map";
    for pair in pairs {
        if pair.is_empty() {
            break;
        }
        if segments.len() >= MAX_SPARSE_SEGMENTS {
            return Err("a sparse map that is too long");
        }
        let value = |field: &[u8]| {
            number(field)
                .and_then(|n| u64::try_from(n).ok())
                .ok_or(BROKEN)
        };
        let offset = value(&pair.offset)?;
        segments.push(Segment {
            offset,
            length: value(&pair.numbytes)?,
        });
    }
    Ok(())
}

/// Segments must ascend without overlap, end within the file and hold what is stored.
pub(super) fn check(segments: &[Segment], size: u64, stored: u64) -> Result<(), &'static str> {
    const BROKEN: &str = "a sparse map that does not fit its file";
    let mut end = 0u64;
    let mut sum = 0u64;
    for segment in segments {
        if segment.offset < end {
            return Err(BROKEN);
        }
        end = segment.offset.checked_add(segment.length).ok_or(BROKEN)?;
        sum += segment.length;
    }
    if end <= size && sum == stored {
        Ok(())
    } else {
        Err(BROKEN)
    }
}

/// The map of form 1.0: a count, then offset and length of each segment, one number a line,
/// padded to whole blocks.
#[derive(Default)]
pub(super) struct MapInContent {
    line: Vec<u8>,
    wanted: Option<usize>,
    numbers: Vec<u64>,
}

impl MapInContent {
    pub(super) fn is_complete(&self) -> bool {
        self.wanted
            .is_some_and(|wanted| self.numbers.len() == wanted * 2)
    }

    pub(super) fn feed(&mut self, block: &[u8]) -> Result<(), &'static str> {
        const BROKEN: &str = "a sparse map";
        for &byte in block {
            if self.is_complete() {
                break;
            }
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let value: u64 = decimal(&self.line).ok_or(BROKEN)?;
            self.line.clear();
            match self.wanted {
                Some(_) => self.numbers.push(value),
                None if value <= MAX_SPARSE_SEGMENTS as u64 => self.wanted = Some(value as usize),
                None => return Err("a sparse map that is too long"),
            }
        }
        if self.line.len() > 24 {
            Err(BROKEN)
        } else {
            Ok(())
        }
    }

    pub(super) fn into_segments(self) -> Vec<Segment> {
        let pairs = self.numbers.chunks_exact(2);
        pairs
            .map(|pair| Segment {
                offset: pair[0],
                length: pair[1],
            })
            .collect()
    }
}
