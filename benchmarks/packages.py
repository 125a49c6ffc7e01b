"""Data sets of real text from the index of a Debian archive: predict the tags of a package from its description.

    python -m benchmarks packages --packages FILE --translation FILE FOLDER [--seed 0]

The first FILE is a Packages file, as printed by `apt-cache dumpavail`, the second the archive's Translation-en, which
contains the descriptions, both as text. Writes train.txt and test.txt of three data
sets in the repository's text format, and prints their sizes. train.jsonl and test.jsonl are corpora of the same
packages, with their texts and the names of their labels:

    FOLDER/tags        descriptions with their debtags, such as role::program
    FOLDER/shorttags   the first lines of descriptions, a few words, with the same tags
    FOLDER/deps        descriptions and names with dependencies: many labels, most of them rare

A feature is the count of a word in the text. The seed chooses three quarters of the packages for training. Words in
fewer than two of these and labels of none of them are dropped, then packages without words or without labels.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

from xmlgp.data.dataset import Dataset, Features, as_csr
from xmlgp.data.repository_format import write_dataset
from xmlgp.runtime.errors import DataFormatError, XmlgpError

__all__ = ["Example", "collect", "read_index", "split"]

WORD = re.compile(r"[a-z][a-z0-9+]+")
STOP_WORDS = {
    "also", "an", "and", "are", "as", "at", "be", "by", "can", "for", "from", "has", "have", "if", "in",
    "is", "it", "its", "not", "of", "on", "or", "that", "the", "this", "to", "which", "with", "you",
}  # fmt: skip

#: A facet with one value, `role::program`, or with several, `works-with::{text,image}`.
TAG = re.compile(r"([^\s,{}]+::)(?:\{([^}]*)\}|([^\s,{}]+))")

#: A dependency is `name (>= version)`, or several alternatives separated by bars; the first is the preferred one.
DEPENDENCY = re.compile(r"[^\s(:|,\[]+")

#: The C library, on which half of all packages depend whatever their subject.
UBIQUITOUS = "libc6"

#: Packages in `deps`; in a whole release these have about 20,000 distinct dependencies.
DEPENDENTS = 28_000

TRAINING_SHARE = 0.75

#: Training points in which a word must occur.
WORD_POINTS = 2


class Example(NamedTuple):
    """A package in a data set: its words, with repetitions, its labels, its name and its text."""

    words: list
    labels: set
    name: str = ""
    text: str = ""


def read_index(path):
    """Yield the paragraphs of an index, each a mapping of field names to texts."""
    with open(path, encoding="utf-8") as lines:
        yield from _paragraphs(lines, path)


def _paragraphs(lines, path):
    fields, name = {}, None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            if fields:
                yield fields
            fields, name = {}, None
        elif line[0] in " \t" and name:
            fields[name] += line
        else:
            name, colon, text = line.partition(":")
            if not colon or name != name.strip():
                raise DataFormatError(path, number, "a field must be `Name: text`, with further lines indented")
            fields[name] = text.lstrip(" ")
    if fields:
        yield fields


def collect(packages, translations):
    """Return the examples of each data set (dict of str to list of Example), packages in alphabetical order."""
    # Descriptions are identified by the hash of their text, as versions of a package differ in it.
    descriptions = {
        fields["Description-md5"].strip(): fields["Description-en"]
        for fields in translations
        if {"Description-md5", "Description-en"} <= fields.keys()
    }
    first = {}
    for fields in packages:
        if "Package" in fields:
            first.setdefault(fields["Package"].strip(), fields)
    sets = {"tags": [], "shorttags": [], "deps": []}
    for name, fields in sorted(first.items()):
        description = descriptions.get(fields.get("Description-md5", "").strip())
        if description is None:
            continue
        words, text = _words(description), _text(description)
        if "Tag" in fields:
            labels, line = _tags(fields["Tag"]), description.partition("\n")[0]
            sets["tags"].append(Example(words, labels, name, text))
            sets["shorttags"].append(Example(_words(line), labels, name, line))
        if "Depends" in fields:
            labels = _dependencies(fields["Depends"])
            sets["deps"].append(Example(words + _words(name), labels, name, f"{text} {name}"))
    return sets


def _text(description):
    """Return a description as one line, without the points between its paragraphs."""
    lines = (line.strip() for line in description.splitlines())
    return " ".join(line for line in lines if line and line != ".")


def _words(text):
    return [word for word in WORD.findall(text.lower()) if word not in STOP_WORDS]


def _tags(text):
    return {facet + value.strip() for facet, several, one in TAG.findall(text) for value in (one or several).split(",")}


def _dependencies(text):
    firsts = (DEPENDENCY.search(clause) for clause in text.split(","))
    return {first[0] for first in firsts if first} - {UBIQUITOUS}


def split(examples, random, limit=None):
    """Return the training and the test set of some examples, each as the pair of its `Dataset` and its examples."""
    order = random.permutation(len(examples))[:limit]
    count = int(len(order) * TRAINING_SHARE)
    parts = [[examples[i] for i in chosen] for chosen in (order[:count], order[count:])]
    word_counts = Counter(word for example in parts[0] for word in set(example.words))
    frequent = sorted(word for word, points in word_counts.items() if points >= WORD_POINTS)
    known = sorted({label for example in parts[0] for label in example.labels})
    features, labels = ({name: i for i, name in enumerate(names)} for names in (frequent, known))
    usable = [
        [e for e in part if any(w in features for w in e.words) and any(label in labels for label in e.labels)]
        for part in parts
    ]
    return [(_dataset(part, features, labels), part) for part in usable]


def _dataset(examples, features, labels):
    rows = [
        (
            sorted(Counter(features[word] for word in example.words if word in features).items()),
            sorted(labels[label] for label in example.labels if label in labels),
        )
        for example in examples
    ]
    pairs = np.array([pair for counts, _ in rows for pair in counts], np.int32).reshape(-1, 2)
    positives = np.array([label for _, row in rows for label in row], np.int32)
    ends = np.cumsum([(0, 0), *((len(counts), len(row)) for counts, row in rows)], axis=0)
    return Dataset(
        Features(as_csr(pairs[:, 1].astype(np.float32), pairs[:, 0], ends[:, 0], len(features))),
        as_csr(None, positives, ends[:, 1], len(labels)),
    )


def write_corpus(path, examples):
    """Write a corpus as JSON Lines, with all labels of the examples."""
    with open(path, "w", encoding="utf-8") as stream:
        for example in examples:
            document = {"id": example.name, "text": example.text, "labels": sorted(example.labels)}
            stream.write(json.dumps(document, ensure_ascii=False) + "\n")


def write(packages, translation, folder, seed=0):
    """Write the data sets of two index files and print their sizes."""
    sets = collect(read_index(packages), read_index(translation))
    print(f"{'set':12}{'N':>8}{'test':>8}{'D':>8}{'K':>8}{'words per point':>18}{'labels per point':>18}")
    for name, examples in sets.items():
        parts = split(examples, np.random.default_rng(seed), DEPENDENTS if name == "deps" else None)
        (train, _), (test, _) = parts
        if not (train.N and test.N):
            raise XmlgpError(f"{packages}: too few packages with a description in {translation} for {name}")
        target = Path(folder, name)
        target.mkdir(parents=True, exist_ok=True)
        for part, (dataset, used) in zip(("train", "test"), parts, strict=True):
            write_dataset(target / f"{part}.txt", dataset)
            write_corpus(target / f"{part}.jsonl", used)
        sizes = f"{train.N:8}{test.N:8}{train.D:8}{train.K:8}"
        print(
            f"{name:12}{sizes}{train.features.sparse.nnz / train.N:18.1f}{train.labels.nnz / train.N:18.1f}", flush=True
        )


_file = click.Path(exists=True, dir_okay=False)


@click.command(help=__doc__.replace("\n\n", "\n\n\b\n"))
@click.option("--packages", required=True, type=_file, help="A Packages file.")
@click.option("--translation", required=True, type=_file, help="A Translation-en file.")
@click.argument("folder", type=click.Path(file_okay=False))
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
def main(packages, translation, folder, seed):
    try:
        write(packages, translation, folder, seed)
    except (OSError, XmlgpError) as error:
        raise click.ClickException(str(error)) from error


if __name__ == "__main__":
    main()
