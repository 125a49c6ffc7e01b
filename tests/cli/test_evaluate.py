"""`xmlgp evaluate`: tables and JSON of each kind of measures, its notes and its errors.

The measures themselves are compared with scikit-learn in tests/metrics.
"""

import json

import pytest

from tests.cli import command
from tests.cli.command import said

# Three points of which the last has no label.
SCORES = "3 4\n0:0.9 1:0.8 3:0.7\n2:0.5 1:0.4\n0:1\n"
DATA = "3 2 4\n0,3 0:1\n1 1:0.5\n 0:1\n"

FILES = {
    "a.scores": SCORES,
    "b.scores": SCORES.replace("\n", " assigned\n", 1),
    "test.txt": DATA,
    # Label frequencies 4, 2, 1, 0.
    "train.txt": "5 2 4\n0,1 0:1\n0,1 0:1\n0 1:1\n0,2 1:1\n 0:1\n",
    "catalogue.yaml": "datasets: {}\n",
    # Data with one label, in both formats, and probabilities and utilities for them.
    "one.svm": "+1 1:1\n-1\n-1 2:1\n+1 1:2\n-1 1:3\n",
    "one.txt": "5 2 1\n0 0:1\n \n 1:1\n0 0:2\n 0:3\n",
    "p.scores": "5 1\n0:0.9\n0:0.6\n0:0.25\n0:0.625\n0:0\n",
    "u.scores": "5 1\n0:2\n0:-0.5\n0:1\n0:-1\n0:0\n",
    "none.txt": "0 2 1\n",
    "none.scores": "0 1\n",
}

RANKING, ASSIGNED = "a.scores ranks the labels of each point", "b.scores has the assigned labels of each point"
WITHOUT_PSP = "Without training data there are no propensity-scored measures"
LISTED = "the 6 listed labels only, at most 3 of 4 per point; `xmlgp predict -k all` lists all labels"

ASSIGNED_TABLE = [
    "             micro    macro    point",
    "precision  0.50000  0.50000  0.58333",
    "recall     1.00000  0.75000  1.00000",
    "F1         0.66667  0.58333  0.73333",
]

#: What commands print, and their notes.
PRINTED = {
    "a.scores test.txt": (
        ["            @1      @3      @5", "P        50.00   50.00   30.00", "nDCG     50.00   77.53   77.53"],
        [RANKING, "a.scores lists at most 3 labels per point; for larger k the others count as wrong", WITHOUT_PSP],
    ),
    "a.scores test.txt -k 1 --train train.txt --calibration --auc": (
        [
            "                  @1",
            "P              50.00",
            "nDCG           50.00",
            "PSP            42.10",
            "PSnDCG         42.10",
            "AUC_micro     0.77778",
            "AUC_macro     0.66667",
            "AUC_instance  0.70833",
            "log_loss      6.62076",
            "ECE           0.55000",
            "ECE@k         0.46667",
        ],
        [
            RANKING,
            "Propensity model: A=0.55, B=1.5 (the default)",
            f"AUC treats unlisted labels as tied in the last place; it is over {LISTED}",
            f"Log loss and ECE are over {LISTED}",
        ],
    ),
    "a.scores test.txt -k 2 --train train.txt --reliability --propensity-a 0.5 --propensity-b 0.4": (
        [
            "            @2",
            "P        50.00",
            "nDCG     62.20",
            "PSP      56.76",
            "PSnDCG   50.94",
            "",
            "rank  labels  probability    true",
            "1          3       0.8000  0.3333",
            "2          2       0.6000  0.5000",
            "",
            "training points  labels  probability    true",
            "1                     1       0.5000  0.0000",
            "2-3                   2       0.6000  0.5000",
            "4-7                   2       0.9500  0.5000",
        ],
        [RANKING, "Propensity model: A=0.5, B=0.4 (as given)"],
    ),
    "a.scores test.txt --assigned -k 1 --auc": (
        ASSIGNED_TABLE,
        ["k has no effect on assigned labels", "auc has no effect on assigned labels"],
    ),
    "b.scores test.txt": (ASSIGNED_TABLE, [ASSIGNED]),
    "b.scores test.txt --auc --calibration": (
        ASSIGNED_TABLE,
        [ASSIGNED, "auc has no effect on assigned labels", "calibration has no effect on assigned labels"],
    ),
    "b.scores test.txt --ranking": (
        ["            @1      @3      @5", "P        50.00   50.00   30.00", "nDCG     50.00   77.53   77.53"],
        ["b.scores lists at most 3 labels per point; for larger k the others count as wrong", WITHOUT_PSP],
    ),
    "p.scores one.svm --calibration --train nowhere": (
        ["accuracy    80.00", "log_loss  0.35587", "AUC       1.00000", "ECE       0.11500"],
        [
            "training data has no effect on binary data",
            "All scores in p.scores are in [0, 1], so they are taken as probabilities",
        ],
    ),
    "u.scores one.txt": (
        ["accuracy    60.00", "AUC       0.50000"],
        ["Some scores in u.scores are outside [0, 1], so they are taken as utilities, without log loss"],
    ),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XMLGP_CATALOGUE", str(tmp_path / "catalogue.yaml"))
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)


def run(*arguments, stdin=None):
    return command.run("evaluate", *arguments, stdin=stdin)


@pytest.mark.parametrize("arguments", PRINTED)
def test_each_kind_of_measures_has_a_table_and_notes(arguments):
    table, notes = PRINTED[arguments]
    result = run(*arguments.split())
    assert (result.stdout.splitlines(), result.stderr.splitlines()) == (table, notes)
    quiet = run(*arguments.split(), "-q")
    assert (quiet.stdout, quiet.stderr) == (result.stdout, "")


def test_json():
    found = json.loads(run("a.scores", "test.txt", "--train", "train.txt", "-k", "5,1,3,1", "--json").stdout)
    assert list(found) == [f"{name}@{k}" for name in ("P", "nDCG", "PSP", "PSnDCG") for k in (1, 3, 5)]
    assert found["P@5"] == 30.0
    found = json.loads(run("a.scores", "test.txt", "-k", "2", "--reliability", "--json").stdout)
    assert list(found) == ["P@2", "nDCG@2", "reliability"]
    first = {"bin": "1", "count": 3, "probability": pytest.approx(0.8), "true": pytest.approx(1 / 3)}
    assert found["reliability"]["rank"][0] == first


@pytest.mark.parametrize("arguments", [[".", "--train", "."], ["-"]])
def test_a_folder_and_standard_input_stand_for_files(arguments):
    expected = run("a.scores", "test.txt", *(["--train", "train.txt"] if "." in arguments else []))
    assert run("a.scores", *arguments, stdin=DATA).stdout == expected.stdout


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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("a.scores one.svm", "a.scores:4: the point has no score, but accuracy needs one per point"),
        ("none.scores none.txt", "there are no points to evaluate"),
        ("u.scores one.svm --calibration", "u.scores contains scores outside [0, 1]"),
    ],
)
def test_errors_with_binary_data_are_one_line(tmp_path, arguments, sentence):
    (tmp_path / "a.scores").write_text("5 1\n0:1\n0:1\n\n0:0\n\n")
    assert said(run(*arguments.split(), "-q")).startswith(sentence)
