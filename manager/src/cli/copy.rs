//! `cp`: files and trees into and out of a leased sandbox, as tar streams of constant memory.

mod pack;
mod pipe;
mod unpack;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::Args;
use innkeeper_proto::v1::tar_in_request::Message;
use innkeeper_proto::v1::{FileKind, PathRequest, TarInRequest, TarInStart};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use super::connect::{self, Client};
use super::exec::of_lease;
use super::failure::Failure;
use super::values::{Place, place};
use super::{Global, output};

/// Copy files and trees into or out of a leased sandbox.
#[derive(Debug, Args)]
#[command(
    after_help = "A directory as the destination gets the source put into it, as with cp -r. What is copied in\nbelongs to root; what is copied out belongs to you and has no setuid bits.\n\nExamples:\n  innkeeper cp ./patch.diff LEASE:/tmp/patch.diff\n  innkeeper cp LEASE:/testbed/build ./build"
)]
pub(crate) struct Copy {
    /// LEASE:PATH or a local path
    #[arg(value_name = "FROM")]
    from: OsString,
    /// The other of the two
    #[arg(value_name = "TO")]
    to: OsString,
}

/// What was moved.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    entries: u64,
    bytes: u64,
    /// Named pipes, sockets and devices, which stay in the sandbox.
    left_out: u64,
}

impl Copy {
    /// Copies and says how much.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        let moved = match (place(&self.from), place(&self.to)) {
            (Place::Lease { lease, path }, Place::Local(local)) => {
                download(&mut connect::running(global).await?, &lease, path, local).await?
            }
            (Place::Local(local), Place::Lease { lease, path }) => {
                upload(&mut connect::running(global).await?, &local, &lease, path).await?
            }
            (Place::Lease { .. }, Place::Lease { .. }) | (Place::Local(_), Place::Local(_)) => {
                return Err(Failure::usage(
                    "one side must be LEASE:PATH and the other a local path (write a local name with a colon as ./NAME)",
                ));
            }
        };
        if moved.left_out > 0 {
            eprintln!(
                "innkeeper: left out of the copy, being no files: {} (named pipes, sockets, devices)",
                moved.left_out
            );
        }
        if global.json {
            output::json(&json!({ "entries": moved.entries, "bytes": moved.bytes }))?;
        }
        Ok(0)
    }
}

async fn download(
    client: &mut Client,
    lease: &str,
    path: Vec<u8>,
    local: PathBuf,
) -> Result<Moved, Failure> {
    let name = last_name(&path);
    let to = match &name {
        Some(name) if local.is_dir() => local.join(name),
        Some(_) | None => local,
    };
    let request = PathRequest {
        target: Some(of_lease(lease)),
        path: path.into(),
        ..PathRequest::default()
    };
    let mut chunks = client.tar_out(request).await?.into_inner();
    let (sender, reader) = pipe::reader();
    let unpacking =
        tokio::task::spawn_blocking(move || unpack::unpack(reader, &to, name.is_some()));
    let mut broken = None;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map(|chunk| chunk.data).map_err(|status| {
            let text = status.message().to_owned();
            broken = Some(status);
            std::io::Error::other(text)
        });
        if sender.send(chunk).await.is_err() {
            break;
        }
    }
    drop(sender);
    let unpacked = unpacking
        .await
        .map_err(|e| Failure::failed(format_args!("the copy broke off: {e}")))?;
    match broken {
        Some(status) => Err(status.into()),
        None => unpacked.map_err(Failure::failed),
    }
}

async fn upload(
    client: &mut Client,
    local: &Path,
    lease: &str,
    path: Vec<u8>,
) -> Result<Moved, Failure> {
    if let Err(e) = std::fs::symlink_metadata(local) {
        return Err(Failure::failed(format_args!(
            "cannot read {}: {e}",
            local.display()
        )));
    }
    let (directory, name) = destination(client, lease, &path, local).await?;
    let (messages, requests) = mpsc::channel(pipe::QUEUE);
    let start = TarInStart {
        target: Some(of_lease(lease)),
        path: directory.into(),
    };
    messages
        .try_send(TarInRequest {
            message: Some(Message::Start(start)),
        })
        .map_err(|e| Failure::failed(format_args!("cannot begin the copy: {e}")))?;
    let local = local.to_owned();
    let packing = tokio::task::spawn_blocking(move || {
        pack::pack(
            &local,
            &name,
            pipe::Writer::new(messages, |data| TarInRequest {
                message: Some(Message::Data(data)),
            }),
        )
    });
    let done = client.tar_in(ReceiverStream::new(requests)).await;
    let packed = packing
        .await
        .map_err(|e| Failure::failed(format_args!("the copy broke off: {e}")))?;
    // The other end's reason is the cause where it stopped reading.
    let done = done?.into_inner();
    packed.map_err(Failure::failed)?;
    Ok(Moved {
        entries: done.entries,
        bytes: done.bytes,
        left_out: 0,
    })
}

/// The directory to unpack into, and the name that the source gets there.
async fn destination(
    client: &mut Client,
    lease: &str,
    path: &[u8],
    local: &Path,
) -> Result<(Vec<u8>, OsString), Failure> {
    let request = PathRequest {
        target: Some(of_lease(lease)),
        path: path.to_vec().into(),
        follow: true,
        ..PathRequest::default()
    };
    let own_name = || {
        let whole = std::path::absolute(local).unwrap_or_else(|_| local.to_owned());
        whole.file_name().unwrap_or(OsStr::new("root")).to_owned()
    };
    match client.stat(request).await {
        Ok(info) if info.get_ref().kind() == FileKind::Directory => Ok((path.to_vec(), own_name())),
        Ok(_) => Ok(split(path)),
        Err(status) if status.code() == Code::NotFound && !path.ends_with(b"/") => Ok(split(path)),
        Err(status) => Err(status.into()),
    }
}

fn split(path: &[u8]) -> (Vec<u8>, OsString) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(0) => (b"/".to_vec(), OsString::from_vec(path[1..].to_vec())),
        Some(at) => (
            path[..at].to_vec(),
            OsString::from_vec(path[at + 1..].to_vec()),
        ),
        None => (b".".to_vec(), OsString::from_vec(path.to_vec())),
    }
}

/// The last name of a path inside; none for `/` and what ends in `.` or `..`, whose contents
/// are meant and come without a name in front.
fn last_name(path: &[u8]) -> Option<OsString> {
    let last = path
        .split(|byte| *byte == b'/')
        .rfind(|name| !name.is_empty())?;
    (last != b"." && last != b"..").then(|| OsStr::from_bytes(last).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_the_last_slash() {
        assert_eq!(split(b"/a/b"), (b"/a".to_vec(), "b".into()));
        assert_eq!(split(b"/b"), (b"/".to_vec(), "b".into()));
        assert_eq!(split(b"b"), (b".".to_vec(), "b".into()));
        assert_eq!(last_name(b"/a/b/"), Some("b".into()));
        assert_eq!(last_name(b"/"), None);
        assert_eq!(last_name(b"/a/."), None);
    }
}
