//! Names, kinds of files, and what an overlay keeps of renames and removals.

use super::Neighbour;

pub(super) const CASES: &[Neighbour] = &[
    Neighbour::open(
        "A2-file-for-folder-and-folder-for-file",
        "rm -rf /fx/d; echo x >/fx/d; rm /fx/f; mkdir -p /fx/f/g; echo y >/fx/f/g/h",
        "test -f /fx/d && test -f /fx/f/g/h",
    ),
    Neighbour::open(
        "A2-link-for-a-folder",
        "mv /usr/share/perl5 /usr/share/perl5.old; ln -s perl5.old /usr/share/perl5; rm -rf /fx/d; ln -s / /fx/d",
        "test -L /usr/share/perl5 && test -L /fx/d",
    ),
    Neighbour::open(
        "A2-all-programs-removed",
        "find /usr/bin /usr/sbin -type f ! -name bash ! -name find ! -name test -delete; :",
        "test ! -e /usr/bin/python3.11 && test ! -e /usr/bin/ls",
    ),
    Neighbour::open(
        "A2-everything-that-can-be-removed",
        "rm -rf --one-file-system /etc /fx /home /opt /root /srv /testbed /usr/share /var",
        "test ! -e /var/lib && test ! -e /etc/passwd",
    ),
    Neighbour::open(
        "A15-deep-tree-moved-into-itself",
        "mkdir -p /fx/a/b; cd /fx/a/b; for i in $(seq 400); do mkdir eeeeeeeeeeeeeeee && cd -P eeeeeeeeeeeeeeee || break; done; \
         cd /; mv /fx/a /fx/d/sub/a",
        "test -d /fx/d/sub/a/b",
    ),
    Neighbour::open(
        "A15-links-in-circles",
        "ln -s . /fx/d/self; ln -s ../d /fx/d/up; ln -s b /fx/a; ln -s a /fx/b; \
         python3 -c 'import os; os.symlink(\"x\" * 4095, \"/fx/long\")'",
        "test -L /fx/a && test $(readlink /fx/long | wc -c) = 4096",
    ),
    Neighbour::open(
        "A16-names-that-layers-use",
        "touch /fx/.wh.f /fx/d/.wh..wh..opq /fx/.wh..wh.plnk; mkdir /fx/.wh.d",
        "test -e /fx/.wh.f && test -e /fx/f",
    ),
    Neighbour::open(
        "A16-names-of-spaces-and-escapes",
        "python3 - <<'P'\n\
         for name in (b' ', b'  ', b'\\t', b'\\n', b'\\x1b[2J', b'-rf', b'*', b'a\\\\b', b'\\xe2\\x80\\xae', b'e\\xcc\\x81', b'\\xc3\\xa9'):\n\
         \x20   open(b'/fx/' + name, 'w').close()\n\
         P",
        "test $(ls -A /fx | wc -l) -gt 20",
    ),
    Neighbour::open(
        "A27-kinds-of-files",
        "mkfifo /etc/fifo; rm /fx/f; mkfifo /fx/f; mknod /fx/wh c 0 0; \
         python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/etc/socket\")'",
        "test -p /etc/fifo && test -p /fx/f && test -S /etc/socket",
    ),
    Neighbour::open(
        "A29-siblings-of-what-is-left-out",
        "for n in proc sys dev run tmp etc; do mkdir /$n.d /$n- \"/$n \" /.$n; echo x >/$n.d/x; done; \
         echo x >/.dockerenv; mkdir /dev/shm/sub; echo y >/dev/shm/sub/y",
        "test -e /dev.d/x && test -d '/proc '",
    ),
    Neighbour::open(
        "A30-exchanged",
        "python3 - <<'P'\n\
         import ctypes, os\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         def rename(a, b, flags):\n\
         \x20   print(libc.renameat2(-100, a, -100, b, flags), ctypes.get_errno())\n\
         rename(b'/fx/f', b'/fx/h1', 2)\n\
         rename(b'/usr/bin/env', b'/fx/d', 2)\n\
         rename(b'/fx/h2', b'/fx/h9', 4)\n\
         P",
        "grep -q alpha /fx/h1",
    ),
    Neighbour::open(
        "A30-marks-of-the-overlay",
        "mkdir /fx/m; setfattr -n user.overlay.opaque -v y /fx/m /fx/d; setfattr -n user.overlay.whiteout -v y /fx/f; \
         setfattr -n user.overlay.redirect -v /usr /fx/m; setfattr -n user.overlay.metacopy /fx/h1; true",
        "test -d /fx/m",
    ),
    Neighbour::open(
        "A30-folders-renamed-in-turn",
        "mv /fx/d /fx/x; mkdir /fx/d; mv /fx/x /fx/d/d; mv /usr/share/git-core /fx/git; mv /fx/git /usr/share/git-core2",
        "test -e /fx/d/d/sub/s && test -d /usr/share/git-core2",
    ),
    Neighbour::open(
        "A24-private-files-of-the-sandbox",
        "echo '1.2.3.4 evil' >>/etc/hosts; rm /etc/resolv.conf; ln -s /tmp/r /etc/resolv.conf; chmod 0 /etc/hostname; \
         mv /etc/hostname /etc/hostname.old",
        "grep -q evil /etc/hosts && test -L /etc/resolv.conf && test ! -e /etc/hostname",
    ),
    Neighbour::forbidden(
        "A24-any-mount",
        "true",
        "mount --bind /etc /mnt || mount -t tmpfs x /mnt || mount -o remount,ro / || mount --make-shared / \
         || umount -l /dev/shm || mount -t proc p /mnt || mount -t overlay -o lowerdir=/etc:/usr x /mnt \
         || unshare -m true || unshare -Ur true || pivot_root / /mnt",
    ),
    Neighbour::open(
        "E1-repository-rewritten",
        "cd /fx/repo; git checkout -q -b mine; echo x >x; git add x; git commit -qm mine; git gc -q --prune=now --aggressive; \
         git config core.fsmonitor /tmp/evil; git config core.hooksPath /tmp; printf '#!/bin/sh\\n' >.git/hooks/post-checkout; \
         echo /tmp/objects >.git/objects/info/alternates; git worktree add -q /fx/tree 2>/dev/null; git update-ref refs/notes/x HEAD",
        "test -e /fx/repo/.git/packed-refs || test -e /fx/repo/.git/objects/info/alternates",
    ),
];
