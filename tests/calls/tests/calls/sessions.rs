//! Shells that keep their state.

use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use innkeeper_proto::v1::{SessionOpen, SessionRef, SessionResult, SessionRun};
use innkeeper_test_calls::daemon::Daemon;
use innkeeper_test_calls::sandbox::Sandbox;

async fn open(sandbox: &Sandbox, shell: &'static str) -> Result<SessionRef> {
    let request = SessionOpen {
        target: sandbox.target(),
        shell: Bytes::from(shell),
        env: vec![Bytes::from("GIVEN=here")],
        ..SessionOpen::default()
    };
    Ok(sandbox
        .client
        .clone()
        .open_session(request)
        .await?
        .into_inner())
}

async fn run(
    sandbox: &Sandbox,
    session: &SessionRef,
    command: impl Into<Bytes>,
    timeout_ms: u64,
) -> Result<SessionResult, tonic::Status> {
    let session = Some(session.clone());
    let request = SessionRun {
        session,
        command: command.into(),
        timeout_ms,
    };
    Ok(sandbox
        .client
        .clone()
        .run_in_session(request)
        .await?
        .into_inner())
}

pub(crate) async fn a_shell_that_the_guest_stops_is_given_up(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let script = "echo up; while :; do kill -STOP -1; done";
    let mut stopper = sandbox
        .start(sandbox.command(&["/bin/bash", "-c", script]))
        .await?;
    stopper.expect(b"up").await?;
    // Some are stopped before they run, some later, some not: an answer comes each time.
    let mut opening = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let sandbox = sandbox.clone();
        opening.spawn(async move { open(&sandbox, "/bin/sh").await.is_err() });
    }
    let given_up = opening.join_all().await;
    assert!(given_up.contains(&true), "none was stopped");
    Ok(())
}

pub(crate) async fn state_stays_between_commands(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    for shell in ["", "/bin/sh"] {
        let session = open(&sandbox, shell).await?;
        let first = "cd /tmp; export KEPT='a  b'; f() { echo f:$1; }; echo err >&2; exit_code() { return $1; }";
        let result = run(&sandbox, &session, first, 0).await?;
        assert_eq!(
            (result.exit_code, &*result.output),
            (Some(0), b"err\n".as_slice())
        );
        let result = run(
            &sandbox,
            &session,
            "pwd; printenv KEPT GIVEN; f x; exit_code 9",
            0,
        )
        .await?;
        assert_eq!(&*result.output, b"/tmp\na  b\nhere\nf:x\n");
        assert_eq!(result.exit_code, Some(9));
        let result = run(
            &sandbox,
            &session,
            "echo $?; cat; echo 'it''s'\necho two lines",
            0,
        )
        .await?;
        assert_eq!(&*result.output, b"9\nits\ntwo lines\n");
        let result = run(&sandbox, &session, "echo 'open", 0).await?;
        assert!(result.exit_code != Some(0) && !result.ended, "{result:?}");
        // A word that only the daemon knows tells the end; commands have no way to it.
        let result = run(&sandbox, &session, "echo x >&9; ls /proc/self/fd", 0).await?;
        assert!(
            !result.output.windows(2).any(|two| two == b"\n9"),
            "{result:?}"
        );
        let result = run(&sandbox, &session, "seq 1 400000; echo last", 0).await?;
        assert!(result.output.ends_with(b"400000\nlast\n") && !result.truncated);
        let result = run(&sandbox, &session, "seq 1 4000000", 0).await?;
        assert!(result.truncated && result.exit_code == Some(0));
        let client = &mut sandbox.client.clone();
        client.close_session(session.clone()).await?;
        client.close_session(session.clone()).await?;
        let error = run(&sandbox, &session, "true", 0).await.unwrap_err();
        assert_eq!(error.code(), tonic::Code::NotFound);
    }
    Ok(())
}

pub(crate) async fn concurrent_callers_take_turns(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let session = open(&sandbox, "").await?;
    let tasks: Vec<_> = (0..50)
        .map(|n: i32| {
            let (sandbox, session) = (sandbox.clone(), session.clone());
            tokio::spawn(async move {
                let command = format!(
                    "echo id{n}; sleep 0.0{}; echo id{n}; (exit {})",
                    n % 4,
                    n % 7
                );
                run(&sandbox, &session, command, 0).await
            })
        })
        .collect();
    for (n, task) in tasks.into_iter().enumerate() {
        let result = task.await??;
        assert_eq!(&*result.output, format!("id{n}\nid{n}\n").as_bytes());
        assert_eq!(result.exit_code, Some(i32::try_from(n)? % 7));
    }
    Ok(())
}

pub(crate) async fn a_timeout_keeps_the_session(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let session = open(&sandbox, "").await?;
    run(&sandbox, &session, "KEPT=1", 0).await?;
    let result = run(
        &sandbox,
        &session,
        "echo part; setsid sleep 9001 & sleep 9001",
        500,
    )
    .await?;
    assert!(
        result.timed_out && !result.ended && result.exit_code.is_none(),
        "{result:?}"
    );
    assert!(result.output.starts_with(b"part\n"));
    let result = run(&sandbox, &session, "echo $KEPT", 0).await?;
    assert!(result.output.ends_with(b"1\n"), "{result:?}");
    let left = sandbox
        .sh("for p in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$p; echo; done")
        .await?;
    assert!(!left.text().contains("sleep 9001"), "{}", left.text());
    // A caller that leaves has its command killed too.
    let call = run(&sandbox, &session, "sleep 9002", 0);
    assert!(
        tokio::time::timeout(std::time::Duration::from_millis(300), call)
            .await
            .is_err()
    );
    let result = run(&sandbox, &session, "echo $KEPT", 0).await?;
    assert!(result.output.ends_with(b"1\n"), "{result:?}");
    // A shell that is busy itself cannot be kept.
    let result = run(&sandbox, &session, "while :; do :; done", 300).await?;
    assert!(result.timed_out && result.ended, "{result:?}");
    Ok(())
}

pub(crate) async fn a_shell_that_ends_ends_its_session(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let session = open(&sandbox, "").await?;
    let result = run(&sandbox, &session, "echo bye; exit 5", 0).await?;
    assert_eq!(
        (result.exit_code, &*result.output, result.ended),
        (Some(5), b"bye\n".as_slice(), true)
    );
    let error = run(&sandbox, &session, "true", 0).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::NotFound);
    let error = open(&sandbox, "/bin/true").await.unwrap_err();
    assert!(error.to_string().contains("POSIX"), "{error}");
    let error = open(&sandbox, "/bin/no-shell").await.unwrap_err();
    assert!(error.to_string().contains("no-shell"), "{error}");
    Ok(())
}
