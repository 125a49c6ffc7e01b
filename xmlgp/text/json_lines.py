"""Documents as JSON: an object a line, or an array of objects."""

from __future__ import annotations

import contextlib
import math
import re
import shlex
from collections.abc import Iterator, Mapping

from xmlgp.errors import DataFormatError
from xmlgp.runtime.plurals import counted
from xmlgp.text.documents import Columns, Document, Reading, absent
from xmlgp.text.doubts import note_repeated
from xmlgp.text.format import Format, Start
from xmlgp.text.json_objects import Malformed, read_objects, show_value
from xmlgp.text.label_flags import flag_columns, set_flags
from xmlgp.text.label_rows import describe_malformed, divide_labels

__all__ = ["JSON_LINES", "SUBJECT", "read_json_lines"]

#: The start of an object, or of an array of objects.
JSON_START = re.compile(r"\s*(\{|\[\s*(\{|\]?\s*\Z))")

#: The fields of an object that is a label, the first of which counts: two subjects may have the same label.
SUBJECT = ("uri", "label")

#: The usual field of the name in an object of another program.
NAME = "name"

#: What Prodigy writes into the field `answer` of an annotation that does not hold.
NO_ANSWERS = ("reject", "ignore")

#: The fields that say how much a label holds.
WEIGHTS = ("value", "score", "probability")

#: The field of the identifier as Annif has it, which is read where there is no `id`.
DOCUMENT_ID = "document_id"

#: The field of labels as Annif has it, which is read in place of the default where this is not there.
SUBJECTS = "subjects"

#: What to do with an object of rows or columns.
BY_PANDAS = "; pandas writes documents by to_json(path, orient='records', lines=True)"


def _is_json(start: Start) -> bool:
    return bool(JSON_START.match(start.line))


def read_json_lines(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Document | DataFormatError]:
    """Yield the documents of objects, one a line or in an array, or the errors of objects.

    An object has a text, a list of labels, and perhaps an identifier. Numbers count as texts. A text or a list that is
    null is empty; a list of paragraphs is a text, and lists within a list of labels are part of it.
    """
    scores: list[float] = []
    rejected: list[int] = []

    def parse(number: int, fields: dict[str, object]) -> tuple[Document, list[str]]:
        if reading.labelled and not scores:
            scores.extend(_scores(fields, reading.columns))
        if fields.get("answer") in NO_ANSWERS:
            rejected.append(number)
        try:
            document = _document(number, fields, reading)
        except Malformed as error:
            with contextlib.suppress(Malformed):
                error.id = _identifier(fields, reading.columns)
            raise
        return document, [document.text, *document.labels, str(document.id)]

    yield from read_objects(lines, reading.path, parse)
    if scores:
        reading.tell(f"labels have scores such as {scores[0]:g}; each counts as a label unless its score is 0")
    if rejected and reading.labelled:
        objects = counted(len(rejected), "object has", "objects have")
        advice = "jq -c 'select(.answer == \"accept\")' leaves them out"
        reading.tell(f"{objects} the answer reject or ignore, which count as others do; {advice}", rejected[0])


def _scores(fields: Mapping[str, object], columns: Columns) -> list[float]:
    """Return the scores of labels that are neither 0 nor 1, as those of predictions are."""
    lists = [labels for name in columns.labels if isinstance(labels := fields.get(name), list)]
    labels = [label for labels in lists if labels and isinstance(labels[0], dict) for label in labels]
    values = [label[name] for label in labels if isinstance(label, dict) for name in WEIGHTS if name in label]
    return [value for value in values if isinstance(value, float) and 0 < value < 1]


def _document(number: int, fields: Mapping[str, object], reading: Reading) -> Document:
    columns = reading.columns
    if columns.labels == Columns().labels and columns.labels[0] not in fields and SUBJECTS in fields:
        columns = columns._replace(labels=(SUBJECTS,))
    names = columns.text if reading.with_texts else [name for name in columns.text if name in fields]
    text = " ".join([_text(_field(fields, name, "--text-column"), name) for name in names])
    labels = _all_labels(fields, columns) if reading.labelled else []
    return Document(number, _identifier(fields, columns), text, labels)


def _all_labels(fields: Mapping[str, object], columns: Columns) -> list[str] | str:
    """Return the labels of all fields; a single field may have a text, which is divided later."""
    values = [_labels(_field(fields, name, "--label-column"), name) for name in columns.labels]
    if len(values) == 1 and not columns.flags:
        return values[0]
    labels: list[str] = []
    for value in values:
        try:
            labels += divide_labels(value, columns.separator, None) if isinstance(value, str) else value
        except ValueError:
            raise Malformed(describe_malformed(str(value))) from None
    named = [*columns.text, *columns.labels, columns.id or "id"]
    flags = flag_columns("field", columns.flags, list(fields), named)
    return labels + set_flags("label", {name: fields[name] for name in flags.values()})


def _identifier(fields: Mapping[str, object], columns: Columns) -> str | int | None:
    """Return the identifier of an object, which is in `document_id` as Annif has it if there is no other field."""
    value = fields.get("id", fields.get(DOCUMENT_ID))
    if columns.id is not None:
        try:
            value = _field(fields, columns.id, "--id-column")
        except Malformed:
            if columns.id_needed:
                raise
    value = _without_decimals(value)
    if value is None or (isinstance(value, str | int) and not isinstance(value, bool)):
        return value
    raise Malformed(f"{columns.id or 'id'} is {show_value(value)}, neither text nor an integer")


def _without_decimals(value: object) -> object:
    """Return a value, or the integer that pandas writes with decimals where other rows have none."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _field(fields: Mapping[str, object], name: str, option: str) -> object:
    """Return a field by its name, or by the names on the way to it; an option can give another name."""
    if name in fields:
        return fields[name]
    try:
        return _within(fields, name.split("."))
    except KeyError:
        raise Malformed(absent("field", name, fields, option) + _documents_within(fields)) from None


def _documents_within(value: object) -> str:
    """Return what to do with an object that has the documents in one of its fields, or is a column of a table."""
    if not isinstance(value, dict):
        return ""
    if value and (all(key.isdigit() for key in value) or value.keys() == {"columns", "index", "data"}):
        return BY_PANDAS
    for name, items in value.items():
        if isinstance(items, list) and items and isinstance(items[0], dict):
            return f"; `jq -c {shlex.quote(f'.{name}[]')}` writes the objects in it, one a line"
    return ""


def _within(value: object, path: list[str]) -> object:
    """Return what a value has at the end of a path of names; of a list, what each entry has. KeyError if it has not."""
    for position, name in enumerate(path):
        if isinstance(value, list):
            return [_within(entry, path[position:]) for entry in value if not _is_cancelled(entry)]
        if not isinstance(value, dict):
            raise KeyError(name)
        value = value[name]
    return value


def _is_cancelled(entry: object) -> bool:
    """Return whether an annotation is one that its author took back, as Label Studio marks it."""
    return isinstance(entry, dict) and entry.get("was_cancelled") is True


def _text(value: object, name: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join([_text(part, f"a part of {name}") for part in value])
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return str(value)
    raise Malformed(f"{name} is {show_value(value)}, which is not text{_documents_within(value)}")


def _labels(value: object, name: str) -> list[str] | str:
    if value is None:
        return []
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        if all(type(label) is str for label in value):
            # As most are.
            return value
        return [_label(label, name) for label in _flattened(value) if label is not None and not _is_rejected(label)]
    if isinstance(value, dict) and value:
        # With texts it is a label, not an object of names and 0 or 1.
        return (
            [_label(value, name)]
            if any(isinstance(entry, str) for entry in value.values())
            else set_flags("label", value)
        )
    if type(value) is int:
        return [str(value)]
    raise Malformed(f"{name} is {show_value(value)}, neither a list of labels nor text")


def _is_rejected(label: object) -> bool:
    """Return whether a label is an object whose value or score says that the document has not the label."""
    return isinstance(label, dict) and any(label[field] in (0, False) for field in WEIGHTS if field in label)


def _flattened(values: list[object]) -> Iterator[object]:
    """Yield what is in a list and in lists within it, which are those of another field or of a hierarchy."""
    for value in values:
        if isinstance(value, list):
            yield from _flattened(value)
        else:
            yield value


def _label(value: object, field: str) -> str:
    """Return the name of a label: a text, or the URI or else the label in an object, as Annif has subjects."""
    if isinstance(value, dict):
        names = [value[key] for key in SUBJECT if value.get(key) is not None]
        if not names:
            texts = [key for key, entry in value.items() if isinstance(entry, str)]
            key = NAME if NAME in texts else next(iter(texts), None)
            advice = f"; --label-column {shlex.quote(f'{field}.{key}')} reads its {key}" if key else ""
            raise Malformed(f"a label in {field} is an object without {' and '.join(SUBJECT)}{advice}")
        value = names[0]
    return _text(_without_decimals(value), f"a label in {field}")


#: JSON, one object a line or in an array.
JSON_LINES = Format(
    "jsonl", _is_json, read_json_lines, (".jsonl", ".ndjson", ".json"), has_columns=True, doubts=(note_repeated,)
)
