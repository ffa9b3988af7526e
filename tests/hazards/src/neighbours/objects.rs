//! Objects of the kernel that no file shows: queues, segments, keys, sockets, timers, locks.

use super::Neighbour;

pub(super) const CASES: &[Neighbour] = &[
    Neighbour::open(
        "B17-keyrings-of-session-process-and-thread",
        "for r in @s @p @t @us @u; do for t in user logon keyring; do keyctl add $t k v $r; done; done; \
         keyctl session - true; keyctl request2 user k v; true",
        "true",
    ),
    Neighbour::forbidden(
        "B17-any-key",
        "true",
        "for r in @s @p @t @u; do keyctl add user k v $r && exit 0; done; exit 1",
    ),
    Neighbour::open(
        "B17-memory-shared-by-key",
        "ipcmk -M 1000000 -p 666; ipcmk -Q; ipcmk -S 7; python3 - <<'P'\n\
         import ctypes\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         libc.shmat.restype = ctypes.c_void_p\n\
         held = libc.shmget(0x1234, 8 << 20, 0o1666)\n\
         print(held, libc.shmat(held, None, 0))\n\
         queue = libc.msgget(0x77, 0o1666)\n\
         print(libc.msgsnd(queue, ctypes.create_string_buffer(b'\\x01' + b'\\0' * 7 + b'left'), 4, 0))\n\
         P",
        "test $(tail -n +2 -q /proc/sysvipc/shm /proc/sysvipc/msg /proc/sysvipc/sem | wc -l) -ge 5",
    ),
    Neighbour::open(
        "B17-segment-removed-but-attached",
        "python3 - <<'P' &\n\
         import ctypes, time\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         libc.shmat.restype = ctypes.c_void_p\n\
         held = libc.shmget(0x99, 8 << 20, 0o1666)\n\
         libc.shmat(held, None, 0); libc.shmctl(held, 0, None)\n\
         sem = libc.semget(0x98, 1, 0o1666)\n\
         open('/run/ready', 'w'); time.sleep(600)\n\
         P\n\
         while ! [ -e /run/ready ]; do sleep .05; done",
        "test $(tail -n +2 -q /proc/sysvipc/shm /proc/sysvipc/sem | wc -l) = 2",
    ),
    Neighbour::open(
        "B17-message-queue-with-a-name",
        "python3 - <<'P'\n\
         import ctypes\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         queue = libc.mq_open(b'/left', 0o102, 0o666, None)\n\
         print(queue, libc.mq_send(queue, b'text', 4, 1))\n\
         libc.sem_open(b'/named', 0o100, 0o666, 3)\n\
         P",
        "test -e /dev/mqueue/left && test -e /dev/shm/sem.named",
    ),
    Neighbour::open(
        "B19-listeners-of-every-kind",
        "python3 - <<'P' &\n\
         import socket as s, time\n\
         held = []\n\
         def bound(family, kind, address, protocol=0):\n\
         \x20   try:\n\
         \x20       one = s.socket(family, kind, protocol); one.setsockopt(s.SOL_SOCKET, s.SO_REUSEPORT, 1)\n\
         \x20   except OSError: pass\n\
         \x20   try:\n\
         \x20       one.bind(address)\n\
         \x20       if kind in (s.SOCK_STREAM, s.SOCK_SEQPACKET): one.listen(1)\n\
         \x20   except OSError as error: print(family, kind, error)\n\
         \x20   held.append(one)\n\
         bound(s.AF_INET, s.SOCK_STREAM, ('', 80)); bound(s.AF_INET, s.SOCK_STREAM, ('', 80))\n\
         bound(s.AF_INET6, s.SOCK_STREAM, ('::', 443)); bound(s.AF_INET, s.SOCK_DGRAM, ('', 53))\n\
         bound(s.AF_INET6, s.SOCK_DGRAM, ('::1', 5353)); bound(s.AF_INET, s.SOCK_RAW, ('', 0), 1)\n\
         bound(s.AF_UNIX, s.SOCK_STREAM, '/tmp/stream'); bound(s.AF_UNIX, s.SOCK_DGRAM, '\\0datagrams')\n\
         bound(s.AF_UNIX, s.SOCK_SEQPACKET, '\\0a\\0b\\xff'); bound(s.AF_NETLINK, s.SOCK_RAW, (0, 1))\n\
         open('/run/ready', 'w'); time.sleep(600)\n\
         P\n\
         while ! [ -e /run/ready ]; do sleep .05; done",
        "ss -lnt | grep -q :443 && ss -lnu | grep -q :53 && grep -q @datagrams /proc/net/unix",
    ),
    Neighbour::open(
        "B19-connections-on-their-way-out",
        "python3 - <<'P' &\n\
         import socket, time\n\
         server = socket.create_server(('127.0.0.1', 9000)); held = []\n\
         for n in range(50):\n\
         \x20   client = socket.create_connection(('127.0.0.1', 9000)); other, _ = server.accept()\n\
         \x20   if n % 2: client.close(); other.close()\n\
         \x20   else: client.send(b'unread'); held += [client, other]; client.shutdown(1)\n\
         open('/run/ready', 'w'); time.sleep(600)\n\
         P\n\
         while ! [ -e /run/ready ]; do sleep .05; done",
        "ss -ant | grep -q TIME-WAIT && ss -ant | grep -q FIN-WAIT",
    ),
    Neighbour::open(
        "B20-socket-file-removed-while-bound",
        "python3 - <<'P' &\n\
         import os, socket, time\n\
         a = socket.socket(socket.AF_UNIX); a.bind('/run/s'); a.listen(); os.unlink('/run/s')\n\
         b = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); b.bind('/run/s')\n\
         c, d = socket.socketpair(); c.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, a.fileno().to_bytes(4, 'little'))])\n\
         open('/run/ready', 'w'); time.sleep(600)\n\
         P\n\
         while ! [ -e /run/ready ]; do sleep .05; done",
        "test $(grep -c /run/s /proc/net/unix) = 2",
    ),
    Neighbour::open(
        "B20-passed-to-nobody",
        // A socket in the queue of a socket that is in the queue of the first: only the kernel's own collector frees it.
        "python3 - <<'P'\n\
         import socket\n\
         a, b = socket.socketpair(); c, d = socket.socketpair()\n\
         send = lambda to, what: to.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, what.fileno().to_bytes(4, 'little'))])\n\
         send(a, d); send(c, b)\n\
         P",
        "true",
    ),
    Neighbour::open(
        "B20-watches-and-timers",
        "python3 - <<'P' &\n\
         import ctypes, os, signal, time\n\
         libc = ctypes.CDLL(None)\n\
         held = [libc.inotify_init() for n in range(100)]\n\
         [libc.inotify_add_watch(held[0], path.encode(), 0xfff) for path in ('/', '/etc', '/fx', '/usr/bin', '/dev')]\n\
         held += [libc.eventfd(0, 0), libc.timerfd_create(1, 0), libc.epoll_create1(0), libc.signalfd(-1, bytes(8), 0)]\n\
         signal.setitimer(signal.ITIMER_PROF, 500, 500)\n\
         open('/run/ready', 'w'); time.sleep(600)\n\
         P\n\
         while ! [ -e /run/ready ]; do sleep .05; done",
        "test $(ls -l /proc/$(pgrep -x python3)/fd | grep -c inotify) -ge 90",
    ),
    Neighbour::open(
        "B20-locks-and-leases",
        "python3 - <<'P' &\n\
         import fcntl, os, time\n\
         a = open('/fx/f', 'r+'); fcntl.flock(a, fcntl.LOCK_EX)\n\
         b = open('/etc/passwd', 'r+'); fcntl.lockf(b, fcntl.LOCK_EX)\n\
         c = open('/dev/null'); fcntl.flock(c, fcntl.LOCK_EX)\n\
         open('/fx/lease', 'w').close(); d = os.open('/fx/lease', os.O_RDONLY); fcntl.fcntl(d, 1024, 0)\n\
         open('/run/ready', 'w'); time.sleep(600)\n\
         P\n\
         while ! [ -e /run/ready ]; do sleep .05; done",
        "! flock -n /fx/f true",
    ),
];
