"""The results that the Extreme Classification Repository publishes, beside ours, as tables of a page.

    python benchmarks/published.py [DATA ...] [--seeds 3] [--page docs/performance/published.md]

Rewrites the page below its line with MARKER, from published_results.tsv and measured_results.json in this folder and
from datasets.yaml. DATA is a folder with train.txt and test.txt, such as data/bibtex, named as in the catalogue: it is
first trained on with the default and each seed, and its measures replace those in measured_results.json.
"""

import csv
import json
from pathlib import Path

import click
import harness  # before NumPy
import numpy as np
import recipes

from xmlgp.data.catalogue import load_catalogue

PUBLISHED = harness.BENCHMARKS / "published_results.tsv"
MEASURED = harness.BENCHMARKS / "measured_results.json"
PAGE = harness.BENCHMARKS.parent / "docs/performance/published.md"

#: The line of the page that the tables stand below.
MARKER = "<!-- The rest of this page is written by `make published`. -->\n"

#: The measures of a cell, by the head of its column. nDCG@1 is P@1, and PSnDCG@1 is PSP@1.
COLUMNS = {
    "P@1 / 3 / 5": ("P@1", "P@3", "P@5"),
    "nDCG@3 / 5": ("nDCG@3", "nDCG@5"),
    "PSP@1 / 3 / 5": ("PSP@1", "PSP@3", "PSP@5"),
    "PSnDCG@3 / 5": ("PSnDCG@3", "PSnDCG@5"),
}
MEASURES = [measure for measures in COLUMNS.values() for measure in measures]

#: The method of our rows.
OURS = "**`xmlgp train`, no options**"

#: The mark of rows that are of another version of the data.
OTHER_DATA = "♦"


def read_published():
    """Return the published rows by data set: for each column of the table of MEASURES its text, which may be empty."""
    with open(PUBLISHED, encoding="utf-8") as lines:
        rows = list(csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t"))
    results = {}
    for row in rows:
        measures = {name: row[name.replace("nDCG", "N")] for name in MEASURES}
        results.setdefault(row["dataset"], []).append(row | measures)
    return results


def read_measured():
    """Return the means over seeds of our measures by data set, rounded as published ones, and the number of seeds."""
    runs = json.loads(MEASURED.read_text())
    return {
        name: ({measure: f"{np.mean(values):.2f}" for measure, values in measures.items()}, len(measures["P@1"]))
        for name, measures in runs.items()
    }


def measure(data, seeds):
    """Return our measures of a data set, a list with the value of each seed."""
    runs = [recipes.run(data, "default", seed, MEASURES)[:-1] for seed in range(seeds)]
    return {name: np.round(values, 3).tolist() for name, values in zip(MEASURES, np.transpose(runs), strict=True)}


def compare(ours, rows):
    """Return a sentence that says in which measures we are above all published rows of the same data."""
    higher = []
    lower = []
    for name in MEASURES:
        values = [(float(row[name]), row["method"]) for row in rows if row[name] and row["mark"] != OTHER_DATA]
        best, method = max(values)
        if float(ours[name]) > best:
            higher.append(name)
        else:
            lower.append(f"{name} ({method} {best:.2f})")
    if not lower:
        return "xmlgp is above every row in all of these measures."
    return f"xmlgp is above every row in {', '.join(higher)}, and not in {', '.join(lower)}."


def describe(entry):
    """Return the sizes and the propensities of a data set as a sentence."""
    shape = entry.shape
    features = f"D={shape.D:,}, " if shape.D else ""
    return (
        f"{entry.title}: {shape.N:,} training and {shape.N_test:,} test points, {features}K={shape.K:,}; "
        f"A={entry.propensity.A:g}, B={entry.propensity.B:g}."
    )


def table(rows):
    """Yield the lines of a table of rows, which are mappings, the highest P@1 first."""
    yield f"| method | {' | '.join(COLUMNS)} | GB | hours |"
    yield "|---" * (len(COLUMNS) + 3) + "|"
    for row in sorted(rows, key=lambda row: -float(row["P@1"])):
        cells = [f"{row['method']} {row['mark']}".rstrip()]
        for names in COLUMNS.values():
            missing = not any(row[name] for name in names)
            cells.append("" if missing else " / ".join(row[name] or "–" for name in names))
        yield f"| {' | '.join([*cells, row['GB'], row['hours']])} |"


def tables():
    """Return the text of the page below MARKER."""
    published = read_published()
    measured = read_measured()
    lines = []
    for name, entry in load_catalogue().entries.items():
        if name not in published:
            continue
        rows = published[name]
        lines += ["", f"## {name}", "", describe(entry)]
        if name in measured:
            ours, seeds = measured[name]
            lines += ["", compare(ours, rows) + f" Its numbers are means over {seeds} seeds."]
            rows = [{"method": OURS, "mark": "", "GB": "", "hours": "", **ours}, *rows]
        lines += ["", *table(rows)]
    return "\n".join(lines) + "\n"


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@harness.folders_argument(required=False)
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--page", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=PAGE, show_default=True)
def main(folders, seeds, page):
    catalogue = load_catalogue()
    runs = json.loads(MEASURED.read_text())
    for data in folders:
        if harness.has_data(data):
            runs[catalogue[data.name].name] = measure(data, seeds)
            MEASURED.write_text(json.dumps(runs, indent=1) + "\n")
    head, _, _ = page.read_text(encoding="utf-8").partition(MARKER)
    page.write_text(head + MARKER + tables(), encoding="utf-8")


if __name__ == "__main__":
    main()
