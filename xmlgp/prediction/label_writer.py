"""Write the labels of points with their names, as JSON Lines or as a table."""

from __future__ import annotations

import csv
import io
import itertools
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from xmlgp.data.dataset import Features
from xmlgp.data.files import format_ending
from xmlgp.data.names import CONTROL
from xmlgp.prediction.predictor import Predictor
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.terminal_table import labels_for_people
from xmlgp.runtime.errors import UsageError

__all__ = ["DIALECTS", "FORMATS", "LabelExplanations", "LabelWriter", "ScoredPoints", "format_of"]

#: The formats of labels with their names.
FORMATS = ("jsonl", "tsv", "csv")

#: Endings of tables that are not text.
OTHER_TABLES = (".xlsx", ".xls", ".ods", ".parquet", ".feather")

#: The digits that single precision has.
NUMBER = ".7g"

#: Points that are explained and formatted at a time.
POINTS = 256


class _TabSeparated(csv.excel_tab):
    """Tab-separated values, which have no quotes."""

    quoting = csv.QUOTE_NONE
    quotechar = None


#: The dialects of tables.
DIALECTS: dict[str, type[csv.Dialect]] = {"tsv": _TabSeparated, "csv": csv.excel}


class ScoredPoints(NamedTuple):
    """Consecutive points: identifiers, features and scores."""

    ids: Sequence[str | int]
    features: Features
    scores: Scores


def format_of(path: str) -> str | None:
    """Return the format that the ending of the name of a file says, or None; UsageError for a table that is no text."""
    ending = format_ending(path)
    if ending in OTHER_TABLES:
        raise UsageError(f"{path}: files named {ending} cannot be written; end the name in .csv, .tsv or .jsonl.")
    return ending[1:] if ending[1:] in FORMATS else None


@dataclass(frozen=True)
class LabelExplanations:
    """Explains labels by a predictor, with at most `count` words for each and so many against it.

    Words are the features by their D names or, without names, their numbers. Where the model has an index of the
    training points, a label also has the `nearest` ones with it, by their numbers from 1 and with the words that they
    share, and what words, neighbours and the bias add to its utility.
    """

    predictor: Predictor
    names: Sequence[str] | None
    count: int
    texts: Sequence[str] | None = None

    @property
    def fields(self) -> list[str]:
        """The names of what a label has."""
        of_neighbours = ["nearest", "from"] if self.predictor.pooled else []
        return ["for", "against", *of_neighbours, *(["text"] if self.texts else [])]

    def __call__(self, features: Features, scores: Scores) -> Iterator[dict[str, object]]:
        """Yield the values of the fields for each scored label of points with these features, B×D as read.

        The first two are lists of {"word": name, "contribution": number}, the strongest first.
        """
        contributions = self.predictor.explain(features, scores, self.count)
        for pair in range(len(scores.labels)):
            sides = zip(("for", "against"), contributions.strongest(pair, self.count), strict=True)
            explanation: dict[str, object] = {
                side: [{"word": self._name(feature), "contribution": _rounded(value)} for feature, value in words]
                for side, words in sides
            }
            if contributions.supporters is not None:
                explanation["nearest"] = [
                    {
                        "document": supporter.point + 1,
                        "similarity": _rounded(supporter.similarity),
                        "words": [self._name(word) for word in supporter.words],
                    }
                    for supporter in contributions.supporters[pair]
                ]
                explanation["from"] = {name: _rounded(value) for name, value in contributions.shares(pair).items()}
            if self.texts and contributions.text is not None:
                text = int(contributions.text[pair])
                explanation["text"] = self.texts[text] if text >= 0 else None
            yield explanation

    def _name(self, feature: int) -> str | int:
        return feature if self.names is None else self.names[feature]


@dataclass(frozen=True)
class LabelWriter:
    """Says in which words and with which fields labels are written.

    `names` are those of the K labels, or None for their numbers; with `uris`, a label also has `uri`, null if that is
    empty. `output` says what the scores are, and `with_std` whether they have standard deviations; `assigned`, whether
    the labels are assigned, not ranked.
    """

    names: Sequence[str] | None
    output: str
    with_std: bool = False
    explain: LabelExplanations | None = None
    uris: Sequence[str] | None = None
    assigned: bool = False

    def write(self, stream: BinaryIO, name: str, blocks: Iterable[ScoredPoints]) -> None:
        """Write the labels of points into a binary file, in the format called `name`, a block at a time.

        JSON Lines have an object for each point, `{"id": ..., "labels": [{"label": ..., "probability": ...}]}`, with
        `"assigned": true` if the labels are assigned. A "table" is for people. Other tables have a header and a row for
        each label of a point. With an explanation, a label also has its fields. NumericalError is raised if a score is
        not finite.
        """
        # The header is written with the first points: an error in these leaves no output.
        head = _table_row(name, self._header()) if name in DIALECTS else ""
        for record in self.records(blocks):
            if name == "jsonl":
                text = _json_line(record)
            elif name == "table":
                text = labels_for_people(record, self.output, shutil.get_terminal_size().columns)
            else:
                rows = ([record["id"], *map(_cell, label.values())] for label in record["labels"])
                text = head + "".join([_table_row(name, row) for row in rows])
            # Half of a surrogate pair, which an identifier in JSON can have, is written as JSON escapes it.
            stream.write(text.encode(errors="backslashreplace"))
            head = ""
        stream.write(head.encode())

    def records(self, blocks: Iterable[ScoredPoints]) -> Iterator[dict[str, Any]]:
        """Yield what a line of JSON Lines has, a dict for each point; see `write`."""
        done = 0
        mark = {"assigned": True} if self.assigned else {}
        for block in blocks:
            block.scores.check_finite(done)
            scores = block.scores.descending()
            for start in range(0, scores.N, POINTS):
                chunk = scores.rows(start, min(start + POINTS, scores.N))
                rows = slice(start, start + chunk.N)
                labels = self._labels(block.features[rows], chunk)
                for id, (first, last) in zip(block.ids[rows], itertools.pairwise(chunk.indptr), strict=True):
                    yield {"id": id, "labels": labels[first:last], **mark}
            done += scores.N

    def _header(self) -> list[str]:
        """Return the names of the columns of a table."""
        uri = [] if self.uris is None else ["uri"]
        std = ["std"] if self.with_std else []
        return ["id", *uri, "label", self.output, *std, *(self.explain.fields if self.explain else [])]

    def _labels(self, features: Features, scores: Scores) -> list[dict[str, object]]:
        """Return what each label of points with these features has."""
        labels = scores.labels.tolist()
        columns: dict[str, Iterable[object]] = {}
        if self.uris is not None:
            columns["uri"] = [self.uris[label] or None for label in labels]
        columns["label"] = labels if self.names is None else [self.names[label] for label in labels]
        columns[self.output] = map(_rounded, scores.scores.tolist())
        if scores.std is not None:
            columns["std"] = map(_rounded, scores.std.tolist())
        written = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        if self.explain is None:
            return written
        return [label | reasons for label, reasons in zip(written, self.explain(features, scores), strict=True)]


def _json_line(record: dict[str, Any]) -> str:
    line = json.dumps(record, ensure_ascii=False)
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", line) + "\n"


def _cell(value: object) -> object:
    """Return what a table has in place of a field; words with their contributions are separated by semicolons."""
    if isinstance(value, list):
        # A word and its contribution, or a document and its similarity.
        value = dict(tuple(entry.values())[:2] for entry in value)
    if isinstance(value, dict):
        return "; ".join(f"{word} {contribution:+.3g}" for word, contribution in value.items())
    return value


def _table_row(name: str, row: Sequence[object]) -> str:
    """Return a row of a table of text, "csv" or "tsv", with its line end."""
    cells = [CONTROL.sub(" ", value) if isinstance(value, str) else value for value in row]
    text = io.StringIO()
    csv.writer(text, DIALECTS[name], lineterminator="\n").writerow(cells)
    return text.getvalue()


def _rounded(value: float) -> float:
    """Return a number with the digits that single precision has."""
    # Zero has no sign.
    return float(format(value, NUMBER)) + 0.0
