"""What must be so after the gradings."""

from collections import Counter
from statistics import median

from gradings import EXPECTED, RUNS, Row

REUSES = 8


def wrong(rows: list[Row]) -> list[str]:
    """Every grading that is not as it must be, in a sentence each."""
    found = [f"{row.task} with the {row.patch} patch in run {row.run} {why}" for row in rows for why in faults(row)]
    baselines = {}
    for row in rows:
        known = baselines.setdefault(row.task, row.result["baseline"])
        if row.result["baseline"] != known:
            found.append(f"{row.task} has two baselines, {known} and {row.result['baseline']}")
    counted = Counter(row.task for row in rows)
    found += [f"{task} was graded {times} times" for task, times in counted.items() if times != RUNS * len(EXPECTED)]
    if not any(row.result["supply"] == "reused" for row in rows):
        found.append("no sandbox was ever reused")
    return found


def faults(row: Row) -> list[str]:
    """What is wrong with one grading."""
    result, why = row.result, []
    if result["verdict"] != EXPECTED[row.patch]:
        detail = f" ({result['detail']})" if result["detail"] else ""
        why.append(f"is {result['verdict']}{detail} and must be {EXPECTED[row.patch]}")
    if result["skipped"]:
        why.append("was not graded in this run")
    if result["outcome"] != "clean":
        why.append(f"left its sandbox {result['outcome']}")
    elif not result["digest"] or result["digest"] != result["baseline"]:
        why.append(f"left the digest {result['digest']}, which is not the baseline {result['baseline']}")
    if result["uses"] is not None and not 0 <= result["uses"] <= REUSES:
        why.append(f"got a slot with {result['uses']} uses before")
    return why


def summary(rows: list[Row], creates: int) -> str:
    """The totals in two lines."""
    verdicts = Counter(row.result["verdict"] for row in rows)
    supply = Counter(row.result["supply"] for row in rows)
    slots = {row.result["slot"] for row in rows}

    def middle(name: str) -> str:
        values = [row.result[name] for row in rows if row.result[name] is not None]
        return f"{median(values):.1f} ms" if values else "-"

    parts = ", ".join(f"{count} {name}" for name, count in sorted(verdicts.items()))
    supplies = ", ".join(f"{supply[name]} {name}" for name in ("fresh", "warm", "reused"))
    return (f"{len(rows)} gradings: {parts}; {supplies}; {len(slots)} slots used\n"
            f"{creates} creates, {creates / max(len(rows), 1):.3f} per grading; "
            f"median lease {middle('lease_ms')}, median reset with verification {middle('reset_ms')}")
