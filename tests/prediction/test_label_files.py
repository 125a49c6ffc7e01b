"""Labels of points are written as JSON Lines and as tables, and read back."""

import csv
import io
import json

import numpy as np
import pytest
import scipy.sparse as sp

from xmlgp.data.dataset import Features
from xmlgp.data.lines import LineReader
from xmlgp.prediction.label_reader import read_label_records, read_label_table, scores_of_records
from xmlgp.prediction.label_writer import FORMATS, LabelWriter, ScoredPoints, format_of
from xmlgp.prediction.scores_file import Scores
from xmlgp.runtime.errors import DataFormatError, NumericalError, SettingsError, UsageError

NAMES = ["plain", 'a "quoted", name', "機械 学習", "=1+1; x", "last"]
IDS = (7, "b, c", "d e", 4)
#: The pairs of an identifier and a label with their scores; the second point has no labels.
EXPECTED = [(7, 1, 0.3333333), (7, 3, 0.25), ("d e", 2, 1e-12), (4, 0, -123456.8)]


def written(name, names=NAMES, value=0.25, with_std=False, ids=IDS, **options):
    """Return what is written of two blocks: three points, of which one has no labels, and a point."""
    std = np.array([0.5, 0.125, 1e-9]) if with_std else None
    first = Scores(np.array([0, 2, 2, 3]), np.array([3, 1, 2], np.int32), np.array([value, 1 / 3, 1e-12]), 5, std)
    last = Scores(np.array([0, 1]), np.array([0], np.int32), np.array([-123456.789]), 5)
    blocks = [(ids[:3], first)] + ([] if with_std else [(ids[3:], last)])
    points = [ScoredPoints(ids, Features(sp.csr_array((scores.N, 0))), scores) for ids, scores in blocks]
    stream = io.BytesIO()
    LabelWriter(names, options.pop("output", "probability"), with_std, **options).write(stream, name, points)
    return stream.getvalue().decode()


def read(text, name="jsonl"):
    reader = LineReader(io.BytesIO(text.encode()), f"p.{name}")
    return read_label_records(reader) if name == "jsonl" else read_label_table(reader, name)


@pytest.mark.parametrize("output", ["probability", "utility"])
@pytest.mark.parametrize("name", FORMATS)
def test_labels_are_read_as_they_were_written(name, output):
    found = read(written(name, output=output), name)
    assert found.names == sorted(NAMES[k] for _, k, _ in EXPECTED)
    pairs = zip(found.scores.points.tolist(), found.scores.labels.tolist(), found.scores.scores.tolist(), strict=True)
    shown = [(str(found.ids[i]), found.names[k], value) for i, k, value in pairs]
    assert shown == [(str(i), NAMES[k], value) for i, k, value in EXPECTED]
    # A table has no row of a point without labels.
    assert (found.complete, len(found.ids)) == ((True, 4) if name == "jsonl" else (False, 3))
    numbers = read(written(name, None), name)
    assert numbers.names == sorted(str(k) for _, k, _ in EXPECTED)


def test_json_lines_have_few_digits_standard_deviations_and_say_that_labels_are_assigned():
    text = written("jsonl", with_std=True, assigned=True)
    assert "0.3333333," in text
    assert "機械 学習" in text
    first, second, last = map(json.loads, text.splitlines())
    assert [label["std"] for label in first["labels"]] == [0.125, 0.5]
    assert second == {"id": "b, c", "labels": [], "assigned": True}
    assert last["labels"] == [{"label": "機械 学習", "probability": 1e-12, "std": 1e-9}]
    assert read(text).scores.assigned
    assert scores_of_records(map(json.loads, text.splitlines())).names == read(text).names


def test_tables_have_headers_and_cells_without_separators():
    head, row, *_ = csv.reader(io.StringIO(written("csv", with_std=True)), strict=True)
    assert (head, row[2:]) == (["id", "label", "probability", "std"], ["0.3333333", "0.125"])
    rows = [line.split("\t") for line in written("tsv", ids=(7, 8, "d\te", 4)).splitlines()]
    assert rows[0] == ["id", "label", "probability"]
    assert rows[3][:2] == ["d e", "機械 学習"]


def test_labels_without_scores_are_assigned():
    for text in (
        '{"labels": ["b", "a"]}\n{"labels": []}\n',
        '{"labels": [{"label": "b"}, {"label": "a"}]}\n\n{"labels": []}',
    ):
        found = read(text)
        assert (found.ids, found.names, found.scores.assigned) == (None, ["a", "b"], True)
        assert found.scores.matrix.toarray().tolist() == [[1, 1], [0, 0]]
    assert scores_of_records([["b"], ("a", "b")]).scores.matrix.toarray().tolist() == [[0, 1], [1, 1]]
    found = read(
        '{"document_id": 1, "labels": []}\n'
        '{"labels": [{"label": 0, "score": 2}, {"uri": "", "label": 7, "score": 1}]}\n'
    )
    assert (found.ids, found.names, found.scores.assigned) == ([1, None], ["0", "7"], False)
    assert (read("").scores.N, scores_of_records([]).scores.N) == (0, 0)
    with pytest.raises(SettingsError, match="the labels of some points have scores, and those of others are assigned"):
        read('{"labels": [{"label": "a", "score": 1}]}\n{"labels": ["a"]}')


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1]", "this is not a JSON object"),
        ('{"id": 1', "this is not a JSON object in one line"),
        ("[" * 100_000, "this is not a JSON object in one line"),
        ('{"id": 1}', "`labels` is None, not a list"),
        ('{"labels": "a"}', "`labels` is 'a', not a list"),
        ('{"labels": [""]}', "a label is '', which has no name"),
        ('{"labels": [{"name": "a"}]}', "a label is {'name': 'a'}, which has no name"),
        ('{"labels": [{"label": "a", "score": "x"}]}', "a score is 'x', not a finite number"),
        ('{"labels": [{"label": "a", "score": 1e999}]}', "a score is inf, not a finite number"),
        ('{"labels": [{"label": "a", "score": 1' + 400 * "0" + "}]}", "not a finite number"),
        ('{"labels": [{"label": "a", "score": 1}, "b"]}', "a label has no score (probability, utility, score), but"),
        ('{"labels": ["a", "a"]}', "label 'a' occurs twice"),
        ('{"labels": ["a\\u0007"]}', "label 'a\\x07' has U+0007, which no name can have"),
        ('{"id": [], "labels": []}', "id is [], neither text nor an integer"),
    ],
)
def test_a_malformed_line_raises_an_error_with_its_number(line, reason):
    with pytest.raises((DataFormatError, SettingsError), match=r"^p\.jsonl:2: ") as caught:
        read('{"labels": ["a"]}\n' + line + "\n")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("text\nx\n", "p.csv:1: a table of scores has the columns id and label or uri; the scores come first"),
        ("id,label,score\n1,a\n", "p.csv:2: this row has not 3 fields, as the header"),
        ("id,label,score\n1,a,b\n", "p.csv: point '1': a score is 'b', not a finite number"),
        ("id,label,score\n1,,2\n", "which has no name"),
        ('id,label\n1,"a\n', "p.csv:2: this row is not CSV"),
        ("id,label\n1,a\n1,a\n", "p.csv: point '1': label 'a' occurs twice"),
    ],
)
def test_a_malformed_table_is_refused(text, reason):
    with pytest.raises((DataFormatError, SettingsError)) as caught:
        read(text, "csv")
    assert reason in str(caught.value)


@pytest.mark.parametrize("name", FORMATS)
def test_what_cannot_be_written_is_refused_or_escaped(name):
    with pytest.raises(NumericalError, match="the score of label 3 for point 0 is not finite"):
        written(name, value=np.nan)
    # Identifiers send no commands to a terminal, and may have halves of surrogate pairs.
    text = written(name, ids=("a\x1b[31m\x9b1m\x07\x7f é", "b", "half \ud800", 4))
    assert "é" in text
    assert r"half \ud800" in text
    assert all(character.isprintable() or character in "\n\t" for character in text)
    stream = io.BytesIO()
    LabelWriter(NAMES, "probability").write(stream, name, [])
    assert (
        stream.getvalue() == {"jsonl": b"", "tsv": b"id\tlabel\tprobability\n", "csv": b"id,label,probability\n"}[name]
    )


def test_the_ending_of_a_name_says_the_format():
    assert [format_of(name) for name in ("a.jsonl", "a.CSV.gz", "a.tsv", "a.scores")] == ["jsonl", "csv", "tsv", None]
    with pytest.raises(UsageError, match=r"files named \.xlsx cannot be written; end the name in \.csv, \.tsv or"):
        format_of("a.xlsx")
