"""The embedded data set `tickets`: generated texts of a help desk with names of labels, identical on every machine.

A ticket tells of one to three problems, each of a label. As in real tickets, some sentences fit several labels, and
some labels are missing. The sentences are in `tickets.yaml`.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from random import Random
from typing import Any

from xmlgp.data.catalogue import read_yaml

__all__ = ["sentences", "tickets"]

SEED = 5
N = 2000
N_TEST = 1000

#: How many problems a ticket tells of: each number as often as it is here.
PROBLEMS = (1, 1, 1, 1, 1, 2, 2, 2, 2, 3)
#: The frequency of the label of a rank is proportional to 1 / (rank + offset)².
LABEL_OFFSET = 8
#: How often a sentence is one that fits all labels of an area.
VAGUE = 0.25
#: How often a label is given.
GIVEN = 0.9

#: A group in a sentence without another group in it.
GROUP = re.compile(r"\{([^{}]*)\}")


def sentences() -> dict[str, Any]:
    """Return the phrases by their names, the `vague` sentences by area, and the labels with their sentences."""
    return read_yaml(Path(__file__).with_name("tickets.yaml"))


def tickets() -> tuple[str, str]:
    """Return the tickets for training (2000) and for testing (1000), as two CSV files with id, text and labels."""
    random = Random(SEED)  # noqa: S311, since nothing secret is drawn
    content = sentences()
    tables = []
    for first, count in (1, N), (1 + N, N_TEST):
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("id", "text", "labels"))
        writer.writerows((f"T{10_000 + number}", *_ticket(random, content)) for number in range(first, first + count))
        tables.append(file.getvalue())
    return tables[0], tables[1]


def _ticket(random: Random, content: dict[str, Any]) -> tuple[str, str]:
    """Return the text and the labels of a ticket."""
    labels = content["labels"]
    weights = [1 / (rank + LABEL_OFFSET) ** 2 for rank in range(len(labels))]
    problems = list(dict.fromkeys(random.choices(list(labels), weights, k=random.choices(PROBLEMS)[0])))
    parts = ["{opening}"]
    for label in problems:
        area, own = labels[label].values()
        parts += random.choices(content["vague"][area] if random.random() < VAGUE else own)
    parts += ["{remark}", "{closing}"]
    texts = (_filled(random, content["phrases"], part) for part in parts)
    given = [label for label in problems if random.random() < GIVEN]
    return " ".join(text[0].upper() + text[1:] for text in texts if text), ";".join(given or problems[:1])


def _filled(random: Random, phrases: dict[str, list[str]], sentence: str) -> str:
    """Return a sentence with a choice in place of each group, the innermost first."""
    while group := GROUP.search(sentence):
        chosen = random.choices(phrases.get(group[1]) or group[1].split("|"))[0]
        sentence = sentence[: group.start()] + chosen + sentence[group.end() :]
    # A choice may be empty.
    return " ".join(sentence.split())
