//! What starts the daemon does not show in its sandboxes.

use std::process::Command;

use innkeeper_test_cli::{Inn, Rootfs, needs_sandboxes};

/// What pid 1 and a command of a sandbox say of themselves when a shell has run this before it
/// started innkeeper.
fn seen(inn: &Inn, before: &str) -> String {
    let run = inn.command([
        "run",
        "t",
        "--",
        "cat",
        "/proc/1/status",
        "/proc/self/status",
    ]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{before}\nexec \"$0\" \"$@\"")]);
    shell.arg(run.get_program()).args(run.get_args());
    for (name, value) in run.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let output = shell.output().expect("started");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let kept = [
        "Umask",
        "SigBlk",
        "SigIgn",
        "SigCgt",
        "Groups",
        "CapEff",
        "NoNewPrivs",
    ];
    text.lines()
        .filter(|line| kept.iter().any(|name| line.starts_with(name)))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn ignored_signals_and_the_umask_of_a_caller_do_not_show() {
    needs_sandboxes!("ignored_signals_and_the_umask_of_a_caller_do_not_show");
    let inn = Inn::new();
    let rootfs = Rootfs::make(&inn.path("rootfs"));
    inn.run([
        "image",
        "import",
        rootfs.folder.to_str().unwrap(),
        "--name",
        "t",
    ])
    .ok();
    let usual = seen(&inn, "true");
    assert!(usual.contains("SigIgn"), "{usual}");
    assert_eq!(seen(&inn, "trap '' INT QUIT HUP CHLD; umask 077"), usual);
}

#[test]
fn a_doctor_that_is_told_to_end_leaves_no_daemon() {
    needs_sandboxes!("a_doctor_that_is_told_to_end_leaves_no_daemon");
    let inn = Inn::new();
    let mut doctor = inn
        .command(["doctor", "--json"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("started");
    inn.until("its daemon starts", || {
        let ended = doctor.try_wait().expect("its state").is_some();
        if ended || !inn.daemons().is_empty() {
            Ok(())
        } else {
            Err("none runs".to_owned())
        }
    });
    let pid = rustix::process::Pid::from_child(&doctor);
    // It may have ended by itself, and is to have left nothing then either.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    doctor.wait().expect("reaped");
    inn.until("its daemon has ended", || {
        let left = inn.daemons();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    });
}
