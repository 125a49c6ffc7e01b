"""Labels of points are written as JSON Lines and as tables that other programs read."""

import csv
import io
import json

import numpy as np
import pytest
import scipy.sparse as sp

from xmlgp.data.features import Features
from xmlgp.data.lines import LineReader
from xmlgp.errors import DataFormatError, NumericalError, SettingsError
from xmlgp.prediction.label_formats import TEXT_FORMATS
from xmlgp.prediction.label_reader import read_label_records, scores_of_records
from xmlgp.prediction.label_writer import LabelWriter, ScoredPoints
from xmlgp.prediction.scores_file import Scores

NAMES = ["plain", 'a "quoted", name', "機械 学習", "=1+1; x", ""]


def scores(with_std=False, value=0.25):
    """Return two blocks: three points, of which one has no labels, and a point."""
    std = np.array([0.5, 0.125, 1e-9]) if with_std else None
    first = Scores(np.array([0, 2, 2, 3]), np.array([3, 1, 2], np.int32), np.array([value, 1 / 3, 1e-12]), 5, std)
    last = Scores(np.array([0, 1]), np.array([0], np.int32), np.array([-123456.789]), 5)
    return [([7, "b, c", "d\te"], first)] + ([] if with_std else [(range(4, 5), last)])


def written(name, blocks, names=NAMES, output="probability", with_std=False, assigned=False):
    stream = io.BytesIO()
    points = [ScoredPoints(ids, Features(sp.csr_array((scores.N, 0))), scores) for ids, scores in blocks]
    LabelWriter(names, output, with_std, assigned=assigned).write(stream, name, points)
    return stream.getvalue().decode()


EXPECTED = [(7, 1, 0.3333333), (7, 3, 0.25), ("d\te", 2, 1e-12), (4, 0, -123456.8)]


@pytest.mark.parametrize(("names", "output"), [(NAMES, "probability"), (None, "utility")], ids=["names", "numbers"])
def test_json_lines(names, output):
    text = written("jsonl", scores(), names, output)
    assert "0.3333333}" in text  # few digits
    assert not names or "機械 学習" in text
    rows = [json.loads(line) for line in text.splitlines()]
    shown = [[{"label": names[k] if names else k, output: value} for i, k, value in EXPECTED if i == place]
             for place in (7, "b, c", "d\te", 4)]  # fmt: skip
    assert rows == [{"id": i, "labels": labels} for i, labels in zip((7, "b, c", "d\te", 4), shown, strict=True)]


def read(text):
    return read_label_records(LineReader(io.BytesIO(text.encode()), "p.jsonl"))


@pytest.mark.parametrize("output", ["probability", "utility"])
@pytest.mark.parametrize("assigned", [False, True])
def test_json_lines_are_read_as_they_were_written(assigned, output):
    names = [*NAMES[:4], "last"]
    found = read(written("jsonl", scores(), names, output, assigned=assigned))
    assert (found.ids, found.scores.assigned) == ([7, "b, c", "d\te", 4], assigned)
    assert found.names == sorted(names[k] for _, k, _ in EXPECTED)
    pairs = zip(found.scores.points.tolist(), found.scores.labels.tolist(), found.scores.scores.tolist(), strict=True)
    assert [(found.ids[i], found.names[k], value) for i, k, value in pairs] == [
        (i, names[k], value) for i, k, value in EXPECTED
    ]
    assert scores_of_records(map(json.loads, written("jsonl", scores(), names).splitlines())).names == found.names


def test_labels_without_scores_are_assigned():
    for text in (
        '{"labels": ["b", "a"]}\n{"labels": []}\n',
        '{"labels": [{"label": "b"}, {"label": "a"}]}\n\n{"labels": []}',
    ):
        found = read(text)
        assert (found.ids, found.names, found.scores.assigned) == (None, ["a", "b"], True)
        assert found.scores.matrix.toarray().tolist() == [[1, 2], [0, 0]]  # the order of ranks
    found = read('{"id": 1, "labels": []}\n{"labels": [{"label": 7, "score": 2}]}\n')
    assert (found.ids, found.names, found.scores.assigned) == ([1, None], ["7"], False)
    assert scores_of_records([["b"], ("a", "b")]).scores.matrix.toarray().tolist() == [[0, 2], [2, 1]]
    assert (read("").scores.N, scores_of_records([]).scores.N) == (0, 0)


def test_zero_is_the_number_of_a_label():
    found = read('{"labels": [{"label": 0, "score": 0.9}, {"uri": "", "label": 2, "score": 0.5}]}')
    assert (found.names, found.scores.labels.tolist()) == (["0", "2"], [0, 1])


@pytest.mark.parametrize("turned", [False, True])
def test_labels_without_scores_are_no_part_of_a_ranking(turned):
    lines = ['{"labels": [{"label": "a", "score": 1}]}', '{"labels": ["a"]}']
    ends = ["are assigned or have no scores", "are ranked by their scores"][:: -1 if turned else 1]
    with pytest.raises(DataFormatError) as caught:
        read("\n".join(lines[:: -1 if turned else 1]))
    assert str(caught.value) == f"p.jsonl:2: the labels {ends[0]}, but those of earlier points {ends[1]}"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1]", "this line is a list, not a JSON object"),
        ('{"id": 1}', "there is no field labels"),
        ('{"labels": "a"}', "labels is 'a', not a list"),
        ('{"labels": [""]}', "a label is '', which has no name"),
        ('{"labels": [{"name": "a"}]}', "a label is {'name': 'a'}, which has no name"),
        ('{"labels": [{"label": "a", "score": "1"}]}', "a score is '1', not a finite number"),
        ('{"labels": [{"label": "a", "score": 1e999}]}', "a score is inf, not a finite number"),
        (
            '{"labels": [{"label": "a", "score": 1}, "b"]}',
            "a label has no score (probability, utility, score), but others",
        ),
        ('{"labels": ["a", " a"]}', "occurs twice"),
        ('{"labels": ["a\\u0007"]}', "label 'a\\x07' has a control character, U+0007"),
        ('{"labels": ["\\ud800"]}', "an escape sequence is half of a surrogate pair"),
        ('{"id": [], "labels": []}', "id is [], neither text nor an integer"),
    ],
)
def test_malformed_json_lines_raise_an_error_with_the_line(line, reason):
    with pytest.raises(DataFormatError, match=r"^p\.jsonl:2: ") as caught:
        read('{"labels": ["a"]}\n' + line + "\n")
    assert reason in str(caught.value)
    if line.startswith("{") and "ud8" not in line:
        with pytest.raises(SettingsError, match="^prediction 2: "):
            scores_of_records([["a"], json.loads(line)])


@pytest.mark.parametrize("names", [NAMES, None], ids=["names", "numbers"])
def test_tables(names):
    def shown(k):
        return names[k] if names else str(k)

    text = written("csv", scores(), names, "utility")
    assert "\r" not in text
    head, *rows = csv.reader(io.StringIO(text), strict=True)
    assert head == ["id", "label", "utility"]
    assert [(i, label, float(value)) for i, label, value in rows] == [(str(i), shown(k), v) for i, k, v in EXPECTED]
    # Cells of TSV have neither tabs nor quotes.
    head, *rows = [line.split("\t") for line in written("tsv", scores(), names).splitlines()]
    assert head == ["id", "label", "probability"]
    assert rows == [[str(i).replace("\t", " "), " ".join(shown(k).split()), repr(v)] for i, k, v in EXPECTED]


def test_standard_deviations():
    blocks = scores(with_std=True)
    first, _, last = [json.loads(line) for line in written("jsonl", blocks, with_std=True).splitlines()]
    assert [label["std"] for label in first["labels"]] == [0.125, 0.5]
    assert last["labels"] == [{"label": "機械 学習", "probability": 1e-12, "std": 1e-9}]
    head, row, *_ = csv.reader(io.StringIO(written("csv", blocks, with_std=True)))
    assert (head[2:], row[2:]) == (["probability", "std"], ["0.3333333", "0.125"])


def test_without_points_a_table_has_its_header():
    assert [written(name, []) for name in TEXT_FORMATS] == ["", "id\tlabel\tprobability\n", "id,label,probability\n"]
    assert written("csv", [], with_std=True) == "id,label,probability,std\n"


@pytest.mark.parametrize("name", TEXT_FORMATS)
def test_a_score_that_is_not_finite_is_refused(name):
    with pytest.raises(NumericalError, match="the score of label 3 for point 0 is not finite"):
        written(name, scores(value=np.nan))


@pytest.mark.parametrize("name", TEXT_FORMATS)
def test_identifiers_send_no_commands_to_a_terminal(name):
    identifier = "a\x1b[31m\x9b1m\x07\x7f é"
    scores = Scores(np.array([0, 1]), np.array([0], np.int32), np.array([0.5]), 5)
    text = written(name, [([identifier], scores)])
    assert "é" in text
    assert all(character.isprintable() or character in "\n\t" for character in text)
    if name == "jsonl":
        assert json.loads(text)["id"] == identifier


@pytest.mark.parametrize("name", TEXT_FORMATS)
def test_identifiers_that_are_not_utf_8_are_read_as_they_were_written(name):
    scores = Scores(np.array([0, 1, 2]), np.array([0, 0], np.int32), np.array([0.5, 0.5]), 5)
    text = written(name, [(["caf\udce9", "half \ud800"], scores)])
    assert r"half \ud800" in text.replace(r"\\", "\\")
    if name == "jsonl":
        assert read(text).ids == [r"caf\xe9", r"half \ud800"]
    else:
        assert text.splitlines()[1].startswith(r"caf\xe9")


def test_an_identifier_may_be_a_number_as_pandas_writes_it():
    assert read('{"id": 3.0, "labels": ["a"]}\n{"id": null, "labels": []}\n').ids == ["3.0", None]
    assert read('{"document_id": "x", "labels": ["a"]}\n{"id": 7, "document_id": 8, "labels": []}\n').ids == ["x", 7]
