"""Tries what a guest must not be able to do. Prints {name: errno}, 0 for what worked."""
import ctypes
import json
import os
import socket
import struct
import sys
import tempfile

libc = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUSER = 0x20000, 0x10000000
here = tempfile.mkdtemp()


def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def perf():
    call(298, struct.pack("II104x", 0, 112), 0, -1, -1, 0)


def kernel_crypto():
    socket.socket(38, socket.SOCK_SEQPACKET).close()


def trusted_attribute():
    os.setxattr(here, "trusted.note", b"x")


def read(path):
    with open(path, "rb") as file:
        file.read(1)


# Those of the first group are tried by the tests on the machine itself too, where they must work.
CONTROLLED = {
    "mount": lambda: call(165, b"none", here.encode(), b"tmpfs", 0, None),
    "unmount": lambda: call(166, here.encode(), 2),
    "device": lambda: os.mknod(here + "/node", 0o20666, os.makedev(1, 5)),
    "user namespace": lambda: call(272, NEWUSER),
    "mount namespace": lambda: call(272, NEWNS),
    "key": lambda: call(248, b"user", b"note", b"x", 1, -3),
    "key control": lambda: call(250, 0, -3, 1),
    "key request": lambda: call(249, b"user", b"note", None, 0),
    "kernel crypto": kernel_crypto,
    "virtual machine socket": lambda: socket.socket(40, socket.SOCK_STREAM).close(),
    "trusted attribute": trusted_attribute,
    "lower score": lambda: write("/proc/self/oom_score_adj", "-1"),
    "host name": lambda: call(170, b"other", 5),
    "higher priority": lambda: os.nice(-1),
    "user faults": lambda: call(323, 1),
    "rings": lambda: call(425, 1, ctypes.create_string_buffer(120)),
    "perf": perf,
}
OTHERS = {
    "sysctl": lambda: write("/proc/sys/kernel/core_pattern", "|/bin/false"),
    "sysctl of namespaces": lambda: write("/proc/sys/user/max_user_namespaces", "10"),
    "sysctl of ipc": lambda: write("/proc/sys/kernel/shmmax", "1"),
    "caches": lambda: write("/proc/sys/vm/drop_caches", "1"),
    "magic request": lambda: write("/proc/sysrq-trigger", "h"),
    "pressure": lambda: write("/proc/pressure/cpu", "some 150000 2000000"),
    "kernel memory": lambda: read("/proc/kcore"),
    "kernel log": lambda: call(103, 3, ctypes.create_string_buffer(10), 10),
    "own groups": lambda: write("/sys/fs/cgroup/cgroup.procs", str(os.getpid())),
    "unhide": lambda: call(166, b"/proc/acpi", 2),
    "remount": lambda: call(165, None, b"/dev", None, 0x1020, None),
    "pivot": lambda: call(155, b".", b"."),
    "enter": lambda: call(308, os.open("/proc/1/ns/mnt", os.O_RDONLY), 0),
    "handle": lambda: call(304, -100, ctypes.create_string_buffer(64), 0),
    "module": lambda: call(175, b"", 0, b""),
    "bpf": lambda: call(321, 0, ctypes.create_string_buffer(128), 128),
    "clock": lambda: call(227, 0, ctypes.create_string_buffer(16)),
    "reboot": lambda: call(169, 0xFEE1DEAD, 0x28121969, 0, None),
    "swap": lambda: call(168, b"/none"),
    "accounting": lambda: call(163, b"/none"),
    "ports": lambda: call(172, 3),
    "trace init": lambda: call(101, 0x4206, 1, None, None),
    "memory of init": lambda: read("/proc/1/mem"),
    "program of init": lambda: read("/proc/1/exe"),
    "environment of init": lambda: read("/proc/1/environ"),
    "files of init": lambda: os.listdir("/proc/1/fd"),
    "root of init": lambda: os.listdir("/proc/1/root"),
    "folder of init": lambda: os.listdir("/proc/1/cwd"),
    "host device": lambda: os.chmod("/dev/null", 0o600),
    "host folder": lambda: os.mkdir("/dev/new"),
}


def errno_of(operation):
    """In a child: what works must not help what comes after it."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            operation()
            found = 0
        except OSError as error:
            found = error.errno
        os.write(theirs, str(found).encode())
        os._exit(0)
    os.close(theirs)
    found = os.read(ours, 20)
    os.close(ours)
    os.waitpid(child, 0)
    return int(found or -1)


def controlled(operation):
    """On the machine itself, nothing that works may stay: namespaces of its own."""
    def apart():
        call(272, NEWNS | 0x04000000)
        call(165, b"none", b"/", None, 0x4C000, None)
        call(165, b"none", here.encode(), b"tmpfs", 0, None)
        operation()
    return errno_of(apart)


if sys.argv[1:] == ["control"]:
    print(json.dumps({name: controlled(operation) for name, operation in CONTROLLED.items()}))
else:
    print(json.dumps({name: errno_of(operation) for name, operation in {**CONTROLLED, **OTHERS}.items()}))
