"""Answers questions about logs and reports with the real `swebench` package (5.x).

One JSON object a line on standard input, one JSON object a line on standard output, in the
same order. Every request has a `kind`; an answer is `{"error": NAME}` where the package
raises an exception, NAME being its class.

parse    {parser, log_b64}                     -> {"statuses": [[test, status], ...]}
         the parser on the whole log, in the order of its map
grade    {row, log_b64, model_patch}           -> {"report": text of report.json}
         log_b64 is the raw output of the eval script, treated as the harness treats it
summary  {dir, rows, predictions, run_id}      -> {"summary": text of the summary file}
         dir holds logs/run_evaluation; the summary is written there too

Run it with a Python that has the package: `python log_status.py < requests > answers`.
"""

import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

from swebench.harness.grading import get_eval_report
from swebench.harness.log_parsers import PARSER_REGISTRY
from swebench.harness.reporting import make_run_report
from swebench.harness.utils import make_test_spec


class NoDocker:
    """Stands for a Docker daemon without images and containers."""

    def __init__(self):
        self.images = self.containers = self

    def list(self, **_):
        return []


def parse(request):
    raw = io.BytesIO(base64.b64decode(request["log_b64"]))
    log = io.TextIOWrapper(raw, encoding="utf-8", errors="replace").read()
    statuses = PARSER_REGISTRY[request["parser"]](log, None)
    return {"statuses": [[test, status] for test, status in statuses.items()]}


def grade(request):
    output = base64.b64decode(request["log_b64"]).decode(errors="replace")
    row = request["row"]
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "test_output.txt"
        with open(log, "w", newline="") as file:
            file.write(output)
        prediction = {
            "instance_id": row["instance_id"],
            "model_name_or_path": "model",
            "model_patch": request["model_patch"],
        }
        report = get_eval_report(
            test_spec=make_test_spec(row),
            prediction=prediction,
            test_log_path=log,
            include_tests_status=True,
        )
    return {"report": json.dumps(report, indent=4)}


def summary(request):
    before = os.getcwd()
    os.chdir(request["dir"])
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            path = make_run_report(
                {one["instance_id"]: one for one in request["predictions"]},
                request["rows"],
                request["run_id"],
                NoDocker(),
            )
        return {"summary": Path(path).read_text(), "name": Path(path).name}
    finally:
        os.chdir(before)


KINDS = {"parse": parse, "grade": grade, "summary": summary}


def main():
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = KINDS[request["kind"]](request)
        except Exception as error:
            answer = {"error": type(error).__name__}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
