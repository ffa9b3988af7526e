"""Looks for a word in all that can be read, and connects to every socket: prints where it was found."""
import json
import os
import re
import socket
import stat

word = ("HEAD" + "TAIL").encode()
found, connected, read = set(), set(), 0


def contains(path):
    with open(path, "rb", buffering=0) as file:
        before = b""
        for _ in range(64):
            piece = file.read(1 << 20)
            if not piece:
                return False
            if word in before + piece:
                return True
            before = piece[-len(word):]
    return False


for folder, folders, names in os.walk("/"):
    folders[:] = [name for name in folders if not os.path.join(folder, name) == f"/proc/{os.getpid()}"]
    if folder.startswith("/proc/self") or folder.startswith("/proc/thread-self"):
        folders.clear()
        continue
    for name in names:
        path = os.path.join(folder, name)
        try:
            kind = os.lstat(path).st_mode
            if stat.S_ISSOCK(kind):
                socket.socket(socket.AF_UNIX).connect(path)
                connected.add(path)
            # Some files of /proc never end.
            if not stat.S_ISREG(kind) or re.search(r"/(kmsg|kcore|pagemap|mem|clear_refs|event|trace_pipe|map_files)", path):
                continue
            if contains(path):
                found.add(path)
            read += 1
        except OSError:
            pass
for line in open("/proc/net/unix").read().splitlines()[1:]:
    name = line.split()[7:]
    if name:
        try:
            address = name[0].replace("@", "\0", 1) if name[0].startswith("@") else name[0]
            socket.socket(socket.AF_UNIX).connect(address)
            connected.add(name[0])
        except OSError:
            pass
print(json.dumps({"found": sorted(found), "connected": sorted(connected), "read": read}))
