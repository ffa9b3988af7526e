"""Takes the program of every process that is not the guest's own, waits for its end, and writes over it."""
import errno
import json
import os
import sys
import time

OWN = ("/usr/", "/bin/", "/sbin/", "/lib")


def descriptors(pid):
    try:
        return os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []


end = time.monotonic() + float(sys.argv[1])
taken, written, read, seen = set(), set(), set(), set()
print("watching", flush=True)
while time.monotonic() < end and not os.path.exists(sys.argv[2]):
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        # A descriptor that leaked into what enters leads to where it came from.
        for number in descriptors(pid):
            try:
                with open(f"/proc/{pid}/fd/{number}/secret") as file:
                    read.add(file.read())
            except OSError:
                pass
        try:
            program = os.open(f"/proc/{pid}/exe", os.O_RDONLY)
        except OSError:
            continue
        name = os.readlink(f"/proc/self/fd/{program}")
        seen.add(name)
        if not name.startswith(OWN):
            taken.add(name)
            while time.monotonic() < end:
                try:
                    file = os.open(f"/proc/self/fd/{program}", os.O_WRONLY)
                    os.write(file, b"overwritten")
                    os.close(file)
                    written.add(name)
                    break
                except OSError as error:
                    # It runs; soon it will not.
                    if error.errno != errno.ETXTBSY:
                        break
        os.close(program)
print(json.dumps({"taken": sorted(taken), "written": sorted(written), "read": sorted(read), "seen": len(seen)}))
