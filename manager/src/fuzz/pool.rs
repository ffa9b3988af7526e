//! Sandboxes of a manager for the fuzzer.

use std::path::Path;

use bytes::Bytes;
use innkeeper_proto::limits::CHUNK;
use innkeeper_proto::v1::exec_reply::Message as Reply;
use innkeeper_proto::v1::exec_request::Message as Request;
use innkeeper_proto::v1::file_write_request::Message as Write;
use innkeeper_proto::v1::{
    ExecRequest, ExecStart, FileWriteRequest, FileWriteStart, PathRequest, ReturnReply,
    ReturnRequest,
};
use innkeeper_test_fuzz::{Leased, Returned, Sandboxes, Visit};
use innkeeper_test_oracle::Depth;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::image::{self, PLACE};
use crate::cli::connect::Client;
use crate::cli::exec::of_lease;
use crate::cli::failure::Failure;
use crate::cli::form::FormArgs;
use crate::cli::{lease, template};

/// What lets it act; it refuses where this was not meant.
const PERMISSION: &str = "INNKEEPER_GUEST_MAY_ACT=yes";

/// How long a visit may take that looks lightly, and one that reads everything. What hangs is ended
/// by the guest itself within seconds, but for a script that stops all processes.
const PATIENCE_MS: (u64, u64) = (30_000, 180_000);

/// The template's JSON, with limits where it has none: a script that fills a disk must meet the
/// sandbox's end before the machine's.
pub(super) fn template(path: Option<&Path>, form: FormArgs) -> Result<String, Failure> {
    let text = template::read(path)?;
    let mut fields: Map<String, Value> = match text.as_str() {
        "" => Map::new(),
        text => serde_json::from_str(text).map_err(Failure::usage)?,
    };
    form.write(&mut fields);
    fields.entry("resources").or_insert_with(
        || json!({"memory": "768Mi", "pids": 300, "disk": "64Mi", "inodes": 20_000}),
    );
    Ok(Value::Object(fields).to_string())
}

/// A manager's sandboxes of one image and template.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    client: Client,
    image: String,
    template: String,
    /// The guest program where the image has none; it is put into each sandbox, and removes itself
    /// before it does anything else.
    guest: Option<Bytes>,
}

impl Pool {
    /// The pool, of the image with the guest program in it where that can be made; nothing is
    /// leased yet.
    pub(super) async fn new(
        mut client: Client,
        image: String,
        template: String,
        guest: Bytes,
    ) -> Result<Self, Failure> {
        let with_guest = image::with_guest(&mut client, &image, &guest).await?;
        let guest = with_guest.is_none().then_some(guest);
        Ok(Self {
            client,
            image: with_guest.unwrap_or(image),
            template,
            guest,
        })
    }

    /// Whether its sandboxes are reset in place, which a lease says.
    pub(super) async fn is_in_place(&mut self) -> Result<bool, Failure> {
        let granted = self.ask().await?;
        let request = ReturnRequest {
            lease: granted.lease,
            discard: true,
            wait: true,
            ..ReturnRequest::default()
        };
        self.client.r#return(request).await?;
        Ok(granted.strategy == "in-place")
    }

    async fn ask(&mut self) -> Result<innkeeper_proto::v1::LeaseReply, Status> {
        let template = self.template.clone();
        lease::ask(&mut self.client, &self.image, template, "fuzz").await
    }

    /// Puts the guest program into a sandbox whose image has none; words that tell it so.
    async fn equip(&mut self, leased: &Leased) -> Result<Vec<String>, Status> {
        let Some(guest) = self.guest.clone() else {
            return Ok(Vec::new());
        };
        let time = self.root_time(leased).await?;
        self.put(leased, guest).await?;
        Ok(vec![PLACE.to_owned(), time.to_string()])
    }

    /// When the root was modified last.
    async fn root_time(&mut self, leased: &Leased) -> Result<i64, Status> {
        let request = PathRequest {
            target: Some(of_lease(&leased.id)),
            path: Bytes::from_static(b"/"),
            ..PathRequest::default()
        };
        Ok(self.client.stat(request).await?.into_inner().mtime_ns)
    }

    async fn put(&mut self, leased: &Leased, mut rest: Bytes) -> Result<(), Status> {
        let start = FileWriteStart {
            target: Some(of_lease(&leased.id)),
            path: Bytes::from_static(PLACE.as_bytes()),
            mode: 0o755,
            ..FileWriteStart::default()
        };
        let mut messages = vec![Write::Start(start)];
        while !rest.is_empty() {
            messages.push(Write::Data(rest.split_to(rest.len().min(CHUNK))));
        }
        let messages = messages.into_iter().map(|message| FileWriteRequest {
            message: Some(message),
        });
        self.client.write_file(tokio_stream::iter(messages)).await?;
        Ok(())
    }

    async fn act(
        &mut self,
        leased: &Leased,
        visit: Visit<'_>,
        words: Vec<String>,
    ) -> Result<Vec<u8>, Status> {
        let mut argv = vec![PLACE.to_owned(), "visit".to_owned()];
        let timeout_ms = match visit.depth {
            Depth::Light => PATIENCE_MS.0,
            Depth::Full => PATIENCE_MS.1,
        };
        if visit.depth == Depth::Light {
            argv.push("--light".to_owned());
        }
        argv.extend(words);
        let start = ExecStart {
            target: Some(of_lease(&leased.id)),
            argv: argv
                .into_iter()
                .map(|word| word.into_bytes().into())
                .collect(),
            env: vec![Bytes::from_static(PERMISSION.as_bytes())],
            cwd: Bytes::from_static(b"/"),
            user: "root".to_owned(),
            stdin: true,
            timeout_ms,
            ..ExecStart::default()
        };
        let script = visit.script.to_string().into_bytes();
        let mut requests = vec![Request::Start(start)];
        requests.extend(
            script
                .chunks(CHUNK)
                .map(|part| Request::Stdin(part.to_vec().into())),
        );
        requests.push(Request::StdinEnd(true));
        let (to, from) = mpsc::channel(requests.len());
        for request in requests {
            let message = Some(request);
            let sent = to.try_send(ExecRequest { message });
            sent.map_err(|_| Status::internal("the call has no room for its script"))?;
        }
        // A call whose requests end is a caller that went away: `to` lives until the answer.
        let mut replies = self
            .client
            .exec(ReceiverStream::new(from))
            .await?
            .into_inner();
        let mut written = Vec::new();
        loop {
            let reply = match replies.message().await {
                Ok(Some(reply)) => reply.message,
                Ok(None) => None,
                // The script may end the sandbox; what it saw before is what counts.
                Err(_) if written.contains(&b'\n') => return Ok(written),
                Err(status) => return Err(status),
            };
            match reply {
                Some(Reply::Output(output)) if output.stream() != STDERR => {
                    written.extend_from_slice(&output.data);
                }
                Some(Reply::Output(_) | Reply::Started(_)) => {}
                Some(Reply::Finished(_)) | None => return Ok(written),
            }
        }
    }
}

const STDERR: innkeeper_proto::v1::Stream = innkeeper_proto::v1::Stream::Stderr;

impl Sandboxes for Pool {
    type Error = Refused;

    async fn lease(&mut self) -> Result<Leased, Refused> {
        let granted = self.ask().await?;
        Ok(Leased {
            id: granted.lease,
            slot: granted.slot,
            uses: granted.uses,
        })
    }

    async fn visit(&mut self, leased: &Leased, visit: Visit<'_>) -> Result<Vec<u8>, Refused> {
        let words = self.equip(leased).await?;
        Ok(self.act(leased, visit, words).await?)
    }

    async fn give_back(&mut self, leased: &Leased, discard: bool) -> Result<Returned, Refused> {
        let request = ReturnRequest {
            lease: leased.id.clone(),
            discard,
            wait: true,
            ..ReturnRequest::default()
        };
        let reply = self.client.r#return(request).await?.into_inner();
        Ok(Returned {
            clean: reply.outcome == "clean",
            cause: cause(&reply),
            retired: !reply.retired.is_empty(),
        })
    }
}

/// Why a sandbox was not clean, without what differs from case to case.
fn cause(reply: &ReturnReply) -> String {
    match reply.differs.first() {
        Some(first) => format!("{}: {}", first.component, first.what),
        None if reply.retired.is_empty() => reply.outcome.clone(),
        None => reply.retired.clone(),
    }
}

/// A call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message())]
pub(super) struct Refused(#[from] Status);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandboxes_have_limits_unless_the_template_sets_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t.yaml");
        std::fs::write(&file, "resources: {pids: 7}\n").unwrap();
        let own = template(Some(&file), FormArgs::default()).unwrap();
        assert_eq!(own, r#"{"resources":{"pids":7}}"#);
        let none = template(None, FormArgs::default()).unwrap();
        assert!(none.contains("\"disk\":\"64Mi\""), "{none}");
    }
}
