//! Hostile things at paths.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use innkeeper_proto::v1::ExecStart;
use innkeeper_test_calls::daemon::Daemon;
use tonic::Code;

use crate::files::{read, start, write};

pub(crate) async fn files_that_are_none_fail_fast(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    sandbox
        .sh("mkdir /fx; cd /fx; mkfifo p; ln -s /fx/loop loop; ln -s /dev/zero z")
        .await?;
    for path in [
        "/fx/p",
        "/fx/z",
        "/fx/loop",
        "/proc/1/mem",
        "/dev/tty",
        "/fx",
        "/proc/self/fd/0",
        "/dev/stdin",
    ] {
        let call = read(&sandbox, path.as_bytes(), 0, 0);
        let answer = tokio::time::timeout(Duration::from_secs(20), call).await;
        let status = answer.with_context(|| format!("{path} blocks"))?;
        let status = status
            .err()
            .with_context(|| format!("{path} can be read"))?;
        assert!(
            !matches!(status.code(), Code::Internal | Code::Unavailable | Code::Ok),
            "{path}: {status}"
        );
    }
    for path in ["/fx/p", "/dev/null", "/fx", "/proc/version"] {
        let call = write(
            &sandbox,
            start(&sandbox, path.as_bytes(), 0),
            [Bytes::from("x")],
        );
        let answer = tokio::time::timeout(Duration::from_secs(20), call).await;
        answer
            .with_context(|| format!("{path} blocks"))?
            .expect_err(path);
    }
    // Masked or forbidden, but never waited for.
    let call = read(&sandbox, b"/proc/kmsg", 0, 0);
    let kernel = tokio::time::timeout(Duration::from_secs(20), call).await?;
    assert!(kernel.map_or(true, |said| said.is_empty()));
    // Files of /proc say that they are empty, and are not.
    assert!(
        read(&sandbox, b"/proc/self/status", 0, 0)
            .await?
            .starts_with(b"Name:")
    );
    // A file that grows while it is read has an end.
    let mut talk = sandbox
        .start(sandbox.script("echo up; while :; do echo more more more >>/there/log; done"))
        .await?;
    talk.expect(b"up").await?;
    for _ in 0..20 {
        read(&sandbox, b"/there/log", 0, 0)
            .await
            .or_else(|status| match status.code() {
                Code::NotFound => Ok(Vec::new()),
                _ => Err(status),
            })?;
    }
    Ok(())
}

pub(crate) async fn a_swapped_directory_does_not_divert_an_upload(
    daemon: Arc<Daemon>,
) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let passwd = sandbox.sh("cat /etc/passwd").await?.stdout;
    let swap = "mkdir -p /fx; echo up; while :; do rm -rf /fx/t; mkdir /fx/t; rm -rf /fx/t; \
                ln -s /etc /fx/t; rm -f /fx/t; done";
    let start_swap = ExecStart {
        exec_id: "swap".to_owned(),
        ..sandbox.script(swap)
    };
    let mut talk = sandbox.start(start_swap).await?;
    talk.expect(b"up").await?;
    let (mut stored, mut refused) = (0, 0);
    for _ in 0..500 {
        match write(
            &sandbox,
            start(&sandbox, b"/fx/t/passwd", 0),
            [Bytes::from("owned")],
        )
        .await
        {
            Ok(_) => stored += 1,
            Err(_) => refused += 1,
        }
    }
    drop(talk);
    assert_eq!(
        sandbox.sh("cat /etc/passwd").await?.stdout,
        passwd,
        "{stored} stored, {refused} refused"
    );
    assert_eq!(
        sandbox
            .sh("ls -A /etc")
            .await?
            .text()
            .lines()
            .filter(|name| name.starts_with(".innkeeper"))
            .count(),
        0
    );
    Ok(())
}
