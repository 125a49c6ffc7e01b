"""Write the labels of points with their names, for people and other programs: JSON Lines, and tables."""

import csv
import io
import itertools
import json
import os
import re

from xmlgp.data.names import CONTROL

__all__ = ["FORMATS", "explain_labels", "format_of", "label_records", "write_labels"]

#: Formats of `write_labels`.
FORMATS = ("jsonl", "tsv", "csv")

#: The digits that single precision has.
NUMBER = ".7g"

#: Control characters without whitespace. Identifiers may have any, and a terminal would obey those printed on it.
CONTROL_CODES = re.compile("[\0-\x08\x0e-\x1f\x7f-\x9f]")

#: Points that are explained and formatted at a time.
POINTS = 256


def format_of(path):
    """Return the format that the ending of a name tells, or None; `.gz` does not count."""
    ending = os.path.splitext(path.removesuffix(".gz"))[1].removeprefix(".").lower()
    return ending if ending in FORMATS else None


def explain_labels(predictor, names, count, features, scores):
    """Yield what speaks for and against each listed label (`Scores`) of points with these features, B×D as read.

    It is two lists of {"word": name, "contribution": number}, the strongest first, of at most `count` features each, by
    their D names or, without names, by their numbers.
    """
    contributions = predictor.explain(features, scores)
    for pair in range(len(scores.labels)):
        yield [
            [
                {"word": feature if names is None else names[feature], "contribution": _rounded(value)}
                for feature, value in side
            ]
            for side in contributions.strongest(pair, count)
        ]


def write_labels(stream, name, blocks, names, output, with_std=False, explain=None, uris=None):
    """Write the labels of points into a binary file, in the format called `name`, a block at a time.

    JSON Lines have an object for each point, `{"id": ..., "labels": [{"label": ..., "probability": ...}]}`. Tables have
    a header and a row for each label of a point. With an explanation, a label also has `for` and `against`.

    `blocks` has identifiers, features (csr_array) and `Scores` of consecutive points. `names` are those of the K
    labels, or None for their numbers; with `uris`, a label also has `uri`, null if that is empty. `output` says what
    the scores are, and `with_std` whether they have standard deviations. `explain`, given features and scores of
    points, does what `explain_labels` does. NumericalError is raised if a score is not finite.
    """
    # The header is written with the first points: an error in these leaves no output.
    head = "" if name == "jsonl" else _row(name, ["id", *_fields(output, with_std, explain, uris)])
    for record in label_records(blocks, names, output, with_std, explain, uris):
        lines = [_json_line(record)] if name == "jsonl" else _rows(name, record)
        stream.write((head + "".join(lines)).encode())
        head = ""
    stream.write(head.encode())


def label_records(blocks, names, output, with_std=False, explain=None, uris=None):
    """Yield what a line of JSON Lines has, a dict for each point; see `write_labels`."""
    fields, done = _fields(output, with_std, explain, uris), 0
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
            if explain:
                columns += zip(*explain(features[rows], part), strict=True)
            labels = [dict(zip(fields, values, strict=True)) for values in zip(*columns, strict=True)]
            for identifier, (first, last) in zip(identifiers[rows], itertools.pairwise(part.indptr), strict=True):
                yield {"id": identifier, "labels": labels[first:last]}
        done += block.N


def _fields(output, with_std, explain, uris):
    return [
        *["uri"] * (uris is not None),
        "label",
        output,
        *["std"] * with_std,
        *["for", "against"] * (explain is not None),
    ]


def _json_line(record):
    line = json.dumps(record, ensure_ascii=False)
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", line) + "\n"


def _rows(name, record):
    """Return the rows of a point in a table; in a cell, words with their contributions are separated by semicolons."""
    for label in record["labels"]:
        cells = [
            "; ".join(f"{found['word']} {found['contribution']:+.3g}" for found in value)
            if isinstance(value, list)
            else value
            for value in label.values()
        ]
        yield _row(name, [record["id"], *cells])


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
