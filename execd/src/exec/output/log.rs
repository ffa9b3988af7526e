//! The row of frames: a stream (1 byte), a length (4 bytes, little endian), the bytes.

use innkeeper_proto::limits;
use innkeeper_proto::v1::Stream;

/// Bytes of a frame's head.
pub(super) const HEAD: usize = 5;

/// Bytes of output between two marks.
const BETWEEN: u64 = 64 * 1024;

/// Where frames are. Those in memory come first.
#[derive(Debug, Default)]
pub(super) struct Log {
    memory: Vec<u8>,
    /// Bytes of frames kept elsewhere.
    elsewhere: u64,
    /// Bytes of output in all frames.
    payload: u64,
    /// Frames by the output before them, so that a reader can begin anywhere:
    /// (output before it, its place).
    marks: Vec<(u64, u64)>,
}

/// Where the frame at some place is.
pub(super) enum Place<'a> {
    /// Here, with those behind it.
    Memory(&'a [u8]),
    /// At this place of the other store, and as many bytes can be read for a chunk.
    Elsewhere { at: u64, length: usize },
    /// There is none yet.
    End,
}

impl Log {
    /// Bytes of all frames: the place of the next one.
    pub(super) fn end(&self) -> u64 {
        self.memory.len() as u64 + self.elsewhere
    }

    /// Bytes of output.
    pub(super) fn payload(&self) -> u64 {
        self.payload
    }

    /// Adds a frame here.
    pub(super) fn keep(&mut self, stream: Stream, data: &[u8]) {
        self.mark_next();
        self.memory.extend_from_slice(&head(stream, data.len()));
        self.memory.extend_from_slice(data);
        self.payload += data.len() as u64;
    }

    /// Notes a frame with `length` bytes of output that was added elsewhere.
    pub(super) fn kept_elsewhere(&mut self, length: usize) {
        self.mark_next();
        self.elsewhere += (HEAD + length) as u64;
        self.payload += length as u64;
    }

    fn mark_next(&mut self) {
        if self
            .marks
            .last()
            .is_none_or(|(before, _)| self.payload - before >= BETWEEN)
        {
            self.marks.push((self.payload, self.end()));
        }
    }

    /// The last marked frame at or before an offset: its place and the output before it.
    pub(super) fn mark(&self, offset: u64) -> (u64, u64) {
        let after = self.marks.partition_point(|(before, _)| *before <= offset);
        match after.checked_sub(1).and_then(|last| self.marks.get(last)) {
            Some((before, place)) => (*place, *before),
            None => (0, 0),
        }
    }

    pub(super) fn place(&self, frame: u64) -> Place<'_> {
        let in_memory = self.memory.len() as u64;
        if frame >= self.end() {
            return Place::End;
        }
        if frame >= in_memory {
            let at = frame - in_memory;
            let whole = (HEAD + limits::CHUNK) as u64;
            let length = usize::try_from((self.elsewhere - at).min(whole)).unwrap_or(HEAD);
            return Place::Elsewhere { at, length };
        }
        let from = usize::try_from(frame).unwrap_or(self.memory.len());
        let most = self.memory.len().min(from + HEAD + limits::CHUNK);
        Place::Memory(&self.memory[from..most])
    }
}

fn head(stream: Stream, length: usize) -> [u8; HEAD] {
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    let stream = u8::try_from(i32::from(stream)).unwrap_or(0);
    [stream, length[0], length[1], length[2], length[3]]
}

/// A whole frame.
pub(super) fn frame(stream: Stream, data: &[u8]) -> Vec<u8> {
    [head(stream, data.len()).as_slice(), data].concat()
}

/// Whole frames at the beginning of some bytes of the log.
pub(super) fn frames(mut bytes: &[u8]) -> impl Iterator<Item = (Stream, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        let (data, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        bytes = rest;
        Some((Stream::try_from(i32::from(head[0])).ok()?, data))
    })
}
