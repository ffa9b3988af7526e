//! The leased sandbox as a grading uses it: run a command, put a file, take trees out and in.

use std::time::Duration;

use innkeeper_proto::limits::CHUNK;
use innkeeper_proto::v1::file_write_request::Message as Write;
use innkeeper_proto::v1::tar_in_request::Message as TarIn;
use innkeeper_proto::v1::{
    ExecStart, FileWriteRequest, FileWriteStart, LeaseReply, PathRequest, TarInRequest, TarInStart,
};
use tonic::Code;

use crate::cli::connect::Client;
use crate::cli::exec::outcome::Outcome;
use crate::cli::exec::{call, of_lease};
use crate::cli::failure::Failure;

/// How long the commands around the eval script may take. The harness sets no limit; a patch
/// that makes git hang must not hold a worker for ever.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(300);

/// Bytes that a tree which is put back after the patch may have, all in memory.
const TREE: usize = 64 * 1024 * 1024;

/// One lease and the calls on it.
#[derive(Debug)]
pub(super) struct Sandbox {
    client: Client,
    /// The lease as it was granted.
    pub(super) lease: LeaseReply,
}

impl Sandbox {
    /// The sandbox of a lease.
    pub(super) fn new(client: Client, lease: LeaseReply) -> Self {
        Self { client, lease }
    }

    /// Runs a command as root in the template's working directory, output merged as it arrives.
    pub(super) async fn command(&mut self, argv: &[&str]) -> Result<Outcome, Failure> {
        self.run(argv, COMMAND_TIMEOUT).await
    }

    /// The same with a timeout of its own.
    pub(super) async fn run(
        &mut self,
        argv: &[&str],
        timeout: Duration,
    ) -> Result<Outcome, Failure> {
        let start = ExecStart {
            target: Some(of_lease(&self.lease.lease)),
            argv: argv
                .iter()
                .map(|word| word.as_bytes().to_vec().into())
                .collect(),
            user: "root".to_owned(),
            merge_output: true,
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
            ..ExecStart::default()
        };
        call::collected(&mut self.client, start).await
    }

    /// Writes a file that belongs to root, mode 0644, and checks what was stored.
    pub(super) async fn write(&mut self, path: &str, content: &[u8]) -> Result<(), Failure> {
        let start = FileWriteStart {
            target: Some(of_lease(&self.lease.lease)),
            path: path.as_bytes().to_vec().into(),
            mode: 0o644,
            make_parents: true,
            ..FileWriteStart::default()
        };
        let data = content
            .chunks(CHUNK)
            .map(|chunk| Write::Data(chunk.to_vec().into()));
        let messages: Vec<_> = std::iter::once(Write::Start(start))
            .chain(data)
            .map(|message| FileWriteRequest {
                message: Some(message),
            })
            .collect();
        let written = self
            .client
            .write_file(tokio_stream::iter(messages))
            .await?
            .into_inner();
        let hash = blake3::hash(content);
        if written.size != content.len() as u64
            || (!written.hash.is_empty() && written.hash[..] != *hash.as_bytes())
        {
            return Err(Failure::failed(format_args!(
                "{path} arrived damaged in the sandbox: grade again"
            )));
        }
        Ok(())
    }

    /// A file or tree as a tar stream; None where nothing is there.
    pub(super) async fn take(&mut self, path: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        match self.client.stat(self.path(path)).await {
            Ok(_) => {}
            Err(status) if status.code() == Code::NotFound => return Ok(None),
            Err(status) => return Err(status.into()),
        }
        let mut chunks = self.client.tar_out(self.path(path)).await?.into_inner();
        let mut tar = Vec::new();
        while let Some(chunk) = chunks.message().await? {
            tar.extend_from_slice(&chunk.data);
            if tar.len() > TREE {
                let shown = String::from_utf8_lossy(path);
                return Err(Failure::failed(format_args!(
                    "{shown} is too large to be put back (over {TREE} bytes)"
                )));
            }
        }
        Ok(Some(tar))
    }

    /// Removes a file or tree; one that is not there is removed already.
    pub(super) async fn remove(&mut self, path: &[u8]) -> Result<(), Failure> {
        let request = PathRequest {
            recursive: true,
            ..self.path(path)
        };
        match self.client.remove(request).await {
            Ok(_) => Ok(()),
            Err(status) if status.code() == Code::NotFound => Ok(()),
            Err(status) => Err(status.into()),
        }
    }

    /// Unpacks a tar stream into a directory.
    pub(super) async fn put(&mut self, directory: &[u8], tar: &[u8]) -> Result<(), Failure> {
        let start = TarInStart {
            target: Some(of_lease(&self.lease.lease)),
            path: directory.to_vec().into(),
        };
        let data = tar
            .chunks(CHUNK)
            .map(|chunk| TarIn::Data(chunk.to_vec().into()));
        let messages: Vec<_> = std::iter::once(TarIn::Start(start))
            .chain(data)
            .map(|message| TarInRequest {
                message: Some(message),
            })
            .collect();
        self.client.tar_in(tokio_stream::iter(messages)).await?;
        Ok(())
    }

    fn path(&self, path: &[u8]) -> PathRequest {
        PathRequest {
            target: Some(of_lease(&self.lease.lease)),
            path: path.to_vec().into(),
            ..PathRequest::default()
        }
    }
}
