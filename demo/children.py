"""Running other programs so that none is left when the demo ends.

Each runs in a session of its own: Ctrl-C reaches the demo alone, which ends the program and all that it started there.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

PATIENCE_S = 60


class Failed(Exception):
    """The demo cannot go on; the text is one sentence for people."""


class Interrupted(Exception):
    """A signal asked the demo to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(frozen=True)
class Ended:
    """How a program ended and what it said."""

    code: int
    said: str
    errors: str


def run(argv: Sequence[object], **options) -> Ended:
    """Runs a program to its end. An interruption ends the program first, and waits for it."""
    child = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                             start_new_session=True, **options)
    try:
        said, errors = child.communicate()
    except BaseException:
        end(child)
        raise
    return Ended(child.returncode, said, (errors or "").strip())


def output(argv: Sequence[object], what: str, **options) -> str:
    """Standard output of a program that must succeed; its standard error is shown as it comes, unless it is taken."""
    ended = run(argv, **options)
    if ended.code != 0:
        raise Failed(f"{what} failed with exit code {ended.code}{': ' if ended.errors else ''}{ended.errors}")
    return ended.said


def end(child: subprocess.Popen) -> None:
    """Asks a child and what is left of its session to end and waits for the child; kills what does not."""
    for number, patience_s in ((signal.SIGTERM, PATIENCE_S), (signal.SIGKILL, None)):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            pass
        try:
            child.wait(patience_s)
            return
        except subprocess.TimeoutExpired:
            continue
