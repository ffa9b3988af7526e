"""The gradings: every task with every patch, several times, and a line for each."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from inn import Inn

RUNS = 3
# What a verdict must be, by the patch.
EXPECTED = {"gold": "resolved", "empty": "unresolved", "wrong": "unresolved"}
DIGITS = 12


@dataclass(frozen=True)
class Row:
    """One grading: the patch and the run, and what `innkeeper grade --json` says of it."""

    patch: str
    run: int
    result: dict

    @property
    def task(self) -> str:
        return self.result["instance_id"]


def run(root: Path, inn: Inn) -> list[Row]:
    """Grades everything and prints a table as it comes. The run ids are those of this demo, so nothing is skipped."""
    tasks = root / "fixtures/demo/tasks.jsonl"
    names = [json.loads(line)["instance_id"] for line in tasks.read_text().splitlines()]
    sources = {"gold": "gold", "empty": "empty", "wrong": root / "fixtures/demo/predictions-wrong.jsonl"}
    shutil.rmtree(inn.graded, ignore_errors=True)
    width = max(len(name) for name in names)
    print(f"\n{'TASK':{width}}  PATCH  RUN  VERDICT      SUPPLY  USES  LEASE MS  RESET MS  DIGEST")
    rows = []
    for number in range(1, RUNS + 1):
        for patch, source in sources.items():
            done = inn.grade("--tasks", tasks, "--predictions", source, "--out", inn.graded, "--run-id", f"run-{number}")
            some = [Row(patch, number, result) for result in done["results"]]
            for row in sorted(some, key=lambda row: names.index(row.task)):
                print(line(row, width))
            rows += some
    return rows


def line(row: Row, width: int) -> str:
    """One grading as a line of the table."""
    result = row.result
    digest = (result["digest"] or "-").removeprefix("blake3:")[:DIGITS]
    return (f"{row.task:{width}}  {row.patch:5}  {row.run:3}  {result['verdict']:11}  {result['supply'] or '-':6}  "
            f"{number(result['uses'], 0):>4}  {number(result['lease_ms'], 1):>8}  {number(result['reset_ms'], 1):>8}  {digest}")


def number(value: float | None, digits: int) -> str:
    """A number, or a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"
