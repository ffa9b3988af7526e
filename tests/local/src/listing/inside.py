"""Prints path, mode, owner, size, mtime, device, link group, xattrs and content of the files named, or of all there are."""
import hashlib
import json
import os
import stat
import sys

LEFT_OUT = {b"/proc", b"/sys", b"/dev/pts"}


def digest(path):
    sha = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while block := file.read(1 << 20):
            sha.update(block)
    return sha.hexdigest()


def content(path, entry):
    if stat.S_ISREG(entry.st_mode):
        return digest(path)
    if stat.S_ISLNK(entry.st_mode):
        return os.readlink(path).hex()
    return ""


def attributes(path):
    names = sorted(os.listxattr(path, follow_symlinks=False))
    return {name: os.getxattr(path, name, follow_symlinks=False).hex() for name in names}


def entries(folder):
    for item in sorted(os.scandir(folder), key=lambda item: item.name):
        if item.path in LEFT_OUT:
            continue
        yield item.path
        if item.is_dir(follow_symlinks=False):
            yield from entries(item.path)


count = 0
first_of_link = {}
named = [os.fsencode(path) for path in sys.argv[1:]]
for path in named or [b"/", *entries(b"/")]:
    entry = os.lstat(path)
    name = json.dumps(os.fsdecode(path))
    together = first_of_link.setdefault((entry.st_dev, entry.st_ino), name)
    print(name, end="\t")
    print(
        oct(entry.st_mode), entry.st_uid, entry.st_gid, entry.st_size, entry.st_mtime_ns, entry.st_rdev,
        entry.st_nlink if not stat.S_ISDIR(entry.st_mode) else "", together if together != name else "",
        json.dumps(attributes(path)), content(path, entry),
    )
    count += 1
print("entries", count, sep="\t")
