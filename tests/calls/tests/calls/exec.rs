//! Starting commands, and talking to them while they run.

use std::sync::Arc;

use anyhow::{Context, Result};
use innkeeper_proto::v1::exec_request::Message as Asked;
use innkeeper_proto::v1::{ExecStart, TerminalSize};
use innkeeper_test_calls::daemon::Daemon;
use innkeeper_test_calls::sandbox::Outcome;

pub(crate) async fn words_and_environment_arrive_verbatim(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let words: [&[u8]; 10] = [
        b"printf",
        b"[%s]",
        b"a b",
        b"c\"d",
        b"$HOME",
        b"e\nf",
        b"*",
        b"",
        b"\xff\xfe",
        b"-",
    ];
    let said = sandbox.run(sandbox.command(&words)).await?;
    assert_eq!(said.stdout, b"[a b][c\"d][$HOME][e\nf][*][][\xff\xfe][-]");
    let mut start = sandbox.command(&["printenv", "K"]);
    start.env = vec![b"K=x=1\ny;z".as_slice().into()];
    assert_eq!(sandbox.run(start).await?.stdout, b"x=1\ny;z\n");
    Ok(())
}

pub(crate) async fn defaults_come_from_the_template(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let said = sandbox
        .sh("pwd; id -u; echo $FROM_IMAGE; umask; echo $0")
        .await?;
    assert_eq!(said.text(), "/there\n0\nyes\n0022\n/bin/sh\n");
    let mut start = sandbox.command(&["printenv", "FROM_IMAGE"]);
    start.env = vec![b"FROM_IMAGE=no".as_slice().into()];
    assert_eq!(sandbox.run(start).await?.text(), "no\n");
    Ok(())
}

pub(crate) async fn user_directory_and_mask(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let ask = |user: &str| ExecStart {
        user: user.to_owned(),
        cwd: b"/tmp".as_slice().into(),
        umask: Some(0o077),
        ..sandbox.script("id -u; id -g; pwd; umask")
    };
    for (user, ids) in [
        ("worker", "1000\n1000"),
        ("1000:0", "1000\n0"),
        ("worker:root", "1000\n0"),
        ("7", "7\n0"),
    ] {
        let said = sandbox.run(ask(user)).await?;
        assert_eq!(
            said.text(),
            format!("{ids}\n/tmp\n0077\n"),
            "{user}: {said:?}"
        );
    }
    Ok(())
}

fn not_started(outcome: &Outcome) -> Result<(i32, &str)> {
    let finished = outcome
        .finished
        .as_ref()
        .context("there was no last frame")?;
    Ok((outcome.code()?, &finished.not_started))
}

pub(crate) async fn what_cannot_start_says_why(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let missing = sandbox.run(sandbox.command(&["no-such-program"])).await?;
    let (code, why) = not_started(&missing)?;
    assert!(
        code == 127 && why.contains("no-such-program"),
        "{code} {why}"
    );
    let dir = sandbox.run(sandbox.command(&["/etc"])).await?;
    let (code, why) = not_started(&dir)?;
    assert!(code == 126 && why.contains("/etc"), "{code} {why}");
    // A directory that was there and is gone is not blamed on the program.
    sandbox
        .sh("mkdir /wd && cd /wd && rmdir /wd")
        .await?
        .code()?;
    let mut start = sandbox.script("true");
    start.cwd = b"/wd".as_slice().into();
    let gone = sandbox.run(start).await?;
    let (code, why) = not_started(&gone)?;
    assert!(code == 126 || code == 127, "{code}");
    assert!(
        why.contains("/wd") && why.contains("cwd") && !why.contains("/bin/sh"),
        "{why}"
    );
    let mut start = sandbox.script("true");
    start.user = "nobody-here".to_owned();
    let stranger = sandbox.run(start).await?;
    let (_, why) = not_started(&stranger)?;
    assert!(why.contains("nobody-here"), "{why}");
    // One argument has a limit of its own; all together have a larger one.
    let long = "A".repeat(200_000);
    let outcome = sandbox
        .run(sandbox.command(&["printf", "%s", &long]))
        .await?;
    let (code, why) = not_started(&outcome)?;
    assert!(
        code == 126 && why.contains("argument too long"),
        "{code} {why}"
    );
    let fits = "A".repeat(131_071);
    let outcome = sandbox
        .run(sandbox.command(&["printf", "%s", &fits]))
        .await?;
    assert_eq!((outcome.code()?, outcome.stdout.len()), (0, 131_071));
    for bad in [sandbox.command::<&str>(&[]), sandbox.command(&["a\0b"])] {
        let error = sandbox.run(bad).await.unwrap_err();
        let status = error.downcast_ref::<tonic::Status>().context("a status")?;
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
    }
    assert_eq!(sandbox.sh("echo alive").await?.text(), "alive\n");
    Ok(())
}

pub(crate) async fn broken_pipes_end_writers(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let bash = ["/bin/bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}"];
    assert_eq!(
        sandbox.run(sandbox.command(&bash)).await?.text(),
        "y\n141\n"
    );
    Ok(())
}

pub(crate) async fn a_terminal_has_size_signals_and_an_end_of_input(
    daemon: Arc<Daemon>,
) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let terminal = |text: &str| ExecStart {
        terminal: Some(TerminalSize {
            rows: 30,
            columns: 100,
        }),
        stdin: true,
        ..sandbox.script(text)
    };
    let mut talk = sandbox
        .start(terminal(
            "test -t 0 && test -t 1 && test -t 2 && stty size; \
             trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.05; done",
        ))
        .await?;
    let said = talk.expect(b"ready").await?;
    assert!(said.starts_with(b"30 100\r\n"), "{}", said.escape_ascii());
    talk.send(Asked::Resize(TerminalSize {
        rows: 50,
        columns: 132,
    }))
    .await?;
    let rest = talk.finish().await?;
    assert!(
        rest.merged.ends_with(b"50 132\r\n"),
        "{}",
        rest.merged.escape_ascii()
    );
    assert_eq!(rest.code()?, 5);

    // Control C goes as a byte, and the terminal makes a signal of it.
    let start = ExecStart {
        terminal: Some(TerminalSize {
            rows: 24,
            columns: 80,
        }),
        stdin: true,
        ..sandbox.command(&["cat"])
    };
    let mut talk = sandbox.start(start).await?;
    talk.send(Asked::Stdin(b"x\n".as_slice().into())).await?;
    talk.expect(b"x\r\nx").await?;
    talk.send(Asked::Stdin(b"\x03".as_slice().into())).await?;
    let finished = talk.finish().await?.finished;
    let finished = finished.context("there was no last frame")?;
    assert_eq!((finished.exit_code, finished.signal), (None, 2));

    let talk = sandbox.start(terminal("cat")).await?;
    talk.send(Asked::Stdin(b"hello\n".as_slice().into()))
        .await?;
    talk.send(Asked::StdinEnd(true)).await?;
    let said = talk.finish().await?;
    assert_eq!(
        (said.merged.as_slice(), said.code()?),
        (b"hello\r\nhello\r\n".as_slice(), 0)
    );
    // The last output before the end is not lost on a terminal either.
    for n in 0..20 {
        let said = sandbox
            .run(terminal(&format!("seq 1 2000; echo last{n}")))
            .await?;
        assert!(
            said.merged.ends_with(format!("last{n}\r\n").as_bytes()),
            "{n}"
        );
    }
    Ok(())
}

pub(crate) async fn signals_reach_the_command(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let script = "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut talk = sandbox.start(sandbox.script(script)).await?;
    talk.expect(b"ready").await?;
    talk.send(Asked::Signal(15)).await?;
    let outcome = talk.finish().await?;
    assert_eq!((outcome.text().as_str(), outcome.code()?), ("caught\n", 3));

    let mut talk = sandbox
        .start(sandbox.script("echo ready; exec sleep 1000"))
        .await?;
    talk.expect(b"ready").await?;
    talk.send(Asked::Signal(1)).await?;
    let finished = talk
        .finish()
        .await?
        .finished
        .context("there was no last frame")?;
    assert_eq!(
        (finished.exit_code, finished.signal, finished.timed_out),
        (None, 1, false)
    );
    Ok(())
}

pub(crate) async fn one_id_is_one_run(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let start = || ExecStart {
        exec_id: "once".to_owned(),
        ..sandbox.script("echo run >>/tmp/runs; echo said; exit 4")
    };
    let (first, second) = tokio::join!(sandbox.run(start()), sandbox.run(start()));
    let third = sandbox.run(start()).await?;
    for outcome in [first?, second?, third] {
        assert_eq!((outcome.text().as_str(), outcome.code()?), ("said\n", 4));
    }
    assert_eq!(sandbox.sh("cat /tmp/runs").await?.text(), "run\n");
    Ok(())
}
