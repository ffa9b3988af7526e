//! What a command wrote: a log that one task appends to and any number of readers follow,
//! each from its own offset.
//!
//! The log is a row of frames, each a stream and a piece of its bytes. The first part is
//! kept in memory, the rest in a file without a name. Frames that would go over the limit
//! are thrown away and the log is marked as truncated: what is there is the beginning,
//! without a gap.

mod log;
mod spill;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use innkeeper_proto::limits;
use innkeeper_proto::v1::{ExecFinished, ExecOutput, Stream};
use tokio::sync::Notify;

use super::outcome::Ending;
use log::{Log, Place};
use spill::Spill;

/// How much is kept.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    memory: usize,
    total: u64,
}

/// A log of output.
#[derive(Debug)]
pub struct Output {
    state: Mutex<State>,
    changed: Notify,
    directory: PathBuf,
    bounds: Bounds,
}

#[derive(Debug, Default)]
struct State {
    log: Log,
    spill: Option<Spill>,
    started: Option<i32>,
    truncated: bool,
    ending: Option<Ending>,
}

/// How far a reader has come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cursor {
    told_start: bool,
    /// Place of the next frame.
    frame: u64,
    /// Bytes of output before that frame.
    before: u64,
    /// Output before this is not wanted.
    from: u64,
}

/// What a reader gets.
#[derive(Debug)]
pub enum Next {
    /// The command runs, with this pid inside the sandbox. First, and once.
    Started(i32),
    /// A piece of output.
    Output(ExecOutput),
    /// The end, and last.
    Ended(Ending),
}

impl Output {
    /// An empty log whose file, should it need one, is made in `directory`.
    pub fn new(directory: PathBuf) -> Self {
        let bounds = Bounds {
            memory: limits::OUTPUT_IN_MEMORY,
            total: limits::OUTPUT,
        };
        Self::bounded(directory, bounds)
    }

    fn bounded(directory: PathBuf, bounds: Bounds) -> Self {
        let state = Mutex::new(State::default());
        Self {
            state,
            changed: Notify::new(),
            directory,
            bounds,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock with the log half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command runs.
    pub fn start(&self, guest_pid: i32) {
        self.state().started = Some(guest_pid);
        self.changed.notify_waiters();
    }

    /// Adds a piece of at most `limits::CHUNK` bytes. Called by one task only. Waits for the
    /// disk at most; a file that cannot be written truncates the output.
    pub async fn append(&self, stream: Stream, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let spill = {
            let mut state = self.state();
            let size = log::HEAD as u64 + data.len() as u64;
            if state.truncated || state.log.end() + size > self.bounds.total {
                state.truncated = true;
                return;
            }
            if state.spill.is_none() && state.log.end() + size <= self.bounds.memory as u64 {
                state.log.keep(stream, data);
                drop(state);
                self.changed.notify_waiters();
                return;
            }
            state.spill.clone()
        };
        let frame = log::frame(stream, data);
        let written = spill::write(spill, self.directory.clone(), frame).await;
        let mut state = self.state();
        match written {
            Ok(spill) => {
                state.log.kept_elsewhere(data.len());
                state.spill = Some(spill);
            }
            Err(error) => {
                tracing::warn!(%error, "output is thrown away: it cannot be written to a file");
                state.truncated = true;
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// The end, once; nothing is appended after it.
    pub fn finish(&self, ending: Ending) {
        let mut state = self.state();
        let truncated = state.truncated;
        if state.ending.is_none() {
            state.ending = Some(match ending {
                Ending::Finished(done) => Ending::Finished(ExecFinished { truncated, ..done }),
                other @ (Ending::Gone | Ending::Lost(_)) => other,
            });
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Bytes that the log takes.
    pub fn size(&self) -> u64 {
        self.state().log.end()
    }

    /// A reader that begins at byte `offset` of the output; none where the output has not
    /// come that far, for then the reader has seen another output than this one.
    pub fn read_from(&self, offset: u64) -> Option<Cursor> {
        let state = self.state();
        if offset > state.log.payload() {
            return None;
        }
        let (frame, before) = state.log.mark(offset);
        Some(Cursor {
            told_start: false,
            frame,
            before,
            from: offset,
        })
    }

    /// What comes next for a reader; waits for it. Cancel safe: the cursor moves only when
    /// something is returned.
    pub async fn next(&self, cursor: &mut Cursor) -> Next {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.step(cursor) {
                Step::Have(next) => return next,
                Step::Wait => changed.await,
                Step::Read { spill, at, length } => match spill::read(spill, at, length).await {
                    Ok(frames) => {
                        if let Some(output) = take(&frames, cursor) {
                            return Next::Output(output);
                        }
                    }
                    Err(error) => {
                        let why = format!("the output that was kept cannot be read: {error}");
                        return Next::Ended(Ending::Lost(why));
                    }
                },
            }
        }
    }

    fn step(&self, cursor: &mut Cursor) -> Step {
        let state = self.state();
        if let (false, Some(pid)) = (cursor.told_start, state.started) {
            cursor.told_start = true;
            return Step::Have(Next::Started(pid));
        }
        loop {
            match (state.log.place(cursor.frame), &state.spill) {
                (Place::Memory(frames), _) => {
                    if let Some(output) = take(frames, cursor) {
                        return Step::Have(Next::Output(output));
                    }
                }
                (Place::Elsewhere { at, length }, Some(spill)) => {
                    return Step::Read {
                        spill: spill.clone(),
                        at,
                        length,
                    };
                }
                (Place::Elsewhere { .. }, None) | (Place::End, _) => break,
            }
        }
        match &state.ending {
            Some(ending) => Step::Have(Next::Ended(ending.clone())),
            None => Step::Wait,
        }
    }
}

enum Step {
    Have(Next),
    Wait,
    Read {
        spill: Spill,
        at: u64,
        length: usize,
    },
}

/// Moves a reader over whole frames of one stream, up to a chunk of them.
fn take(frames: &[u8], cursor: &mut Cursor) -> Option<ExecOutput> {
    let mut taken: Option<(Stream, u64, Vec<u8>)> = None;
    for (stream, data) in log::frames(frames) {
        let skipped = cursor
            .from
            .saturating_sub(cursor.before)
            .min(data.len() as u64);
        let wanted = &data[usize::try_from(skipped).unwrap_or(data.len())..];
        if !wanted.is_empty() {
            match &mut taken {
                None => taken = Some((stream, cursor.before + skipped, wanted.to_vec())),
                Some((same, _, bytes))
                    if *same == stream && bytes.len() + wanted.len() <= limits::CHUNK =>
                {
                    bytes.extend_from_slice(wanted);
                }
                Some(_) => break,
            }
        }
        cursor.before += data.len() as u64;
        cursor.frame += (log::HEAD + data.len()) as u64;
    }
    taken.map(|(stream, offset, data)| ExecOutput {
        stream: stream.into(),
        offset,
        data: Bytes::from(data),
    })
}

#[cfg(test)]
mod tests;
