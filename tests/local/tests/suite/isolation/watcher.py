"""Looks at every process that appears and takes what it can of those that are not the guest's own."""
import json
import os
import sys
import time

end = time.monotonic() + float(sys.argv[1])
own, taken, seen, pids = "/usr/bin/sleep", set(), 0, set()
print("watching", flush=True)
while time.monotonic() < end and not os.path.exists("/tmp/enough"):
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        pids.add(pid)
        try:
            program = os.open(f"/proc/{pid}/exe", os.O_RDONLY)
        except OSError:
            continue
        name = os.readlink(f"/proc/self/fd/{program}")
        os.close(program)
        seen += name == own
        if not name.startswith("/usr/"):
            taken.add(f"program {name}")
        try:
            for number in os.listdir(f"/proc/{pid}/fd"):
                file = os.readlink(f"/proc/{pid}/fd/{number}")
                if not file.startswith(("pipe:", "/proc/", "/dev/null", "/usr/", "/etc/")):
                    taken.add(f"file {file} of {name}")
        except OSError:
            pass
print(json.dumps({"seen": seen, "processes": len(pids), "taken": sorted(taken)}))
