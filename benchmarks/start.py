"""Start: what commands take before and beside their work, and the first run of an installation.

    python -m benchmarks start [--text MODEL] [--repeats 9] [--warm] [--json FILE]

Trains on the embedded data set, in a temporary folder: first as after an installation, with no compiled functions and
no parsed data in the caches, unless --warm leaves that out, then `--repeats` times. With --text, the folder of a model
of text, one text is scored by `xmlgp predict MODEL -`, as often. Numbers are medians, of whole commands; processor
seconds depend less on what else runs.
"""

import os
import statistics
import tempfile
from pathlib import Path

import click

from benchmarks import harness

QUESTION = b"How do I renew the certificate of a web server?\n"


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.option("--text", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="MODEL")
@click.option("--repeats", type=click.IntRange(1), default=9, show_default=True)
@click.option("--warm", is_flag=True, help="Use the caches as they are.")
@harness.json_option
def main(text, repeats, warm, as_json):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        caches = {"NUMBA_CACHE_DIR": str(folder / "compiled"), "XMLGP_CACHE_DIR": str(folder / "parsed")}
        environment = os.environ | ({} if warm else caches)
        # What this compiles, training does not need.
        harness.xmlgp("fetch", "-q", "toy", "--into", folder)
        train = "train", "-q", folder / "toy", folder / "model"
        rows = {} if warm else {"the first training": [harness.run_xmlgp(*train, env=environment)]}
        rows["a later one"] = [harness.run_xmlgp(*train, env=environment) for _ in range(repeats)]
        if text:
            # The first one compiles what training has not.
            rows["one text"] = [scored(text, environment) for _ in range(repeats + 1)][1:]
    medians = {name: [statistics.median(column) for column in zip(*runs, strict=True)] for name, runs in rows.items()}
    harness.print_table(
        ["", "seconds", "processor seconds", "peak MB"], [[name, *row] for name, row in medians.items()]
    )
    harness.write_json(as_json, {"medians": medians})


def scored(model, environment):
    """Return what `xmlgp predict MODEL -` takes for one text."""
    with tempfile.TemporaryFile() as stream:
        stream.write(QUESTION)
        stream.seek(0)
        return harness.run_xmlgp("predict", "-q", model, "-", env=environment, stdin=stream)


if __name__ == "__main__":
    main()
