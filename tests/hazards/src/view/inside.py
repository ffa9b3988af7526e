"""Prints what can be seen beside files: processes, mounts, sockets, kernel objects, settings. Own process left out."""
import ctypes
import json
import os
import re
import resource

own = {str(os.getpid()), "self", "thread-self"}
# Counters of the whole machine, of this process, or random by design.
NOISE = re.compile(r"/(uuid|boot_id|entropy_avail|urandom_min_reseed_secs|poolsize|ns_last_pid|.*[-_]nr|nr|.*-state"
                   r"|quota/.*|epoch|debug_locks|perf_event_.*|sched_.*|.*_usage.*|random_.*|flush|tainted)$")


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20).decode("utf-8", "backslashreplace")
    except OSError as error:
        return f"error {error.errno}"


def lines(path):
    return read(path).splitlines()


def process(pid):
    status = dict(line.split(":\t", 1) for line in lines(f"/proc/{pid}/status") if ":\t" in line)
    kept = ("Name", "Umask", "PPid", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "CapPrm", "CapEff", "CapBnd",
            "NoNewPrivs", "Seccomp", "Threads")
    return [read(f"/proc/{pid}/cmdline"), read(f"/proc/{pid}/oom_score_adj"), read(f"/proc/{pid}/limits"),
            {name: status.get(name) for name in kept}]


def mounts():
    # Ids and device numbers are given anew to every mount. In a pod, the first sandbox of a template
    # has its prepared layer from where it was made, and all later ones, fresh or not, from the store.
    for line in lines("/proc/self/mountinfo"):
        words = line.split(" ")
        yield [words[3], words[4], words[5], [re.sub(r"\d+", "N", re.sub("/state/prepared/", "/store/prepared/", word)) for word in words[6:]]]


def sockets():
    for name in ("tcp", "tcp6", "udp", "udp6", "udplite", "raw", "raw6"):
        for line in lines(f"/proc/net/{name}")[1:]:
            words = line.split()
            yield [name, *words[1:4]]
    for line in lines("/proc/net/unix")[1:]:
        words = line.split()
        yield ["unix", words[4], words[5], words[7:]]


def settings():
    for folder, folders, names in os.walk("/proc/sys"):
        folders.sort()
        for name in sorted(names):
            path = f"{folder}/{name}"
            if not NOISE.search(path) and not path.startswith("/proc/sys/vm/"):
                yield path, read(path)


def free(path):
    stat = os.statvfs(path)
    return [stat.f_blocks, stat.f_blocks - stat.f_bfree, stat.f_files, stat.f_files - stat.f_ffree, stat.f_flag]


def keyring(number):
    """Who sees no keyring cannot see another's either."""
    libc = ctypes.CDLL(None, use_errno=True)
    return [libc.syscall(250, 6, number, 0, 0) >= 0, ctypes.get_errno()]


environment = {name: value for name, value in os.environ.items() if name != "INNKEEPER_TEST"}
print(json.dumps({
    "processes": sorted((process(pid) for pid in os.listdir("/proc") if pid.isdigit() and pid not in own), key=str),
    "self": process("self"),
    "mounts": list(mounts()),
    "sockets": sorted(sockets(), key=str),
    "settings": dict(settings()),
    "sysv": {name: lines(f"/proc/sysvipc/{name}") for name in ("msg", "sem", "shm")},
    "queues": sorted(os.listdir("/dev/mqueue")) if os.path.isdir("/dev/mqueue") else None,
    "keys": [lines("/proc/keys"), lines("/proc/key-users"), keyring(-4), keyring(-5)],
    "names": list(os.uname())[:2],
    "network": [lines("/proc/net/route"), lines("/proc/net/if_inet6"), sorted(os.listdir("/sys/class/net"))],
    "environment": environment,
    "folder": os.getcwd(),
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")},
    "free": {path: free(path) for path in ("/", "/dev/shm", "/tmp") if os.path.isdir(path)},
    "groups": lines("/proc/self/cgroup"),
    "terminals": sorted(os.listdir("/dev/pts")),
}))
