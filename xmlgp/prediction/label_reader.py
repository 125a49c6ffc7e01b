"""Read the labels of points by their names: from JSON Lines and tables, or from Python's dicts and lists."""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.errors import DataFormatError, SettingsError
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.labels import BadName, LabelNumbers

__all__ = ["NamedScores", "read_label_records", "read_label_table", "scores_of_records"]

#: The keys of the name of a label, and those of its score: of both, the first that is present counts.
NAMES = ("uri", "label")
SCORES = ("probability", "utility", "score")

#: The score of the first label in a list without scores. The others have one less each. It is above 1, so it is not
#: taken as a probability.
FIRST_OF_UNSCORED = 2.0


class NamedScores(NamedTuple):
    """Scores of points; the names of all K labels, or None; and the identifiers of the points, or None.

    Unless they are `complete`, points without labels are missing.
    """

    scores: Scores
    names: Sequence[str] | None = None
    ids: list[Any] | None = None
    complete: bool = True


class _Malformed(Exception):
    """A record that is malformed; the text says why."""


def read_label_records(reader: LineReader) -> NamedScores:
    """Return the scores of JSON Lines, each a record as for `scores_of_records`; DataFormatError names a bad line."""
    points = _Points()
    for number, line in decoded_lines(reader):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if not isinstance(record, dict):
                raise _Malformed("this is not a JSON object")
            points.add(record)
        except (ValueError, RecursionError):
            raise DataFormatError(reader.path, number, "this is not a JSON object in one line") from None
        except _Malformed as error:
            raise DataFormatError(reader.path, number, str(error)) from None
    return points.scores()


def read_label_table(reader: LineReader, delimiter: str) -> NamedScores:
    """Return the scores of a table, with a row for each label of a point, as `LabelWriter` writes it.

    The first row is the header. DataFormatError names a malformed row.
    """
    rows = _rows(reader, delimiter)
    line, header = next(rows, (1, []))
    if "id" not in header or not set(NAMES) & set(header):
        reason = "a table of scores has the columns id and label or uri; the scores come first, then the data"
        raise DataFormatError(reader.path, line, reason)
    entries: dict[str, list[dict[str, object]]] = {}
    points = _Points()
    for line, row in rows:
        try:
            if len(row) != len(header):
                raise _Malformed(f"this row has {counted(len(row), 'field')}, but the header has {len(header)}")
            cells = dict(zip(header, row, strict=True))
            entry: dict[str, object] = {key: cells[key] for key in NAMES if key in cells}
            entry |= {key: _number(key, cells[key]) for key in SCORES if key in cells}
            _name(entry)
        except _Malformed as error:
            raise DataFormatError(reader.path, line, str(error)) from None
        entries.setdefault(cells["id"], []).append(entry)
    for identifier, labels in entries.items():
        try:
            points.add({"id": identifier, "labels": labels})
        except _Malformed as error:
            raise SettingsError(f"{reader.path}: point {excerpt(identifier)}: {error}") from None
    return points.scores()._replace(complete=False)


def _rows(reader: LineReader, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table that are not empty, each with the number of its last line."""
    lines = decoded_lines(reader)
    if delimiter == "\t":
        # Tab-separated values have no quotes.
        yield from ((number, line.split("\t")) for number, line in lines if line)
        return
    rows = csv.reader((f"{line}\n" for _, line in lines), strict=True)
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise DataFormatError(reader.path, rows.line_num, f"this row is not CSV ({error})") from None
        if row is None:
            return
        if row:
            yield rows.line_num, row


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _Malformed(f"{key} is {excerpt(text)}, not a number") from None


def scores_of_records(records: Iterable[Mapping[str, object] | Iterable[object]]) -> NamedScores:
    """Return the scores of records, one for each point: dicts, as `LabelWriter.records` yields, or lists of labels.

    A label in a list is a name, or a pair of name and score. The score of a label in a dict is its `probability`,
    `utility` or `score`. Labels are assigned if they have no scores, or if the dict has `"assigned": true`. Raises
    SettingsError if a record is malformed.
    """
    points = _Points()
    for number, record in enumerate(records, 1):
        try:
            if isinstance(record, str):
                # It would be read as the list of its letters.
                raise _Malformed(f"labels is {excerpt(record)}, not a list of names")
            points.add(record if isinstance(record, dict) else {"labels": [_entry(label) for label in record]})
        except _Malformed as error:
            raise SettingsError(f"prediction {number}: {error}") from None
    return points.scores()


def _entry(label: object) -> object:
    """Return a label in a list as an entry of `labels` in a dict."""
    if isinstance(label, tuple) and len(label) == 2:
        return {"label": label[0], "score": label[1]}
    return label


class _Points:
    """The points that were read so far. Either all have ranked labels, or all have assigned labels."""

    def __init__(self) -> None:
        self._numbers = LabelNumbers()
        self._ids: list[str | int | None] = []
        self._labels: list[list[int]] = []
        self._scores: list[list[float]] = []
        #: Whether the labels of each point are assigned; points without labels may say so too.
        self._assigned: list[bool] = []

    def add(self, record: Mapping[str, object]) -> None:
        """Add a point; raise _Malformed."""
        entries = record.get("labels")
        if not isinstance(entries, list):
            reason = f"labels is {excerpt(entries)}, not a list" if "labels" in record else "there is no field labels"
            raise _Malformed(reason)
        names = [_name(entry) for entry in entries]
        scores = [score for score in map(_score, entries) if score is not None]
        if scores and len(scores) < len(names):
            raise _Malformed(f"a label has no score ({', '.join(SCORES)}), but others have")
        try:
            labels = [self._numbers[name] for name in names]
        except BadName as error:
            raise _Malformed(str(error)) from None
        if len(set(labels)) < len(labels):
            raise _Malformed(f"label {excerpt(max(names, key=names.count))} occurs twice")
        self._ids.append(_identifier(record))
        self._labels.append(labels)
        # Labels without scores are ranked as listed.
        self._scores.append(scores or [FIRST_OF_UNSCORED - rank for rank in range(len(names))])
        self._assigned.append(record.get("assigned") is True or len(scores) < len(names))

    def scores(self) -> NamedScores:
        """Return the scores of all points; SettingsError if some rank their labels and others do not."""
        lengths = [len(labels) for labels in self._labels]
        kinds = {kind for kind, length in zip(self._assigned, lengths, strict=True) if length}
        if len(kinds) > 1:
            raise SettingsError("the labels of some points have scores, and those of others are assigned")
        # If no point has labels, they are assigned if every record says so.
        assigned = kinds.pop() if kinds else bool(lengths) and all(self._assigned)
        names, positions = self._numbers.ordered()
        indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        labels = np.fromiter(itertools.chain.from_iterable(self._labels), np.int32)
        scores = np.fromiter(itertools.chain.from_iterable(self._scores), float)
        ids = None if all(identifier is None for identifier in self._ids) else self._ids
        return NamedScores(Scores(indptr, positions[labels], scores, len(names), None, assigned), names, ids)


def _identifier(record: Mapping[str, object]) -> str | int | None:
    """Return the identifier of a point, or None if it has none; raise _Malformed."""
    identifier = record.get("id", record.get("document_id"))
    if identifier is None or (isinstance(identifier, str | int) and not isinstance(identifier, bool)):
        return identifier
    raise _Malformed(f"id is {excerpt(identifier)}, neither text nor an integer")


def _name(entry: object) -> str:
    """Return the name of a label, from a dict with a field for it or from the name alone; raise _Malformed."""
    name = entry
    if isinstance(entry, dict):
        name = next((entry[key] for key in NAMES if entry.get(key) not in (None, "")), None)
    if type(name) not in (str, int) or not str(name).strip():
        raise _Malformed(f"a label is {excerpt(entry)}, which has no name")
    return str(name)


def _score(entry: object) -> float | None:
    """Return the score of a label, or None if it has none; raise _Malformed."""
    score = next((entry[key] for key in SCORES if key in entry), None) if isinstance(entry, dict) else None
    if score is not None and (type(score) not in (int, float) or not math.isfinite(score)):
        raise _Malformed(f"a score is {excerpt(score)}, not a finite number")
    return score
