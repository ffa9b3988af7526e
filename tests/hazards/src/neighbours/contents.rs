//! Contents that change without a trace in size or time, links between files, and full disks.

use super::Neighbour;

pub(super) const CASES: &[Neighbour] = &[
    Neighbour::open(
        "A7-one-byte-in-a-hole",
        "printf y | dd of=/fx/sparse bs=1 seek=60000000 conv=notrunc",
        "test $(stat -c %s /fx/sparse) = 67108864 && ! cmp -s -n 1 -i 60000000:0 /fx/sparse /dev/zero",
    ),
    Neighbour::open(
        "A7-appended-and-cut-off",
        "printf more >>/fx/f; truncate -s 6 /fx/f; rm -f /fx/h1; printf 'link\\n' >/fx/h1",
        "test $(stat -c %s /fx/f) = 6 && test $(stat -c %h /fx/h1) = 1",
    ),
    Neighbour::open(
        "A7-hole-where-zeros-were",
        "dd if=/dev/zero of=/fx/zeros bs=64k count=4; fallocate -p -o 0 -l 65536 /fx/sparse",
        "test -e /fx/zeros",
    ),
    Neighbour::open(
        "A8-store-through-a-mapping",
        "python3 - <<'P'\n\
         import mmap, os\n\
         before = os.stat('/etc/passwd')\n\
         file = open('/etc/passwd', 'r+b')\n\
         view = mmap.mmap(file.fileno(), 0)\n\
         os.utime('/etc/passwd', ns=(before.st_atime_ns, before.st_mtime_ns))\n\
         view[0:4] = b'toor'\n\
         P",
        "head -c 4 /etc/passwd | grep -q toor",
    ),
    Neighbour::open(
        "A8-replaced-by-rename-under-the-old-time",
        "cp -a /usr/bin/env /usr/bin/.e; printf x >>/usr/bin/.e; truncate -s -1 /usr/bin/.e; \
         printf Z | dd of=/usr/bin/.e bs=1 seek=9000 conv=notrunc; \
         touch -r /usr/bin/env /usr/bin/.e; mv /usr/bin/.e /usr/bin/env",
        "test $(stat -c %s /usr/bin/env) -gt 9000",
    ),
    Neighbour::open(
        "A10-third-name",
        "ln /fx/h1 /fx/h3; ln /usr/bin/env /fx/env; ln /fx/suid /tmp/suid",
        "test $(stat -c %h /fx/h3) -ge 2 && test -u /tmp/suid",
    ),
    Neighbour::open(
        "A10-one-name-replaced-by-its-copy",
        "cp -a /fx/h1 /fx/h.new; mv /fx/h.new /fx/h1",
        "test $(stat -c %i /fx/h1) != $(stat -c %i /fx/h2)",
    ),
    Neighbour::open(
        "A10-names-of-two-files-swapped",
        "mv /fx/f /fx/t; mv /fx/h2 /fx/f; mv /fx/t /fx/h2",
        "grep -q alpha /fx/h2",
    ),
    Neighbour::open(
        "A18-disk-filled-by-a-reservation",
        "fallocate -l 2G /fx/fill; i=0; while printf x >>/fx/rest && [ $i -lt 5 ]; do \
         dd if=/dev/zero bs=64k >>/fx/rest 2>/dev/null; i=$((i+1)); done; rm -f /fx/f; echo y >/etc/passwd",
        "test $(df --output=avail /fx | tail -1) -lt 4096",
    ),
    Neighbour::open(
        "A18-shared-memory-filled",
        "dd if=/dev/zero of=/dev/shm/fill bs=1M; true",
        "test $(stat -c %s /dev/shm/fill) -gt 1000000",
    ),
    Neighbour::open(
        "A19-thousands-of-names-of-one-file",
        "python3 -c 'import os; [os.link(\"/fx/f\", f\"/fx/d/{n}\") for n in range(20000)]'",
        "test $(stat -c %h /fx/f) = 20001",
    ),
    Neighbour::open(
        "A21-writer-that-outlives-the-rollout",
        "(exec 8>>/fx/f 9<>/etc/group; while :; do echo more >&8; done) & sleep .2",
        "test $(stat -c %s /fx/f) -gt 6",
    ),
    Neighbour::open(
        "A21-current-folder-removed",
        "mkdir /fx/gone; (cd /fx/gone; exec sleep 600) & sleep .2; rmdir /fx/gone",
        "ls -l /proc/*/cwd 2>/dev/null | grep -q 'gone (deleted)'",
    ),
    Neighbour::open(
        "A22-file-without-a-name",
        "python3 - <<'P' &\n\
         import mmap, os, time\n\
         file = os.open('/fx', os.O_TMPFILE | os.O_RDWR)\n\
         os.write(file, b'x' * (50 << 20))\n\
         held = mmap.mmap(file, 50 << 20)\n\
         os.close(file)\n\
         memory = os.memfd_create('held')\n\
         os.write(memory, b'y' * (50 << 20))\n\
         open('/run/ready', 'w')\n\
         time.sleep(600)\n\
         P\n\
         while ! [ -e /run/ready ]; do sleep .05; done",
        "grep -q 'deleted' /proc/$(pgrep -f '^python3 -$')/maps",
    ),
    Neighbour::open(
        "A22-pipe-with-name-and-contents",
        "(exec 5<>/fx/fifo; printf 'in the pipe' >&5; exec sleep 600) & sleep .2",
        "ls -l /proc/*/fd 2>/dev/null | grep -q /fx/fifo",
    ),
];
