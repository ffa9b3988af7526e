//! How commands end, and what is left of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use innkeeper_proto::v1::{ExecStart, FileReadRequest, SlotRef};
use innkeeper_test_calls::daemon::Daemon;
use innkeeper_test_calls::sandbox::{Sandbox, follow};

/// Commands named `sleep` in the sandbox whose argument is `seconds`.
async fn sleepers(sandbox: &Sandbox, seconds: u32) -> Result<usize> {
    // The pattern does not match itself: the words of a command end in zeros.
    let script = format!(
        "n=0; for p in /proc/[0-9]*/cmdline; do \
         [ \"$(tr '\\0' ' ' <$p 2>/dev/null)\" = 'sleep {seconds} ' ] && n=$((n+1)); done; echo $n"
    );
    Ok(sandbox.sh(&script).await?.text().trim().parse()?)
}

async fn until_sleepers(sandbox: &Sandbox, seconds: u32, count: usize) -> Result<()> {
    while sleepers(sandbox, seconds).await? != count {
        tokio::task::yield_now().await;
    }
    Ok(())
}

pub(crate) async fn a_timeout_kills_the_whole_tree(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let script = "echo partial; setsid sleep 7001 & (setsid sh -c 'sleep 7001 & sleep 7001' &) ; \
                  trap '' TERM INT HUP; sleep 7001";
    let start = ExecStart {
        timeout_ms: 1500,
        ..sandbox.script(script)
    };
    let said = sandbox.run(start).await?;
    let finished = said.finished.clone().context("there was no last frame")?;
    assert_eq!(said.text(), "partial\n");
    assert!(
        finished.timed_out && finished.exit_code.is_none(),
        "{finished:?}"
    );
    assert!(!finished.oom && !finished.pipe_held, "{finished:?}");
    assert_eq!(sleepers(&sandbox, 7001).await?, 0);
    let error = sandbox
        .run(ExecStart {
            timeout_ms: u64::MAX,
            ..sandbox.script("true")
        })
        .await;
    assert!(error.is_err(), "a timeout over the limit is refused");
    Ok(())
}

pub(crate) async fn a_start_that_the_guest_stops_keeps_its_time(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    // -1 is everything but pid 1 and the shell itself.
    let script = "echo up; while :; do kill -STOP -1; done";
    let mut stopper = sandbox
        .start(sandbox.command(&["/bin/bash", "-c", script]))
        .await?;
    stopper.expect(b"up").await?;
    for _ in 0..10 {
        let start = ExecStart {
            timeout_ms: 100,
            ..sandbox.command(&["/bin/sleep", "7010"])
        };
        let said = sandbox.run(start).await?;
        let finished = said.finished.context("there was no last frame")?;
        assert!(finished.timed_out && finished.signal == 9, "{finished:?}");
    }
    drop(stopper);
    until_sleepers(&sandbox, 7010, 0).await
}

pub(crate) async fn a_file_call_that_the_guest_stops_ends_with_its_caller(
    daemon: Arc<Daemon>,
) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    // More than the pipes hold, so that the call's process waits for a reader.
    sandbox
        .sh("dd if=/dev/null of=/there/big bs=1 seek=1073741824")
        .await?
        .code()?;
    let request = FileReadRequest {
        target: sandbox.target(),
        path: Bytes::from("/there/big"),
        ..FileReadRequest::default()
    };
    let mut client = sandbox.client.clone();
    let mut chunks = client.read_file(request).await?.into_inner();
    chunks.message().await?.context("it has begun")?;
    sandbox.sh("kill -STOP -1").await?;
    let stopped = "grep -l '^State:.T' /proc/[0-9]*/status 2>/dev/null; exit 0";
    let shown = sandbox.sh(stopped).await?.text();
    assert_eq!(shown.lines().count(), 1, "the control: {shown:?}");
    drop(chunks);
    while !sandbox.sh(stopped).await?.text().is_empty() {
        tokio::task::yield_now().await;
    }
    Ok(())
}

pub(crate) async fn a_background_child_does_not_hold_the_call(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let begin = Instant::now();
    let script = "sleep 7002 & echo out; exit 0";
    let said = sandbox
        .run(ExecStart {
            timeout_ms: 60_000,
            ..sandbox.script(script)
        })
        .await?;
    let finished = said.finished.clone().context("there was no last frame")?;
    assert!(begin.elapsed() < Duration::from_secs(30));
    assert!(finished.pipe_held && !finished.timed_out, "{finished:?}");
    assert_eq!((said.text().as_str(), said.code()?), ("out\n", 0));
    // It lives on, and writing does not kill it.
    assert_eq!(sleepers(&sandbox, 7002).await?, 1);
    let script = "(while [ ! -e /tmp/go ]; do sleep 0.02; done; echo late && echo alive >/tmp/lives) & exit 3";
    assert_eq!(sandbox.sh(script).await?.code()?, 3);
    sandbox.sh("echo >/tmp/go").await?;
    while sandbox.sh("test -s /tmp/lives").await?.code()? != 0 {
        tokio::task::yield_now().await;
    }
    // One that never stops writing does not hold it either.
    let said = sandbox.sh("yes & exit 0").await?;
    assert!(said.finished.context("there was no last frame")?.pipe_held);
    // Without the pipes nothing is held.
    let said = sandbox.sh("sleep 7002 >/dev/null 2>&1 & exit 0").await?;
    assert!(!said.finished.context("there was no last frame")?.pipe_held);
    Ok(())
}

pub(crate) async fn a_filter_behind_the_command_is_heard_to_its_end(
    daemon: Arc<Daemon>,
) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let script = "exec > >(while read -r line; do echo \"seen $line\"; done); seq 1 300";
    for _ in 0..10 {
        let said = sandbox
            .run(sandbox.command(&["/bin/bash", "-c", script]))
            .await?;
        assert!(said.stdout.ends_with(b"seen 300\n"), "{}", said.text());
    }
    Ok(())
}

pub(crate) async fn a_lost_caller_kills_unless_detached(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let script = |seconds: u32| {
        sandbox.script(&format!(
            "echo up; setsid sleep {seconds} & sleep {seconds}"
        ))
    };
    let mut bound = sandbox.start(script(7003)).await?;
    bound.expect(b"up").await?;
    let start = ExecStart {
        detach: true,
        exec_id: "stays".to_owned(),
        ..script(7004)
    };
    // On a connection of its own, which is then cut.
    let other = Sandbox::new(daemon.connect().await?, sandbox.sandbox.clone());
    let mut detached = other.start(start).await?;
    detached.expect(b"up").await?;
    until_sleepers(&sandbox, 7003, 2).await?;
    until_sleepers(&sandbox, 7004, 2).await?;
    drop(bound);
    drop((detached, other));
    until_sleepers(&sandbox, 7003, 0).await?;
    assert_eq!(sleepers(&sandbox, 7004).await?, 2);
    // Somebody who follows keeps a bound command alive.
    let start = ExecStart {
        exec_id: "shared".to_owned(),
        ..script(7005)
    };
    let mut first = sandbox.start(start).await?;
    first.expect(b"up").await?;
    let second = sandbox.attach("shared", 0).await?;
    until_sleepers(&sandbox, 7005, 2).await?;
    drop(first);
    sandbox.sh("sleep 0.2").await?;
    assert_eq!(sleepers(&sandbox, 7005).await?, 2);
    drop(second);
    until_sleepers(&sandbox, 7005, 0).await?;
    let mut ended = sandbox.attach("shared", 0).await?;
    let finished = follow(&mut ended, 0)
        .await?
        .finished
        .context("there was no last frame")?;
    assert_eq!(
        (finished.exit_code, finished.signal, finished.timed_out),
        (None, 9, false)
    );
    Ok(())
}

pub(crate) async fn memory_is_told_from_a_kill(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let finished = sandbox
        .sh("kill -9 $$")
        .await?
        .finished
        .context("there was no last frame")?;
    assert_eq!(
        (finished.exit_code, finished.signal, finished.oom),
        (None, 9, false)
    );
    // A program that holds twice the sandbox's memory.
    let hog = [
        "/bin/dd",
        "if=/dev/zero",
        "of=/dev/null",
        "bs=1073741824",
        "count=1",
    ];
    let said = sandbox.run(sandbox.command(&hog)).await?;
    let finished = said.finished.clone().context("there was no last frame")?;
    assert!(
        finished.oom && finished.signal == 9 && !finished.timed_out,
        "{finished:?}"
    );
    // A child of it, which it does not even look at.
    let script = "dd if=/dev/zero of=/dev/null bs=1073741824 count=1; exit 0";
    let finished = sandbox
        .sh(script)
        .await?
        .finished
        .context("there was no last frame")?;
    assert!(
        finished.oom && finished.exit_code == Some(0) && finished.signal == 0,
        "{finished:?}"
    );
    let quiet = sandbox.sh("echo alive").await?;
    assert_eq!(quiet.text(), "alive\n");
    assert!(!quiet.finished.context("there was no last frame")?.oom);
    Ok(())
}

pub(crate) async fn a_destroyed_sandbox_ends_its_calls(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let start = ExecStart {
        detach: true,
        ..sandbox.script("echo up; sleep 7006")
    };
    let mut talk = sandbox.start(start).await?;
    talk.expect(b"up").await?;
    let slot = sandbox.sandbox.slot.clone();
    let mut client = sandbox.client.clone();
    let (destroyed, ended) = tokio::join!(client.destroy_slot(SlotRef { slot }), talk.finish());
    destroyed?;
    let error = ended.expect_err("no last frame may come");
    let status = error.downcast_ref::<tonic::Status>().context("a status")?;
    assert_eq!(status.code(), tonic::Code::NotFound, "{status}");
    let after = sandbox.sh("true").await.unwrap_err();
    let status = after.downcast_ref::<tonic::Status>().context("a status")?;
    assert_eq!(status.code(), tonic::Code::NotFound, "{status}");
    Ok(())
}
