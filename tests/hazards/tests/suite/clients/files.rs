//! Files: archives, links that appear between a check and its use, and what is no file.

use innkeeper_test_hazards::Ground;
use tonic::Code;

use super::{comes_back, lease, with};

/// Names that lead out of wherever they are unpacked.
const EVIL: &str = r#"
import io, sys, tarfile
evil = tarfile.open(fileobj=open("/fx/evil.tar", "wb"), mode="w")
for name in ("../../esc1", "/tmp/esc2", "ok/../../esc3"):
    entry = tarfile.TarInfo(name)
    entry.size = 1
    evil.addfile(entry, io.BytesIO(b"x"))
evil.close()
"#;

pub(super) fn hostile_tar(ground: &Ground) {
    let guest = lease(ground, "C24");
    guest.python(EVIL).ok();
    // Whatever packs is replaced by what hands out the archive above, and says that it ran.
    let planted = "for n in tar bsdtar cp cat; do rm -f /usr/bin/$n; \
                   printf '#!/usr/bin/bash\\n: >/fx/ran\\nexec /usr/bin/dd if=/fx/evil.tar status=none\\n' >/usr/bin/$n; \
                   chmod 755 /usr/bin/$n; done; mkdir -p /fx/out/sub; ln -s /etc /fx/out/etc; echo 1 >/fx/out/sub/one";
    guest.bash(planted).ok();
    let home = ground.house.inn().path(&format!("{}-C24", ground.pair));
    let inner = home.join("a/b");
    std::fs::create_dir_all(&inner).expect("a folder");
    let to = inner.to_str().expect("a plain path").to_owned();
    ground
        .house
        .inn()
        .run(["cp", &format!("{}:/fx/out", guest.id), &to])
        .ok();
    let got = std::fs::read(inner.join("out/sub/one")).expect("copied");
    assert_eq!(got, b"1\n");
    assert!(
        std::fs::symlink_metadata(inner.join("out/etc"))
            .expect("copied")
            .is_symlink()
    );
    for escaped in [
        home.join("esc1"),
        home.join("a/esc3"),
        home.join("esc3"),
        "/tmp/esc2".into(),
    ] {
        assert!(!escaped.exists(), "{}", escaped.display());
    }
    guest.bash("test ! -e /fx/ran").ok();
    // The control: the planted program does what it is meant to.
    guest
        .bash("tar c / | head -c 10 | grep -q esc1 && test -e /fx/ran")
        .ok();
    comes_back(guest);
}

const SWAP: &str = "while :; do rm -rf /fx/t; mkdir /fx/t; rm -rf /fx/t; ln -s /etc /fx/t; rm -f /fx/t; done 2>/dev/null";

pub(super) fn swapped(ground: &Ground) {
    let outside = std::fs::read("/etc/passwd").expect("readable");
    with(ground, "C26", async |wire| {
        let before = wire.read("/etc/passwd").await.expect("read");
        let swapping = wire
            .start(wire.command(&["bash", "-c", SWAP]))
            .await
            .expect("started");
        let (mut written, mut refused) = (0, 0);
        for _ in 0..500 {
            match wire.write("/fx/t/passwd", b"evil").await {
                Ok(()) => written += 1,
                Err(status)
                    if [Code::NotFound, Code::FailedPrecondition].contains(&status.code()) =>
                {
                    refused += 1
                }
                Err(status) => panic!("{status}"),
            }
        }
        drop(swapping);
        println!(
            "{}: {written} uploads into the folder, {refused} refused",
            ground.pair
        );
        assert!(refused > 0, "the folder was never gone or a link");
        assert_eq!(wire.read("/etc/passwd").await.expect("read"), before);
        // The control: who follows the same path without care writes through the link.
        let naive = "until grep -q evil /etc/passwd; do rm -rf /fx/t; ln -s /etc /fx/t; echo evil >/fx/t/passwd; done";
        assert_eq!(
            wire.run(&["bash", "-c", naive]).await.expect("run").code(),
            0
        );
    });
    assert_eq!(std::fs::read("/etc/passwd").expect("readable"), outside);
}

pub(super) fn no_files(ground: &Ground) {
    with(ground, "C27", async |wire| {
        let made = "mkfifo /fx/p; ln -s /fx/loop /fx/loop; mkdir /fx/dir; \
                    python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/fx/socket\")'";
        assert_eq!(
            wire.run(&["bash", "-c", made]).await.expect("run").code(),
            0
        );
        for path in [
            "/fx/p",
            "/fx/loop",
            "/fx/dir",
            "/fx/socket",
            "/proc/kmsg",
            "/proc/1/mem",
            "/dev/zero",
            "/dev/tty",
            "/nowhere",
        ] {
            let refused = wire.read(path).await.expect_err(path);
            let codes = [
                Code::FailedPrecondition,
                Code::NotFound,
                Code::PermissionDenied,
                Code::InvalidArgument,
            ];
            assert!(codes.contains(&refused.code()), "{path}: {refused}");
            println!("{path}: {}", refused.message());
        }
        // None of them holds up the next.
        assert!(
            wire.read("/etc/passwd")
                .await
                .expect("read")
                .starts_with(b"root:")
        );
        for path in ["/fx/p", "/fx/socket", "/fx/dir", "/dev/null"] {
            let refused = wire.write(path, b"x").await.expect_err(path);
            let codes = [Code::InvalidArgument, Code::FailedPrecondition];
            assert!(codes.contains(&refused.code()), "{path}: {refused}");
        }
    });
    // The command line leaves out what is no file, and says so.
    let guest = lease(ground, "C27-cp");
    guest
        .bash("mkdir /fx/kinds; cd /fx/kinds; mkfifo p; echo x >f; ln -s f l; ln f h; mkdir d")
        .ok();
    let to = ground.house.inn().path(&format!("{}-kinds", ground.pair));
    let to = to.to_str().expect("a plain path").to_owned();
    let ran = ground
        .house
        .inn()
        .run(["cp", &format!("{}:/fx/kinds", guest.id), &to])
        .ok();
    assert!(
        ran.stderr.contains("left out") && ran.stderr.contains(": 1 "),
        "{ran:?}"
    );
    let mut names: Vec<_> = std::fs::read_dir(&to)
        .expect("copied")
        .map(|entry| entry.expect("listed").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["d", "f", "h", "l"]);
    // And back in, with what this machine has of no files.
    let back = ground
        .house
        .inn()
        .run(["cp", &to, &format!("{}:/fx/back", guest.id)])
        .ok();
    assert_eq!(back.stderr, "");
    guest.bash("test \"$(readlink /fx/back/l)\" = f && test $(cat /fx/back/h) = x && test $(stat -c %u /fx/back/f) = 0").ok();
    comes_back(guest);
}
