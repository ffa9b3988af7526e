//! Between a stream of messages and a thread that reads or writes plainly.

use std::io::{self, Read, Write};

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tonic::codegen::Bytes;

/// Chunks under way at most.
pub(super) const QUEUE: usize = 8;

/// A reader, and where its bytes are put in. An error put in is the reader's.
pub(super) fn reader() -> (Sender<io::Result<Bytes>>, Reader) {
    let (sender, chunks) = channel(QUEUE);
    (
        sender,
        Reader {
            chunks,
            chunk: Bytes::new(),
        },
    )
}

/// Reads chunks one after the other; blocks its thread.
#[derive(Debug)]
pub(super) struct Reader {
    chunks: Receiver<io::Result<Bytes>>,
    chunk: Bytes,
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            match self.chunks.blocking_recv() {
                Some(chunk) => self.chunk = chunk?,
                None => return Ok(0),
            }
        }
        let n = self.chunk.len().min(into.len());
        into[..n].copy_from_slice(&self.chunk.split_to(n));
        Ok(n)
    }
}

/// Writes messages of a chunk each; blocks its thread where the other end is slower.
pub(super) struct Writer<M, F> {
    messages: Sender<M>,
    wrap: F,
    chunk: Vec<u8>,
}

impl<M, F: Fn(Bytes) -> M> Writer<M, F> {
    /// A writer into a channel.
    pub(super) fn new(messages: Sender<M>, wrap: F) -> Self {
        Self {
            messages,
            wrap,
            chunk: Vec::with_capacity(innkeeper_proto::limits::CHUNK),
        }
    }
}

impl<M, F: Fn(Bytes) -> M> Write for Writer<M, F> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let room = innkeeper_proto::limits::CHUNK - self.chunk.len();
        let n = room.min(data.len());
        self.chunk.extend_from_slice(&data[..n]);
        if self.chunk.len() == innkeeper_proto::limits::CHUNK {
            self.flush()?;
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(
            &mut self.chunk,
            Vec::with_capacity(innkeeper_proto::limits::CHUNK),
        );
        self.messages
            .blocking_send((self.wrap)(chunk.into()))
            .map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the other end stopped reading"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_in_order_and_errors_too() {
        let (sender, mut reader) = reader();
        sender.blocking_send(Ok(Bytes::from_static(b"ab"))).unwrap();
        sender.blocking_send(Ok(Bytes::new())).unwrap();
        sender.blocking_send(Ok(Bytes::from_static(b"c"))).unwrap();
        sender.blocking_send(Err(io::Error::other("lost"))).unwrap();
        drop(sender);
        let mut three = [0; 3];
        reader.read_exact(&mut three).unwrap();
        assert_eq!(&three, b"abc");
        assert_eq!(reader.read(&mut three).unwrap_err().to_string(), "lost");
    }

    #[test]
    fn a_writer_sends_whole_chunks_and_the_rest() {
        let size = innkeeper_proto::limits::CHUNK;
        let (messages, mut received) = channel(4);
        let mut writer = Writer::new(messages, |chunk| chunk.len());
        writer.write_all(&vec![1; size + 3]).unwrap();
        writer.flush().unwrap();
        drop(writer);
        assert_eq!(received.blocking_recv(), Some(size));
        assert_eq!(received.blocking_recv(), Some(3));
        assert_eq!(received.blocking_recv(), None);
    }
}
