//! From errno to the code that callers branch on.

use tonic::{Code, Status};

use crate::exec::processes_used_up;
use crate::live::Live;
use crate::rpc::exec::gone_status;
use crate::spawner::client::SpawnError;

/// A call that failed inside.
pub(super) fn failed(errno: i32, message: String) -> Status {
    let code = match errno {
        libc::ENOENT => Code::NotFound,
        libc::EEXIST => Code::AlreadyExists,
        libc::EACCES | libc::EPERM | libc::EROFS => Code::PermissionDenied,
        libc::ENOSPC | libc::EDQUOT | libc::EMFILE | libc::ENOMEM | libc::EOVERFLOW => {
            Code::ResourceExhausted
        }
        libc::EPIPE => Code::Aborted,
        libc::EBADMSG | libc::EINVAL | libc::ENAMETOOLONG => Code::InvalidArgument,
        libc::EISDIR
        | libc::ENOTDIR
        | libc::ELOOP
        | libc::ENOTEMPTY
        | libc::EBUSY
        | libc::EXDEV
        | libc::ESTALE
        | libc::ETXTBSY => Code::FailedPrecondition,
        _ => Code::Unknown,
    };
    Status::new(code, message)
}

/// A call that could not be made.
pub(super) fn spawn(error: &SpawnError, live: &Live) -> Status {
    if let Some(sentence) = processes_used_up(error) {
        return Status::resource_exhausted(sentence);
    }
    match error {
        SpawnError::Gone { .. } if live.fenced().is_cancelled() => gone_status(&live.sandbox),
        // The process inside ended without an answer; the guest's memory limit does that.
        SpawnError::Gone { .. } => Status::unavailable(format!(
            "a file call in sandbox {} was killed before it answered",
            live.sandbox
        )),
        SpawnError::Step { step, source } => {
            Status::unavailable(format!("{step} failed: {source}"))
        }
        SpawnError::NotStarted { .. } | SpawnError::Lost => Status::unavailable(error.to_string()),
    }
}
