//! Trees as tar streams.

use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use innkeeper_proto::v1::tar_in_request::Message;
use innkeeper_proto::v1::{PathRequest, TarInReply, TarInRequest, TarInStart};
use innkeeper_test_calls::daemon::Daemon;
use innkeeper_test_calls::sandbox::Sandbox;
use tonic::{Code, Status};

async fn pack(sandbox: &Sandbox, path: &str) -> Result<Vec<u8>, Status> {
    let mut chunks = sandbox
        .client
        .clone()
        .tar_out(sandbox.path(path))
        .await?
        .into_inner();
    let mut whole = Vec::new();
    while let Some(chunk) = chunks.message().await? {
        whole.extend_from_slice(&chunk.data);
    }
    Ok(whole)
}

async fn unpack(sandbox: &Sandbox, path: &str, archive: &[u8]) -> Result<TarInReply, Status> {
    let start = TarInStart {
        target: sandbox.target(),
        path: Bytes::copy_from_slice(path.as_bytes()),
    };
    let data = archive
        .chunks(60_000)
        .map(|piece| Message::Data(Bytes::copy_from_slice(piece)));
    let messages: Vec<_> = std::iter::once(Message::Start(start))
        .chain(data)
        .map(|message| TarInRequest {
            message: Some(message),
        })
        .collect();
    Ok(sandbox
        .client
        .clone()
        .tar_in(tokio_stream::iter(messages))
        .await?
        .into_inner())
}

/// Everything about a tree that a guest can see and that stays.
const LISTING: &str = "for f in $(ls -AR1 | tr -d :); do :; done; \
    list() { for f in \"$1\"/* \"$1\"/.[!.]*; do [ -e \"$f\" ] || [ -L \"$f\" ] || continue; \
    stat -c '%n %F %a %u:%g %Y %N' \"$f\"; [ -f \"$f\" ] && [ ! -L \"$f\" ] && sha256sum \"$f\"; \
    [ -d \"$f\" ] && [ ! -L \"$f\" ] && list \"$f\"; done; return 0; }; list .";

pub(crate) async fn a_tree_comes_back_as_it_was(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let script = "mkdir -p t/sub/empty; cd t; seq 1 100000 >data; ln data sub/same; \
                  ln -s ../data sub/l; ln -s /nowhere dangling; mkfifo p; : >'odd *name'; \
                  chown 1000:7 data; chmod 4750 data; chmod 1777 sub; touch -d @1234567890 sub/empty data";
    assert_eq!(sandbox.sh(script).await?.code()?, 0);
    let archive = pack(&sandbox, "/there/t/.").await?;
    sandbox.sh("mkdir /there/u").await?.code()?;
    let reply = unpack(&sandbox, "/there/u", &archive).await?;
    assert_eq!((reply.entries, reply.bytes), (8, 588_895));
    let before = sandbox.sh(&format!("cd t; {LISTING}")).await?;
    let after = sandbox.sh(&format!("cd u; {LISTING}")).await?;
    assert_eq!(before.text(), after.text());
    assert!(
        before.text().contains("odd *name") && before.text().contains("4750 1000:7 1234567890")
    );
    // Another reader agrees, and another writer is understood.
    let names: Vec<_> = tar::Archive::new(pack(&sandbox, "t").await?.as_slice())
        .entries()?
        .map(|entry| Ok(entry?.path()?.display().to_string()))
        .collect::<Result<_>>()?;
    assert_eq!(names[..3], ["t/", "t/dangling", "t/data"]);
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(4);
    header.set_mode(0o600);
    builder.append_data(&mut header, "a/".repeat(80) + "name", b"data".as_slice())?;
    unpack(&sandbox, "/there", &builder.into_inner()?).await?;
    assert_eq!(
        sandbox
            .sh(&format!("cat {}name", "a/".repeat(80)))
            .await?
            .text(),
        "data"
    );
    Ok(())
}

pub(crate) async fn nothing_is_unpacked_outside(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    sandbox
        .sh("mkdir /there/t; ln -s /etc /there/t/planted; ln -s ../.. /there/t/up")
        .await?
        .code()?;
    let before = sandbox
        .sh("ls -A / /etc /tmp; cat /etc/passwd")
        .await?
        .text();
    let one = |name: &str| -> Result<Vec<u8>> {
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        if let Some(gnu) = header.as_gnu_mut() {
            gnu.name[..name.len()].copy_from_slice(name.as_bytes());
        }
        header.set_cksum();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append(&header, b"x".as_slice())?;
        Ok(builder.into_inner()?)
    };
    for name in [
        "../../esc1",
        "ok/../../esc3",
        "planted/passwd",
        "up/esc",
        "planted/new",
    ] {
        let status = unpack(&sandbox, "/there/t", &one(name)?)
            .await
            .expect_err(name);
        assert_eq!(status.code(), Code::FailedPrecondition, "{name}: {status}");
    }
    unpack(&sandbox, "/there/t", &one("/tmp/esc2")?).await?;
    assert_eq!(sandbox.sh("cat /there/t/tmp/esc2").await?.text(), "x");
    // Into the root, a link that the guest made is not followed either; the image's own are.
    sandbox.sh("ln -s /etc /there/trap").await?.code()?;
    unpack(&sandbox, "/", &one("there/trap/passwd")?)
        .await
        .expect_err("a trap");
    unpack(&sandbox, "/", &one("image-link/ok")?).await?;
    unpack(&sandbox, "/there/trap", &one("passwd")?)
        .await
        .expect_err("a trap");
    assert_eq!(sandbox.sh("cat /there/ok").await?.text(), "x");
    assert_eq!(
        sandbox
            .sh("ls -A / /etc /tmp; cat /etc/passwd")
            .await?
            .text(),
        before
    );
    Ok(())
}

pub(crate) async fn a_reader_that_leaves_ends_the_call(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    sandbox
        .sh("dd if=/dev/null of=/there/big bs=1 seek=1073741824")
        .await?
        .code()?;
    let count = "set -- /proc/[0-9]*; echo $#";
    let before = sandbox.sh(count).await?.text();
    for _ in 0..10 {
        let request = PathRequest {
            ..sandbox.path("/there")
        };
        let mut chunks = sandbox.client.clone().tar_out(request).await?.into_inner();
        chunks.message().await?;
    }
    while sandbox.sh(count).await?.text() != before {
        tokio::task::yield_now().await;
    }
    Ok(())
}
