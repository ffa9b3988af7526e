//! Turns a layer's source into the bytes of its tar, on a thread of its own: reading,
//! decompressing and hashing run beside the unpacking.

mod compression;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use sha2::{Digest as _, Sha256};

pub(crate) use compression::Compression;

use crate::id::Digest;
use crate::limits::MAX_LAYER_BYTES;

const CHUNK: usize = 256 * 1024;
const QUEUED_CHUNKS: usize = 8;

/// What went through a feed that was read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Digest of the tar.
    pub(crate) diff_id: Digest,
    /// Digest of the layer as it is stored, compressed or not.
    pub(crate) blob: Digest,
}

/// The reading end. Dropping it early ends the thread at its next chunk.
pub(crate) struct Feed {
    chunks: Receiver<io::Result<Vec<u8>>>,
    current: io::Cursor<Vec<u8>>,
    read: Arc<AtomicU64>,
    thread: JoinHandle<Option<Outcome>>,
}

impl Feed {
    /// A layer as it is stored; its compression is recognised by its first bytes.
    pub(crate) fn from_blob(source: Box<dyn Read + Send>) -> Feed {
        Feed::start(move |out, read| decode(source, out, read))
    }

    /// A tar that is made on the fly.
    pub(crate) fn from_writer(
        write: impl FnOnce(&mut ChunkWriter) -> io::Result<()> + Send + 'static,
    ) -> Feed {
        Feed::start(move |out, _| write(out).map(|()| None))
    }

    fn start(
        work: impl FnOnce(&mut ChunkWriter, &Arc<AtomicU64>) -> io::Result<Option<Digest>>
        + Send
        + 'static,
    ) -> Feed {
        let (sender, chunks) = sync_channel(QUEUED_CHUNKS);
        let read = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&read);
        let thread = std::thread::spawn(move || {
            let mut out = ChunkWriter::new(sender);
            let result = work(&mut out, &counter).and_then(|blob| out.flush().map(|()| blob));
            match result {
                Ok(blob) => {
                    let diff_id = Digest::finish(out.hasher);
                    Some(Outcome {
                        diff_id,
                        blob: blob.unwrap_or(diff_id),
                    })
                }
                Err(error) => {
                    // A reader that has gone away needs no reason.
                    drop(out.sender.send(Err(error)));
                    None
                }
            }
        });
        Feed {
            chunks,
            current: io::Cursor::default(),
            read,
            thread,
        }
    }

    /// Bytes read from the source so far, as stored.
    pub(crate) fn progress(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Reads what is left, which a tar reader leaves after its end mark, and gives the digests.
    pub(crate) fn finish(self) -> io::Result<Outcome> {
        for chunk in &self.chunks {
            chunk?;
        }
        match self.thread.join() {
            Ok(Some(outcome)) => Ok(outcome),
            Ok(None) => Err(io::Error::other("reading stopped early")),
            Err(_) => Err(io::Error::other("the reading thread broke down")),
        }
    }
}

impl Read for Feed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let got = self.current.read(buffer)?;
            if got > 0 || buffer.is_empty() {
                return Ok(got);
            }
            match self.chunks.recv() {
                Ok(chunk) => self.current = io::Cursor::new(chunk?),
                Err(_) => return Ok(0),
            }
        }
    }
}

/// Gathers a tar into chunks, hashing it.
pub(crate) struct ChunkWriter {
    sender: SyncSender<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    hasher: Sha256,
    total: u64,
}

impl ChunkWriter {
    fn new(sender: SyncSender<io::Result<Vec<u8>>>) -> ChunkWriter {
        ChunkWriter {
            sender,
            chunk: Vec::with_capacity(CHUNK),
            hasher: Sha256::new(),
            total: 0,
        }
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = bytes.len().min(CHUNK - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..part]);
        if self.chunk.len() == CHUNK {
            self.flush()?;
        }
        Ok(part)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.total += self.chunk.len() as u64;
        if self.total > MAX_LAYER_BYTES {
            let what = format!("it unpacks to more than {} GiB", MAX_LAYER_BYTES >> 30);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        self.hasher.update(&self.chunk);
        let chunk = std::mem::replace(&mut self.chunk, Vec::with_capacity(CHUNK));
        self.sender
            .send(Ok(chunk))
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Counts, and hashes where the stored bytes are not those of the tar.
struct Source {
    inner: Box<dyn Read + Send>,
    hasher: Option<Sha256>,
    read: Arc<AtomicU64>,
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&buffer[..got]);
        }
        self.read.fetch_add(got as u64, Ordering::Relaxed);
        Ok(got)
    }
}

fn decode(
    mut inner: Box<dyn Read + Send>,
    out: &mut ChunkWriter,
    read: &Arc<AtomicU64>,
) -> io::Result<Option<Digest>> {
    let (compression, start) = compression::sniff(&mut inner)?;
    let hasher = (compression != Compression::None).then(Sha256::new);
    let inner = Box::new(io::Cursor::new(start).chain(inner));
    let mut source = Source {
        inner,
        hasher,
        read: Arc::clone(read),
    };
    {
        let mut decoder = compression.decoder(&mut source)?;
        let mut buffer = vec![0; CHUNK];
        loop {
            let got = match decoder.read(&mut buffer) {
                Ok(0) => break,
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(compression.explain(error)),
            };
            out.write_all(&buffer[..got])?;
        }
    }
    // The digest covers what a decoder may leave unread after its last frame.
    io::copy(&mut source, &mut io::sink())?;
    Ok(source.hasher.map(Digest::finish))
}
