"""`xmlgp evaluate`: tables and JSON of each kind of measures, its notes and its errors."""

import json
import math

import numpy as np
import pytest
import sklearn.metrics

from tests.cli import command
from tests.cli.command import said

# Three points of which the last has no label; by hand in tests/metrics/test_ranking.py.
SCORES = "3 4\n0:0.9 1:0.8 3:0.7\n2:0.5 1:0.4\n0:1\n"
DATA = "3 2 4\n0,3 0:1\n1 1:0.5\n 0:1\n"
# Label frequencies 4, 2, 1, 0 of N = 5.
TRAIN = "5 2 4\n0,1 0:1\n0,1 0:1\n0 1:1\n0,2 1:1\n 0:1\n"
# Data with one label, in both formats, and probabilities and utilities for them.
ONE = "+1 1:1\n-1\n-1 2:1\n+1 1:2\n-1 1:3\n"
TRUTH = np.array([1, 0, 0, 1, 0])
PROBABILITIES, UTILITIES = np.array([0.9, 0.6, 0.25, 0.625, 0]), np.array([2, -0.5, 1, -1, 0])

FILES = {
    "a.scores": SCORES,
    "test.txt": DATA,
    "train.txt": TRAIN,
    "catalogue.yaml": "datasets: {}\n",
    "one.svm": ONE,
    "one.txt": "5 2 1\n0 0:1\n \n 1:1\n0 0:2\n 0:3\n",
    "p.scores": "5 1\n" + "".join(f"0:{score:.7g}\n" for score in PROBABILITIES),
    "u.scores": "5 1\n" + "".join(f"0:{score:.7g}\n" for score in UTILITIES),
    "none.txt": "0 2 1\n",
}

CATALOGUE = """
datasets:
  small:
    title: a small one
    shape: {N: 5, N_test: 3, D: 2, K: 4}
    propensity: {A: 0.6, B: 2.6}
    max_mb: 1
    files: {train: {}, test: {}}
"""

PROBABLE = "All scores in p.scores are in [0, 1], so they are taken as probabilities"
LISTED = "the 6 listed labels only, at most 3 of 4 per point; `xmlgp predict -k all` lists all labels"


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XMLGP_CATALOGUE", str(tmp_path / "catalogue.yaml"))
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)


def run(*arguments, stdin=None):
    return command.run("evaluate", *arguments, stdin=stdin)


def measures(*arguments, stdin=None):
    """Return the measures of a successful run."""
    result = run(*arguments, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def psp_at_1(a, b):
    """Return PSP@1 of the data above, by the formulas of the Extreme Classification Repository."""
    c = (math.log(5) - 1) * (b + 1) ** a
    weights = [1 + c * (count + b) ** -a for count in (4, 2, 1, 0)]
    # The first labels of the two points with labels are 0, which is right, and 2, which is wrong.
    return 100 * weights[0] / (weights[3] + weights[1])


def test_table_without_training_data():
    result = run("a.scores", "test.txt")
    assert result.stdout == (
        "            @1      @3      @5\nP        50.00   50.00   30.00\nnDCG     50.00   77.53   77.53\n"
    )
    assert result.stderr.splitlines() == [
        "a.scores lists at most 3 labels per point; for larger k the others count as wrong",
        "Without training data there are no propensity-scored measures",
    ]
    assert run("a.scores", "test.txt", "-q").stderr == ""


def test_table_with_training_data():
    result = run("a.scores", "test.txt", "--train", "train.txt", "-k", "1")
    psp = f"{psp_at_1(0.55, 1.5):.2f}"
    expected = [["@1"], ["P", "50.00"], ["nDCG", "50.00"], ["PSP", psp], ["PSnDCG", psp]]
    assert [line.split() for line in result.stdout.splitlines()] == expected
    assert result.stderr == "Propensity model: A=0.55, B=1.5 (the default)\n"


def test_json():
    found = measures("a.scores", "test.txt", "--train", "train.txt", "-k", "5,1,3,1")
    assert list(found) == [f"{name}@{k}" for name in ("P", "nDCG", "PSP", "PSnDCG") for k in (1, 3, 5)]
    assert found["P@5"] == 30.0
    assert found["nDCG@3"] == pytest.approx(100 * (1.5 / (1 + 1 / math.log2(3)) + 1 / math.log2(3)) / 2)
    assert found["PSP@1"] == pytest.approx(psp_at_1(0.55, 1.5))


def test_the_catalogue_has_the_propensity_model_of_a_data_set_of_this_shape(tmp_path):
    (tmp_path / "catalogue.yaml").write_text(CATALOGUE)
    assert measures("a.scores", "test.txt", "--train", "train.txt")["PSP@1"] == pytest.approx(psp_at_1(0.6, 2.6))
    note = "Propensity model: A=0.6, B=2.6 (from small in the catalogue)"
    assert run("a.scores", "test.txt", "--train", "train.txt").stderr.splitlines()[-1] == note


def test_assigned_labels_have_precision_recall_and_f1_instead():
    result = run("a.scores", "test.txt", "--assigned")
    # Three of six labels are right. Label 2 is never true, and the last point has no true label.
    assert result.stdout == (
        "             micro    macro    point\nprecision  0.50000  0.50000  0.58333\n"
        "recall     1.00000  0.75000  1.00000\nF1         0.66667  0.58333  0.73333\n"
    )
    assert result.stderr == ""
    options = ["--train", "train.txt", "-k", "1", "--reliability", "--auc", "--calibration"]
    other = run("a.scores", "test.txt", "--assigned", *options)
    assert other.stdout == result.stdout
    given = "training data", "reliability", "k", "auc", "calibration"
    assert other.stderr.splitlines() == [f"{name} has no effect on assigned labels" for name in given]


@pytest.mark.parametrize("arguments", [[".", "--train", "."], ["-"]])
def test_a_folder_and_standard_input_stand_for_files(arguments):
    expected = measures("a.scores", "test.txt", *(["--train", "train.txt"] if "." in arguments else []))
    assert measures("a.scores", *arguments, stdin=DATA) == expected


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-", "test.txt", "--train", "-"], "Only one of the files can be standard input."),
        (["a.scores", "test.txt", "-k", "0"], "Invalid value for '-k': '0' is not a list of positive whole numbers"),
        (["a.scores", "test.txt", "-k", "1,x"], "Invalid value for '-k'"),
        (["a.scores", "test.txt", "--propensity-a", "0.5"], "A propensity model needs training points."),
    ],
)
def test_wrong_usage(arguments, reason):
    assert said(run(*arguments), 2).startswith(reason)


@pytest.mark.parametrize(
    ("name", "content", "arguments", "sentence"),
    [
        ("a.scores", "2 4\n0:1\n0:1\n", [], "a.scores has 2 points and 4 labels, but test.txt has 3 points and 4"),
        ("a.scores", "3 4\n0:1\n0:nan\n\n", [], "a.scores:3: label 0 has 'nan' instead of a finite decimal number"),
        ("test.txt", "3 2 4\n 0:1\n 0:1\n 0:1\n", [], "no point has a true label, so there is nothing to evaluate"),
        ("train.txt", "5 2 3\n" + " 0:1\n" * 5, ["--train", "train.txt"], "train.txt has 3 labels, but a.scores has 4"),
        ("a.scores", "3 4\n0:1.5\n\n\n", ["--calibration"], "a.scores contains scores outside [0, 1];"),
        ("a.scores", "3 4\n0:-0.5\n\n\n", ["--reliability"], "a.scores contains scores outside [0, 1];"),
        ("a.scores", "3 4\n\n\n\n", ["--calibration"], "a.scores contains no scores, so there are no probabilities"),
    ],
)
def test_errors_are_one_line(tmp_path, name, content, arguments, sentence):
    (tmp_path / name).write_text(content)
    assert said(run("a.scores", "test.txt", "-q", *arguments)).startswith(sentence)


def test_calibration_of_listed_labels():
    result = run("a.scores", "test.txt", "-k", "1", "--calibration")
    # True are 0.9 and 0.7 of point 0 and 0.4 of point 1; not 0.8, 0.5 and the 1 of the point without labels.
    loss = sklearn.metrics.log_loss([1, 0, 1, 0, 1, 0], [0.9, 0.8, 0.7, 0.5, 0.4, 1])
    # Each of them is in a bin of its own.
    error = (0.1 + 0.8 + 0.3 + 0.5 + 0.6 + 1) / 6
    assert result.stdout.splitlines() == [
        "              @1",
        "P          50.00",
        "nDCG       50.00",
        f"log_loss  {loss:.5f}",
        f"ECE       {error:.5f}",
        # The best labels of the points are 0.9, 0.5 and 1; the first and the last are in the same of ten bins.
        f"ECE@k     {(abs(0.1 - 1) + 0.5) / 3:.5f}",
    ]
    assert result.stderr.splitlines()[-1] == f"Log loss and ECE are over {LISTED}"
    found = measures("a.scores", "test.txt", "-k", "1", "--calibration")
    assert list(found) == ["P@1", "nDCG@1", "log_loss", "ECE", "ECE@1"]


def test_reliability_is_printed_below_the_measures():
    result = run("a.scores", "test.txt", "-q", "-k", "1,2", "--train", "train.txt", "--reliability")
    assert result.stdout.splitlines()[5:] == [
        "",
        "rank  labels  probability    true",
        # 0.9 of point 0 is true; 0.5 of point 1 and the 1 of the point without labels are not.
        "1          3       0.8000  0.3333",
        # 0.8 of point 0 and 0.4 of point 1, which is true.
        "2          2       0.6000  0.5000",
        "",
        "training points  labels  probability    true",
        "1                     1       0.5000  0.0000",
        "2-3                   2       0.6000  0.5000",
        "4-7                   2       0.9500  0.5000",
    ]
    printed = measures("a.scores", "test.txt", "-k", "2", "--reliability")
    assert list(printed) == ["P@2", "nDCG@2", "reliability"]
    first = {"bin": "1", "count": 3, "probability": pytest.approx(0.8), "true": pytest.approx(1 / 3)}
    assert printed["reliability"]["rank"][0] == first


def test_auc_of_listed_labels():
    result = run("a.scores", "test.txt", "-k", "1", "--auc")
    # Unlisted scores as 0. Label 2 is true for no point and the last point has no label.
    scores, truth = [[0.9, 0.8, 0, 0.7], [0, 0.4, 0.5, 0], [1, 0, 0, 0]], [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]]
    micro = sklearn.metrics.roc_auc_score(truth, scores, average="micro")
    # By label 0.5, 0.5 and 1, by point 0.75 and 2/3.
    expected = [f"AUC_micro     {micro:.5f}", "AUC_macro     0.66667", "AUC_instance  0.70833"]
    assert result.stdout.splitlines()[3:] == expected
    note = f"AUC treats unlisted labels as tied in the last place; it is over {LISTED}"
    assert result.stderr.splitlines()[-1] == note


@pytest.mark.parametrize("data", ["one.svm", "one.txt"])
def test_probabilities_of_binary_data(data):
    found = measures("p.scores", data)
    assert list(found) == ["accuracy", "log_loss", "AUC"]
    assert found["accuracy"] == 100 * sklearn.metrics.accuracy_score(TRUTH, PROBABILITIES > 0.5) == 80
    assert found["log_loss"] == pytest.approx(sklearn.metrics.log_loss(TRUTH, PROBABILITIES))
    assert found["AUC"] == pytest.approx(sklearn.metrics.roc_auc_score(TRUTH, PROBABILITIES))
    result = run("p.scores", data, "--calibration", "--train", "nowhere", "-k", "1", "--auc", "--reliability")
    # 0.6 and 0.625 share a bin, half of it true; the others have bins of their own.
    error = (0.1 + 2 * 0.1125 + 0.25 + 0) / 5
    notes = [f"{name} has no effect on binary data" for name in ("training data", "reliability", "k")]
    assert result.stderr.splitlines() == [*notes, PROBABLE]
    assert result.stdout.splitlines() == [
        "accuracy    80.00",
        f"log_loss  {found['log_loss']:.5f}",
        f"AUC       {found['AUC']:.5f}",
        f"ECE       {error:.5f}",
    ]


def test_utilities_of_binary_data():
    result = run("u.scores", "one.svm")
    assert result.stderr == (
        "Some scores in u.scores are outside [0, 1], so they are taken as utilities, without log loss\n"
    )
    auc = sklearn.metrics.roc_auc_score(TRUTH, UTILITIES)
    assert result.stdout.splitlines() == ["accuracy    60.00", f"AUC       {auc:.5f}"]
    assert said(run("u.scores", "one.svm", "--calibration")).startswith("u.scores contains scores outside [0, 1]")


@pytest.mark.parametrize(
    ("scores", "data", "sentence"),
    [
        ("5 1\n0:1\n0:1\n\n0:0\n\n", "one.svm", "a.scores:4: the point has no score, but accuracy needs one per point"),
        ("0 1\n", "none.txt", "there are no points to evaluate"),
    ],
)
def test_errors_with_binary_data_are_one_line(tmp_path, scores, data, sentence):
    (tmp_path / "a.scores").write_text(scores)
    assert said(run("a.scores", data, "-q")) == sentence
