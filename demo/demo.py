#!/usr/bin/env python3
"""The demo: twelve tasks on four real projects, each graded with its gold, its empty and a wrong patch, three times.

Builds innkeeper and the tasks' images, brings the images into a state directory (INNKEEPER_STATE_DIR, else .demo), grades
with one manager, prints a line per grading, and checks what must be so. Takes everything down that it started, also when it
is interrupted. Exit code 0 only when all checks hold.
"""

import signal
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))
import build
import checks
import gradings
import images
from children import Failed, Interrupted
from inn import Inn, state_dir


def main() -> None:
    started = time.monotonic()
    binaries, build_s = build.binaries(ROOT)
    inn = Inn(binaries, state_dir(ROOT))
    inn.check_machine()
    images.bring(ROOT, inn)
    with inn:
        graded_from = time.monotonic()
        rows = gradings.run(ROOT, inn)
        graded_s = time.monotonic() - graded_from
        creates = inn.creates()
    total_s = time.monotonic() - started
    print(f"\n{checks.summary(rows, creates)}")
    print(f"build {build_s:.0f} s, the rest {total_s - build_s:.0f} s, of which gradings {graded_s:.0f} s")
    print(f"reports and attestations in {inn.graded}")
    wrong = checks.wrong(rows)
    if wrong:
        raise Failed(f"{len(wrong)} of {len(rows)} gradings are not as they must be; the first: {wrong[0]}")
    print("all verdicts are as they must be, and every digest after a reset equals its baseline")


def interrupt(number: int, _frame: object) -> None:
    # Only the first signal is news: taking down must not be cut short by an impatient second one.
    signal.signal(number, signal.SIG_IGN)
    raise Interrupted(number)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        main()
    except Failed as failed:
        sys.exit(f"make demo: {failed}")
    except Interrupted as stopped:
        print("make demo: interrupted; everything it started has been taken down", file=sys.stderr)
        sys.exit(128 + stopped.number)
