//! Objects of the kernel that a careless set-up shares between sandboxes, or between one
//! rollout and the next, though no file of the overlay shows them.

use std::io::Read;
use std::process::Stdio;

use serde_json::json;

use crate::Shared;

/// A write to the controlling terminal sets the time of the node, on a read-only mount too.
const USE_TERMINAL: &str = r#"
import os, pty
pid, master = pty.fork()
if pid == 0:
    open("/dev/tty", "w").write("hi")
    os._exit(0)
os.read(master, 100)
os.waitpid(pid, 0)
print(int(os.stat("/dev/tty").st_mtime))
"#;

pub(super) fn device_times(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let template = json!({"env": {"TEST": "device times"}});
    let one = house.lease("device-times", &house.base(), &template);
    let used = one.python(USE_TERMINAL).ok().stdout;
    assert_ne!(used.trim(), "0", "the control: the node's time moves");
    one.comes_back_clean("full");
    let next = house.lease("device-times", &house.base(), &template);
    let times = next.bash("stat -c '%n %Y' /dev /dev/*").ok().stdout;
    for line in times.lines() {
        assert!(
            line.ends_with(" 0") || line.starts_with("/dev/pts "),
            "{line} of {times}"
        );
    }
    next.comes_back_clean("swap");
    Ok(())
}

const LOCK: &str = r#"
import fcntl, sys, time
held = []
for path in ["/dev", "/dev/null", "/dev/zero", "/proc/keys", "/proc/acpi", "/etc"]:
    try:
        file = open(path)
    except IsADirectoryError:
        import os
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        continue
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("taken", path)
    held.append(file)
print("held", len(held), flush=True)
time.sleep(KEEP)
"#;

pub(super) fn locks(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let base = house.base();
    let (one, two) = (
        house.lease("locks", &base, &json!({})),
        house.lease("locks", &base, &json!({})),
    );
    let keeping = LOCK.replace("KEEP", "600");
    let mut holder = house
        .inn()
        .command(["exec", &one.id, "--", "/usr/bin/python3", "-IBc", &keeping])
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut output = holder.stdout.take().expect("piped");
    let mut told = [0; 4];
    output.read_exact(&mut told).expect("it holds them");
    let trying = LOCK.replace("KEEP", "0");
    let control = one.python(&trying).ok().stdout;
    assert!(
        control.contains("taken /dev/null"),
        "the control: {control}"
    );
    let other = two.python(&trying).ok().stdout;
    assert!(
        !other.contains("taken"),
        "another sandbox's locks show: {other}"
    );
    println!("locks: {}", other.trim());
    one.comes_back_clean("swap");
    two.comes_back_clean("swap");
    holder.wait().expect("reaped");
    Ok(())
}

pub(super) fn block_devices(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let disk = json!({"upper": "disk", "resources": {"disk": "64Mi", "inodes": 5000}});
    let one = house.lease("block-devices", &house.base(), &disk);
    let names = "cat /sys/block/*/loop/backing_file /proc/partitions; ls /sys/fs/ext4 /sys/block \
                 /sys/class/block /sys/dev/block /sys/devices/virtual/block; true";
    let seen = one.bash(names);
    assert!(
        !seen.stdout.contains("loop") && !seen.stdout.contains("uppers"),
        "{}",
        seen.stdout
    );
    one.comes_back_clean("swap");
    Ok(())
}

/// What commands are told must not stay in the memory that pid 1 of later sandboxes is made of.
pub(super) fn memory_of_pid_1(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let one = house.lease("memory", &house.base(), &json!({}));
    let sizes = "grep -E '^Vm(Size|Data):' /proc/1/status";
    let before = one.bash(sizes).ok().stdout;
    let long = "y".repeat(120_000);
    let mut argv = vec!["true"];
    argv.extend(std::iter::repeat_n(long.as_str(), 12));
    one.with(&[], &argv).ok();
    one.comes_back_clean("swap");
    let next = house.lease("memory", &house.base(), &json!({}));
    let after = next.bash(sizes).ok().stdout;
    let number = |text: &str| -> u64 {
        let numbers = text
            .split_whitespace()
            .filter_map(|word| word.parse::<u64>().ok());
        numbers.sum()
    };
    let grown = number(&after).saturating_sub(number(&before));
    println!("memory: pid 1 grew by {grown} KiB after 1,406 KiB of arguments");
    assert!(grown < 700, "before {before}after {after}");
    next.comes_back_clean("swap");
    Ok(())
}

pub(super) fn root_needs_no_entry(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let one = house.lease("root", &house.base(), &json!({}));
    one.bash("mv /etc/passwd /etc/hidden").ok();
    assert_eq!(one.bash("id -u").ok().stdout.trim(), "0");
    one.comes_back_clean("swap");
    Ok(())
}
