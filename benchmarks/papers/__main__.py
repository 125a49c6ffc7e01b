"""Runs `python -m benchmarks.papers NAMES`, which makes tables and figures of the papers."""

from benchmarks.papers.command import reproduce

if __name__ == "__main__":
    reproduce(prog_name="python -m benchmarks.papers")
