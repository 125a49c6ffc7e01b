"""Precision and time of recipes, each trained, scored and evaluated by the commands that users type.

    python benchmarks/recipes.py DATA [DATA ...] [--recipe NAME ...] [--seeds 1] [--json FILE]

DATA is a folder with train.txt and test.txt, such as data/bibtex. Times are those of the complete command
`xmlgp train`, including preprocessing, with an empty cache. Measures are in percent; with several seeds the table has
the mean and standard deviation.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np

MEASURES = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")


def xmlgp(*arguments, **options):
    """Run a command and return its output."""
    command = [sys.executable, "-m", "xmlgp", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def run(data, recipe, seed):
    """Train once, and return the measures and the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        model, scores = Path(folder, "model"), Path(folder, "scores")
        cold = os.environ | {"XMLGP_CACHE_DIR": folder}
        start = time.perf_counter()
        xmlgp("train", "-q", data, model, "--recipe", recipe, "--seed", seed, env=cold)
        seconds = time.perf_counter() - start
        xmlgp("predict", "-q", model, data, "-o", scores)
        printed = xmlgp("evaluate", "-q", scores, data / "test.txt", "--train", data / "train.txt", "--json")
    return [json.loads(printed)[name] for name in MEASURES] + [seconds]


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--recipe", "recipes", multiple=True, default=["s-LINEAR", "LINEAR", "B-EM-CG", "default"], show_default=True
)
@click.option("--seeds", default=1, show_default=True)
@click.option("--json", "as_json", type=click.Path(dir_okay=False))
def main(folders, recipes, seeds, as_json):
    results = {}
    print(f"{'data':12}{'recipe':12}" + "".join(f"{name:>15}" for name in (*MEASURES, "seconds")))
    for data in folders:
        for recipe in recipes:
            runs = np.array([run(data, recipe, seed) for seed in range(seeds)])
            mean, deviation = runs.mean(axis=0), runs.std(axis=0, ddof=min(1, seeds - 1))
            cells = [f"{m:.2f} ± {d:.2f}" if seeds > 1 else f"{m:.2f}" for m, d in zip(mean, deviation, strict=True)]
            print(f"{data.name:12}{recipe:12}" + "".join(f"{cell:>15}" for cell in cells), flush=True)
            results[f"{data.name}/{recipe}"] = dict(zip((*MEASURES, "seconds"), runs.T.tolist(), strict=True))
    if as_json:
        Path(as_json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
