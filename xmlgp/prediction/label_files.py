"""Write the labels of points with their names, for people and other programs: JSON Lines, and tables."""

import csv
import io
import json

__all__ = ["FORMATS", "write_labels"]

#: Formats of `write_labels`.
FORMATS = ("jsonl", "tsv", "csv")

#: The digits that single precision has.
NUMBER = ".7g"


def write_labels(stream, name, blocks, names, output):
    """Write the labels of points, a block at a time.

    JSON Lines have an object for each point, `{"id": ..., "labels": [{"label": ..., "probability": ...}]}`. Tables have
    a header and a row for each label of a point.

    Parameters
    ----------
    stream : binary file
    name : str
        One of `FORMATS`.
    blocks : iterable of (list, Scores)
        Identifiers and scores of consecutive points.
    names : list of str or None
        Of the K labels; their numbers without names.
    output : str
        What the scores are: "probability" or "utility".

    Raises
    ------
    NumericalError
        If a score is not finite.
    """
    rows = _json_lines if name == "jsonl" else _tables
    written = 0
    for identifiers, scores in blocks:
        scores.check_finite(written)
        with_header = written == 0
        stream.write(rows(identifiers, scores.descending(), names, output, name, with_header).encode())
        written += scores.N


def _json_lines(identifiers, scores, names, output, name, with_header):
    lines = []
    for identifier, labels in zip(identifiers, _listed(scores, names), strict=True):
        fields = (output, "std")
        found = [{"label": label} | dict(zip(fields, numbers, strict=False)) for label, *numbers in labels]
        lines.append(json.dumps({"id": identifier, "labels": found}, ensure_ascii=False) + "\n")
    return "".join(lines)


def _tables(identifiers, scores, names, output, name, with_header):
    text = io.StringIO()
    if name == "csv":
        write = csv.writer(text, lineterminator="\n").writerow
    else:
        # Tab-separated values have no quotes, so a cell cannot contain the separators.
        write = lambda row: text.write("\t".join([_cell(value) for value in row]) + "\n")  # noqa: E731
    if with_header:
        write(["id", "label", output] + ["std"] * (scores.std is not None))
    for identifier, labels in zip(identifiers, _listed(scores, names), strict=True):
        for row in labels:
            write([identifier, *row])
    return text.getvalue()


def _cell(value):
    return " ".join(value.split()) if isinstance(value, str) else str(value)


def _listed(scores, names):
    """Yield for each point a list of its labels: name, score, and standard deviation if there is one."""
    columns = [scores.labels.tolist() if names is None else [names[label] for label in scores.labels.tolist()]]
    for values in (scores.scores, scores.std):
        if values is not None:
            # Digits beyond those of the number would be noise.
            columns.append([float(format(value, NUMBER)) for value in values.tolist()])
    pairs = list(zip(*columns, strict=True))
    indptr = scores.indptr.tolist()
    for start, stop in zip(indptr, indptr[1:], strict=False):
        yield pairs[start:stop]
