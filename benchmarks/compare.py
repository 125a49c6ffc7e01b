"""The default beside other tools on the same test points: paired differences with intervals.

    python benchmarks/compare.py DATA [DATA ...] [--weighted] [--models FOLDER] [--set NAME=VALUE ...]
        [--peers NAME,...] [--peers-python PATH] [--json FILE]

DATA is a folder with train.txt and test.txt; other folders are skipped with a message. A Markdown table has for each
peer the difference of xmlgp from it in each measure, in percent, with its paired 95 % interval and p, as `xmlgp
compare` has them. All methods see the same features; with --weighted, the peers are trained on those that xmlgp's
default weighting gives. The intervals are about other test points; another seed also changes a method.

With `--models`, trained models are kept in FOLDER, and used again.
"""

import tempfile
from pathlib import Path

import click
import harness
import peers
from many_labels import write_weighted

import xmlgp

MEASURES = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@5", "recall@5", "macro-F1@5")


def compare(data, weighted, models, chosen, names, python):
    """Return the differences of xmlgp from each peer on a data set."""
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model = (models or folder) / data.name
        if not (model / "model.json").exists():
            xmlgp.train(data / "train.txt", model, settings=chosen)
        ours = xmlgp.predict(model, data / "test.txt", k=peers.TOP).named_scores().scores
        seen = data
        if weighted:
            seen = folder / "weighted"
            write_weighted(data, seen)
        for name in peers.measure(seen, names, python, scores=folder):
            found = xmlgp.compare(ours, folder / f"{name}.scores", data / "test.txt", train=data / "train.txt")
            results[name] = {measure: found.measures[measure]._asdict() for measure in MEASURES}
    return results


def cell(row):
    low, high = row["interval"]
    p = "< 0.001" if row["p"] < 0.001 else f"= {row['p']:.3f}"
    return f"{row['difference']:+.2f} [{low:+.2f}, {high:+.2f}], p {p}"


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@harness.folders_argument()
@click.option("--weighted", is_flag=True, help="Train the peers on weighted features.")
@click.option("--models", type=click.Path(path_type=Path), help="Keep trained models in this folder.")
@harness.set_option
@harness.peers_option(default=["omikuji", "svm-0.25", "pecos"])
@harness.peers_python_option
@harness.json_option
def main(folders, weighted, models, chosen, names, peers_python, as_json):
    results = {}
    for data in folders:
        if harness.has_data(data):
            results[data.name] = compare(data, weighted, models, chosen, names, peers_python)
    rows = [
        [f"{data}, {name}", *(cell(row) for row in measures.values())]
        for data, methods in results.items()
        for name, measures in methods.items()
    ]
    harness.print_table(["xmlgp less", *MEASURES], rows)
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
