"""Runs `python -m benchmarks NAME ...`, one of the measurements in this folder."""

import runpy
import sys
from pathlib import Path

#: What the measurements share, in this folder.
SHARED = {"__init__", "__main__", "generate", "harness", "measured_command", "peak_memory", "text_peers"}

NAMES = sorted({file.stem for file in Path(__file__).parent.glob("*.py")} - SHARED)


def main() -> None:
    """Run the measurement that the first argument names, with the arguments after it."""
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        sys.exit(f"usage: python -m benchmarks NAME ...\nNAME is one of {', '.join(NAMES)}; each has --help.")
    sys.argv[:2] = [f"python -m benchmarks {sys.argv[1]}"]
    # With `alter_sys`, processes that the measurement starts find its functions.
    runpy.run_module(f"benchmarks.{sys.argv[0].split()[-1]}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
