//! What commands are fed.

use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use innkeeper_proto::v1::ExecStart;
use innkeeper_proto::v1::exec_request::Message as Asked;
use innkeeper_test_calls::daemon::Daemon;

pub(crate) async fn it_is_at_its_end_unless_asked_for(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let talk = sandbox.start(sandbox.command(&["cat"])).await?;
    // The caller stays and sends nothing.
    let requests = talk.requests.clone();
    let said = talk.finish().await?;
    drop(requests);
    assert_eq!((said.stdout.len(), said.code()?), (0, 0));
    Ok(())
}

pub(crate) async fn it_flows_in_both_directions(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let mut talk = sandbox
        .start(ExecStart {
            stdin: true,
            ..sandbox.command(&["cat"])
        })
        .await?;
    for word in ["one\n", "two\n"] {
        talk.send(Asked::Stdin(Bytes::from(word))).await?;
        talk.expect(word.as_bytes()).await?;
    }
    // Much, with the command's output as much.
    let requests = talk.requests.clone();
    let piece = Bytes::from(vec![b'x'; 1 << 20]);
    let feed = tokio::spawn(async move {
        for _ in 0..32 {
            let message = Some(Asked::Stdin(piece.clone()));
            requests
                .send(innkeeper_proto::v1::ExecRequest { message })
                .await?;
        }
        let message = Some(Asked::StdinEnd(true));
        requests
            .send(innkeeper_proto::v1::ExecRequest { message })
            .await?;
        anyhow::Ok(())
    });
    let mut replies = talk.replies;
    let said = innkeeper_test_calls::sandbox::follow(&mut replies, 8).await?;
    feed.await??;
    assert_eq!((said.stdout.len(), said.code()?), (32 << 20, 0));
    Ok(())
}

pub(crate) async fn a_caller_that_is_cut_off_ends_no_input(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let start = ExecStart {
        stdin: true,
        detach: true,
        exec_id: "fed".to_owned(),
        ..sandbox.command(&["cat"])
    };
    let mut talk = sandbox.start(start.clone()).await?;
    talk.send(Asked::Stdin(Bytes::from("first "))).await?;
    talk.expect(b"first ").await?;
    drop(talk);
    // Long enough for the command to see an end, were there one.
    sandbox.sh("sleep 0.3").await?;
    let mut again = sandbox.start(start).await?;
    again.expect(b"first ").await?;
    again.send(Asked::Stdin(Bytes::from("second"))).await?;
    again.send(Asked::StdinEnd(true)).await?;
    let said = again.finish().await?;
    assert_eq!((said.text().as_str(), said.code()?), ("second", 0));
    Ok(())
}

pub(crate) async fn a_command_that_stops_reading_ends_cleanly(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    for script in [
        "head -c 1 | wc -c",
        "head -c 1 | wc -c; exec <&-; sleep 0.3",
    ] {
        let talk = sandbox
            .start(ExecStart {
                stdin: true,
                ..sandbox.script(script)
            })
            .await?;
        let requests = talk.requests.clone();
        let piece = Bytes::from(vec![0; 1 << 20]);
        let feed = tokio::spawn(async move {
            for n in 0..100 {
                let message = Some(Asked::Stdin(piece.clone()));
                if requests
                    .send(innkeeper_proto::v1::ExecRequest { message })
                    .await
                    .is_err()
                {
                    return n;
                }
            }
            100
        });
        let said = talk.finish().await?;
        assert_eq!((said.text().trim(), said.code()?), ("1", 0), "{script}");
        feed.await?;
    }
    // One that neither reads nor ends holds up nobody else, and its output comes.
    let start = ExecStart {
        stdin: true,
        exec_id: "deaf".to_owned(),
        ..sandbox.script("echo deaf; sleep 1000")
    };
    let mut talk = sandbox.start(start.clone()).await?;
    let requests = talk.requests.clone();
    let flood = tokio::spawn(async move {
        let piece = Bytes::from(vec![0; 1 << 20]);
        loop {
            let message = Some(Asked::Stdin(piece.clone()));
            if requests
                .send(innkeeper_proto::v1::ExecRequest { message })
                .await
                .is_err()
            {
                return;
            }
        }
    });
    talk.expect(b"deaf").await?;
    assert_eq!(sandbox.sh("echo hi").await?.text(), "hi\n");
    // Behind its own input a caller cannot be heard, but beside it.
    let beside = sandbox.start(start).await?;
    beside.send(Asked::Signal(9)).await?;
    for talk in [beside, talk] {
        let finished = talk
            .finish()
            .await?
            .finished
            .context("there was no last frame")?;
        assert_eq!((finished.exit_code, finished.signal), (None, 9));
    }
    flood.await?;
    Ok(())
}
