//! What people do inside works as under `docker run`, and nothing of it is left after a reset.

use std::path::PathBuf;
use std::process::Command;

use innkeeper_test_local::{Guest, House};
use serde_json::json;

use crate::{Shared, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("packages_from_files_brought_in", packages),
    ("users_rights_and_terminals", users),
    ("memory_network_and_devices", machine),
    ("git_and_compilers", tools),
];

/// Does this in a sandbox, resets it, and compares the next one of its slot with the first.
fn leaves_nothing(house: &House, test: &str, image: &str, work: impl FnOnce(&Guest<'_>)) {
    let first = house.lease(test, image, &json!({}));
    let before = first.list();
    work(&first);
    let dirty = first.list().differences(&before).len();
    assert!(dirty > 0, "{test} changed something");
    let slot = first.lease["slot"].clone();
    first.comes_back_clean("full");
    let next = house.lease(test, image, &json!({}));
    assert_eq!(
        (&next.lease["slot"], &next.lease["uses"]),
        (&slot, &1.into())
    );
    before.assert_equal(&next.list());
    next.comes_back_clean("walk");
    println!(
        "{test}: {dirty} differences or more undone, {} entries equal",
        before.len()
    );
}

/// Runs each line, which must succeed, and returns what they said.
#[track_caller]
fn all(guest: &Guest<'_>, lines: &[&str]) -> Vec<String> {
    lines
        .iter()
        .map(|line| guest.bash(line).ok().stdout)
        .collect()
}

/// A package with a program, a configuration file and a script that runs at its installation.
fn debian_package(house: &House) -> PathBuf {
    let tree = house.inn().path("guestbook");
    let script = r#"
        set -e
        mkdir -p "$0/DEBIAN" "$0/usr/bin" "$0/etc"
        printf 'Package: guestbook\nVersion: 1.0\nArchitecture: all\nMaintainer: Nobody <nobody@localhost>\nDescription: a test\n' > "$0/DEBIAN/control"
        echo /etc/guestbook.conf > "$0/DEBIAN/conffiles"
        printf '#!/bin/sh\nset -e\nuseradd --system guestbook\nmkdir /var/lib/guestbook\nchown guestbook /var/lib/guestbook\n' > "$0/DEBIAN/postinst"
        chmod 755 "$0/DEBIAN/postinst"
        printf '#!/bin/sh\necho signed\n' > "$0/usr/bin/guestbook"
        chmod 755 "$0/usr/bin/guestbook"
        echo pages=10 > "$0/etc/guestbook.conf"
        dpkg-deb --root-owner-group --build "$0" "$0.deb"
    "#;
    on_this_machine(&["bash", "-c", script], &tree);
    tree.with_extension("deb")
}

/// A wheel with one module.
fn wheel(house: &House) -> PathBuf {
    let file = house.inn().path("bellboy-1.0-py3-none-any.whl");
    let program = r"
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.writestr('bellboy.py', 'RINGS = 3\n')
    about = 'bellboy-1.0.dist-info/'
    wheel.writestr(about + 'METADATA', 'Metadata-Version: 2.1\nName: bellboy\nVersion: 1.0\n')
    wheel.writestr(about + 'WHEEL', 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr(about + 'RECORD', ''.join(name + ',,\n' for name in wheel.namelist()) + about + 'RECORD,,\n')
";
    on_this_machine(&["python3", "-c", program], &file);
    file
}

fn on_this_machine(argv: &[&str], last: &std::path::Path) {
    let output = Command::new(argv[0])
        .args(&argv[1..])
        .arg(last)
        .output()
        .expect("started");
    assert!(output.status.success(), "{output:?}");
}

fn packages(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let (package, wheel) = (debian_package(house), wheel(house));
    leaves_nothing(house, "packages", &house.base(), |guest| {
        guest.bring(&package, "/tmp/guestbook.deb");
        guest.bring(&wheel, "/tmp/bellboy-1.0-py3-none-any.whl");
        let said = all(
            guest,
            &[
                "apt-get install -y /tmp/guestbook.deb",
                "guestbook && cat /etc/guestbook.conf && stat -c %U /var/lib/guestbook",
                "dpkg -s guestbook | grep Status && dpkg --audit",
                "pip install --no-index --break-system-packages /tmp/bellboy-1.0-py3-none-any.whl",
                "cd / && python3 -c 'import bellboy; print(bellboy.RINGS)'",
            ],
        );
        assert_eq!(said[1], "signed\npages=10\nguestbook\n");
        assert_eq!(said[2], "Status: install ok installed\n");
        assert_eq!(said[4], "3\n");
    });
    Ok(())
}

/// Prints its effective and its real user.
const WHO: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(void) { printf("%d %d\n", (int)geteuid(), (int)getuid()); }
"#;

fn users(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    leaves_nothing(house, "users", &house.base(), |guest| {
        let compile = format!("gcc -x c -o /usr/local/bin/who-am-i - <<'C'\n{WHO}\nC");
        let said = all(
            guest,
            &[
                "useradd --create-home --shell /bin/bash --password x alice && id -u alice",
                "su alice -c 'whoami; touch ~/mine; cd; pwd'",
                "su - alice -c 'echo $HOME'",
                "touch /srv/file && chown alice:daemon /srv/file && chmod 640 /srv/file && stat -c '%U %G %a' /srv/file",
                &compile,
                "chmod 4755 /usr/local/bin/who-am-i && stat -c %a /usr/local/bin/who-am-i",
                "su alice -c who-am-i",
                "echo 'alice ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/alice && su alice -c 'sudo -n id -u'",
                "setfacl -m u:alice:rw /srv/file && getfacl -cp /srv/file | grep alice",
                "setfattr -n user.note -v kept /srv/file && getfattr --only-values -n user.note /srv/file",
                "setcap cap_net_raw+ep /usr/local/bin/who-am-i && getcap /usr/local/bin/who-am-i",
            ],
        );
        assert_eq!(said[1], "alice\n/home/alice\n");
        assert_eq!(said[2], "/home/alice\n");
        assert_eq!(said[3], "alice daemon 640\n");
        assert_eq!(
            said[6],
            format!("0 {}", said[0]),
            "effective and real user of a setuid program"
        );
        assert_eq!(said[7], "0\n", "sudo");
        assert_eq!(said[8], "user:alice:rw-\n");
        assert_eq!(said[9], "kept");
        assert_eq!(said[10], "/usr/local/bin/who-am-i cap_net_raw=ep\n");

        let own = guest
            .bash_as("alice", "id -un; cat /srv/file && echo > /etc/passwd")
            .fails(1, "Permission denied");
        assert_eq!(own.stdout, "alice\n");
        assert_eq!(
            guest.bash_as("alice", "who-am-i").ok().stdout,
            format!("0 {}", said[0])
        );
        assert_eq!(guest.bash_as("nobody", "id -u").ok().stdout, "65534\n");
        assert_eq!(
            guest.bash_as("65000:65001", "id -u; id -g").ok().stdout,
            "65000\n65001\n"
        );
        guest
            .bash_as("nobody", "kill -9 1")
            .fails(1, "not permitted");

        let terminal = guest
            .with(
                &["-t"],
                &["bash", "-c", "tty && test -t 0 && stty -a | head -n 1"],
            )
            .ok();
        assert!(terminal.stdout.starts_with("/dev/pts/"), "{terminal:?}");
        let script = guest
            .bash("script -qc 'tty; echo through' /tmp/typescript")
            .ok();
        assert!(
            script.stdout.contains("/dev/pts/") && script.stdout.contains("through"),
            "{script:?}"
        );
    });
    Ok(())
}

fn machine(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    leaves_nothing(house, "machine", &house.base(), |guest| {
        let said = all(
            guest,
            &[
                "ping -c 1 -W 5 127.0.0.1 | grep -o '1 received'",
                "ping -c 1 -W 5 ::1 | grep -o '1 received'",
                "dd if=/dev/zero of=/dev/shm/full bs=1M count=64 status=none && stat -c %s /dev/shm/full",
                "ip -o link | wc -l",
                "cat /etc/hosts | head -n 1; hostname",
            ],
        );
        assert_eq!((&*said[0], &*said[1]), ("1 received\n", "1 received\n"));
        assert_eq!(said[2], format!("{}\n", 64 << 20));
        guest
            .bash(
                "echo > /dev/shm/more; dd if=/dev/zero of=/dev/shm/more bs=1M count=1 status=none",
            )
            .fails(1, "No space left");
        guest.bash("truncate -s 1M /dev/shm/full").ok();
        assert_eq!(said[3], "1\n", "loopback alone");
        assert_eq!(said[4], "127.0.0.1\tlocalhost\nsandbox\n");

        let served = guest.python(
            "import socket\n\
             server = socket.create_server(('127.0.0.1', 80))\n\
             client = socket.create_connection(('localhost', 80))\n\
             client.sendall(b'through'); client.close()\n\
             print(server.accept()[0].recv(10))\n",
        );
        assert_eq!(served.ok().stdout, "b'through'\n");
        guest
            .bash("echo > /dev/tcp/192.0.2.1/80")
            .fails(1, "Network is unreachable");
        let queues = guest.python(
            "from multiprocessing import Pool, Lock\n\
             with Pool(2) as pool: print(sum(pool.map(abs, range(100))))\n",
        );
        assert_eq!(queues.ok().stdout, "4950\n", "semaphores in /dev/shm");
        for node in ["null", "zero", "full", "random", "urandom"] {
            guest
                .bash(&format!("head -c 1 /dev/{node} > /tmp/byte"))
                .ok();
        }
        guest
            .bash("mkfifo /tmp/pipe && (echo through > /tmp/pipe & cat /tmp/pipe)")
            .ok();
        guest
            .bash("echo changed > /etc/hosts && echo nameserver 127.0.0.1 > /etc/resolv.conf")
            .ok();
    });
    Ok(())
}

fn tools(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let image = house
        .images("demo/build.sh", &["--only", "boltons__unique-key"])?
        .remove(0);
    leaves_nothing(house, "tools", &image, |guest| {
        let said = all(
            guest,
            &[
                "git clone /testbed /srv/clone && git -C /srv/clone fsck --strict",
                // Objects of a local clone are hard links.
                "find /srv/clone/.git/objects -type f -links +1 | wc -l",
                "cd /testbed && git mv boltons nuts && git status --porcelain | grep -c '^R' && ls nuts/iterutils.py",
                "cd /testbed && git -c user.name=a -c user.email=a@localhost commit -qm moved && git log --oneline | wc -l",
                "mv /usr/share/doc /usr/share/moved && ls -d /usr/share/moved",
                "python3 -m venv /srv/venv && /srv/venv/bin/python -c 'import sys; print(sys.prefix)'",
                "printf 'int puts(const char *);int main(void){puts(\"compiled\");}' | gcc -x c -o /srv/program - && /srv/program",
                "cd /srv && printf 'all:\\n\\t@echo made\\n' > Makefile && make -s",
                "cd /testbed && ln README.md linked && stat -c %h README.md linked && test README.md -ef linked",
                "cd /tmp && tar czf doc.tgz /usr/share/moved 2>/dev/null && tar tzf doc.tgz | wc -l",
            ],
        );
        assert_ne!(said[1], "0\n", "hard links");
        assert!(said[2].ends_with("nuts/iterutils.py\n"), "{said:?}");
        assert_eq!(said[5], "/srv/venv\n");
        assert_eq!(said[6], "compiled\n");
        assert_eq!(said[7], "made\n");
        assert_eq!(said[8], "2\n2\n");
    });
    Ok(())
}
