import json
import math

import numpy as np
import pytest
import sklearn.metrics
from click.testing import CliRunner

from xmlgp.cli import main

# Three points of which the last has no label; by hand in tests/metrics/test_ranking.py.
SCORES = "3 4\n0:0.9 1:0.8 3:0.7\n2:0.5 1:0.4\n0:1\n"
DATA = "3 2 4\n0,3 0:1\n1 1:0.5\n 0:1\n"
# Label frequencies 4, 2, 1, 0 of N = 5.
TRAIN = "5 2 4\n0,1 0:1\n0,1 0:1\n0 1:1\n0,2 1:1\n 0:1\n"

CATALOGUE = """
datasets:
  small:
    title: a small one
    shape: {N: 5, N_test: 3, D: 2, K: 4}
    propensity: {A: 0.6, B: 2.6}
    max_mb: 1
    files: {train: {}, test: {}}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XMLGP_CATALOGUE", str(tmp_path / "catalogue.yaml"))
    contents = {"a.scores": SCORES, "test.txt": DATA, "train.txt": TRAIN, "catalogue.yaml": "datasets: {}\n"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)


def run(*arguments, stdin=None):
    return CliRunner().invoke(main, ["evaluate", *arguments], input=stdin)


def weights(a, b):
    """Inverse propensities of the labels of TRAIN."""
    c = (math.log(5) - 1) * (b + 1) ** a
    return [1 + c * (n + b) ** -a for n in (4, 2, 1, 0)]


def psp_at_1(a, b):
    # Point 0 ranks label 0 first, a hit, where 3 is worth most; point 1 misses label 1.
    w = weights(a, b)
    return 100 * w[0] / (w[3] + w[1])


def test_table():
    result = run("a.scores", "test.txt")
    assert result.exit_code == 0
    assert result.stdout == (
        "            @1      @3      @5\nP        50.00   50.00   30.00\nnDCG     50.00   77.53   77.53\n"
    )
    assert result.stderr.splitlines()[-1] == "Without training data there are no propensity-scored measures"


def test_table_with_training_data():
    result = run("a.scores", "test.txt", "--train", "train.txt", "-k", "1")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["@1"],
        ["P", "50.00"],
        ["nDCG", "50.00"],
        ["PSP", f"{psp_at_1(0.55, 1.5):.2f}"],
        ["PSnDCG", f"{psp_at_1(0.55, 1.5):.2f}"],
    ]
    assert result.stderr == "Propensity model: A=0.55, B=1.5 (the default)\n"


def test_json():
    result = run("a.scores", "test.txt", "--train", "train.txt", "--json")
    measures = json.loads(result.stdout)
    assert list(measures) == [f"{name}@{k}" for name in ("P", "nDCG", "PSP", "PSnDCG") for k in (1, 3, 5)]
    assert measures["P@5"] == 30.0
    assert measures["nDCG@3"] == pytest.approx(100 * (1.5 / (1 + 1 / math.log2(3)) + 1 / math.log2(3)) / 2)
    assert measures["PSP@1"] == pytest.approx(psp_at_1(0.55, 1.5))


def test_assigned_labels_have_precision_recall_and_f1_instead():
    result = run("a.scores", "test.txt", "--assigned")
    assert result.exit_code == 0
    # Three of six labels are right. Label 2 is never true, and the last point has no true label.
    assert result.stdout == (
        "             micro    macro    point\nprecision  0.50000  0.50000  0.58333\n"
        "recall     1.00000  0.75000  1.00000\nF1         0.66667  0.58333  0.73333\n"
    )
    assert result.stderr == ""


def test_options_for_rankings_have_no_effect_on_assigned_labels():
    expected = run("a.scores", "test.txt", "--assigned").stdout
    options = ["--train", "train.txt", "-k", "1", "--reliability", "--auc", "--calibration"]
    result = run("a.scores", "test.txt", "--assigned", *options)
    assert result.stdout == expected
    given = "training data", "reliability", "k", "auc", "calibration"
    assert result.stderr.splitlines() == [f"{name} has no effect on assigned labels" for name in given]


def test_assigned_labels_of_one_label_need_not_cover_all_points(tmp_path):
    (tmp_path / "two.svm").write_text("1 1:1\n-1 1:2\n1 1:3\n")
    (tmp_path / "two.scores").write_text("3 1\n0:0.9\n\n\n")
    measures = json.loads(run("two.scores", "two.svm", "--assigned", "--json").stdout)
    assert measures["precision_micro"] == 1
    assert measures["recall_micro"] == 0.5
    (tmp_path / "none.svm").write_text("-1 1:1\n-1 1:2\n-1 1:3\n")
    result = run("two.scores", "none.svm", "--assigned")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: no point has a true label, so there is nothing to evaluate\n"


def test_quiet_prints_the_result_only():
    assert run("a.scores", "test.txt", "-q").stderr == ""
    assert run("a.scores", "test.txt", "--train", "train.txt", "--quiet").stderr == ""


def test_ks_are_sorted_and_distinct():
    assert list(json.loads(run("a.scores", "test.txt", "--json", "-k", "4,1,4").stdout)) == [
        "P@1", "P@4", "nDCG@1", "nDCG@4",
    ]  # fmt: skip


def test_the_catalogue_has_the_propensity_model_of_a_data_set_of_this_shape(tmp_path):
    (tmp_path / "catalogue.yaml").write_text(CATALOGUE)
    result = run("a.scores", "test.txt", "--train", "train.txt", "--json")
    assert json.loads(result.stdout)["PSP@1"] == pytest.approx(psp_at_1(0.6, 2.6))
    assert result.stderr.splitlines()[-1] == "Propensity model: A=0.6, B=2.6 (from small in the catalogue)"


def test_a_folder_stands_for_its_parts():
    expected = run("a.scores", "test.txt", "--train", "train.txt").stdout
    assert run("a.scores", ".", "--train", ".").stdout == expected != ""


@pytest.mark.parametrize("arguments", [["-", "test.txt"], ["a.scores", "-"]])
def test_standard_input(arguments):
    expected = run("a.scores", "test.txt", "--json").stdout
    stdin = SCORES if arguments[0] == "-" else DATA
    assert run(*arguments, "--json", stdin=stdin).stdout == expected != ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["-", "-"],
        ["-", "test.txt", "--train", "-"],
        ["a.scores", "test.txt", "-k", "0"],
        ["a.scores", "test.txt", "-k", "1,x"],
        ["a.scores", "test.txt", "--propensity-a", "0.5"],
    ],
)
def test_wrong_usage(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage:" in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.scores", "2 4\n0:1\n0:1\n", "a.scores has 2 points and 4 labels, but test.txt has 3 points and 4 labels"),
        ("a.scores", "3 4\n0:1\n0:nan\n\n", "a.scores:3: label 0 has 'nan' instead of a finite decimal number"),
        ("test.txt", "3 2 4\n 0:1\n 0:1\n 0:1\n", "no point has a true label, so there is nothing to evaluate"),
        ("train.txt", "5 2 3\n" + " 0:1\n" * 5, "train.txt has 3 labels, but a.scores has 4 labels"),
        ("catalogue.yaml", "[]", "catalogue.yaml"),
    ],
)
def test_errors_are_one_line(tmp_path, name, content, sentence):
    (tmp_path / name).write_text(content)
    result = run("a.scores", "test.txt", "--train", "train.txt", "-q")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_note_says_when_k_exceeds_the_listed_labels():
    result = run("a.scores", "test.txt", "-k", "1,7")
    assert "a.scores lists at most 3 labels per point" in result.stderr
    assert "at most" not in run("a.scores", "test.txt", "-k", "1,3").stderr


def test_calibration_of_listed_labels():
    result = run("a.scores", "test.txt", "-k", "1", "--calibration")
    # True are 0.9 and 0.7 of point 0 and 0.4 of point 1; not 0.8, 0.5 and the 1 of the point without labels.
    truth, probabilities = [1, 0, 1, 0, 1, 0], [0.9, 0.8, 0.7, 0.5, 0.4, 1]
    loss = sklearn.metrics.log_loss(truth, probabilities)
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
    assert result.stderr.splitlines()[-1] == (
        "Log loss and ECE are over the 6 listed labels only, at most 3 of 4 per point; "
        "`xmlgp predict -k all` lists all labels"
    )
    measures = json.loads(run("a.scores", "test.txt", "-k", "1", "--calibration", "--json").stdout)
    assert list(measures) == ["P@1", "nDCG@1", "log_loss", "ECE", "ECE@1"]
    assert measures["log_loss"] == pytest.approx(loss)
    assert measures["ECE"] == pytest.approx(error)


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


def test_reliability_as_json():
    printed = json.loads(run("a.scores", "test.txt", "-q", "-k", "2", "--reliability", "--json").stdout)
    assert printed.pop("reliability") == {
        "rank": [
            {"bin": "1", "count": 3, "probability": pytest.approx(0.8), "true": pytest.approx(1 / 3)},
            {"bin": "2", "count": 2, "probability": pytest.approx(0.6), "true": 0.5},
        ]
    }
    assert list(printed) == ["P@2", "nDCG@2"]


def test_auc_of_listed_labels():
    result = run("a.scores", "test.txt", "-k", "1", "--auc")
    # Unlisted scores as 0; label 2 is true for no point and the last point has no label.
    scores = np.array([[0.9, 0.8, 0, 0.7], [0, 0.4, 0.5, 0], [1, 0, 0, 0]])
    truth = np.array([[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]])
    micro = sklearn.metrics.roc_auc_score(truth, scores, average="micro")
    macro = sklearn.metrics.roc_auc_score(truth[:, [0, 1, 3]], scores[:, [0, 1, 3]], average="macro")
    instance = sklearn.metrics.roc_auc_score(truth[:2], scores[:2], average="samples")
    assert len({micro, macro, instance}) == 3
    assert result.stdout.splitlines() == [
        "                  @1",
        "P              50.00",
        "nDCG           50.00",
        f"AUC_micro     {micro:.5f}",
        f"AUC_macro     {macro:.5f}",
        f"AUC_instance  {instance:.5f}",
    ]
    assert result.stderr.splitlines()[-1] == (
        "AUC treats unlisted labels as tied in the last place; it is over the 6 listed labels only, at most 3 of 4 per "
        "point; `xmlgp predict -k all` lists all labels"
    )
    result = run("a.scores", "test.txt", "-k", "1", "--auc", "--json", "-q")
    assert result.stderr == ""
    measures = json.loads(result.stdout)
    assert list(measures) == ["P@1", "nDCG@1", "AUC_micro", "AUC_macro", "AUC_instance"]
    assert list(measures.values())[2:] == pytest.approx([micro, macro, instance])


@pytest.mark.parametrize(
    ("content", "option", "sentence"),
    [
        ("3 4\n0:1.5\n\n\n", "--calibration", "a.scores contains scores outside [0, 1];"),
        ("3 4\n0:-0.5\n\n\n", "--reliability", "a.scores contains scores outside [0, 1];"),
        ("3 4\n\n\n\n", "--calibration", "a.scores contains no scores, so there are no probabilities to evaluate"),
    ],
)
def test_unmeasurable_scores_are_a_one_line_error(tmp_path, content, option, sentence):
    (tmp_path / "a.scores").write_text(content)
    result = run("a.scores", "test.txt", option, "-q")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {sentence}")
    assert result.stderr.count("\n") == 1


#: The note on probabilities; binary data in both formats, and probabilities and utilities for them.
PROBABLE = "All scores in p.scores are in [0, 1], so they are taken as probabilities"
ONE_LABEL = {"one.svm": "+1 1:1\n-1\n-1 2:1\n+1 1:2\n-1 1:3\n", "one.txt": "5 2 1\n0 0:1\n \n 1:1\n0 0:2\n 0:3\n"}
TRUTH = np.array([1, 0, 0, 1, 0])
PROBABILITIES, UTILITIES = np.array([0.9, 0.6, 0.25, 0.625, 0]), np.array([2, -0.5, 1, -1, 0])


@pytest.fixture
def one_label(tmp_path):
    for name, content in ONE_LABEL.items():
        (tmp_path / name).write_text(content)
    for name, scores in ("p.scores", PROBABILITIES), ("u.scores", UTILITIES):
        (tmp_path / name).write_text("5 1\n" + "".join(f"0:{score:.7g}\n" for score in scores))


@pytest.mark.usefixtures("one_label")
@pytest.mark.parametrize("data", ONE_LABEL)
def test_probabilities_of_binary_data(data):
    result = run("p.scores", data, "--json")
    assert (result.exit_code, result.stderr) == (0, f"{PROBABLE}\n")
    measures = json.loads(result.stdout)
    assert list(measures) == ["accuracy", "log_loss", "AUC"]
    assert measures["accuracy"] == 100 * sklearn.metrics.accuracy_score(TRUTH, PROBABILITIES > 0.5) == 80
    assert measures["log_loss"] == pytest.approx(sklearn.metrics.log_loss(TRUTH, PROBABILITIES))
    assert measures["AUC"] == pytest.approx(sklearn.metrics.roc_auc_score(TRUTH, PROBABILITIES))
    result = run("p.scores", data, "--calibration")
    # 0.6 and 0.625 share a bin, half of it true; the others have bins of their own.
    error = (0.1 + 2 * 0.1125 + 0.25 + 0) / 5
    assert (result.exit_code, result.stderr) == (0, f"{PROBABLE}\n")
    assert result.stdout.splitlines() == [
        "accuracy    80.00",
        f"log_loss  {measures['log_loss']:.5f}",
        f"AUC       {measures['AUC']:.5f}",
        f"ECE       {error:.5f}",
    ]


@pytest.mark.usefixtures("one_label")
def test_utilities_of_binary_data():
    result = run("u.scores", "one.svm", "--json")
    assert result.stderr == (
        "Some scores in u.scores are outside [0, 1], so they are taken as utilities, without log loss\n"
    )
    measures = json.loads(result.stdout)
    assert list(measures) == ["accuracy", "AUC"]
    assert measures["accuracy"] == 100 * sklearn.metrics.accuracy_score(TRUTH, UTILITIES > 0) == 60
    assert measures["AUC"] == pytest.approx(sklearn.metrics.roc_auc_score(TRUTH, UTILITIES))
    assert run("u.scores", "one.svm", "-q").stdout.splitlines()[0] == "accuracy    60.00"
    assert run("u.scores", "one.svm", "-q").stderr == ""
    result = run("u.scores", "one.svm", "--calibration")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "u.scores contains scores outside [0, 1]" in result.stderr


@pytest.mark.usefixtures("one_label")
@pytest.mark.parametrize(
    ("options", "noted"),
    [
        (["--train", "nowhere", "-k", "1"], ["training data", "k"]),
        (["--auc"], []),
        (["--reliability"], ["reliability"]),
    ],
)
def test_ranking_options_have_no_effect_on_binary_data(options, noted):
    expected = run("p.scores", "one.svm", "--json").stdout
    result = run("p.scores", "one.svm", "--json", *options)
    assert result.stdout == expected != ""
    notes = [f"{name} has no effect on binary data" for name in noted]
    assert result.stderr.splitlines() == [*notes, PROBABLE]
    assert run("p.scores", "one.svm", "--json", "-q", *options).stderr == ""


@pytest.mark.usefixtures("one_label")
def test_data_of_one_class_have_accuracy_but_no_auc(tmp_path):
    (tmp_path / "one.svm").write_text("+1\n" * 5)
    result = run("p.scores", "one.svm", "--json")
    assert result.stderr.splitlines() == [PROBABLE, "AUC is undefined, as all points have the label or none has it"]
    measures = json.loads(result.stdout)
    assert list(measures) == ["accuracy", "log_loss"]
    assert measures["accuracy"] == 60


@pytest.mark.usefixtures("one_label")
@pytest.mark.parametrize(
    ("scores", "data", "sentence"),
    [
        ("5 1\n0:1\n0:1\n\n0:0\n\n", "one.svm", "a.scores:4: the point has no score, but accuracy needs one per point"),
        ("5 2\n" + "1:1\n" * 5, "one.svm", "Error: a.scores has 5 points and 2 labels, but one.svm has 5"),
        ("0 1\n", "none.txt", "Error: there are no points to evaluate"),
    ],
)
def test_errors_with_binary_data_are_one_line(tmp_path, scores, data, sentence):
    (tmp_path / "a.scores").write_text(scores)
    (tmp_path / "none.txt").write_text("0 2 1\n")
    result = run("a.scores", data, "-q")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1
