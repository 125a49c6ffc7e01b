"""From text to predictions, beside TfidfVectorizer with omikuji and fastText: precision, time and memory.

    python -m benchmarks text DATA [--variant OPTIONS ...] [--options OPTIONS] [--held-out] [--peer NAME ...]
        [--json FILE]

DATA is a folder with train.jsonl and test.jsonl, as `python -m benchmarks packages` and `small_sets` write; without
them, it is skipped with a message. Runs `xmlgp vectorize`, `xmlgp train` and `xmlgp predict` on text, with an empty
cache, the options of each --variant for `vectorize`, and --options for `train`. The peers are `tfidf`, scikit-learn's
TfidfVectorizer and omikuji, `tfidf-sublinear`, the same with sublinear_tf=True, `svm`, LinearSVC for each label on the
features of that, all with their defaults otherwise, and `fasttext`; `make peers` installs them. All use all cores,
fastText ten threads. `xmlgp evaluate` measures all, in percent and ECE@5 from 0 to 1. With --held-out the measures are
of a quarter of the training documents, on which nothing is trained, and the test documents are not read: to choose
among variants.
"""

import json
import os
import random
import shlex
import tempfile
from pathlib import Path

import click

from benchmarks import harness, peers

MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "macro-F1@5", "ECE@5")

#: Options of benchmarks/text_peers.py.
PEERS = {"tfidf": [], "tfidf-sublinear": ["--sublinear"], "svm": ["--svm"], "fasttext": ["--fasttext"]}

#: Of the training documents, for --held-out.
HELD_OUT = 0.25


def hold_out(data, folder, seed=0):
    """Write train.jsonl and test.jsonl to a folder, parts of the training documents of another one."""
    lines = (data / "train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    random.Random(seed).shuffle(lines)
    count = int(HELD_OUT * len(lines))
    for name, part in ("test.jsonl", lines[:count]), ("train.jsonl", lines[count:]):
        (folder / name).write_text("".join(part), encoding="utf-8")


def run_xmlgp(corpus, folder, variant, options, environment):
    """Return the numbers of xmlgp on a folder with train.jsonl and test.jsonl; `folder` gets its files."""
    data, model, scores = folder / "data", folder / "model", folder / "xmlgp.scores"
    train, test = corpus / "train.jsonl", corpus / "test.jsonl"
    commands = {
        "vectorize": ("vectorize", "-q", train, data, "--test", test, *variant),
        "train": ("train", "-q", data, model, *options),
        "predict": ("predict", "-q", model, test, "-o", folder / "answers.jsonl"),
    }
    taken = {name: harness.run_xmlgp(*arguments, env=environment) for name, arguments in commands.items()}
    # The answers have names and ids; `evaluate` reads numbers.
    harness.xmlgp("predict", "-q", model, test, "--format", "scores", "-o", scores, env=environment)
    steps = {name: usage.seconds for name, usage in taken.items()}
    usage = {
        "seconds": sum(steps.values()),
        "processor_seconds": sum(usage.processor_seconds for usage in taken.values()),
        "peak_mb": max(usage.peak_mb for usage in taken.values()),
    }
    sizes = harness.sizes(data / "train.txt")
    return {"sizes": sizes, "steps": steps} | usage | evaluate(scores, data, environment)


def evaluate(scores, data, environment):
    return harness.evaluate(scores, data, MEASURES, "--calibration", "--macro", env=environment)


def run_peer(name, corpus, folder, data, environment):
    """Return the numbers of a peer; `data` has the true labels as rows of numbers."""
    scores, steps = folder / f"{name}.scores", folder / f"{name}.json"
    script = [peers.interpreter(), "-m", "benchmarks.text_peers", corpus, scores, "--times", steps, *PEERS[name]]
    usage = harness.usage_of(*script, env=environment)._asdict()
    return {"steps": json.loads(steps.read_text())} | usage | evaluate(scores, data, environment)


def compare_tagging(corpus, folder, variants, options, names):
    """Return the numbers of xmlgp by variant, and of the peers."""
    environment, results = os.environ | {"XMLGP_CACHE_DIR": str(folder / "cache")}, {}
    for place, variant in enumerate(variants):
        own = folder / str(place)
        own.mkdir()
        results[f"xmlgp {variant}".strip()] = run_xmlgp(corpus, own, shlex.split(variant), options, environment)
    for name in names:
        results[name] = run_peer(name, corpus, folder, folder / "0" / "data", environment)
    return results


def report_tagging(results, documents):
    """Print the tables of precision and of times."""
    rows = []
    for name, numbers in results.items():
        measures = [
            f"{numbers[measure]:.4f}" if "ECE" in measure else f"{numbers[measure]:.2f}" for measure in MEASURES
        ]
        rows.append([name, f"{numbers['sizes']['D']:,}" if "sizes" in numbers else "", *measures])
    N, _, K = next(iter(results.values()))["sizes"].values()
    print(f"N={N:,}, K={K:,}, {documents}:\n")
    harness.print_table(["", "D", *MEASURES], rows)
    rows = [
        [name, *(numbers["steps"].get(step, "") for step in ("vectorize", "write", "train", "predict"))]
        + [numbers[name] for name in harness.Usage._fields]
        for name, numbers in results.items()
    ]
    columns = ["", "vectorize s", "write s", "train s", "predict s", "whole s", "processor seconds", "peak MB"]
    harness.print_table(columns, rows)


# ---- Options


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--variant", "variants", multiple=True, default=[""], metavar="OPTIONS", help="Options of `vectorize`.")
@click.option("--options", default="", metavar="OPTIONS", help="Options of `train`.")
@click.option("--held-out", is_flag=True, help="Measure on training documents that are held out.")
@click.option("--peer", "names", multiple=True, type=click.Choice(list(PEERS)), help="A peer to measure.")
@harness.json_option
def main(data, variants, options, held_out, names, as_json):
    if not harness.has_data(data, ("train.jsonl", "test.jsonl")):
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if held_out:
            hold_out(data, folder)
        source = folder if held_out else data
        results = compare_tagging(source, folder, variants, shlex.split(options), names)
    report_tagging(results, "held-out training documents" if held_out else "test documents")
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
