"""Start: what commands take before and beside their work, and the first run of an installation.

    python -m benchmarks start [--data FILE] [--text MODEL] [--repeats 9] [--json FILE]

Trains in a temporary folder, on the embedded data set or on a file, with two copies of the package: one as it is
installed, with machine code of its loops, and one without it, as on a machine of another kind than that of the build.
`--repeats` trainings follow the first. With --text, the folder of a model of text, one text is scored by `xmlgp predict
MODEL -`, as often. Numbers are medians, of whole commands; processor seconds depend less on what else runs.
"""

import compileall
import os
import runpy
import shutil
import statistics
import tempfile
from pathlib import Path

import click

from benchmarks import harness

ROOT = Path(__file__).parents[1]

QUESTION = b"How do I renew the certificate of a web server?\n"


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.option("--data", type=click.Path(exists=True, path_type=Path), metavar="FILE")
@click.option("--text", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="MODEL")
@click.option("--repeats", type=click.IntRange(1), default=9, show_default=True)
@harness.json_option
def main(data, text, repeats, as_json):
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        harness.xmlgp("fetch", "-q", "toy", "--into", folder)
        for name, has_code in (("with machine code", True), ("without", False)):
            options = copy_package(folder / name, has_code)
            train = "train", "-q", (data or folder / "toy").absolute(), "model"
            rows[f"the first training {name}"] = [harness.run_xmlgp(*train, **options)]
            if has_code:
                rows["a later one"] = [harness.run_xmlgp(*train, **options) for _ in range(repeats)]
            if text and has_code:
                rows["one text"] = [scored(text.absolute(), options) for _ in range(repeats)]
    medians = {name: [statistics.median(column) for column in zip(*runs, strict=True)] for name, runs in rows.items()}
    harness.print_table(
        ["", "seconds", "processor seconds", "peak MB"], [[name, *row] for name, row in medians.items()]
    )
    harness.write_json(as_json, {"medians": medians})


def copy_package(folder, has_code):
    """Copy the package to a folder, as pip installs it; return the folder and the variables of commands that use it."""
    shutil.copytree(ROOT / "xmlgp", folder / "xmlgp", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "datasets.yaml", folder / "xmlgp/data/datasets.yaml")
    compileall.compile_dir(folder / "xmlgp", quiet=1)
    if has_code:
        runpy.run_path(str(ROOT / "setup.py"))["compile_loops"](folder)
    return {"cwd": folder, "env": os.environ | {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": ""}}


def scored(model, options):
    """Return what `xmlgp predict MODEL -` takes for one text."""
    with tempfile.TemporaryFile() as stream:
        stream.write(QUESTION)
        stream.seek(0)
        return harness.run_xmlgp("predict", "-q", model, "-", stdin=stream, **options)


if __name__ == "__main__":
    main()
