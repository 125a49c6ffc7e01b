"""The embedded data set `tickets`: generated texts of a help desk with names of labels, identical on every machine.

A ticket tells of one to three problems, each of a label, among greetings and remarks. As in real tickets, some
sentences fit several labels, some words are misspelt, and some labels are missing or wrong.

Its sentences are in `tickets.yaml`. The checksums of the catalogue show that the files are the same everywhere.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import yaml

T = TypeVar("T")

__all__ = ["URGENT", "sentences", "tickets"]

SEED = 5
N = 2000
N_TEST = 1000

#: How many problems a ticket tells of: each number as often as it is here.
PROBLEMS = (1, 1, 1, 1, 1, 2, 2, 2, 2, 3)
#: The frequency of the label of a rank is proportional to 1 / (rank + offset)².
LABEL_OFFSET = 8
#: How often a further problem is of the same area as the first one.
SAME_AREA = 0.5
#: How often a sentence is one that fits all labels of an area.
VAGUE = 0.2
#: How often a label is missing, and how often it is another one of the same area.
MISSING = 0.08
WRONG = 0.05
#: How often a ticket has the label `urgent` if it says so, and if it does not.
URGENT_IF_SAID = 0.8
URGENT_OTHERWISE = 0.01
#: How often a ticket has a remark, and says that it is urgent.
REMARK = 0.4
SAYS_URGENT = 0.15
#: How often a word has a typing error, and a ticket no capital letters.
TYPING_ERROR = 0.02
LOWER_CASE = 0.1

URGENT = "urgent"
HEADER = ("id", "text", "labels")


def sentences() -> dict[str, Any]:
    """Return the phrases by their names, the `vague` sentences by area, and the labels with their sentences."""
    content: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("tickets.yaml").read_text(encoding="utf-8"))
    return content


def tickets() -> tuple[str, str]:
    """Return the tickets for training (2000) and for testing (1000), as two CSV files with id, text and labels."""
    writer = _Writer()
    rows = [(f"T{number}", *writer.ticket()) for number in range(10_001, 10_001 + N + N_TEST)]
    return _csv(rows[:N]), _csv(rows[N:])


def _csv(rows: Sequence[tuple[str, str, str]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows([HEADER, *rows])
    return file.getvalue()


class _Writer:
    """Writes tickets by random choices."""

    def __init__(self) -> None:
        self._random = Random(SEED)  # noqa: S311, since nothing secret is drawn
        content = sentences()
        self._phrases = content["phrases"]
        self._vague = content["vague"]
        self._labels = content["labels"]
        # By rank, from the most frequent label on.
        self._weights = {label: 100_000 // (rank + LABEL_OFFSET) ** 2 for rank, label in enumerate(self._labels)}

    def ticket(self) -> tuple[str, str]:
        """Return the text and the labels of a ticket."""
        problems = [self._label()]
        area = self._labels[problems[0]]["area"]
        for _ in range(self._choose(PROBLEMS) - 1):
            label = self._label(area if self._happens(SAME_AREA) else None)
            if label not in problems:
                problems.append(label)
        parts = [self._sentence(label) for label in problems]
        if self._happens(REMARK):
            parts.append(self._filled("{remark}"))
        says_urgent = self._happens(SAYS_URGENT)
        if says_urgent:
            parts.append(self._filled("{urgent}"))
        parts = [self._filled("{opening}"), *map(_punctuated, parts), self._filled("{closing}")]
        text = re.sub("[A-Za-z]{4,}", self._typed, " ".join(filter(None, parts)))
        labels = self._given_labels(problems)
        if self._happens(URGENT_IF_SAID if says_urgent else URGENT_OTHERWISE):
            labels.append(URGENT)
        return text.lower() if self._happens(LOWER_CASE) else text, ";".join(labels)

    def _sentence(self, label: str) -> str:
        properties = self._labels[label]
        options = self._vague[properties["area"]] if self._happens(VAGUE) else properties["sentences"]
        return self._filled(_group(options))

    def _given_labels(self, problems: Sequence[str]) -> list[str]:
        """Return the labels that a person gives to a ticket with these problems: at least one, not always the right."""
        labels: list[str] = []
        for label in problems:
            if labels and self._happens(MISSING):
                continue
            chosen = self._label(self._labels[label]["area"]) if self._happens(WRONG) else label
            if chosen not in labels:
                labels.append(chosen)
        return labels

    def _filled(self, template: str) -> str:
        """Replace the groups in braces, the innermost first."""

        def chosen(match: re.Match[str]) -> str:
            name = match[1]
            return _group(self._phrases[name]) if name in self._phrases else self._choose(name.split("|"))

        while "{" in template:
            template = re.sub(r"\{([^{}]*)\}", chosen, template)
        return " ".join(template.split())

    def _typed(self, match: re.Match[str]) -> str:
        """Return a word, in which two neighbouring letters may be exchanged, or one left out."""
        word = match[0]
        if not self._happens(TYPING_ERROR):
            return word
        at = 1 + int(self._random.random() * (len(word) - 2))
        exchanged = word[at + 1] + word[at] if self._happens(0.5) else word[at + 1]
        return word[:at] + exchanged + word[at + 2 :]

    def _label(self, area: str | None = None) -> str:
        """Draw a label, perhaps of an area, by its frequency."""
        labels: list[str] = [label for label in self._labels if area in (None, self._labels[label]["area"])]
        return self._random.choices(labels, list(map(self._weights.__getitem__, labels)))[0]

    def _choose(self, options: Sequence[T]) -> T:
        return self._random.choices(options)[0]

    def _happens(self, probability: float) -> bool:
        return self._random.random() < probability


def _group(options: Sequence[str]) -> str:
    return f"{{{'|'.join(options)}}}"


def _punctuated(sentence: str) -> str:
    return sentence[0].upper() + sentence[1:] + ("" if sentence[-1] in ".?" else ".")
