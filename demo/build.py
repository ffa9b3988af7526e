"""The binaries of the demo: release builds, static, without what the demo does not use."""

import json
import os
import time
from pathlib import Path

from children import Failed, output


def binaries(root: Path) -> tuple[Path, float]:
    """The folder that holds `innkeeper` and `execd`, and how many seconds the build took.

    Both come from one build for a named target: flags for static linking then reach neither build scripts nor
    macros, and what the two share is compiled once. Rows as parquet files and registries are left out.
    """
    began = time.monotonic()
    target = output(["rustc", "--print", "host-tuple"], "asking rustc for its target").strip()
    flags = f"{os.environ.get('RUSTFLAGS', '')} -C target-feature=+crt-static".strip()
    said = output(
        ["cargo", "build", "--release", "--locked", "--target", target, "--message-format", "json-render-diagnostics",
         "-p", "execd", "-p", "innkeeper", "--no-default-features"],
        "the build", cwd=root, env={**os.environ, "RUSTFLAGS": flags})
    found = {}
    for line in said.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message.get("executable"):
            found[message["target"]["name"]] = Path(message["executable"])
    folders = {found[name].parent for name in ("innkeeper", "execd") if name in found}
    if len(folders) != 1:
        raise Failed(f"the build gave no innkeeper and execd in one folder, but {sorted(found)}")
    seconds = time.monotonic() - began
    print(f"built innkeeper and execd in {seconds:.0f} s")
    return folders.pop(), seconds
