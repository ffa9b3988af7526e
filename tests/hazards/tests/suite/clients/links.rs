//! Callers that die, links that are cut, and links on which nothing is said.

use std::process::Stdio;

use innkeeper_test_hazards::{Ground, Wire};

use super::proxy::Proxy;
use super::{comes_back, lease, with};

const TICKS: &str = "while :; do echo tick >>/tmp/tick; sleep .1; done";

pub(super) fn caller_dies(ground: &Ground) {
    let guest = lease(ground, "C20");
    let inn = ground.house.inn();
    let mut command = inn.command(["exec", &guest.id, "--", "bash", "-c", TICKS]);
    let mut child = command.stdout(Stdio::null()).spawn().expect("started");
    inn.until("it ticks", || match guest.bash("test -s /tmp/tick").code {
        0 => Ok(()),
        code => Err(code.to_string()),
    });
    child.kill().expect("killed");
    child.wait().expect("reaped");
    inn.until("what nobody hears any more is ended", || {
        let left = guest.bash("pgrep -f '[/]tmp/tick'");
        if left.code == 1 {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    });
    comes_back(guest);

    with(ground, "C20-detached", async |wire| {
        let start = innkeeper_proto::v1::ExecStart {
            detach: true,
            exec_id: "stays".to_owned(),
            ..wire.command(&["bash", "-c", "while :; do echo tick; sleep .1; done"])
        };
        let mut talk = wire.start(start).await.expect("started");
        let first = talk.some().await.expect("heard").bytes;
        drop(talk);
        let mut again = wire
            .attach("stays", first.len() as u64)
            .await
            .expect("attached");
        assert!(
            again
                .some()
                .await
                .expect("heard")
                .bytes
                .starts_with(b"tick")
        );
        // The end of the lease, which follows, ends it too.
    });
}

pub(super) fn cut_twice(ground: &Ground) {
    let guest = lease(ground, "C21");
    let socket = ground.house.inn().state().join("innkeeper.sock");
    let script =
        "for i in $(seq 1 29297); do echo \"rec $i\"; [ $((i%1000)) = 0 ] && sleep .05; done";
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (heard, code) = runtime.block_on(async {
        let wire = Wire::open(&socket, &guest.id).await;
        let start = innkeeper_proto::v1::ExecStart {
            detach: true,
            exec_id: "records".to_owned(),
            ..wire.command(&["bash", "-c", script])
        };
        let mut talk = wire.start(start).await.expect("started");
        let mut heard = talk.some().await.expect("heard").bytes;
        drop((talk, wire));
        for _ in 0..2 {
            // A connection of its own, cut in mid-stream.
            let wire = Wire::open(&socket, &guest.id).await;
            let mut talk = wire
                .attach("records", heard.len() as u64)
                .await
                .expect("attached");
            for _ in 0..3 {
                heard.extend(talk.some().await.expect("heard").bytes);
            }
        }
        let wire = Wire::open(&socket, &guest.id).await;
        let mut talk = wire
            .attach("records", heard.len() as u64)
            .await
            .expect("attached");
        let rest = talk.rest().await.expect("its end");
        heard.extend(&rest.bytes);
        // Beyond the end there is nothing to hear, and that is said.
        let beyond = wire.attach("records", heard.len() as u64 + 1).await;
        let beyond = match beyond {
            Ok(mut talk) => talk.rest().await,
            Err(status) => Err(status),
        };
        beyond.expect_err("an offset that the output never had");
        (heard, rest.code())
    });
    let whole: String = (1..=29297)
        .map(|number| format!("rec {number}\n"))
        .collect();
    assert!(
        heard == whole.as_bytes(),
        "{} bytes instead of {}",
        heard.len(),
        whole.len()
    );
    assert_eq!(code, 1, "of the last test in the loop, which does not hold");
    comes_back(guest);
}

/// A command that says nothing until it is told to end, heard through a proxy.
fn silent(ground: &Ground, test: &str, act: impl FnOnce(&Proxy, &dyn Fn(&str)) -> bool) {
    let guest = lease(ground, test);
    let inn = ground.house.inn();
    let socket = inn.path(&format!("{}-{test}.sock", ground.pair));
    let proxy = Proxy::open(socket, &inn.state().join("innkeeper.sock"));
    let endpoint = format!("unix://{}", proxy.socket.display());
    let script = ": >/run/started; while [ ! -e /run/go ]; do sleep .1; done; echo ok";
    let line = [
        "--endpoint",
        &endpoint,
        "exec",
        &guest.id,
        "--",
        "bash",
        "-c",
        script,
    ];
    let mut command = inn.command(line);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    inn.until("it has started", || {
        match guest.bash("test -e /run/started").code {
            0 => Ok(()),
            code => Err(code.to_string()),
        }
    });
    let is_to_end = act(&proxy, &|path| {
        guest.bash(&format!(": >{path}")).ok();
    });
    let output = child.wait_with_output().expect("reaped");
    let said = String::from_utf8_lossy(&output.stderr);
    if is_to_end {
        assert!(
            output.status.success() && output.stdout == b"ok\n",
            "{said}"
        );
    } else {
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(!said.is_empty() && output.stdout.is_empty());
    }
    comes_back(guest);
}

/// Proxies drop links on which nothing passes, the strictest after half a minute.
pub(super) fn silence(ground: &Ground) {
    silent(ground, "C22", |proxy, touch| {
        let before = proxy.passed();
        ground
            .house
            .inn()
            .until("something passes though the command is silent", || {
                let now = proxy.passed();
                if now[0] > before[0] && now[1] > before[1] {
                    Ok(())
                } else {
                    Err(format!("{now:?}"))
                }
            });
        touch("/run/go");
        true
    });
}

pub(super) fn no_answer(ground: &Ground) {
    silent(ground, "C22-frozen", |proxy, _| {
        proxy.freeze();
        false
    });
}
