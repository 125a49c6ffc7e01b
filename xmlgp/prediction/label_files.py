"""The labels of points with their names: JSON Lines, which are also read, and tables."""

import csv
import io
import itertools
import json
import math
import re
import sys
from typing import NamedTuple

import numpy as np

from xmlgp.data.file_kinds import KINDS, compressed_ending, format_ending
from xmlgp.data.lines import decoded_lines
from xmlgp.data.names import CONTROL
from xmlgp.errors import DataFormatError, SettingsError, UsageError, raise_errors
from xmlgp.prediction.predictor import Predictor
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.table_output import TABLES
from xmlgp.runtime.untrusted_text import escape_undecodable, excerpt
from xmlgp.text.json_lines import SUBJECT
from xmlgp.text.json_objects import Malformed, read_objects
from xmlgp.text.labels import BadName, LabelNumbers
from xmlgp.text.table_files import table_library

__all__ = [
    "FORMATS",
    "TEXT_FORMATS",
    "LabelExplanations",
    "NamedScores",
    "check_format",
    "format_of",
    "label_records",
    "label_table",
    "read_label_records",
    "scores_of_records",
    "write_labels",
]

#: Formats of `write_labels`, and those of labels, of which `write_table` writes the others.
TEXT_FORMATS = ("jsonl", "tsv", "csv")
FORMATS = (*TEXT_FORMATS, *TABLES)

#: The digits that single precision has.
NUMBER = ".7g"

#: Control characters without whitespace. Identifiers may have any, and a terminal would obey those printed on it.
CONTROL_CODES = re.compile("[\0-\x08\x0e-\x1f\x7f-\x9f]")

#: What the score of a label is called: by xmlgp, and by other programs.
SCORES = ("probability", "utility", "score")

#: Points that are explained and formatted at a time.
POINTS = 256


def format_of(path):
    """Return the format that the ending of a name tells, or None; that of a compressed file does not count."""
    ending = format_ending(path).removeprefix(".")
    return ending if ending in FORMATS else None


def check_format(path: str, name: str | None) -> None:
    """Raise XmlgpError if a format cannot be written to a path, whose name may tell another one; None is that of text.

    A name of a kind of files that is not written is refused, too.
    """
    ending = format_ending(path)
    own = format_of(path)
    kind = next((kind for kind in KINDS if ending and ending in kind.endings), None)
    if kind and own is None:
        advice = f"end the name in {', '.join(f'.{name}' for name in FORMATS)}"
        raise UsageError(f"{path}: files named {ending} cannot be written; {advice}.")
    if kind and own != name:
        raise UsageError(f"{path}: this is the name of {kind.name}, but the format is {name or 'text'}.")
    if name in TABLES:
        if compressed_ending(path):
            raise UsageError(f"{path}: {TABLES[name].name} is compressed itself; leave out {compressed_ending(path)}.")
        table_library(TABLES[name], path)


class NamedScores(NamedTuple):
    """Scores of points, the names of their K labels, and identifiers of the points; names and identifiers or None."""

    scores: Scores
    names: list | None = None
    ids: list | None = None


def read_label_records(reader):
    """Return the `NamedScores` of JSON Lines, see `scores_of_records`; DataFormatError names a malformed line."""
    numbers = LabelNumbers()
    kinds = set()
    read = read_objects(decoded_lines(reader), reader.path, lambda number, found: _record(found, numbers, kinds))
    return _named_scores(list(raise_errors(read)), numbers)


def scores_of_records(records):
    """Return the `NamedScores` of a dict for each point, as `label_records` yields it, or of lists of labels.

    A label in a list is a name, or a pair of name and score.

    The score of a label is its `probability`, `utility` or `score`. Labels without scores, such as mere names, are
    assigned, and so are those of `"assigned": true`. SettingsError if a record is malformed.
    """
    numbers = LabelNumbers()
    kinds = set()
    rows = []
    for place, found in enumerate(records, 1):
        try:
            if isinstance(found, str):
                # A text is a list of its letters, which nobody means.
                raise Malformed(f"labels is {excerpt(found)}, not a list of names")
            if not isinstance(found, dict):
                pairs = ({"label": own[0], "score": own[1]} if _is_pair(own) else own for own in found)
                found = {"labels": list(pairs)}
            rows.append(_record(found, numbers, kinds)[0])
        except Malformed as error:
            raise SettingsError(f"prediction {place}: {error}") from None
    return _named_scores(rows, numbers)


def _is_pair(label):
    return isinstance(label, tuple) and len(label) == 2


def _record(found, numbers, kinds):
    """Return identifier, numbers of labels, scores and whether these are none; and the texts that came from JSON.

    `kinds` says whether the labels of earlier points are assigned; those of all must be of one kind.
    """
    identifier = found.get("id", found.get("document_id"))
    entries = found.get("labels")
    if type(identifier) is float and math.isfinite(identifier):
        identifier = str(identifier)  # pandas writes integers so if one is missing
    if identifier is not None and type(identifier) not in (str, int):
        raise Malformed(f"id is {excerpt(identifier)}, neither text nor an integer")
    if not isinstance(entries, list):
        raise Malformed(
            f"labels is {excerpt(entries)}, not a list" if "labels" in found else "there is no field labels"
        )
    names = []
    scores = []
    for entry in entries:
        name = (
            next((entry[key] for key in SUBJECT if entry.get(key) not in (None, "")), None)
            if isinstance(entry, dict)
            else entry
        )
        if type(name) not in (str, int) or not str(name).strip():
            raise Malformed(f"a label is {excerpt(entry)}, which has no name")
        names.append(str(name))
        scores += [entry[key] for key in SCORES if isinstance(entry, dict) and key in entry][:1]
    for score in scores:
        if type(score) not in (int, float) or not abs(score) <= sys.float_info.max:
            raise Malformed(f"a score is {excerpt(score)}, not a finite number")
    if scores and len(scores) < len(names):
        raise Malformed(f"a label has no score ({', '.join(SCORES)}), but others have")
    try:
        labels = [numbers[name] for name in names]
    except BadName as error:
        raise Malformed(str(error)) from None
    if len(set(labels)) < len(labels):
        raise Malformed(f"label {excerpt(max(names, key=names.count))} occurs twice")
    assigned = found.get("assigned") is True or len(scores) < len(names)
    if names:
        kinds.add(assigned)
    if len(kinds) > 1:
        own = "are ranked by their scores"
        other = "are assigned or have no scores"
        own, other = (other, own) if assigned else (own, other)
        raise Malformed(f"the labels {own}, but those of earlier points {other}")
    # Without scores the order of the list is that of the ranks; a score of 2 is not taken as a probability.
    scores = scores or [2.0 - place for place in range(len(names))]
    return (identifier, labels, scores, assigned), [*names, str(identifier)]


def _named_scores(rows, numbers):
    names, places = numbers.ordered()
    ids, labels, scores, assigned = zip(*rows, strict=True) if rows else ((), (), (), ())
    indptr = np.concatenate([[0], np.cumsum([len(own) for own in labels], dtype=np.int64)])
    flat = places[np.fromiter(itertools.chain(*labels), np.int32)]
    # A document without labels says nothing, unless all documents are without.
    told = [mark for mark, own in zip(assigned, labels, strict=True) if own] or assigned
    found = Scores(
        indptr, flat, np.fromiter(itertools.chain(*scores), float), len(names), None, all(told) and bool(told)
    )
    return NamedScores(found, names, None if all(own is None for own in ids) else list(ids))


class LabelExplanations(NamedTuple):
    """Explain labels by a predictor, with at most `count` words for each and so many against it.

    Words are the features by their D names or, without names, their numbers. If the model has dense blocks, which are
    called `blocks`, a label also has what words and what each block add to its utility.
    """

    predictor: Predictor
    names: list | None
    count: int
    blocks: list = []

    @property
    def fields(self):
        """The names of what a label has."""
        return ["for", "against", *["from"] * bool(self.blocks)]

    def __call__(self, features, scores):
        """Yield the values of the fields for each listed label (`Scores`) of points with these features, B×D as read.

        The first two are lists of {"word": name, "contribution": number}, the strongest first.
        """
        contributions = self.predictor.explain(features, scores)
        for pair in range(len(scores.labels)):
            found = [
                [
                    {"word": feature if self.names is None else self.names[feature], "contribution": _rounded(value)}
                    for feature, value in side
                ]
                for side in contributions.strongest(pair, self.count)
            ]
            if self.blocks:
                shares = contributions.shares(pair, self.blocks)
                found.append({name: _rounded(value) for name, value in shares.items()})
            yield found


def write_labels(stream, name, blocks, names, output, with_std=False, explain=None, uris=None, assigned=False):
    """Write the labels of points into a binary file, in the format called `name`, a block at a time.

    JSON Lines have an object for each point, `{"id": ..., "labels": [{"label": ..., "probability": ...}]}`, with
    `"assigned": true` if the labels are assigned, not ranked. Tables have a header and a row for each label of a point.
    With an explanation, a label also has its fields.

    `blocks` has identifiers, features (csr_array) and `Scores` of consecutive points. `names` are those of the K
    labels, or None for their numbers; with `uris`, a label also has `uri`, null if that is empty. `output` says what
    the scores are, and `with_std` whether they have standard deviations. `explain` are
    `LabelExplanations`, or None. NumericalError is raised if a score is not finite.
    """
    # The header is written with the first points: an error in these leaves no output.
    head = "" if name == "jsonl" else _row(name, ["id", *_fields(output, with_std, explain, uris)])
    for record in label_records(blocks, names, output, with_std, explain, uris, assigned):
        if isinstance(record["id"], str):
            # That of a malformed line may have bytes that are not UTF-8.
            record["id"] = escape_undecodable(record["id"])
        lines = [_json_line(record)] if name == "jsonl" else _rows(name, record)
        stream.write((head + "".join(lines)).encode())
        head = ""
    stream.write(head.encode())


def label_table(blocks, names, output, with_std=False, explain=None, uris=None, assigned=False):
    """Return the header and the rows (iterator of lists) of a table, as `write_labels` writes them."""
    records = label_records(blocks, names, output, with_std, explain, uris, assigned)
    return ["id", *_fields(output, with_std, explain, uris)], itertools.chain.from_iterable(map(_cells, records))


def label_records(blocks, names, output, with_std=False, explain=None, uris=None, assigned=False):
    """Yield what a line of JSON Lines has, a dict for each point; see `write_labels`.

    A point whose identifier is a DataFormatError has the fields `id` and `error`; one whose identifier is None is left
    out.
    """
    fields = _fields(output, with_std, explain, uris)
    done = 0
    mark = {"assigned": True} if assigned else {}
    for identifiers, features, block in blocks:
        block.check_finite(done)
        scores = block.descending()
        for start in range(0, scores.N, POINTS):
            rows = slice(start, min(start + POINTS, scores.N))
            part = scores.rows(rows.start, rows.stop)
            columns = [part.labels.tolist() if names is None else [names[label] for label in part.labels.tolist()]]
            if uris is not None:
                columns.insert(0, [uris[label] or None for label in part.labels.tolist()])
            numbers = part.scores, part.std
            columns += [list(map(_rounded, values.tolist())) for values in numbers if values is not None]
            if explain is not None:
                columns += zip(*explain(features[rows], part), strict=True)
            labels = [dict(zip(fields, values, strict=True)) for values in zip(*columns, strict=True)]
            for place, (first, last) in enumerate(itertools.pairwise(part.indptr), start):
                own = identifiers[place]
                if isinstance(own, DataFormatError):
                    known = own.id if type(own.id) in (str, int) else done + place + 1
                    yield {"id": known, "error": f"line {own.line}: {own.reason}"}
                elif own is not None:
                    yield {"id": own, "labels": labels[first:last]} | mark
        done += block.N


def _fields(output, with_std, explain, uris):
    return [*["uri"] * (uris is not None), "label", output, *["std"] * with_std, *(explain.fields if explain else [])]


def _json_line(record):
    line = json.dumps(record, ensure_ascii=False)
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", line) + "\n"


def _rows(name, record):
    """Yield the rows of a point in a table, as text."""
    for row in _cells(record):
        yield _row(name, row)


def _cells(record):
    """Yield the rows of a point in a table; in a cell, words with their contributions are separated by semicolons."""
    for label in record["labels"]:
        yield [record["id"], *map(_cell, label.values())]


def _cell(value):
    if not isinstance(value, list | dict):
        return value
    pairs = value.items() if isinstance(value, dict) else map(dict.values, value)
    return "; ".join(f"{word} {contribution:+.3g}" for word, contribution in pairs)


def _row(name, row):
    """Return a row of a table with its line end."""
    if name == "tsv":
        # Tab-separated values have no quotes, so a cell cannot contain the separators.
        cells = ["" if value is None else " ".join(CONTROL.sub(" ", str(value)).split()) for value in row]
        return "\t".join(cells) + "\n"
    text = io.StringIO()
    cells = [CONTROL_CODES.sub(" ", value) if isinstance(value, str) else value for value in row]
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def _rounded(value):
    """Return a number with the digits that single precision has."""
    return float(format(value, NUMBER))
