"""One tier: a program with tests, run to its end, its output in a log."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import said

TAIL = 60


@dataclass(frozen=True)
class Tier:
    """What is run, where, with what beside the usual environment."""

    name: str
    argv: list[str]
    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    # Counts as one test, by its exit code: for programs that are no suites.
    single: bool = False
    # Whether its harness captures what tests print.
    captured: bool = True


@dataclass(frozen=True)
class Outcome:
    """How it went."""

    tier: Tier
    said: said.Said
    seconds: float
    log: Path
    # Why it counts as failed beyond its own counts.
    broken: str | None

    @property
    def bad(self) -> bool:
        return bool(self.broken or self.said.failed)


def run(tier: Tier, logs: Path, limit_s: float | None) -> Outcome:
    """Runs a tier, at most `limit_s` seconds, and reads what it said. An interruption ends it first."""
    log = logs / f"{tier.name.replace('/', '-').replace(' ', '-')}.log"
    began, late = time.monotonic(), False
    with log.open("wb") as file:
        child = subprocess.Popen(tier.argv, cwd=tier.folder, env={**os.environ, **tier.env}, stdin=subprocess.DEVNULL,
                                 stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            child.wait(limit_s)
        except subprocess.TimeoutExpired:
            late = True
            end(child)
        except BaseException:
            end(child)
            raise
    heard = said.read(log.read_text(errors="replace"), tier.captured)
    broken = f"it took longer than {limit_s:.0f} s" if late else None
    if tier.single:
        heard.passed, heard.failed = int(child.returncode == 0), int(child.returncode != 0)
    elif not broken and child.returncode != 0 and not heard.failed:
        broken = f"it ended with {child.returncode}"
    elif not broken and not heard.counted:
        broken = "it ran no test"
    if heard.ignored > len(heard.not_run) and not broken:
        broken = f"{heard.ignored} tests are ignored, {len(heard.not_run)} of them say why they cannot run; all have to"
    if broken:
        heard.failed += 1
    return Outcome(tier, heard, time.monotonic() - began, log, broken)


def end(child: subprocess.Popen) -> None:
    """Ends a tier with all it started that stayed in its session: asks, then kills."""
    for number, patience_s in ((signal.SIGTERM, 20), (signal.SIGKILL, None)):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            pass
        try:
            child.wait(patience_s)
            return
        except subprocess.TimeoutExpired:
            continue


def tail(log: Path) -> str:
    """The end of a log, where failures are told."""
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join(f"    {line}" for line in lines[-TAIL:])
