//! Many at once.

use std::sync::Arc;

use anyhow::{Context, Result};
use innkeeper_proto::v1::{ExecStart, SandboxRef};
use innkeeper_test_calls::daemon::Daemon;

pub(crate) async fn many_long_commands_leave_room_for_short_ones(
    daemon: Arc<Daemon>,
) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let mut long = Vec::new();
    for _ in 0..150 {
        // All on one connection.
        let mut talk = sandbox
            .start(sandbox.script("echo up; exec sleep 8001"))
            .await?;
        talk.expect(b"up").await?;
        long.push(talk);
    }
    assert_eq!(sandbox.sh("echo hi").await?.text(), "hi\n");
    let SandboxRef { slot, generation } = sandbox.sandbox.clone();
    sandbox
        .client
        .clone()
        .health(SandboxRef { slot, generation })
        .await?;
    Ok(())
}

pub(crate) async fn parallel_commands_are_not_mixed_up(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    for round in 0..4 {
        let tasks: Vec<_> = (0..50)
            .map(|n| {
                let sandbox = sandbox.clone();
                tokio::spawn(async move {
                    let script = format!("sleep 0.{}; echo id{n}; exit {}", n % 4, n % 7);
                    sandbox.sh(&script).await
                })
            })
            .collect();
        for (n, task) in tasks.into_iter().enumerate() {
            let said = task.await??;
            assert_eq!(said.text(), format!("id{n}\n"), "round {round}");
            assert_eq!(usize::try_from(said.code()?)?, n % 7);
        }
    }
    Ok(())
}

pub(crate) async fn a_fork_bomb_does_not_outlive_its_call(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let bomb = "bomb() { bomb | bomb & }; bomb 2>/dev/null; while :; do sleep 1; done";
    let start = ExecStart {
        timeout_ms: 1000,
        ..sandbox.command(&["/bin/bash", "-c", bomb])
    };
    let finished = sandbox
        .run(start)
        .await?
        .finished
        .context("there was no last frame")?;
    assert!(finished.timed_out, "{finished:?}");
    let left = sandbox.sh("set -- /proc/[0-9]*; echo $#").await?;
    let left: usize = left.text().trim().parse()?;
    assert!(
        left <= 3,
        "{left} processes are left: more than pid 1 and the one that counts"
    );
    Ok(())
}
