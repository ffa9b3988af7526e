//! Processes that are hard to find, to stop or to await.

use super::Neighbour;

pub(super) const CASES: &[Neighbour] = &[
    Neighbour::open(
        "B2-stopped-and-deaf",
        "(trap '' TERM INT HUP QUIT USR1 USR2; sleep 711 & wait) & sleep 712 & kill -STOP $!; \
         bash -c 'kill -STOP $$; sleep 713' & sleep .3",
        "grep -l '^State:.T' /proc/*/status",
    ),
    Neighbour::open(
        "B2-traced-and-stopped",
        "python3 - <<'P' &\n\
         import ctypes, os, signal, time\n\
         libc = ctypes.CDLL(None)\n\
         child = os.fork()\n\
         if child == 0:\n\
         \x20   libc.ptrace(0, 0, 0, 0)\n\
         \x20   os.kill(os.getpid(), signal.SIGSTOP)\n\
         \x20   time.sleep(600)\n\
         os.waitpid(child, os.WUNTRACED)\n\
         libc.ptrace(0x4200, child, 0, 0x100000)\n\
         time.sleep(600)\n\
         P\n\
         sleep .7",
        "grep -l '^State:.t' /proc/*/status",
    ),
    Neighbour::open(
        "B2-parent-held-by-its-vfork",
        // The parent waits uninterruptibly for as long as the child shares its memory.
        "printf '#include <unistd.h>\\nint main(){if(!vfork()){for(;;)pause();}return 0;}' >/tmp/v.c; \
         gcc -o /tmp/v /tmp/v.c; setsid /tmp/v & sleep .5",
        "grep -l '^State:.D' /proc/*/status",
    ),
    Neighbour::open(
        "B2-leader-ended-threads-go-on",
        "printf '#include <pthread.h>\\n#include <unistd.h>\\nvoid*f(void*p){for(;;)pause();}\\n\
         int main(){pthread_t t;pthread_create(&t,0,f,0);pthread_exit(0);}' >/tmp/t.c; \
         gcc -pthread -o /tmp/t /tmp/t.c; setsid /tmp/t & sleep .5",
        "grep -A9 '^State:.Z' /proc/$(pgrep -x t)/status | grep -q Pid",
    ),
    Neighbour::open(
        "B2-never-the-same-pid",
        "python3 - <<'P'\n\
         import os\n\
         if os.fork() == 0:\n\
         \x20   os.setsid()\n\
         \x20   while True:\n\
         \x20       if os.fork(): os._exit(0)\n\
         \x20       os.setsid()\n\
         P\n\
         sleep .3",
        "true",
    ),
    Neighbour::open(
        "B2-adopts-orphans",
        "python3 - <<'P' &\n\
         import ctypes, os, time\n\
         ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n\
         for n in range(20):\n\
         \x20   if os.fork() == 0:\n\
         \x20       if os.fork() == 0: os.setsid(); time.sleep(600)\n\
         \x20       os._exit(0)\n\
         time.sleep(600)\n\
         P\n\
         sleep .7",
        "test $(pgrep -xc python3) -ge 20",
    ),
    Neighbour::open(
        "B3-hundreds-with-memory-of-their-own",
        "python3 - <<'P' &\n\
         import os, time\n\
         for n in range(300):\n\
         \x20   if os.fork() == 0: x = bytearray(1 << 20); time.sleep(600)\n\
         open('/run/ready', 'w'); time.sleep(600)\n\
         P\n\
         while ! [ -e /run/ready ]; do sleep .05; done",
        "test $(pgrep -xc python3) -ge 300",
    ),
    Neighbour::open(
        "B3-forks-without-end",
        "bash -c 'bomb() { bomb | bomb & }; bomb; sleep 1; exit 0' 2>/dev/null",
        "",
    ),
    Neighbour::open(
        "B10-zombies-that-nobody-reaps",
        "python3 - <<'P' &\n\
         import os, time\n\
         for n in range(200):\n\
         \x20   if os.fork() == 0: os._exit(n % 7)\n\
         open('/run/ready', 'w'); time.sleep(600)\n\
         P\n\
         while ! [ -e /run/ready ]; do sleep .05; done",
        "test $(grep -l '^State:.Z' /proc/*/status | wc -l) -ge 200",
    ),
    Neighbour::open(
        "B11-pids-run-through",
        "python3 -c 'import os\n\
         for n in range(5000):\n\
         \x20   p = os.fork()\n\
         \x20   if p == 0: os._exit(0)\n\
         \x20   os.waitpid(p, 0)'; sleep 900 &",
        "pgrep -f 'sleep 900'",
    ),
    Neighbour::open(
        "B12-names-that-break-readers",
        "python3 - <<'P'\n\
         import ctypes, os, time\n\
         libc = ctypes.CDLL(None)\n\
         for name in (b'a) R 1 (b', b'x\\ny: 0', b'execd', b'innkeeper', b'(init)', b'', b'\\xff\\xfe'):\n\
         \x20   if os.fork() == 0:\n\
         \x20       os.setsid(); libc.prctl(15, name, 0, 0, 0); time.sleep(600)\n\
         P\n\
         (exec -a '' sleep 721) & (exec -a '[kworker/0:0]' sleep 722) & sleep .5",
        "pgrep -x innkeeper && test $(pgrep -xc sleep) -ge 2",
    ),
    Neighbour::open(
        "B12-arguments-and-environment-rewritten",
        "python3 - <<'P' &\n\
         import ctypes, time\n\
         libc = ctypes.CDLL(None)\n\
         libc.prctl(4, 0, 0, 0, 0)\n\
         open('/run/ready', 'w'); time.sleep(600)\n\
         P\n\
         while ! [ -e /run/ready ]; do sleep .05; done",
        "pgrep -x python3",
    ),
    Neighbour::forbidden(
        "B13-any-namespace",
        "true",
        "for n in U m u i n p C T; do unshare -$n true && exit 0; done; \
         unshare -Urmpf true || nsenter -t 1 -m true || nsenter -t 1 -U true",
    ),
    Neighbour::open(
        "B13-roots-within-the-root",
        "mkdir -p /c/bin /c/lib64 /c/lib/x86_64-linux-gnu; cp /bin/sleep /c/bin; \
         for l in $(ldd /bin/sleep | grep -o '/[^ ]*'); do mkdir -p /c/$(dirname $l); cp $l /c/$l; done; \
         chroot /c /bin/sleep 731 & sleep .5",
        "test \"$(readlink /proc/$(pgrep -x sleep)/root)\" = /c",
    ),
    Neighbour::open(
        "B23-memory-used-up-by-children",
        "python3 - <<'P'\n\
         import os, time\n\
         for n in range(40):\n\
         \x20   if os.fork() == 0: x = b'x' * (100 << 20); time.sleep(600)\n\
         time.sleep(3)\n\
         P",
        "true",
    ),
    Neighbour::open(
        "B24-first-process-pushed-about",
        "for s in STOP TERM KILL HUP SEGV 34; do kill -$s 1; done; strace -p 1 -e none & \
         prlimit --pid 1 --nofile=3:3; renice -n 15 -p 1; taskset -p 1 1; chrt -i -p 0 1; ionice -c 3 -p 1; \
         echo 1000 >/proc/1/oom_score_adj; echo ff >/proc/1/coredump_filter; echo x >/proc/1/comm; sleep .3; true",
        "true",
    ),
    Neighbour::open(
        "B24-terminal-left-open",
        "tmux new-session -d -s left 'sleep 741'; script -qfc 'sleep 742' /dev/null >/dev/null & sleep 1",
        "test $(ls /dev/pts | wc -l) -ge 2",
    ),
];
