//! Data out of a sandbox.

use std::os::fd::OwnedFd;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use innkeeper_proto::limits;
use innkeeper_proto::v1::DataChunk;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{Place, unexpected};
use crate::exec::watched;
use crate::inside::Call;
use crate::inside::files::FileAnswer;
use crate::inside::files::entry::Entry;

/// Pieces of a file or an archive.
pub type ChunkStream = Pin<Box<dyn Stream<Item = Result<DataChunk, Status>> + Send>>;

/// Chunks that wait for a slow caller.
const AHEAD: usize = 4;

/// Bytes that a pipe holds, where the kernel allows it.
const PIPE: usize = 256 * 1024;

/// Bytes of a listing as it comes, at most: twice what one message holds.
const LISTING: usize = 2 * limits::MESSAGE;

/// What one entry of a listing takes in its message beside its names, at most.
const ENTRY: usize = 64;

/// A pipe for a call: our end, then the other.
pub(super) fn pipe() -> Result<(OwnedFd, OwnedFd), Status> {
    let make = || {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        // Above a limit of its own the kernel refuses; a small pipe does as well.
        let _ = fcntl_setpipe_size(&write, PIPE);
        Ok::<_, Errno>((read, write))
    };
    make().map_err(|errno| Status::resource_exhausted(format!("cannot make a pipe: {errno}")))
}

/// Runs a call and passes on what it sends. The stream ends without an error only if all
/// that the call sent has been passed on.
pub(super) fn chunks(place: Place, call: Call) -> Result<ChunkStream, Status> {
    let (read, write) = pipe()?;
    let from = watched(read)
        .map_err(|error| Status::resource_exhausted(format!("cannot watch a pipe: {error}")))?;
    let (chunks, stream) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let told = chunks.clone();
        let pump = async move {
            let mut sent = 0;
            while let Some(data) = next(&from).await {
                sent += data.len() as u64;
                let taken = chunks.send(Ok(DataChunk { data })).await;
                taken.map_err(|_| Status::cancelled("nobody listens any more"))?;
            }
            Ok(sent)
        };
        // A guest can stop the call's process, whose end of the pipe then never closes: a
        // caller that leaves and a call that has failed end this all the same.
        let passed = tokio::select! {
            () = told.closed() => return,
            passed = async { tokio::try_join!(place.call(call, Some(write)), pump) } => passed,
        };
        let failure = match passed {
            Err(status) => status,
            Ok((FileAnswer::Sent(all), sent)) if all == sent => return,
            Ok((FileAnswer::Sent(all), sent)) => {
                Status::data_loss(format!("{sent} of {all} bytes have come through"))
            }
            Ok(_) => unexpected(),
        };
        let _ = told.send(Err(failure)).await;
    });
    Ok(Box::pin(ReceiverStream::new(stream)))
}

/// The next piece, at most a chunk; none at the end.
async fn next(from: &AsyncFd<OwnedFd>) -> Option<Bytes> {
    let mut buffer = BytesMut::zeroed(limits::CHUNK);
    loop {
        let mut ready = from.readable().await.ok()?;
        match rustix::io::read(from, &mut *buffer) {
            Ok(0) => return None,
            Ok(got) => {
                buffer.truncate(got);
                return Some(buffer.freeze());
            }
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

/// Runs a listing.
pub(super) async fn entries(place: &Place, call: Call) -> Result<Vec<Entry>, Status> {
    let (read, write) = pipe()?;
    let from = watched(read)
        .map_err(|error| Status::resource_exhausted(format!("cannot watch a pipe: {error}")))?;
    let gather = async move {
        let mut gathered = Vec::new();
        while let Some(piece) = next(&from).await {
            gathered.extend_from_slice(&piece);
            if gathered.len() > LISTING {
                return Err(too_long());
            }
        }
        Ok(gathered)
    };
    // A call that has failed is not waited for: its process may be stopped, the pipe in hand.
    let (answer, gathered) = tokio::try_join!(place.call(call, Some(write)), gather)?;
    let entries = decode(&gathered)?;
    match answer {
        FileAnswer::Listed(all) if all == entries.len() as u64 => Ok(entries),
        FileAnswer::Listed(all) => {
            let came = entries.len();
            Err(Status::data_loss(format!(
                "{came} of {all} entries have come through"
            )))
        }
        _ => Err(unexpected()),
    }
}

fn too_long() -> Status {
    Status::resource_exhausted(
        "the directory has too many entries for one message; fetch it as a tar stream instead",
    )
}

fn decode(mut from: &[u8]) -> Result<Vec<Entry>, Status> {
    let mut entries = Vec::new();
    let mut size = 0;
    loop {
        match Entry::decode(&mut from) {
            Ok(None) => return Ok(entries),
            Ok(Some(entry)) => {
                size += entry.path.len() + entry.link_target.len() + ENTRY;
                if size > limits::MESSAGE {
                    return Err(too_long());
                }
                entries.push(entry);
            }
            Err(error) => return Err(Status::data_loss(format!("a listing broke off: {error}"))),
        }
    }
}
