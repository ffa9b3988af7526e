//! What a guest, root inside, must not be able to do; where it is cheap, the machine itself shows
//! that the same thing works without a sandbox.

mod entering;
mod ids;
mod limits;
mod neighbours;
mod nodes;
mod secrets;

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use innkeeper_test_cli::Rootfs;
use serde_json::{Value, json};

use crate::{Shared, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("nothing_forbidden_works", forbidden),
    ("host_files_and_processes_are_out_of_reach", out_of_reach),
    ("device_nodes_of_an_image_are_unusable", device_nodes),
    ("the_daemons_program_is_out_of_reach", daemons_program),
    ("commands_get_no_descriptor_but_their_own", descriptors),
    ("sandboxes_share_no_ids_and_no_counts", own_ids),
    ("memory_is_limited_and_the_sandbox_survives", limits::memory),
    ("processes_are_limited_and_can_be_killed", limits::processes),
    ("disk_and_inodes_are_limited", limits::disk),
    (
        "device_nodes_keep_no_trace_of_a_rollout",
        nodes::device_times,
    ),
    ("locks_of_one_sandbox_hold_up_no_other", nodes::locks),
    (
        "block_devices_and_files_behind_them_do_not_show",
        nodes::block_devices,
    ),
    (
        "what_commands_are_told_is_forgotten",
        nodes::memory_of_pid_1,
    ),
    ("root_is_root_without_an_entry", nodes::root_needs_no_entry),
    ("a_flood_of_output_stays_out_of_memory", limits::flood),
    ("what_enters_cannot_be_taken", entering::program),
    ("no_folder_leads_out", entering::folder),
    ("ids_and_groups_have_no_holes", ids::holes),
    ("greed_hurts_nobody_else", neighbours::unhurt),
    ("secrets_of_others_are_nowhere", secrets::of_others),
];

const FORBIDDEN: &str = include_str!("isolation/forbidden.py");
const WATCHER: &str = include_str!("isolation/watcher.py");

fn forbidden(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let guest = house.lease("forbidden", &house.base(), &json!({}));
    let inside = guest.python(FORBIDDEN).ok().json();
    let control = Command::new("python3")
        .args(["-IBc", FORBIDDEN, "control"])
        .output()
        .expect("started");
    let outside: Value = serde_json::from_slice(&control.stdout)
        .unwrap_or_else(|error| panic!("{error}: {control:?}"));
    let worked: Vec<_> = errors(&inside).filter(|(_, errno)| *errno <= 0).collect();
    assert!(worked.is_empty(), "inside, this worked: {worked:?}");
    let controls: Vec<_> = errors(&outside)
        .filter(|(_, errno)| *errno == 0)
        .map(|(name, _)| name)
        .collect();
    let without: Vec<_> = errors(&outside).filter(|(_, errno)| *errno != 0).collect();
    assert!(
        controls.len() >= 10,
        "the machine itself refuses too much: {without:?}"
    );
    println!(
        "forbidden: {} refused; of these {} work outside",
        errors(&inside).count(),
        controls.len()
    );
    println!("forbidden: refused outside as well: {without:?}");
    // What was tried has changed nothing that can be seen.
    guest.bash("kill -9 1; kill -STOP 1; true").ok();
    guest.bash("echo alive").ok();
    guest.comes_back_clean("swap");
    Ok(())
}

fn errors(document: &Value) -> impl Iterator<Item = (&str, i64)> {
    let entries = document.as_object().expect("an object").iter();
    entries.map(|(name, errno)| (name.as_str(), errno.as_i64().expect("a number")))
}

fn out_of_reach(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let guest = house.lease("reach", &house.base(), &json!({}));
    let secret = house.inn().file("secret", "of the host");
    fs::metadata(&secret).expect("the host sees it");
    // Twice out of a root, and by every link that /proc has.
    let program = format!(
        "import glob, os\n\
         os.mkdir('/tmp/below'); os.chroot('/tmp/below'); [os.chdir('..') for _ in range(64)]; os.chroot('.')\n\
         links = [link + '{0}' for kind in ('root', 'cwd', 'fd/*') for link in glob.glob('/proc/[0-9]*/' + kind)]\n\
         print(os.path.isdir('/proc/self'), [path for path in ['{0}', *links] if os.path.exists(path)])\n",
        secret.display()
    );
    assert_eq!(guest.python(&program).ok().stdout, "True []\n");
    let seen = guest.bash("cat /proc/[0-9]*/comm").ok().stdout;
    let names: Vec<_> = seen.lines().collect();
    assert!(names.len() <= 4, "init, bash, cat: {names:?}");
    assert!(
        !names
            .iter()
            .any(|name| ["innkeeper", "execd", "suite", "systemd"].contains(name)),
        "{names:?}"
    );
    guest
        .bash(&format!("kill -0 {}", std::process::id()))
        .fails(1, "No such process");
    let mounts = guest.bash("cat /proc/self/mountinfo").ok().stdout;
    let state = house.inn().state().to_str().expect("a plain path");
    assert!(
        !mounts.contains(state),
        "a path of the host is shown: {mounts}"
    );
    guest.comes_back_clean("swap");
    Ok(())
}

fn device_nodes(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let tree = Rootfs::make(&house.inn().path("with-nodes"));
    let zero = tree.folder.join("zero");
    let made = Command::new("mknod")
        .args(["-m", "666"])
        .arg(&zero)
        .args(["c", "1", "5"])
        .status();
    if !made.is_ok_and(|status| status.success()) {
        return Err("device nodes cannot be made here".to_owned());
    }
    let mut byte = [1];
    fs::File::open(&zero)
        .and_then(|mut file| file.read_exact(&mut byte))
        .expect("it works outside");
    let disk = tree.folder.join("disk");
    let made = Command::new("mknod")
        .args(["-m", "666"])
        .arg(&disk)
        .args(["b", "7", "0"])
        .status();
    assert!(made.expect("started").success());
    house.import("with-nodes", &tree.folder);
    let guest = house.lease("nodes", "with-nodes", &json!({}));
    for node in ["/zero", "/disk"] {
        let read = guest.bash(&format!("head -c 1 {node}"));
        assert_eq!(read.code, 1, "{node}: {read:?}");
    }
    guest
        .bash("cp -a /dev/zero /tmp/copy")
        .fails(1, "Operation not permitted");
    guest.comes_back_clean("full");
    Ok(())
}

fn daemons_program(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let base = house.base();
    let binaries = innkeeper_test_cli::binaries()?;
    let before = fs::read(binaries.join("execd")).expect("readable");
    let guest = house.lease("program", &base, &json!({}));
    guest
        .bash("ln -s /proc/self/exe /tmp/self && ln -s /bin/true /tmp/control")
        .ok();
    guest
        .bash("printf '#!/proc/self/exe\\n' > /tmp/script && chmod 755 /tmp/script")
        .ok();
    guest.with(&[], &["/tmp/control"]).ok();
    for path in [
        "/tmp/self",
        "/tmp/script",
        "/proc/self/exe",
        "/proc/self/fd/0",
    ] {
        let ran = guest.with(&[], &[path]);
        assert!([126, 127].contains(&ran.code), "{path}: {ran:?}");
    }
    // A folder of the host must not be the current one, whatever is named.
    for cwd in [
        "/proc/self/cwd",
        "/proc/self/fd/3",
        "/proc/self/fd/7",
        "/proc/1/cwd",
    ] {
        let ran = guest.with(&["--cwd", cwd], &["bash", "-c", "ls -di . /"]);
        let inodes: Vec<_> = ran.stdout.split_whitespace().step_by(2).collect();
        assert!(
            ran.code != 0 || inodes.first() == inodes.last(),
            "{cwd}: {ran:?}"
        );
    }

    // A watcher inside looks at each process as it enters.
    let mut watcher = house.inn().command([
        "exec",
        &guest.id,
        "-i",
        "--",
        "/usr/bin/python3",
        "-IBc",
        WATCHER,
        "60",
    ]);
    let mut watching = watcher.stdout(Stdio::piped()).spawn().expect("started");
    let mut output = watching.stdout.take().expect("piped");
    let mut first = [0; 9];
    output.read_exact(&mut first).expect("it begins");
    for _ in 0..40 {
        guest.with(&[], &["sleep", "0.02"]).ok();
    }
    // Neither a shell, which asks for the user's name through a socket, nor a file, which would be held
    // open: the watcher would see both.
    guest.with(&[], &["mkdir", "/tmp/enough"]).ok();
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("it ends");
    assert!(watching.wait().expect("reaped").success());
    let found: Value = serde_json::from_str(&rest).expect("JSON");
    assert!(
        found["seen"].as_i64() > Some(0),
        "the watcher sees programs of the guest: {found}"
    );
    assert_eq!(found["taken"], json!([]), "{found}");
    println!("program: watched {} processes enter", found["processes"]);
    guest.comes_back_clean("swap");
    assert_eq!(fs::read(binaries.join("execd")).expect("readable"), before);
    Ok(())
}

fn descriptors(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    // A descriptor of this process that commands could inherit, were anything inherited.
    symlink("/etc/hostname", house.inn().path("link")).expect("made");
    let service = json!([{"name": "idle", "argv": ["sleep", "infinity"]}]);
    let guest = house.lease(
        "descriptors",
        &house.base(),
        &json!({"services": service, "workdir": "/srv"}),
    );
    let shown = guest
        .bash("exec ls -l /proc/self/fd /proc/self/cwd")
        .ok()
        .stdout;
    let open: Vec<_> = shown
        .lines()
        .filter_map(|line| line.split_once(" -> "))
        .map(|(_, to)| to)
        .collect();
    assert_eq!(
        open.len(),
        5,
        "three streams, the folder that ls reads, and the current one: {shown}"
    );
    assert_eq!(
        open.iter().filter(|to| to.starts_with("pipe:")).count(),
        3,
        "{shown}"
    );
    assert!(open.contains(&"/srv"), "{shown}");
    let shown = guest.bash("ls -l /proc/$(pgrep -x sleep)/fd").ok().stdout;
    let open: Vec<_> = shown
        .lines()
        .filter_map(|line| line.split_once(" -> "))
        .map(|(_, to)| to)
        .collect();
    assert_eq!(open, ["/dev/null"; 3], "{shown}");
    let terminal = guest
        .with(&["-t"], &["ls", "-l", "/proc/self/fd"])
        .ok()
        .stdout;
    let open: Vec<_> = terminal
        .lines()
        .filter_map(|line| line.split_once(" -> "))
        .collect();
    assert_eq!(
        open.iter()
            .filter(|(_, to)| to.starts_with("/dev/pts/"))
            .count(),
        3,
        "{terminal}"
    );
    assert_eq!(open.len(), 4, "{terminal}");
    let environment = guest.with(&[], &["env"]).ok().stdout;
    assert!(
        !environment.contains("CARGO") && environment.contains("INNKEEPER_TEST=descriptors"),
        "{environment}"
    );
    guest.comes_back_clean("swap");
    Ok(())
}

fn own_ids(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let base = house.base();
    let (one, two) = (
        house.lease("ids", &base, &json!({})),
        house.lease("ids", &base, &json!({})),
    );
    let map = "cat /proc/self/uid_map /proc/self/gid_map";
    let maps = (one.bash(map).ok().stdout, two.bash(map).ok().stdout);
    let first = |text: &str| -> Vec<i64> {
        text.split_whitespace()
            .map(|word| word.parse().expect("a number"))
            .collect()
    };
    let (a, b) = (first(&maps.0), first(&maps.1));
    assert_eq!((a[0], a[2], b[0], b[2]), (0, 65536, 0, 65536), "{maps:?}");
    assert!(
        (a[1] - b[1]).abs() >= 65536 && a[1] >= 100_000 && b[1] >= 100_000,
        "{maps:?}"
    );
    // Counts that the kernel keeps for each user: one sandbox must not use up another's.
    let fill = "import ctypes, time\n\
                libc = ctypes.CDLL(None); n = 0\n\
                while libc.inotify_init() >= 0: n += 1\n\
                print(n, flush=True); time.sleep(KEEP)\n";
    let mut filling = house
        .inn()
        .command([
            "exec",
            &one.id,
            "--",
            "/usr/bin/python3",
            "-IBc",
            &fill.replace("KEEP", "600"),
        ])
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut output = filling.stdout.take().expect("piped");
    let mut told = [0; 1];
    output.read_exact(&mut told).expect("it has filled");
    let more = one.python(&fill.replace("KEEP", "0")).ok().stdout;
    let other = two.python(&fill.replace("KEEP", "0")).ok().stdout;
    assert_eq!(more.trim(), "0", "the first has none left");
    assert!(
        other.trim().parse::<u32>().expect("a number") > 50,
        "the second has its own: {other}"
    );
    println!(
        "ids: {} and {}; inotify instances left: {} and {}",
        a[1],
        b[1],
        more.trim(),
        other.trim()
    );
    one.comes_back_clean("swap");
    two.comes_back_clean("swap");
    filling.wait().expect("reaped");
    Ok(())
}
