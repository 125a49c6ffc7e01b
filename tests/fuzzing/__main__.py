"""`python -m tests.fuzzing`: try damaged files of each kind, new ones in each run, and report how many were refused."""

import argparse
import os
import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzzing.corpora import Corpora
from tests.fuzzing.data_files import DataFiles, LibsvmFiles
from tests.fuzzing.hunt import Violation, hunt
from tests.fuzzing.model_folders import ModelFolders
from tests.fuzzing.scores_files import ScoresFiles
from tests.fuzzing.vectorizer_files import VectorizerFiles

#: Every kind of untrusted file that xmlgp reads.
KINDS = [DataFiles, LibsvmFiles, ScoresFiles, Corpora, VectorizerFiles, ModelFolders]


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__.partition(": ")[2])
    parser.add_argument("--files", type=int, default=20_000, help="total number of files; %(default)s")
    parser.add_argument("--seed", type=int, help="seed of an earlier run, to repeat its files; default: a new one")
    parser.add_argument(
        "--keep", type=Path, default=Path("fuzz-failures"), help="folder for a file handled incorrectly; %(default)s"
    )
    chosen = parser.parse_args()
    number = secrets.randbits(32) if chosen.seed is None else chosen.seed
    print(f"seed {number}", file=sys.stderr)
    row = "{:<14} {:>7} {:>7} {:>7} {:>8}".format
    print(row("kind", "tried", "read", "refused", "seconds"), flush=True)
    totals = [0, 0, 0, 0.0]
    with tempfile.TemporaryDirectory() as folder:
        for position, kind in enumerate(KINDS):
            # The last kinds take the remainder.
            count = chosen.files * (position + 1) // len(KINDS) - chosen.files * position // len(KINDS)
            start = time.monotonic()
            workshop = Path(folder, kind.name.replace(" ", "-"))
            workshop.mkdir()
            os.environ["XMLGP_CACHE_DIR"] = str(workshop / "cache")
            try:
                tally = hunt(kind(workshop), count, chosen.keep.resolve() / workshop.name, number)
            except Violation as violation:
                print(f"{kind.name}: {violation}", flush=True)
                sys.exit(1)
            counts = [tally.tried, tally.read, tally.refused, time.monotonic() - start]
            totals = [total + count for total, count in zip(totals, counts, strict=True)]
            print(row(kind.name, *counts[:3], f"{counts[3]:.0f}"), flush=True)
    print(row("all", *totals[:3], f"{totals[3]:.0f}"))


if __name__ == "__main__":
    main()
