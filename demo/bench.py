#!/usr/bin/env python3
"""Builds innkeeper as the demo does, brings in the demo's images, and measures. Usage: bench.py [OPTIONS of innkeeper bench]"""

import signal
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))
import build
import images
from children import Failed
from inn import Inn, state_dir


def main() -> None:
    binaries, _ = build.binaries(ROOT)
    inn = Inn(binaries, state_dir(ROOT))
    inn.check_machine()
    images.bring(ROOT, inn)
    print(inn.text("bench", *sys.argv[1:]), end="")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        main()
    except Failed as failed:
        sys.exit(f"make bench: {failed}")
