"""`xmlgp evaluate`: tables and JSON of each kind of measures, its notes and its errors.

The measures themselves are compared with scikit-learn in tests/metrics.
"""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import xmlgp
from tests.cli import command
from tests.cli.command import said
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.progress import Reporter

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
    "few.scores": "5 1\n0:1\n0:1\n\n0:0\n\n",
    "none.txt": "0 2 1\n",
    "none.scores": "0 1\n",
    # Documents, and predictions of them in another order. Nothing gives `new`.
    "new.csv": "id,text,labels\nx,a,red;new\ny,b,blue\n1,c,\n4,d,new\n",
    "p.jsonl": """{"id": 1, "labels": [{"label": "blue", "score": 0.5}]}
{"id": "y", "labels": [{"label": "red", "score": 0.75}, {"label": "blue", "score": 0.25}]}
{"id": "x", "labels": [{"label": "red", "score": 0.5}, {"label": "green", "score": 0.25}]}
{"id": "4", "labels": [{"label": "blue", "score": 0.5}]}
""",
    "train.csv": "text,labels\na,red\nb,blue\nc,red;green\nd,red\n",
    "names.jsonl": '{"labels": ["red"]}\n{"labels": ["red", "blue"]}\n{"labels": []}\n{"labels": ["blue"]}\n',
    # Numbers are those of the training labels in order: blue, green, red.
    "numbers.scores": "4 3\n2:0.5 1:0.25\n2:0.75 0:0.25\n0:0.5\n0:0.5\n",
    "rows.txt": "4 2 3\n2 0:1\n0 0:1\n 0:1\n 0:1\n",
}

UNLABELLED = "Test points without labels: 1 of 3; they count 0 in means over points"
LISTED = "a.scores lists at most 3 labels per point; for larger k the others count as wrong"
FEW = "points have few labels (1.00 on average), so"
LIMITS = f"{FEW} P@1 is at most 66.7 %, P@3 is at most 33.3 %, P@5 is at most 20.0 %"
SIX = "a.scores lists 6 of 12 pairs of point and label; `xmlgp predict -k all` lists all"

ASSIGNED_TABLE = [
    "precision_micro  0.50000 [0.03703, 0.96297]",
    "recall_micro     1.00000 [0.05056, 1.00000]",
    "F1_micro         0.66667 [0.04028, 0.98962]",
    "precision_macro  0.50000 [0.03519, 0.96481]",
    "recall_macro     0.75000 [0.03350, 0.99616]",
    "F1_macro         0.58333 [0.03895, 0.97974]",
    "precision_point  0.38889 [0.02105, 0.94958]",
    "recall_point     0.66667 [0.02102, 0.99466]",
    "F1_point         0.48889 [0.02298, 0.97494]",
]

#: What commands print, and their notes.
PRINTED = {
    "a.scores test.txt": (
        [
            "                       @1                   @3                   @5",
            "P     33.33 [0.58, 66.67]  33.33 [1.64, 33.33]  20.00 [1.15, 20.00]",
            "nDCG  33.33 [0.58, 97.72]  51.69 [2.20, 98.07]  51.69 [2.20, 98.07]",
        ],
        [LISTED, LIMITS],
    ),
    "a.scores test.txt -k 1 --train train.txt --calibration --auc": (
        [
            "                         @1",
            "P       33.33 [0.58, 66.67]",
            "nDCG    33.33 [0.58, 97.72]",
            "PSP     42.10 [0.09, 99.84]",
            "PSnDCG  42.10 [0.09, 99.84]",
            "",
            "AUC_micro     0.77778 [0.47159, 0.93209]",
            "AUC_instance  0.70833 [0.13596, 0.97401]",
            "log_loss      6.62076 [0.00000, 76.22144]",
            "ECE           0.55000 [0.00000, 1.00000]",
            "ECE@1         0.46667 [0.00000, 1.00000]",
        ],
        [f"{FEW} P@1 is at most 66.7 %", "Propensity model: A=0.55, B=1.5 (the default)", SIX],
    ),
    "a.scores test.txt -k 2 --train train.txt --propensity 0.5 0.4": (
        [
            "                         @2",
            "P       33.33 [1.98, 50.00]",
            "nDCG    41.47 [2.19, 95.73]",
            "PSP     56.76 [0.23, 99.87]",
            "PSnDCG  50.94 [2.07, 98.08]",
        ],
        [
            "points have few labels (1.00 on average), so P@2 is at most 50.0 %",
            "Propensity model: A=0.5, B=0.4 (as given)",
        ],
    ),
    "a.scores test.txt --assigned --auc": (ASSIGNED_TABLE, ["assigned labels have no measures of auc"]),
    "b.scores test.txt --calibration": (ASSIGNED_TABLE, ["assigned labels have no measures of calibration"]),
    "p.scores one.svm --calibration": (
        [
            "accuracy    80.00 [15.52, 98.86]",
            "log_loss  0.35587 [0.00000, 0.94632]",
            "AUC       1.00000 [0.39343, 1.00000]",
            "ECE       0.11500 [0.00000, 0.50682]",
        ],
        ["All scores in p.scores are in [0, 1], so they are taken as probabilities"],
    ),
    "u.scores one.txt --macro": (
        ["accuracy    60.00 [8.53, 96.02]", "AUC       0.50000 [0.02372, 0.97628]"],
        [
            "binary data have no measures of macro",
            "Some scores in u.scores are outside [0, 1], so they are taken as utilities, without log loss",
        ],
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
    binary = "one." in arguments
    points = f"[low, high] are 95 % intervals over {5 if binary else 3} test points; "
    notes = [*([] if binary else [UNLABELLED]), *notes, f"{points}fewer than 50 are too few to judge by"]
    notes = [f"Note: {note}" for note in notes]
    assert (result.stdout.splitlines(), result.stderr.splitlines()) == (table, notes)
    quiet = run(*arguments.split(), "-q")
    assert (quiet.stdout, quiet.stderr) == (result.stdout, "")


def test_json():
    options = ["--train", "train.txt", "-k", "5,1,3,1", "--macro", "--json"]
    found = json.loads(run("a.scores", "test.txt", *options).stdout)
    intervals = found.pop("intervals")
    names = ["P", "nDCG", "PSP", "PSnDCG", "recall", "coverage", "macro-precision", "macro-recall", "macro-F1"]
    assert list(found) == [f"{name}@{k}" for name in names for k in (1, 3, 5)]
    # Labels 0, 1 and 3 are true of a point; 0 is the first label of its point, and of the one without labels.
    assert [found[name] for name in ("P@5", "recall@1")] == pytest.approx([20, 100 / 6])
    assert [found[f"{name}@1"] for name in ("coverage", "macro-F1")] == pytest.approx([100 / 3, 100 * (2 / 3) / 3])
    assert {name: entry["value"] for name, entry in intervals.items()} == found
    assert intervals["P@5"]["interval"] == pytest.approx([1.15, 20], abs=0.005)


def test_one_point_has_an_interval_without_a_bound_in_json(tmp_path):
    (tmp_path / "one.scores").write_text("1 2\n0:0.5 1:0.25\n")
    (tmp_path / "one.txt").write_text("1 1 2\n0 0:1\n")
    printed = run("one.scores", "one.txt", "--calibration", "--json").stdout
    intervals = json.loads(printed, parse_constant=pytest.fail)["intervals"]
    assert (intervals["log_loss"]["interval"], intervals["P@1"]["interval"]) == ([0, None], [0, 100])
    printed = run("one.scores", "one.scores", "one.txt", "--calibration", "--json").stdout
    assert json.loads(printed, parse_constant=pytest.fail)["log_loss"]["interval"] == [None, None]


def test_a_table_that_is_too_wide_has_a_measure_in_each_row(monkeypatch):
    for_80 = run("a.scores", "test.txt", "-k", "1,2,3,4").stdout.splitlines()
    assert [line.split()[0] for line in for_80] == [f"{name}@{k}" for name in ("P", "nDCG") for k in (1, 2, 3, 4)]
    monkeypatch.setenv("COLUMNS", "100")
    assert run("a.scores", "test.txt", "-k", "1,2,3,4").stdout.split()[:4] == ["@1", "@2", "@3", "@4"]


def test_labels_are_matched_by_name_and_points_by_identifier():
    result = run("p.jsonl", "new.csv", "-k", "1,2")
    # The first label is right for x, and the second for y; 1 has no labels.
    expected = [
        "P     25.00 [0.88, 75.00]  25.00 [2.35, 50.00]",
        f"nDCG  25.00 [0.88, 92.59]  {(61.315 + 63.093) / 4:.2f} [2.73, 87.90]",
    ]
    assert result.stdout.splitlines()[1:] == expected
    note = "Note: p.jsonl never lists 1 label of new.csv among the first 2 (2 of 4 true labels), which count as missed"
    assert result.stderr.splitlines()[0] == note
    by_name = run("p.jsonl", "new.csv", "-k", "1,2", "--train", "train.csv")
    assert by_name.stderr.splitlines()[:2] == [note, "Note: 1 of these is unknown to the model or the training data"]
    by_number = run("numbers.scores", "new.csv", "-k", "1,2", "--train", "train.csv")
    assert (by_number.exit_code, by_number.stdout) == (0, by_name.stdout)
    # Rows do not have the label, so the last two points have none.
    rows = run("numbers.scores", "rows.txt", "-k", "1,2", "--train", "train.csv", "--json")
    assert json.loads(rows.stdout)["P@2"] == 25
    found = json.loads(run("names.jsonl", "new.csv", "--train", "train.csv", "--json").stdout)
    # F1 of red and blue is 2/3, and that of the unknown label is 0. One of the four points has no labels.
    assert [found[name] for name in ("precision_micro", "recall_micro", "recall_point")] == [0.5, 0.5, 0.375]
    assert found["F1_macro"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)


@pytest.mark.parametrize(
    ("ids", "true", "note"),
    [
        ("3 1 2", None, None),
        ("c a b", "a b c", None),
        ("a b c", None, "true.csv has no identifiers, so points are matched by their order"),
        (None, "a b c", "p.jsonl has no identifiers, so points are matched by their order"),
        ("a\u00a0b x\u3000y z", "a b,x y,z", None),
        (None, None, None),
    ],
)
def test_points_have_equal_identifiers_or_the_same_order(tmp_path, ids, true, note):
    order = (
        ["123".index(own) for own in ids.split(" ")] if ids == "3 1 2" else [2, 0, 1] if ids == "c a b" else range(3)
    )
    own = ids.split(" ") if ids else [None] * 3
    lines = [{"id": id, "labels": ["pqr"[k]]} for id, k in zip(own, order, strict=True)]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    wanted = true.split("," if "," in true else " ") if true else ["", "", ""]
    head = "id,text,labels\n" if true else "id,text,labels\n"
    rows = [f"{id},t{k},{label}\n" for k, (id, label) in enumerate(zip(wanted, "pqr", strict=True))]
    (tmp_path / "true.csv").write_text(head + "".join(rows))
    result = run("p.jsonl", "true.csv", "--json")
    assert json.loads(result.stdout)["F1_micro"] == 1
    assert result.stderr.splitlines() == ([f"Note: {note}"] if note else [])


def test_a_table_lacks_points_without_labels(tmp_path):
    (tmp_path / "p.csv").write_text("id,label\ny,blue\nx,red\n")
    result = run("p.csv", "new.csv", "--json")
    assert result.stderr.splitlines()[0] == "Note: p.csv lists no labels of 2 of 4 points, such as '1'"
    assert json.loads(result.stdout)["precision_micro"] == 1


#: The scores of a.scores as other programs write them.
FORMS = {
    "a.csv": "id,label,probability\n1,0,0.9\n1,1,0.8\n1,3,0.7\n2,2,0.5\n2,1,0.4\n3,0,1\n",
    # In another order, without the last point, which has no labels.
    "a.tsv": "id\turi\tlabel\tscore\n2\t1\t\t4\n2\t2\t\t5\n1\t3\t\t7\n1\t1\t\t8\n1\t0\t\t9\n",
    "nxc.txt": "0:0.9 1:0.8 3:0.7 \n2:0.5 1:0.4 \n\n",
    "omikuji.txt": "0 0.900\t1 0.800\t3 0.700\n2 0.500\t1 0.400\n0 1.000\n",
}


@pytest.mark.parametrize("train", [[], ["--train", "train.txt"]])
def test_scores_of_other_programs(tmp_path, train):
    matrix = np.array([[9.0, 8, 0, 7], [0, 4, 5, 0], [1, 0, 0, 0]])
    sp.save_npz(tmp_path / "pyxclib.npz", sp.csr_matrix(matrix))
    for name, content in FORMS.items():
        (tmp_path / name).write_text(content)
    expected = run("a.scores", "test.txt", *train)
    for name in [*FORMS, "pyxclib.npz"]:
        result = run(name, "test.txt", *train)
        assert (result.exit_code, result.stdout) == (0, expected.stdout), name
    assert run("-", "test.txt", *train, stdin=FORMS["a.csv"].encode()).stdout == expected.stdout
    assert run("a.scores", ".", *train).stdout == expected.stdout


def test_the_number_of_labels_is_that_of_the_data_if_scores_do_not_say_it(tmp_path):
    (tmp_path / "nxc.txt").write_text("1:0.9 0:0.8 \n0:0.5 \n")
    (tmp_path / "several.svm").write_text("0,5 1:1\n2 1:1\n")
    assert run("nxc.txt", "several.svm", "-k", "2").stdout.splitlines()[1] == "P     25.00 [0.06, 75.00]"
    (tmp_path / "train6.txt").write_text("5 1 6\n" + "0 0:1\n5 0:1\n 0:1\n" + "1 0:1\n2 0:1\n")
    result = run("nxc.txt", "several.svm", "-k", "2", "--train", "train6.txt")
    assert (result.exit_code, result.stdout.splitlines()[1]) == (0, "P       25.00 [0.06, 75.00]")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            "numbers.scores new.csv",
            "new.csv has names of labels, such as 'blue', but numbers.scores has numbers below 3",
        ),
        ("names.jsonl rows.txt", "names.jsonl has names of labels, such as 'blue', but rows.txt has numbers below 3"),
        ("a.scores new.csv --train train.csv", "a.scores has 3 points, but new.csv has 4 points"),
        ("b.jsonl new.csv", "b.jsonl has the point 'z', which new.csv has not"),
        ("g.jsonl new.csv", "g.jsonl has the point '2', which new.csv has not"),
        ("c.jsonl new.csv", "new.csv has the point '1', which c.jsonl has not"),
        ("d.jsonl new.csv", "d.jsonl has 2 points, but new.csv has 4 points"),
        ("e.jsonl new.csv", "e.jsonl has the identifier 'x' twice"),
        ("p.jsonl bad.csv", "bad.csv:2: "),
        ("train.csv numbers.scores", "train.csv:1: a table of scores has the columns id and label or uri; the scores"),
        (". p.jsonl", ". is a folder; the scores come first, then the data"),
        (
            "test.txt a.scores",
            "test.txt:1: the first line must be two nonnegative integers `N K`, the numbers of points and labels, ",
        ),
        ("plain.scores test.txt", "plain.scores has 6 labels, but test.txt has 4"),
        ("a.scores five.txt", "a.scores has 4 labels, but five.txt has 5"),
        ("few.scores one.svm", "few.scores: point 3 has no score, but accuracy needs one per point"),
        ("none.scores none.txt", "there are no points to evaluate"),
        ("u.scores one.svm --calibration", "u.scores contains scores outside [0, 1]"),
        ("a.scores b.scores test.txt", "one of a.scores and b.scores ranks labels, and the other assigns them"),
        ("nan.npz test.txt", "nan.npz: a score is not a finite number"),
        ("twice.npz test.txt", "twice.npz: a label occurs twice in a row"),
        ("complex.npz test.txt", "complex.npz: scores are a matrix of real numbers, N×K, not (3, 4) of complex128"),
        ("damaged.npz test.txt", "damaged.npz: this is not a complete .npz file"),
    ],
)
def test_scores_that_do_not_fit_are_refused(tmp_path, arguments, sentence):
    of_x = '{"id": "x", "labels": ["red"]}\n'
    for name, content in {
        "b.jsonl": FILES["p.jsonl"] + of_x.replace("x", "z").replace('"red"', ""),
        "c.jsonl": "".join(FILES["p.jsonl"].splitlines(keepends=True)[1:]),
        "d.jsonl": '{"labels": ["red"]}\n' * 2,
        "e.jsonl": FILES["p.jsonl"] + of_x.replace('"red"', ""),
        "g.jsonl": "".join(f'{{"id": {number}, "labels": ["red"]}}\n' for number in range(1, 5)),
        "plain.scores": "0:1\n5:1\n\n",
        "five.txt": DATA.replace("4", "5", 1),
        "bad.csv": "text,labels\na,b\x07\n",
        "damaged.npz": "PK\x03\x04",
    }.items():
        (tmp_path / name).write_text(content)
    sp.save_npz(tmp_path / "nan.npz", sp.csr_matrix([[1, np.nan, 0, 0]]))
    sp.save_npz(tmp_path / "twice.npz", sp.csr_matrix((np.ones(2), [0, 0], [0, 2]), (1, 4)))
    sp.save_npz(tmp_path / "complex.npz", sp.csr_matrix(np.ones((3, 4), complex)))
    assert said(run(*arguments.split(), "-q")).startswith(sentence)


def test_two_methods_are_compared_on_the_same_points(tmp_path):
    random = np.random.default_rng(0)
    true = random.integers(0, 4, 200)
    (tmp_path / "many.txt").write_text("200 1 4\n" + "".join(f"{label} 0:1\n" for label in true))
    for name, share in ("good", 0.9), ("bad", 0.5):
        first = np.where(random.random(200) < share, true, (true + 1) % 4)
        lines = [f"{label}:0.9 {(label + 2) % 4}:0.5\n" for label in first]
        (tmp_path / f"{name}.scores").write_text("200 4\n" + "".join(lines))
    result = run("good.scores", "bad.scores", "many.txt", "-k", "1", "--train", "many.txt")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[:4] == ["A  good.scores", "B  bad.scores", "", lines[3]]
    assert lines[3].split() == ["A", "B", "A", "-", "B", "95", "%", "interval", "p"]
    assert [line.split()[0] for line in lines[4:8]] == ["P@1", "nDCG@1", "PSP@1", "PSnDCG@1"]
    of_a, of_b = (
        xmlgp.evaluate(f"{name}.scores", "many.txt", train="many.txt", ks=[1]).measures for name in ("good", "bad")
    )
    assert lines[4].split()[1:4] == [f"{of_a['P@1']:.2f}", f"{of_b['P@1']:.2f}", f"{of_a['P@1'] - of_b['P@1']:+.2f}"]
    assert lines[4].endswith("<0.001")
    assert lines[-1].startswith("A is above B in P@1 by ")
    turned = run("bad.scores", "good.scores", "many.txt", "-k", "1", "-q").stdout.splitlines()[-1]
    assert turned.startswith("B is above A in P@1 by ")
    same = run("good.scores", "good.scores", "many.txt", "-q", "--macro").stdout.splitlines()
    assert same[-1] == "No difference is certain: chance makes differences as large."
    assert any(line.startswith("macro-F1@5") for line in same)
    found = json.loads(run("good.scores", "bad.scores", "many.txt", "--json").stdout)
    compared = xmlgp.compare("good.scores", "bad.scores", "many.txt").measures
    assert found == json.loads(json.dumps({name: row._asdict() for name, row in compared.items()}))


def test_wrong_usage_is_refused():
    for arguments, reason in {
        "a.scores a.scores a.scores test.txt": "Give the scores of one or two methods, then the data.",
        "a.scores test.txt -k 0": "'0' is not a list of positive whole numbers such as 1,3,5.",
        "test.txt": "Missing argument",
    }.items():
        assert reason in said(run(*arguments.split()), 2)


def test_probabilities_and_their_logarithms_have_the_same_ranking(tmp_path):
    """The highest log probability is 0, and the lowest probability: an array lists zeros if a score is negative."""
    X, y = load_digits(return_X_y=True)
    model = GaussianNB().fit(X[:900], y[:900])
    labels = np.eye(10)[y[900:]]
    probabilities = model.predict_proba(X[900:])
    expected = xmlgp.evaluate(probabilities, labels).measures
    assert expected["P@1"] == pytest.approx(100 * model.score(X[900:], y[900:]))
    notes = []
    found = xmlgp.evaluate(model.predict_log_proba(X[900:]), labels, reporter=Reporter(note=notes.append))
    assert found.measures["P@1"] == expected["P@1"]
    sentence = "the table of scores has negative scores, so none is a probability, and 0 counts as a score"
    assert notes == [sentence, f"{FEW} P@3 is at most 33.3 %, P@5 is at most 20.0 %"]
    # The logarithm of 0 is −∞, which is not listed, as 0 is not; single precision has more of them.
    with np.errstate(divide="ignore"):
        np.save(tmp_path / "log.npy", np.log(probabilities))
    np.save(tmp_path / "plain.npy", np.asfortranarray(probabilities))
    np.save(tmp_path / "swapped.npy", probabilities.astype(probabilities.dtype.newbyteorder()))
    for file in "log.npy", "plain.npy", "swapped.npy":
        assert xmlgp.evaluate(tmp_path / file, labels).measures == expected
    with pytest.raises(SettingsError, match=r"contains scores outside \[0, 1\], but calibration needs probabilities"):
        xmlgp.evaluate(tmp_path / "log.npy", labels, measures=["calibration"])


@pytest.mark.parametrize("kind", [np.float16, ">f2", np.int8, list, pd.DataFrame])
def test_tables_of_scores_are_read_whatever_they_are(kind):
    table = [[0, 3, 1], [2, -1, 0]]
    scores = table if kind is list else pd.DataFrame(table) if kind is pd.DataFrame else np.array(table, kind)
    # Of the second point, −1 is below 0, so the third label is the second.
    measures = xmlgp.evaluate(scores, csr_array([[0, 1, 0], [0, 0, 1]], dtype=bool), ks=(1, 2)).measures
    assert (measures["P@1"], measures["P@2"]) == (50, 50)


def test_a_list_of_arrays_of_two_columns_is_refused_with_what_to_take_of_it():
    """Forests of scikit-learn give one for each label, and of one column if all training points are alike."""
    labels = csr_array([[0, 1, 0], [0, 0, 1]], dtype=bool)
    pair = np.array([[0.8, 0.2], [0.4, 0.6]])
    with pytest.raises(SettingsError, match=r"not \(3, 2, 2\) of float64; of a list of K .* column 1 of each"):
        xmlgp.evaluate([pair, pair, pair], labels)
    with pytest.raises(SettingsError, match="a table must have numbers, equally many in each row"):
        xmlgp.evaluate([pair, pair[:, :1], pair], labels)


def test_labels_in_lists_are_texts():
    """napkinXC reads lists of numbers."""
    scores, labels = [[(0, 0.5), (1, 0.2)], [(2, 0.5)]], [[0], [0, 1]]
    with pytest.raises(SettingsError, match="the labels in lists are texts, such as '2'"):
        xmlgp.evaluate(scores, labels)
    assert xmlgp.evaluate(scores, [list(map(str, row)) for row in labels]).measures["P@1"] == 50


def test_stored_scores_of_a_sparse_matrix_rank_above_others():
    scores = sp.csr_array(([-1.0, -2.0], ([0, 0], [2, 1])), (1, 4))
    measures = xmlgp.evaluate(scores, csr_array([[1, 1, 0, 0]], dtype=bool), ks=(2,), measures=["auc"]).measures
    # Of the true labels, 0 is tied with 3, and 1 is above it.
    assert (measures["P@2"], measures["AUC_instance"]) == (50, (0.5 + 1) / 4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, bool])
@pytest.mark.parametrize("lowest", [0, -2])
def test_a_dense_matrix_is_evaluated_as_a_sparse_one_of_all_its_scores(dtype, lowest):
    """Only the highest scores are kept, and scores that are equal to the last of them."""
    random = np.random.default_rng(4)
    scores = random.integers(lowest, 3, (40, 30)).astype(dtype)
    labels = csr_array(random.random((40, 30)) < 0.1)
    listed = np.nonzero((scores != 0) | (scores < 0).any())
    sparse = sp.csr_array((scores[listed], listed), (40, 30))
    for options in {"ks": (1, 3, 5)}, {"ks": (2, 30, 90)}, {"measures": ["auc", "macro"]}, {"measures": ["assigned"]}:
        found, expected = (xmlgp.evaluate(each, labels, **options).measures for each in (scores, sparse))
        assert found == expected


def test_a_label_that_is_true_and_never_among_the_first_is_counted():
    scores, notes = np.array([[0.5, 0.4, 0.1], [0.1, 0.3, 0.2]]), []
    labels = csr_array([[0, 0, 1], [0, 1, 1]], dtype=bool)
    xmlgp.evaluate(scores, labels, ks=(1,), reporter=Reporter(note=notes.append))
    note = "the table of scores never lists 1 label of the data among the first 1 (2 of 3 true labels), which count as"
    assert notes == [f"{note} missed"]


@pytest.mark.parametrize("call", [lambda table: xmlgp.evaluate(table, np.eye(3)),
                                  lambda table: xmlgp.evaluate(np.eye(3), table)])  # fmt: skip
def test_columns_of_one_label_are_refused(call):
    table = pd.DataFrame(np.eye(3), columns=["a", "b", " a "])
    with pytest.raises(SettingsError, match="^several columns are the label 'a'; give each one name$"):
        call(table)


def test_each_point_of_an_array_with_one_label_has_a_score():
    probabilities = np.array([[0.0], [1.0], [0.25]])
    found = xmlgp.evaluate(probabilities, np.array([[0], [1], [1]]))
    assert found.measures["accuracy"] == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("name", "array", "sentence"),
    [
        ("nan.npy", [[0.5, np.nan, 0, 0]], "nan.npy: a score is not a finite number"),
        ("inf.npy", [[0.5, np.inf, 0, -1]], "inf.npy: a score is not a finite number"),
        ("none.npy", np.zeros((3, 0)), "none.npy: scores are a matrix of real numbers, N×K, not (3, 0) of float64"),
        ("one.npy", [0.5, 0.25], "one.npy: scores are a matrix of real numbers, N×K, not (2,) of float64"),
        (
            "list.npy",
            np.zeros((4, 3, 2)),
            "list.npy: scores are a matrix of real numbers, N×K, not (4, 3, 2) of float64; of a list of K",
        ),
        ("small.npy", np.zeros((3, 2)), "small.npy has 2 labels, but test.txt has 4"),
        ("text.npy", [["a"]], "a table must have numbers"),
        ("pickle.npy", np.array([[None]]), "pickle.npy: this is not a complete .npy file"),
        ("cut.npy", b"\x93NUMPY\x01\0", "cut.npy: this is not a complete .npy file"),
    ],
)
def test_arrays_that_are_no_scores_are_refused(tmp_path, name, array, sentence):
    if isinstance(array, bytes):
        (tmp_path / name).write_bytes(array)
    else:
        np.save(tmp_path / name, np.array(array), allow_pickle=True)
    assert said(run(name, "test.txt", "-q")).startswith(sentence)


def test_probabilities_of_fasttext_are_cut_at_1(tmp_path):
    (tmp_path / "ft.scores").write_text("3 4\n0:1.00001 1:0.8 3:0.7\n2:0.5 1:0.4\n0:1.00001\n")
    (tmp_path / "cut.scores").write_text("3 4\n0:1 1:0.8 3:0.7\n2:0.5 1:0.4\n0:1\n")
    result = run("ft.scores", "test.txt", "--calibration")
    assert result.stdout == run("cut.scores", "test.txt", "--calibration").stdout
    note = "Note: ft.scores: 2 scores above 1 by at most 0.0001, as of fastText, are taken as 1"
    assert note in result.stderr.splitlines()
    assert note not in run("ft.scores", "test.txt").stderr
    (tmp_path / "one.scores").write_text("5 1\n0:1.00001\n0:0.6\n0:0.25\n0:0.625\n0:0\n")
    assert "one.scores: 1 score above 1 by" in run("one.scores", "one.svm").stderr
    (tmp_path / "ft.scores").write_text("3 4\n0:1.001\n\n\n")
    assert said(run("ft.scores", "test.txt", "--calibration", "-q")).startswith("ft.scores contains scores outside")


def test_lists_of_equal_scores_in_another_order_are_noted(tmp_path):
    labels = "".join(f"{point % 4} 0:1\n" for point in range(20))
    (tmp_path / "twenty.txt").write_text(f"20 1 4\n{labels}")
    same = "2:0.5 0:0.5 1:0.5\n"
    best_first = "2:0.9 0:0.5 1:0.5\n"
    note = "lists labels of equal score in another order for 3 of 20 points; here ties are ranked by the number of the"
    for reordered, expected in (3, True), (2, False):
        lines = same * reordered + best_first * (20 - reordered)
        (tmp_path / "broken.scores").write_text(f"20 4\n{lines}")
        for others in [], ["broken.scores"]:
            assert (note in run("broken.scores", *others, "twenty.txt").stderr) == expected
    # Neither lists that do not have the best label first, nor matrices have an order.
    (tmp_path / "by_label.scores").write_text("20 4\n" + "2:0.5 1:0.5 3:0.9\n" * 20)
    sp.save_npz(tmp_path / "broken.npz", sp.csr_matrix((np.ones(60), [2, 0, 1] * 20, np.arange(0, 61, 3)), (20, 4)))
    for name in "by_label.scores", "broken.npz":
        assert "equal score" not in run(name, "twenty.txt").stderr
