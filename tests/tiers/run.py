#!/usr/bin/env python3
"""Runs every tier of tests that can run on this machine, and says which cannot.

Usage: run.py [--only TEXT]. A line per tier as it ends, the end of the log of each that failed, the numbers that tests
printed, a line `not run: NAME: REASON` for everything that could not run, and last `N passed, N failed`.
INNKEEPER_SOAK=1 runs the long figures. Logs lie beside cargo's output, in tiers/.
"""

import argparse
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
import cargo
import tier
from tier import Outcome, Tier

# A tier that hangs must not hide what the others find.
LIMIT_S = 1500


def checks() -> list[Tier]:
    """What is looked at besides the test programs."""
    lints = ["cargo", "clippy", "--locked", *cargo.PROFILE, "--workspace", "--all-targets", "--", "-D", "warnings"]
    # What the demo builds.
    least = ["cargo", "check", "--locked", *cargo.PROFILE, "-p", "execd", "-p", "innkeeper", "--no-default-features"]
    return [
        Tier("format", ["cargo", "fmt", "--all", "--", "--check", "--color", "never"], ROOT, single=True),
        Tier("lints", lints, ROOT, single=True),
        Tier("least features", least, ROOT, single=True),
        Tier("tiers", ["python3", "said_test.py"], HERE),
        Tier("recipes", ["python3", "oci_test.py"], ROOT / "fixtures/images"),
    ]


class Reference:
    """A Python with the swebench package, fetched while the workspace is built."""

    def __init__(self) -> None:
        self._named = os.environ.get("INNKEEPER_SWEBENCH_PYTHON")
        self._fetching = None
        if not self._named:
            self._fetching = subprocess.Popen([ROOT / "setup/reference.sh"], stdin=subprocess.DEVNULL, text=True,
                                              stdout=subprocess.PIPE, start_new_session=True)

    def python(self) -> str | None:
        """Its path, once it is there; None where it cannot be had, which reference.sh has explained."""
        if self._fetching:
            said, _ = self._fetching.communicate()
            self._named = said.strip() if self._fetching.returncode == 0 else None
            self._fetching = None
        return self._named

    def end(self) -> None:
        """Stops fetching."""
        if self._fetching:
            tier.end(self._fetching)


def numbers(soak: bool) -> str:
    """What the run stands on."""
    rustc = subprocess.run(["rustc", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return (f"{'full figures' if soak else 'short figures (INNKEEPER_SOAK=1 runs the full ones)'}, {os.cpu_count()} cores, "
            f"Linux {platform.release()}, {rustc}, user {os.geteuid()}, "
            f"proptest cases {os.environ.get('PROPTEST_CASES', 'as each test says')}")


def show(outcome: Outcome) -> None:
    """A line for a tier, and what went wrong."""
    said = outcome.said
    if not (said.passed or said.not_run or outcome.bad):
        # A program without a test of its own.
        return
    missing = f", {len(said.not_run)} not run" if said.not_run else ""
    print(f"{outcome.tier.name:44}  {said.passed:4} passed, {said.failed} failed{missing}  {outcome.seconds:6.1f} s")
    if outcome.bad:
        print(f"  {outcome.broken or 'tests failed'}; the end of {outcome.log}:\n{tier.tail(outcome.log)}")


def close(outcomes: list[Outcome], without: list[str], ran_with: str, began: float) -> int:
    """The numbers, what did not run, and the last line. Gives the exit code."""
    print("\nwhat tests measured:")
    for outcome in outcomes:
        for test, line in outcome.said.measured if not outcome.bad else []:
            print(f"  {outcome.tier.name}: {test}{': ' if test else ''}{line}")
    print(f"\nran with {ran_with}; {time.monotonic() - began:.0f} s")
    for line in without:
        print(f"not run: {line}")
    for outcome in outcomes:
        for line in outcome.said.not_run:
            print(f"not run: {outcome.tier.name}: {line}")
    bad = [outcome.tier.name for outcome in outcomes if outcome.bad]
    if bad:
        print(f"failed: {', '.join(bad)}")
    failed = sum(outcome.said.failed for outcome in outcomes)
    print(f"{sum(outcome.said.passed for outcome in outcomes)} passed, {failed} failed")
    return 1 if failed else 0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", default="", help="only tiers whose name contains this, for example innkeeper-pool")
    only = options.parse_args().only
    began = time.monotonic()
    soak = os.environ.get("INNKEEPER_SOAK") == "1"
    reference = Reference()
    try:
        built = cargo.build(ROOT)
        python = reference.python()
    except cargo.Unbuilt:
        print("the workspace does not build, so no test was run\n0 passed, 1 failed")
        return 1
    finally:
        reference.end()
    without = [] if python else ["comparison with the reference: the swebench package could not be installed"]
    print(f"built in {time.monotonic() - began:.0f} s\n")
    logs = built.binaries / "tiers"
    logs.mkdir(exist_ok=True)
    os.environ["INNKEEPER_BIN_DIR"] = str(built.binaries)
    # The end of a log is to name the tests that failed; whoever mends one runs it alone, with backtraces.
    os.environ["RUST_BACKTRACE"] = "0"
    if python:
        os.environ["INNKEEPER_SWEBENCH_PYTHON"] = python
    outcomes = []
    for one in [*checks(), *built.tiers, cargo.documentation(ROOT)]:
        if only in one.name:
            outcomes.append(tier.run(one, logs, None if soak else LIMIT_S))
            show(outcomes[-1])
    return close(outcomes, without, numbers(soak), began)


def interrupt(number: int, _frame: object) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    sys.exit(main())
