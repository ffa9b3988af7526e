//! File calls and tar streams.
//!
//! Each is one process of ours inside the sandbox with a pipe to it. The pipe is the flow
//! control both ways, and the end of a caller that goes away: it closes, and the process
//! ends with nothing changed.

mod attended;
mod errors;
mod inflow;
mod outflow;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use innkeeper_proto::limits;
use innkeeper_proto::v1::file_write_request::Message as WriteMessage;
use innkeeper_proto::v1::tar_in_request::Message as TarMessage;
use innkeeper_proto::v1::{
    Empty, FileInfo, FileList, FileReadRequest, FileWriteRequest, FileWriteStart, FileWritten,
    PathRequest, TarInReply, TarInRequest, TarInStart, Target,
};
use tonic::{Request, Response, Status, Streaming};

use super::Service;
use super::exec::live;
use crate::inside::files::entry::Entry;
use crate::inside::files::{FileAnswer, FileCall};
use crate::inside::tree::TreeCall;
use crate::inside::{Answer, Call};
use crate::live::Live;
use crate::spawner::Spawner;

pub use outflow::ChunkStream;

/// A file call takes no longer than a command does by default: a guest can stop our process
/// inside, and a caller must hear of it some time.
const LONGEST: Duration = Duration::from_millis(limits::EXEC_TIMEOUT_MS);

/// A sandbox and the way into it.
#[derive(Debug, Clone)]
struct Place {
    live: Arc<Live>,
    spawner: Spawner,
}

impl Place {
    fn of(service: &Service, target: Option<&Target>) -> Result<Self, Status> {
        Ok(Self {
            live: live(service, target)?,
            spawner: service.slots.spawner().clone(),
        })
    }

    /// A path as a call wants it: relative ones begin at the template's working directory.
    fn path(&self, path: &[u8]) -> Result<Vec<u8>, Status> {
        if path.is_empty() || path.contains(&0) || path.len() > limits::PATH {
            let rule = "a path has at least one byte, no zero byte, and not more than";
            return Err(Status::invalid_argument(format!(
                "{rule} {} bytes",
                limits::PATH
            )));
        }
        Ok(match path.first() {
            Some(b'/') => path.to_vec(),
            _ => [self.live.workdir.as_slice(), b"/", path].concat(),
        })
    }

    /// Runs a call inside to its answer.
    async fn call(&self, call: Call, pipe: Option<OwnedFd>) -> Result<FileAnswer, Status> {
        let pipes = pipe.into_iter().collect();
        let answer = attended::call(self, call, pipes);
        let answer = tokio::time::timeout(LONGEST, answer).await.map_err(|_| {
            let minutes = LONGEST.as_secs() / 60;
            let sandbox = &self.live.sandbox;
            Status::deadline_exceeded(format!(
                "a file call in sandbox {sandbox} has not ended in {minutes} minutes"
            ))
        })?;
        match answer.map_err(|error| errors::spawn(&error, &self.live))? {
            Answer::File(answer) => Ok(answer),
            Answer::Failed { errno, message } => Err(errors::failed(errno, message)),
            Answer::Furnished
            | Answer::Cleared
            | Answer::Processes(_)
            | Answer::Observed(_)
            | Answer::Scanned(_)
            | Answer::Ready => Err(unexpected()),
        }
    }
}

fn unexpected() -> Status {
    Status::internal("a file call gave the answer of another call")
}

/// Describes a path.
///
/// # Errors
/// What the kernel says about it, in the code that fits.
pub async fn stat(
    service: &Service,
    request: Request<PathRequest>,
) -> Result<Response<FileInfo>, Status> {
    let PathRequest {
        target,
        path,
        follow,
        recursive: _,
    } = request.into_inner();
    let place = Place::of(service, target.as_ref())?;
    let path = place.path(&path)?;
    let answer = place
        .call(Call::File(FileCall::Stat { path, follow }), None)
        .await?;
    let FileAnswer::Info(entry) = answer else {
        return Err(unexpected());
    };
    Ok(Response::new(info(entry)))
}

/// Lists a directory, by name.
///
/// # Errors
/// As `stat`; `RESOURCE_EXHAUSTED` when the list does not fit into one message.
pub async fn list(
    service: &Service,
    request: Request<PathRequest>,
) -> Result<Response<FileList>, Status> {
    let PathRequest { target, path, .. } = request.into_inner();
    let place = Place::of(service, target.as_ref())?;
    let path = place.path(&path)?;
    let call = Call::File(FileCall::List {
        path,
        limit: limits::LISTING,
    });
    let mut entries = outflow::entries(&place, call).await?;
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(Response::new(FileList {
        entries: entries.into_iter().map(info).collect(),
    }))
}

/// Removes a path.
///
/// # Errors
/// As `stat`.
pub async fn remove(
    service: &Service,
    request: Request<PathRequest>,
) -> Result<Response<Empty>, Status> {
    let PathRequest {
        target,
        path,
        follow: _,
        recursive,
    } = request.into_inner();
    let place = Place::of(service, target.as_ref())?;
    let path = place.path(&path)?;
    let answer = place
        .call(Call::File(FileCall::Remove { path, recursive }), None)
        .await?;
    let FileAnswer::Removed = answer else {
        return Err(unexpected());
    };
    Ok(Response::new(Empty {}))
}

/// Reads a regular file.
///
/// # Errors
/// In the stream: as `stat`.
pub async fn read_file(
    service: &Service,
    request: Request<FileReadRequest>,
) -> Result<Response<ChunkStream>, Status> {
    let FileReadRequest {
        target,
        path,
        offset,
        length,
    } = request.into_inner();
    let place = Place::of(service, target.as_ref())?;
    let path = place.path(&path)?;
    let call = Call::File(FileCall::Read {
        path,
        offset,
        length,
    });
    Ok(Response::new(outflow::chunks(place, call)?))
}

/// Sends a path as a tar archive.
///
/// # Errors
/// In the stream: as `stat`.
pub async fn tar_out(
    service: &Service,
    request: Request<PathRequest>,
) -> Result<Response<ChunkStream>, Status> {
    let PathRequest {
        target,
        path,
        follow,
        recursive: _,
    } = request.into_inner();
    let place = Place::of(service, target.as_ref())?;
    let path = place.path(&path)?;
    let call = Call::Tree(TreeCall::Out { path, follow });
    Ok(Response::new(outflow::chunks(place, call)?))
}

/// Writes a regular file. Only a stream that was ended by its sender changes anything.
///
/// # Errors
/// As `stat`.
pub async fn write_file(
    service: &Service,
    request: Request<Streaming<FileWriteRequest>>,
) -> Result<Response<FileWritten>, Status> {
    let mut inbound = request.into_inner();
    let Some(FileWriteRequest {
        message: Some(WriteMessage::Start(start)),
    }) = inbound.message().await?
    else {
        return Err(Status::invalid_argument(
            "the first message of a write must be its start",
        ));
    };
    let FileWriteStart {
        target,
        path,
        mode,
        uid,
        gid,
        make_parents,
    } = start;
    let place = Place::of(service, target.as_ref())?;
    let path = place.path(&path)?;
    let call = Call::File(FileCall::Write {
        path,
        mode,
        uid,
        gid,
        make_parents,
    });
    let answer = inflow::send(&place, call, inbound, |request| match request.message {
        Some(WriteMessage::Data(data)) => Some(data),
        Some(WriteMessage::Start(_)) | None => None,
    });
    let FileAnswer::Written { size, hash } = answer.await? else {
        return Err(unexpected());
    };
    Ok(Response::new(FileWritten {
        size,
        hash: hash.to_vec().into(),
    }))
}

/// Unpacks a tar archive.
///
/// # Errors
/// As `stat`; what came before the failure stays.
pub async fn tar_in(
    service: &Service,
    request: Request<Streaming<TarInRequest>>,
) -> Result<Response<TarInReply>, Status> {
    let mut inbound = request.into_inner();
    let Some(TarInRequest {
        message: Some(TarMessage::Start(start)),
    }) = inbound.message().await?
    else {
        return Err(Status::invalid_argument(
            "the first message of a tar must be its start",
        ));
    };
    let TarInStart { target, path } = start;
    let place = Place::of(service, target.as_ref())?;
    let path = place.path(&path)?;
    let call = Call::Tree(TreeCall::In { path });
    let answer = inflow::send(&place, call, inbound, |request| match request.message {
        Some(TarMessage::Data(data)) => Some(data),
        Some(TarMessage::Start(_)) | None => None,
    });
    let FileAnswer::Unpacked { entries, bytes } = answer.await? else {
        return Err(unexpected());
    };
    Ok(Response::new(TarInReply { entries, bytes }))
}

fn info(entry: Entry) -> FileInfo {
    FileInfo {
        path: entry.path.into(),
        // The numbers of both are the same.
        kind: entry.kind as i32,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        size: entry.size,
        mtime_ns: entry.mtime_ns,
        link_target: entry.link_target.into(),
    }
}
