"""What the output of a tier says: how many tests passed, which could not run, what they measured."""

import re
from dataclasses import dataclass, field

# Rust's own harness, the suites that bring their own, and Python's unittest.
RUST = re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
OWN = re.compile(r"(\d+) passed, (\d+) failed$")
PYTHON = re.compile(r"Ran (\d+) tests? in ")
PYTHON_FAILED = re.compile(r"FAILED \((.*)\)$")
NOT_RUN = "not run: "
SECTION = re.compile(r"---- (\S+)(?: - .*)? stdout ----$")
# What a harness that does not capture prints itself.
HARNESS = ("test ", "running ", "failures:", "---- ", "Ran ", "OK")
PANIC = "thread '"
# A test or program that prints more than this is heard in the log only.
LINES = 3
UNCAPTURED = 40


@dataclass
class Said:
    """The counts of one tier, and lines for people."""

    passed: int = 0
    failed: int = 0
    ignored: int = 0
    # NAME: REASON
    not_run: list[str] = field(default_factory=list)
    # (test, line)
    measured: list[tuple[str, str]] = field(default_factory=list)
    # Whether any count was found at all.
    counted: bool = False


def read(text: str, captured: bool = True) -> Said:
    """Reads the whole output of a tier. Where its harness does not capture what tests print, any line is theirs."""
    said, test, lines = Said(), None, 0
    succeeded = False
    for line in text.splitlines():
        line = line.rstrip()
        if found := RUST.match(line) or OWN.match(line):
            said.passed += int(found[1])
            said.failed += int(found[2])
            said.ignored += int(found[3]) if found.re is RUST else 0
            said.counted = True
        elif found := PYTHON.match(line):
            said.passed += int(found[1])
            said.counted = True
        elif found := PYTHON_FAILED.match(line):
            bad = sum(int(number) for number in re.findall(r"(?:failures|errors)=(\d+)", found[1]))
            said.passed -= bad
            said.failed += bad
        elif NOT_RUN in line:
            # Behind the name of a test where its output is not captured.
            said.not_run.append(line.split(NOT_RUN, 1)[1])
        elif found := SECTION.match(line):
            test, lines = found[1], 0
        elif line in ("successes:", "failures:"):
            test, succeeded = None, line == "successes:"
        elif line.startswith(PANIC):
            # Meant to happen where the test passed; what follows is its backtrace.
            lines = LINES
        elif captured and test and succeeded and line.strip() and lines < LINES:
            said.measured.append((test, line.strip()))
            lines += 1
        elif not captured and line and not line.startswith(HARNESS) and lines < UNCAPTURED:
            said.measured.append(("", line.strip()))
            lines += 1
    said.not_run = list(dict.fromkeys(said.not_run))
    return said
