"""Precision and time of recipes, each trained, scored and evaluated by the commands that users type.

    python benchmarks/recipes.py DATA [DATA ...] [--recipe NAME ...] [--seeds 1] [--json FILE]

DATA is a folder with train.txt and test.txt, such as data/bibtex. Times are those of the complete command
`xmlgp train`, including preprocessing, with an empty cache. Measures are in percent; with several seeds the table has
the mean and standard deviation.
"""

import os
import tempfile
from pathlib import Path

import click
import harness  # before NumPy
import numpy as np

MEASURES = ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5")


def run(data, recipe, seed, measures=MEASURES):
    """Train once, and return the measures and the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        model, scores = Path(folder, "model"), Path(folder, "scores")
        cold = os.environ | {"XMLGP_CACHE_DIR": folder}
        usage = harness.run_xmlgp("train", "-q", data, model, "--recipe", recipe, "--seed", seed, env=cold)
        harness.xmlgp("predict", "-q", model, data, "-o", scores)
        return [*harness.evaluate(scores, data, measures).values(), usage.seconds]


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@harness.folders_argument()
@click.option(
    "--recipe", "recipes", multiple=True, default=["s-LINEAR", "LINEAR", "B-EM-CG", "default"], show_default=True
)
@click.option("--seeds", default=1, show_default=True)
@harness.json_option
def main(folders, recipes, seeds, as_json):
    results = {}
    table = harness.Table("data", "recipe", *MEASURES, "seconds")
    for data in folders:
        for recipe in recipes:
            runs = np.array([run(data, recipe, seed) for seed in range(seeds)])
            mean, deviation = runs.mean(axis=0), runs.std(axis=0, ddof=min(1, seeds - 1))
            cells = [f"{m:.2f} ± {d:.2f}" if seeds > 1 else f"{m:.2f}" for m, d in zip(mean, deviation, strict=True)]
            table.row(data.name, recipe, *cells)
            results[f"{data.name}/{recipe}"] = dict(zip((*MEASURES, "seconds"), runs.T.tolist(), strict=True))
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
