"""Read scored or assigned labels of points by their names: from JSON Lines, tables, or Python's dicts and lists."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.errors import DataFormatError, SettingsError, raise_errors
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.delimited import DELIMITERS, header_fields
from xmlgp.text.json_lines import SUBJECT
from xmlgp.text.json_objects import Malformed, read_objects
from xmlgp.text.labels import BadName, LabelNumbers
from xmlgp.text.table_rows import Row

__all__ = ["NamedScores", "label_table_delimiter", "read_label_records", "read_label_table", "scores_of_records"]

#: The keys of the score of a label: those of xmlgp, and that of other programs. The first that is present counts.
SCORES = ("probability", "utility", "score")

#: The score of the first label in a list without scores. The others have one less each. It is above 1, so it is not
#: taken as a probability.
FIRST_OF_UNSCORED = 2.0

#: What messages say of labels that are not assigned, and of those that are.
LABELS_ARE = ("are ranked by their scores", "are assigned or have no scores")


class NamedScores(NamedTuple):
    """Scores of points; the names of all K labels, or None; and the identifiers of the points, or None.

    Unless they are `complete`, points without labels are missing.
    """

    scores: Scores
    names: Sequence[str] | None = None
    ids: list[Any] | None = None
    complete: bool = True


class _Point(NamedTuple):
    """The identifier of a point, the numbers of its labels, their scores, and whether the labels are assigned."""

    id: str | int | None
    labels: list[int]
    scores: list[float]
    assigned: bool


def read_label_records(reader: LineReader) -> NamedScores:
    """Return the scores of JSON Lines, each a record as for `scores_of_records`; DataFormatError names a bad line."""
    points = _Points()
    lines = decoded_lines(reader)
    # `points` keeps what it is given; the loop only raises the errors.
    for _ in raise_errors(read_objects(lines, reader.path, lambda number, record: points.add(record))):
        pass
    return points.scores()


def label_table_delimiter(line: bytes) -> str | None:
    """Return what separates the fields of a line if it is the header of a table of labels, or None."""
    text = line.decode("utf-8-sig", "replace").rstrip("\r\n")
    return next((mark for mark in DELIMITERS if set(SUBJECT) & set(header_fields(text, mark))), None)


def read_label_table(rows: Iterator[tuple[int, Row] | DataFormatError], path: str) -> NamedScores:
    """Return the scores of a table, with a row for each label of a point, as `LabelWriter` writes it.

    The first row is the header. DataFormatError names a malformed row.
    """
    valid = raise_errors(rows)
    line, header = next(valid, (1, []))
    if "id" not in header or not set(SUBJECT) & set(header):
        reason = "a table of scores has the columns id and label or uri; the scores come first, then the data"
        raise DataFormatError(path, line, reason)
    entries: dict[str, list[dict[str, object]]] = {}
    last_lines: dict[str, int] = {}
    for line, row in valid:
        if len(row) != len(header):
            reason = f"this row has {counted(len(row), 'field')}, but the header has {len(header)}"
            raise DataFormatError(path, line, reason)
        cells = dict(zip(map(str, header), map(str, row), strict=True))
        try:
            entry = _table_entry(cells)
        except Malformed as error:
            raise DataFormatError(path, line, str(error)) from None
        entries.setdefault(cells["id"], []).append(entry)
        last_lines[cells["id"]] = line
    points = _Points()
    for identifier, labels in entries.items():
        try:
            points.add({"id": identifier, "labels": labels})
        except Malformed as error:
            raise DataFormatError(path, last_lines[identifier], f"point {excerpt(identifier)}: {error}") from None
    return points.scores()._replace(complete=False)


def _table_entry(cells: Mapping[str, str]) -> dict[str, object]:
    """Return the label in a row of a table as an entry of `labels` in a dict; raise Malformed."""
    if not cells["id"].strip():
        raise Malformed("the row has no id")
    entry: dict[str, object] = {key: cells[key] for key in SUBJECT if key in cells}
    _name(entry)
    for key in SCORES:
        if key in cells:
            try:
                entry[key] = float(cells[key])
            except ValueError:
                raise Malformed(f"{key} is {excerpt(cells[key])}, not a number") from None
    _score(entry)
    return entry


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
                raise Malformed(f"labels is {excerpt(record)}, not a list of names")
            points.add(record if isinstance(record, dict) else {"labels": [_entry(label) for label in record]})
        except Malformed as error:
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
        self._points: list[_Point] = []
        #: Whether labels are assigned, once there is a point with labels.
        self._assigned: bool | None = None

    def add(self, record: Mapping[str, object]) -> tuple[None, list[str]]:
        """Add a point, and return the texts of the record as `read_objects` expects them; raise Malformed."""
        identifier = _identifier(record)
        entries = record.get("labels")
        if not isinstance(entries, list):
            reason = f"labels is {excerpt(entries)}, not a list" if "labels" in record else "there is no field labels"
            raise Malformed(reason)
        names = [_name(entry) for entry in entries]
        scores = [_score(entry) for entry in entries]
        scored = [score for score in scores if score is not None]
        if scored and len(scored) < len(names):
            raise Malformed(f"a label has no score ({', '.join(SCORES)}), but others have")
        try:
            labels = [self._numbers[name] for name in names]
        except BadName as error:
            raise Malformed(str(error)) from None
        if len(set(labels)) < len(labels):
            raise Malformed(f"label {excerpt(max(names, key=names.count))} occurs twice")
        assigned = record.get("assigned") is True or len(scored) < len(names)
        if labels:
            if self._assigned not in (None, assigned):
                raise Malformed(
                    f"the labels {LABELS_ARE[assigned]}, but those of earlier points {LABELS_ARE[not assigned]}"
                )
            self._assigned = assigned
        # Labels without scores are ranked as listed.
        ranking = scored or [FIRST_OF_UNSCORED - rank for rank in range(len(names))]
        self._points.append(_Point(identifier, labels, ranking, assigned))
        return None, [*names, str(identifier)]

    def scores(self) -> NamedScores:
        """Return the scores of all points."""
        names, positions = self._numbers.ordered()
        indptr = np.concatenate([[0], np.cumsum([len(point.labels) for point in self._points], dtype=np.int64)])
        labels = np.fromiter(itertools.chain.from_iterable(point.labels for point in self._points), np.int32)
        scores = np.fromiter(itertools.chain.from_iterable(point.scores for point in self._points), float)
        ids = [point.id for point in self._points]
        assigned = self._assigned
        if assigned is None:
            # No point has labels: they are assigned if every record says so.
            assigned = bool(self._points) and all(point.assigned for point in self._points)
        return NamedScores(
            Scores(indptr, positions[labels], scores, len(names), None, assigned),
            names,
            None if all(identifier is None for identifier in ids) else ids,
        )


def _identifier(record: Mapping[str, object]) -> str | int | None:
    """Return the identifier of a point, or None if it has none; raise Malformed."""
    identifier = record.get("id", record.get("document_id"))
    if isinstance(identifier, float) and math.isfinite(identifier):
        return str(identifier)  # pandas writes integers as floats if one of the column is missing
    if identifier is None or (isinstance(identifier, str | int) and not isinstance(identifier, bool)):
        return identifier
    raise Malformed(f"id is {excerpt(identifier)}, neither text nor an integer")


def _name(entry: object) -> str:
    """Return the name of a label, from a dict with a field for it or from the name alone; raise Malformed."""
    name = entry
    if isinstance(entry, dict):
        name = next((entry[key] for key in SUBJECT if entry.get(key) not in (None, "")), None)
    if type(name) not in (str, int) or not str(name).strip():
        raise Malformed(f"a label is {excerpt(entry)}, which has no name")
    return str(name)


def _score(entry: object) -> float | None:
    """Return the score of a label, or None if it has none; raise Malformed."""
    scores = [entry[key] for key in SCORES if key in entry] if isinstance(entry, dict) else []
    if not scores:
        return None
    score: float = scores[0]
    if type(score) not in (int, float) or not abs(score) <= sys.float_info.max:
        raise Malformed(f"a score is {excerpt(score)}, not a finite number")
    return score
