"""Read the labels of points by their names: from JSON Lines and tables, or from Python's dicts and lists."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xmlgp.data.lines import LineReader, decoded_lines
from xmlgp.prediction.label_writer import DIALECTS
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.errors import DataFormatError, SettingsError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.labels import BadName, LabelNumbers

__all__ = ["NamedScores", "read_label_records", "read_label_table", "scores_of_records"]

#: The keys of the name of a label, and those of its score: of both, the first that is present counts.
NAMES = ("uri", "label")
SCORES = ("probability", "utility", "score")


class NamedScores(NamedTuple):
    """Scores of points; the names of all K labels, or None; and the identifiers of the points, or None.

    Unless they are `complete`, points without labels are missing.
    """

    scores: Scores
    names: Sequence[str] | None = None
    ids: Sequence[Any] | None = None
    complete: bool = True


def read_label_records(reader: LineReader) -> NamedScores:
    """Return the scores of JSON Lines, each a record as for `scores_of_records`."""
    return _scores_of(_parsed_lines(reader))


def _parsed_lines(reader: LineReader) -> Iterator[tuple[str, Mapping[str, object]]]:
    for number, line in decoded_lines(reader):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise DataFormatError(reader.path, number, "this is not a JSON object in one line")
        yield f"{reader.path}:{number}", record


def read_label_table(reader: LineReader, format: str) -> NamedScores:
    """Return the scores of a table, with a header and a row for each label of a point, as `LabelWriter` writes it.

    `format` is "tsv" or "csv".
    """
    lines = (f"{line}\n" for _, line in decoded_lines(reader))
    rows = csv.DictReader(lines, dialect=DIALECTS[format], strict=True)
    labels_of: dict[str, list[Mapping[str, str]]] = {}
    try:
        header = rows.fieldnames or ()
        if "id" not in header or not set(NAMES) & set(header):
            reason = (
                "a table of scores has the columns id and label or uri; the scores come first, then the data, and a "
                "matrix of scores is an .npy file"
            )
            raise DataFormatError(reader.path, 1, reason)
        for row in rows:
            if None in row or None in row.values():
                raise DataFormatError(
                    reader.path, rows.line_num, f"this row has not {len(header)} fields, as the header"
                )
            labels_of.setdefault(row["id"], []).append(row)
    except csv.Error as error:
        raise DataFormatError(reader.path, rows.reader.line_num, f"this row is not CSV ({error})") from None
    places = (f"{reader.path}: point {excerpt(identifier)}" for identifier in labels_of)
    records = ({"id": identifier, "labels": labels} for identifier, labels in labels_of.items())
    return _scores_of(zip(places, records, strict=True))._replace(complete=False)


def scores_of_records(records: Iterable[Mapping[str, object] | Iterable[object]]) -> NamedScores:
    """Return the scores of records, one for each point: dicts, as `LabelWriter.records` yields, or lists of labels.

    A label is a dict, a name, or a pair of name and score. The score of a label in a dict is its `probability`,
    `utility` or `score`. Labels are assigned if they have no scores, or if the dict has `"assigned": true`. Raises
    SettingsError if a record is malformed.
    """
    return _scores_of(
        (f"prediction {number}", record if isinstance(record, dict) else {"labels": record})
        for number, record in enumerate(records, 1)
    )


def _scores_of(records: Iterable[tuple[str, Mapping[str, object]]]) -> NamedScores:
    """Return the scores of points, given what messages call each and its record."""
    numbers = LabelNumbers()
    ids: list[str | int | None] = []
    labels: list[int] = []
    scores: list[float] = []
    ends = [0]
    kinds = set()
    for place, record in records:
        try:
            ids.append(_identifier(record))
            entries = _entries(record)
            numbers_of_point = [numbers[name] for name, _ in entries]
        except (BadName, SettingsError) as error:
            raise SettingsError(f"{place}: {error}") from None
        if len(set(numbers_of_point)) < len(entries):
            twice = max(numbers_of_point, key=numbers_of_point.count)
            raise SettingsError(f"{place}: label {excerpt(numbers.names[twice])} occurs twice")
        scored = [score for _, score in entries if score is not None]
        if 0 < len(scored) < len(entries):
            raise SettingsError(f"{place}: a label has no score ({', '.join(SCORES)}), but others have")
        assigned = record.get("assigned") is True or len(scored) < len(entries)
        if entries or assigned:
            kinds.add(assigned)
        labels += numbers_of_point
        scores += scored or [1.0] * len(entries)
        ends.append(len(labels))
    if len(kinds) > 1:
        raise SettingsError("the labels of some points have scores, and those of others are assigned")
    names, positions = numbers.ordered()
    columns = positions[np.array(labels, np.int32)]
    result = Scores(np.array(ends), columns, np.array(scores, float), len(names), None, True in kinds)
    return NamedScores(result, names, None if set(ids) <= {None} else ids)


def _identifier(record: Mapping[str, object]) -> str | int | None:
    """Return the identifier of a point, or None if it has none."""
    identifier = record.get("id", record.get("document_id"))
    if identifier is None or isinstance(identifier, str | int):
        return identifier
    raise SettingsError(f"id is {excerpt(identifier)}, neither text nor an integer")


def _entries(record: Mapping[str, object]) -> list[tuple[str, float | None]]:
    """Return the names of the labels of a point, and their scores, None for those that have none."""
    entries = record.get("labels")
    if isinstance(entries, str) or not isinstance(entries, Iterable):
        raise SettingsError(f"`labels` is {excerpt(entries)}, not a list of labels")
    return [_name_and_score(entry) for entry in entries]


def _name_and_score(entry: object) -> tuple[str, float | None]:
    name: object = entry
    score: Any = None
    if isinstance(entry, dict):
        name = next((entry[key] for key in NAMES if entry.get(key) not in (None, "")), None)
        score = next((entry[key] for key in SCORES if key in entry), None)
    elif isinstance(entry, tuple) and len(entry) == 2:
        name, score = entry
    if type(name) not in (str, int) or not str(name).strip():
        raise SettingsError(f"a label is {excerpt(entry)}, which has no name")
    if score is None:
        return str(name), None
    try:
        number = float(score)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise SettingsError(f"a score is {excerpt(score)}, not a finite number")
    return str(name), number
