"""Write the labels of points with their names, as JSON Lines or as a table."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from xmlgp.data.features import Features
from xmlgp.data.file_kinds import format_ending
from xmlgp.data.names import CONTROL
from xmlgp.prediction.predictor import Predictor
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.errors import UsageError

__all__ = ["FORMATS", "LabelExplanations", "LabelWriter", "ScoredPoints", "format_of"]

#: The formats of labels with their names.
FORMATS = ("jsonl", "tsv", "csv")

#: Endings of tables that are not text.
OTHER_TABLES = (".xlsx", ".xls", ".ods", ".parquet", ".feather")

#: The digits that single precision has.
NUMBER = ".7g"

#: Control characters without whitespace. Identifiers may have any, and a terminal would obey those printed on it.
CONTROL_CODES = re.compile("[\0-\x08\x0e-\x1f\x7f-\x9f]")

#: Points that are explained and formatted at a time.
POINTS = 256


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

    def __call__(self, features: Features, scores: Scores) -> Iterator[list[object]]:
        """Yield the values of the fields for each scored label of points with these features, B×D as read.

        The first two are lists of {"word": name, "contribution": number}, the strongest first.
        """
        contributions = self.predictor.explain(features, scores)
        supporters = self.predictor.supporters(features, scores, self.count)
        for pair in range(len(scores.labels)):
            values: list[object] = [
                [{"word": self._name(feature), "contribution": _rounded(value)} for feature, value in side]
                for side in contributions.strongest(pair, self.count)
            ]
            if supporters is not None:
                values.append(
                    [
                        {
                            "document": supporter.point + 1,
                            "similarity": _rounded(supporter.similarity),
                            "words": [self._name(word) for word in supporter.words],
                        }
                        for supporter in supporters[pair]
                    ]
                )
                values.append({name: _rounded(value) for name, value in contributions.shares(pair).items()})
            if self.texts and contributions.text is not None:
                text = int(contributions.text[pair])
                values.append(self.texts[text] if text >= 0 else None)
            yield values

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
        `"assigned": true` if the labels are assigned. Tables have a header and a row for each label of a point. With an
        explanation, a label also has its fields. NumericalError is raised if a score is not finite.
        """
        # The header is written with the first points: an error in these leaves no output.
        head = "" if name == "jsonl" else _table_row(name, self._header())
        for record in self.records(blocks):
            lines = [_json_line(record)] if name == "jsonl" else [_table_row(name, row) for row in _cells(record)]
            # Half of a surrogate pair, which an identifier in JSON can have, is written as JSON escapes it.
            stream.write((head + "".join(lines)).encode(errors="backslashreplace"))
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
                rows = slice(start, min(start + POINTS, scores.N))
                chunk = scores.rows(rows.start, rows.stop)
                labels = self._labels(block.features, rows, chunk)
                for id, (first, last) in zip(block.ids[rows], itertools.pairwise(chunk.indptr), strict=True):
                    yield {"id": id, "labels": labels[first:last], **mark}
            done += scores.N

    def _header(self) -> list[str]:
        """Return the names of the columns of a table."""
        uri = [] if self.uris is None else ["uri"]
        std = ["std"] if self.with_std else []
        return ["id", *uri, "label", self.output, *std, *(self.explain.fields if self.explain else [])]

    def _labels(self, features: Features, rows: slice, scores: Scores) -> list[dict[str, object]]:
        """Return what each label of the points in some rows has."""
        labels = scores.labels.tolist()
        columns: dict[str, Iterable[object]] = {}
        if self.uris is not None:
            columns["uri"] = [self.uris[label] or None for label in labels]
        columns["label"] = labels if self.names is None else [self.names[label] for label in labels]
        columns[self.output] = map(_rounded, scores.scores.tolist())
        if scores.std is not None:
            columns["std"] = map(_rounded, scores.std.tolist())
        if self.explain is not None:
            columns |= zip(self.explain.fields, zip(*self.explain(features[rows], scores), strict=True), strict=False)
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _json_line(record: dict[str, Any]) -> str:
    line = json.dumps(record, ensure_ascii=False)
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", line) + "\n"


def _cells(record: dict[str, Any]) -> Iterator[list[object]]:
    """Yield the rows of a point in a table; in a cell, words with their contributions are separated by semicolons."""
    for label in record["labels"]:
        yield [record["id"], *map(_cell, label.values())]


def _cell(value: object) -> object:
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        # A word and its contribution, or a document and its similarity.
        pairs = [tuple(entry.values())[:2] for entry in value]
    else:
        return value
    return "; ".join(f"{word} {contribution:+.3g}" for word, contribution in pairs)


def _table_row(name: str, row: Sequence[object]) -> str:
    """Return a row of a table of text, "csv" or "tsv", with its line end."""
    if name == "tsv":
        # Tab-separated values have no quotes, so a cell cannot contain the separators.
        cells = ["" if value is None else " ".join(CONTROL.sub(" ", str(value)).split()) for value in row]
        return "\t".join(cells) + "\n"
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(
        [CONTROL_CODES.sub(" ", value) if isinstance(value, str) else value for value in row]
    )
    return text.getvalue()


def _rounded(value: float) -> float:
    """Return a number with the digits that single precision has."""
    # Zero has no sign.
    return float(format(value, NUMBER)) + 0.0
