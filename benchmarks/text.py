"""Text: time and memory of vectorizing a corpus, and from text to predictions beside TfidfVectorizer and omikuji.

    python benchmarks/text.py vectorize [--documents 1000000] [--seed 0] [--repeats 3] [--file FILE] [--json FILE]
    python benchmarks/text.py corpus DATA [--variant OPTIONS ...] [--options OPTIONS] [--held-out] [--peer NAME ...]
        [--peers-python PATH] [--json FILE]

`vectorize` generates short documents of 5 to 15 words, which follow a power law, with 1 to 3 labels; --file keeps them.
`xmlgp vectorize` and a program that counts their words by scikit-learn's CountVectorizer, and writes nothing, run one
after the other. Numbers are of whole processes: the median of the repeats, and of the ratios of each pair.

`corpus` takes train.jsonl and test.jsonl of the folder DATA, as benchmarks/packages.py writes them; without them, it is
skipped with a message. It runs `xmlgp vectorize`, `xmlgp train` and `xmlgp predict` on text, with an empty cache, the
options of each --variant for `vectorize`, and --options for `train`. The peers are `tfidf`, scikit-learn's
TfidfVectorizer and omikuji, `tfidf-sublinear`, the same with sublinear_tf=True, both with their defaults otherwise, and
`fasttext`, whose package is fasttext-wheel.
All use all cores. `xmlgp evaluate` measures all, in percent and ECE@5 from 0 to 1. With --held-out the measures are of
a quarter of the training documents, on which nothing is trained, and the test documents are not read: to choose among
variants.
"""

import json
import os
import random
import shlex
import sys
import tempfile
from pathlib import Path

import click
import harness
import numpy as np

PEERS_SCRIPT = harness.BENCHMARKS / "text_peers.py"

#: Distinct words and labels of generated documents, of which rare ones may not occur, and exponent of the words.
WORDS, LABELS, EXPONENT = 200_000, 50_000, 1.05

#: Documents that are generated together.
BLOCK = 10_000

LETTERS = "etaoinshrdlucmfwypvbgkjqxz"

MEASURES = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5", "nDCG@5", "ECE@5")

#: Options of benchmarks/text_peers.py.
PEERS = {"tfidf": [], "tfidf-sublinear": ["--sublinear"], "fasttext": ["--fasttext"]}

#: Of the training documents, for --held-out.
HELD_OUT = 0.25


# ---- Vectorizing


def write_documents(path, count, seed):
    """Write documents as Annif has them, `text<TAB><label> <label> ...`, a sentence each."""
    rng = np.random.default_rng(seed)
    letter_shares = 1 / np.arange(1, len(LETTERS) + 1)
    lengths = rng.integers(2, 10, WORDS)
    letters = "".join(rng.choice(list(LETTERS), lengths.sum(), p=letter_shares / letter_shares.sum()))
    ends = np.cumsum(lengths)
    words = [letters[end - length : end] for end, length in zip(ends.tolist(), lengths.tolist(), strict=True)]
    shares = np.cumsum(np.arange(1, WORDS + 1) ** -EXPONENT)
    with open(path, "w", encoding="utf-8") as stream:
        for start in range(0, count, BLOCK):
            size = min(BLOCK, count - start)
            word_counts, label_counts = rng.integers(5, 16, size), rng.integers(1, 4, size)
            drawn = np.searchsorted(shares, rng.random(word_counts.sum()) * shares[-1]).tolist()
            labels = ((rng.pareto(1, label_counts.sum()) * 20) % LABELS).astype(int).tolist()
            word_ends, label_ends = np.cumsum(word_counts).tolist(), np.cumsum(label_counts).tolist()
            for row in range(size):
                text = " ".join(words[word] for word in drawn[word_ends[row] - word_counts[row] : word_ends[row]])
                own = labels[label_ends[row] - label_counts[row] : label_ends[row]]
                names = " ".join(f"<http://example.org/{label}>" for label in own)
                stream.write(f"{text.capitalize()}.\t{names}\n")


def compare_vectorizing(file, repeats):
    """Return the numbers of each run of xmlgp and of CountVectorizer on a file of documents, and the sizes N, D, K."""
    runs = {"xmlgp vectorize": [], "CountVectorizer": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            runs["xmlgp vectorize"].append(harness.run_xmlgp("vectorize", "-q", file, folder))
            runs["CountVectorizer"].append(harness.usage_of(sys.executable, PEERS_SCRIPT, "count", file))
        sizes = harness.sizes(Path(folder, "train.txt"))
    return runs, sizes


def report_vectorizing(runs, sizes):
    """Print the table of medians and of ratios."""
    print("N={N:,}, D={D:,}, K={K:,}:\n".format(**sizes))
    values = {name: np.array(several) for name, several in runs.items()}
    rows = [[name, *np.median(several, axis=0)] for name, several in values.items()]
    ratios = np.median(values["xmlgp vectorize"] / values["CountVectorizer"], axis=0)
    rows.append(["ratio", *(f"{ratio:.2f}" for ratio in ratios)])
    harness.print_table(["", "seconds", "processor seconds", "peak MB"], rows)


# ---- From text to predictions


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
    return harness.evaluate(scores, data, MEASURES, "--calibration", env=environment)


def run_peer(name, corpus, folder, data, python, environment):
    """Return the numbers of a peer; `data` has the true labels as rows of numbers."""
    scores, steps = folder / f"{name}.scores", folder / f"{name}.json"
    script = [python, PEERS_SCRIPT, "tags", corpus, scores, "--times", steps, *PEERS[name]]
    usage = harness.usage_of(*script, env=environment)._asdict()
    return {"steps": json.loads(steps.read_text())} | usage | evaluate(scores, data, environment)


def compare_tagging(corpus, folder, variants, options, peers, python):
    """Return the numbers of xmlgp by variant, and of the peers."""
    environment, results = os.environ | {"XMLGP_CACHE_DIR": str(folder / "cache")}, {}
    for place, variant in enumerate(variants):
        own = folder / str(place)
        own.mkdir()
        results[f"xmlgp {variant}".strip()] = run_xmlgp(corpus, own, shlex.split(variant), options, environment)
    for name in peers:
        results[name] = run_peer(name, corpus, folder, folder / "0" / "data", python, environment)
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


@click.group(help=__doc__.replace("\n\n", "\n\n\b\n"))
def main():
    pass


@main.command("vectorize", help="Vectorize generated documents beside CountVectorizer.")
@click.option("--documents", type=click.IntRange(1), default=1_000_000, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--repeats", type=click.IntRange(1), default=3, show_default=True)
@click.option("--file", type=click.Path(dir_okay=False, path_type=Path), help="For the documents; again used if there.")
@harness.json_option
def vectorize(documents, seed, repeats, file, as_json):
    with tempfile.TemporaryDirectory() as folder:
        file = file or Path(folder, "documents.tsv")
        if not file.exists():
            write_documents(file, documents, seed)
        runs, sizes = compare_vectorizing(file, repeats)
    report_vectorizing(runs, sizes)
    harness.write_json(as_json, {"sizes": sizes, "runs": runs})


@main.command("corpus", help="From text to predictions, beside TfidfVectorizer and omikuji.")
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--variant", "variants", multiple=True, default=[""], metavar="OPTIONS", help="Options of `vectorize`.")
@click.option("--options", default="", metavar="OPTIONS", help="Options of `train`.")
@click.option("--held-out", is_flag=True, help="Measure on training documents that are held out.")
@click.option("--peer", "peers", multiple=True, type=click.Choice(list(PEERS)), help="A peer to measure.")
@harness.peers_python_option
@harness.json_option
def corpus(data, variants, options, held_out, peers, peers_python, as_json):
    if not harness.has_data(data, ("train.jsonl", "test.jsonl")):
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if held_out:
            hold_out(data, folder)
        source = folder if held_out else data
        results = compare_tagging(source, folder, variants, shlex.split(options), peers, peers_python)
    report_tagging(results, "held-out training documents" if held_out else "test documents")
    harness.write_json(as_json, results)


if __name__ == "__main__":
    main()
