//! What commands say.

use std::sync::Arc;

use anyhow::{Context, Result};
use innkeeper_proto::limits;
use innkeeper_proto::v1::ExecStart;
use innkeeper_proto::v1::exec_reply::Message as Reply;
use innkeeper_test_calls::daemon::Daemon;
use innkeeper_test_calls::sandbox::follow;

pub(crate) async fn all_of_it_arrives(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let said = sandbox.sh("seq 1 2000000; echo end >&2; exit 7").await?;
    assert_eq!(said.stdout.len(), 14_888_896);
    assert!(said.stdout.ends_with(b"\n2000000\n"));
    assert_eq!(
        (said.stderr.as_slice(), said.code()?),
        (b"end\n".as_slice(), 7)
    );
    Ok(())
}

pub(crate) async fn merged_output_keeps_its_order(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let script = "i=0; while [ $i -lt 500 ]; do echo out$i; echo err$i >&2; i=$((i+1)); done";
    let start = ExecStart {
        merge_output: true,
        ..sandbox.script(script)
    };
    let said = sandbox.run(start).await?;
    let expected: String = (0..500).map(|i| format!("out{i}\nerr{i}\n")).collect();
    assert_eq!(String::from_utf8_lossy(&said.merged), expected);
    assert!(said.stdout.is_empty() && said.stderr.is_empty());
    Ok(())
}

pub(crate) async fn the_last_byte_of_short_commands_is_there(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    for n in 0..500 {
        let said = sandbox.run(sandbox.command(&["printf", "X"])).await?;
        assert_eq!(
            (said.stdout.as_slice(), said.code()?),
            (b"X".as_slice(), 0),
            "run {n}"
        );
    }
    Ok(())
}

pub(crate) async fn a_slow_reader_does_not_hold_the_command(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let script = "seq 1 5000000; echo done >/tmp/done";
    let mut talk = sandbox.start(sandbox.script(script)).await?;
    // Not one reply is read while the command runs to its end.
    while sandbox.sh("cat /tmp/done").await?.code()? != 0 {
        tokio::task::yield_now().await;
    }
    let said = follow(&mut talk.replies, 0).await?;
    assert_eq!((said.stdout.len(), said.code()?), (38_888_896, 0));
    assert!(said.stdout.ends_with(b"\n5000000\n"));
    Ok(())
}

pub(crate) async fn a_reader_continues_where_it_was_cut_off(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    let script = "i=0; while [ $i -lt 29297 ]; do i=$((i+1)); echo \"rec $i\"; \
                  [ $((i%1000)) = 0 ] && sleep .02; done; exit 9";
    let start = ExecStart {
        exec_id: "cut".to_owned(),
        detach: true,
        ..sandbox.script(script)
    };
    let mut talk = sandbox.start(start).await?;
    let mut whole = Vec::new();
    for cut in [40_000, 120_000] {
        while whole.len() < cut {
            let reply = talk.replies.message().await?.context("it ended early")?;
            if let Some(Reply::Output(output)) = reply.message {
                assert_eq!(output.offset, whole.len() as u64);
                whole.extend_from_slice(&output.data);
            }
        }
        // Another connection, and the old one is gone.
        let again = daemon.connect().await?;
        let other = innkeeper_test_calls::sandbox::Sandbox::new(again, sandbox.sandbox.clone());
        talk.replies = other.attach("cut", whole.len() as u64).await?;
    }
    let rest = follow(&mut talk.replies, whole.len() as u64).await?;
    whole.extend_from_slice(&rest.stdout);
    let expected: String = (1..=29_297).map(|i| format!("rec {i}\n")).collect();
    assert_eq!(String::from_utf8_lossy(&whole), expected);
    assert_eq!(rest.code()?, 9);
    // From the beginning, long after its end; and from where it never came to.
    let again = follow(&mut sandbox.attach("cut", 0).await?, 0).await?;
    assert_eq!((again.stdout, again.finished), (whole, rest.finished));
    let gap = sandbox.attach("cut", 1 << 40).await.unwrap_err();
    let status = gap.downcast_ref::<tonic::Status>().context("a status")?;
    assert_eq!(status.code(), tonic::Code::OutOfRange);
    Ok(())
}

pub(crate) async fn too_much_is_cut_and_flagged(daemon: Arc<Daemon>) -> Result<()> {
    let sandbox = daemon.sandbox().await?;
    // More than is kept; the command still runs to its end.
    let script = "head -c 300000000 /dev/zero; echo end >&2; exit 6";
    let said = sandbox.sh(script).await?;
    let finished = said.finished.as_ref().context("there was no last frame")?;
    assert!(finished.truncated);
    assert_eq!(said.code()?, 6);
    assert!(
        said.bytes <= limits::OUTPUT && said.bytes > limits::OUTPUT * 9 / 10,
        "{}",
        said.bytes
    );
    Ok(())
}
