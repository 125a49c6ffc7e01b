"""`xmlgp evaluate`: tables and JSON of each kind of measures, its notes and its errors.

The measures themselves are compared with scikit-learn in tests/metrics.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

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
    "precision_micro  0.50000 [0.03703, 0.96297]",
    "recall_micro     1.00000 [0.05056, 1.00000]",
    "F1_micro         0.66667 [0.04028, 0.98962]",
    "precision_macro  0.50000 [0.03519, 0.96481]",
    "recall_macro     0.75000 [0.03350, 0.99616]",
    "F1_macro         0.58333 [0.03895, 0.97974]",
    "precision_point  0.58333 [0.03303, 0.98287]",
    "recall_point     1.00000 [0.01224, 1.00000]",
    "F1_point         0.73333 [0.06352, 0.99111]",
]

RANKED_TABLE = [
    "                       @1                   @3                   @5",
    "P     50.00 [0.08, 99.92]  50.00 [0.66, 99.34]  30.00 [0.55, 97.07]",
    "nDCG  50.00 [0.08, 99.92]  77.53 [1.48, 99.87]  77.53 [1.48, 99.87]",
]

#: What commands print, and their notes.
PRINTED = {
    "a.scores test.txt": (
        RANKED_TABLE,
        [RANKING, "a.scores lists at most 3 labels per point; for larger k the others count as wrong", WITHOUT_PSP],
    ),
    "a.scores test.txt -k 1 --train train.txt --calibration --auc": (
        [
            "                         @1",
            "P       50.00 [0.08, 99.92]",
            "nDCG    50.00 [0.08, 99.92]",
            "PSP     42.10 [0.09, 99.84]",
            "PSnDCG  42.10 [0.09, 99.84]",
            "",
            "AUC_micro     0.77778 [0.47159, 0.93209]",
            "AUC_macro     0.66667 [0.20843, 0.93824]",
            "AUC_instance  0.70833 [0.13596, 0.97401]",
            "log_loss      6.62076 [0.00000, 76.22144]",
            "ECE           0.55000 [0.00000, 1.00000]",
            "ECE@1         0.46667 [0.00000, 1.00000]",
        ],
        [
            RANKING,
            "Propensity model: A=0.55, B=1.5 (the default)",
            "AUC treats the labels that are not listed as tied in the last place",
            f"Log loss and ECE are over {LISTED}",
        ],
    ),
    "a.scores test.txt -k 2 --train train.txt --reliability --propensity-a 0.5 --propensity-b 0.4": (
        [
            "                          @2",
            "P       50.00 [0.61, 99.39]",
            "nDCG    62.20 [45.57, 76.39]",
            "PSP     56.76 [0.23, 99.87]",
            "PSnDCG  50.94 [2.07, 98.08]",
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
        [
            "a.scores is a ranking: its labels of each point, at most 3, count as assigned",
            "k has no effect on assigned labels",
            "--auc has no effect on assigned labels",
        ],
    ),
    "b.scores test.txt": (ASSIGNED_TABLE, [ASSIGNED]),
    "b.scores test.txt --auc --calibration": (
        ASSIGNED_TABLE,
        [ASSIGNED, "--auc has no effect on assigned labels", "--calibration has no effect on assigned labels"],
    ),
    "b.scores test.txt --ranking": (
        RANKED_TABLE,
        ["b.scores lists at most 3 labels per point; for larger k the others count as wrong", WITHOUT_PSP],
    ),
    "p.scores one.svm --calibration --train nowhere": (
        [
            "accuracy    80.00 [15.52, 98.86]",
            "log_loss  0.35587 [0.00000, 0.94632]",
            "AUC       1.00000 [0.39343, 1.00000]",
            "ECE       0.11500 [0.00000, 0.50682]",
        ],
        [
            "training data has no effect on binary data",
            "All scores in p.scores are in [0, 1], so they are taken as probabilities",
        ],
    ),
    "u.scores one.txt": (
        ["accuracy    60.00 [8.53, 96.02]", "AUC       0.50000 [0.02372, 0.97628]"],
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
    points = 5 if "one." in arguments else 2
    notes = [*notes, f"[low, high] are 95 % intervals over {points} test points; fewer than 50 are too few to judge by"]
    assert (result.stdout.splitlines(), result.stderr.splitlines()) == (table, notes)
    quiet = run(*arguments.split(), "-q")
    assert (quiet.stdout, quiet.stderr) == (result.stdout, "")


def test_macro_measures_deciles_and_a_table_by_label(tmp_path):
    options = ["--train", "train.txt", "--macro", "--deciles", "--by-label", "labels.csv"]
    result = run("a.scores", "test.txt", "-k", "1,2", *options)
    lines = result.stdout.splitlines()
    # Labels 0, 1 and 3 are true of a point; 0 is the first label of its point, and 1 the second of its own.
    values = {name: cells.split(" [")[0] for name, cells in (line.split(maxsplit=1) for line in lines[1:10])}
    assert values | {"recall": "25.00", "coverage": "33.33", "macro-F1": "33.33"} == values
    assert (lines[10], lines[11].split()) == ("", ["decile", "labels", "training", "true", "P@2", "recall@2"])
    # The middles of the 4, 2 and 1 of 7 training pairs are 2, 5 and 6.5; label 3 has none.
    rows = [line.split("[")[0].split() for line in lines[12:]]
    assert rows == [["3", "1", "4", "1", "25.00"], ["8", "1", "2", "1", "25.00"], ["10", "2", "0-1", "1", "0.00"]]
    assert Path("labels.csv").read_text().splitlines() == [
        "label,training_points,test_points,predicted,right,precision,recall,F1",
        "0,4,1,1,1,1.0,1.0,1.0",
        "1,2,1,2,1,0.5,1.0,0.66667",
        "3,0,1,0,0,,0.0,0.0",
        "2,1,0,1,0,0.0,,0.0",
    ]
    printed = json.loads(run("a.scores", "test.txt", "-k", "1,2", "--json", *options).stdout)
    assert (printed["macro-F1@2"], printed["intervals"]["macro-F1@2"]["value"]) == (pytest.approx(500 / 9),) * 2
    first = printed["deciles"][0]
    assert (first.pop("P@2")["value"], first.pop("recall@2")["value"]) == (25, 100)
    assert first == {"decile": 3, "labels": 1, "training points": "4", "true": 1}


def test_a_table_by_label_is_of_the_kind_that_its_name_says(tmp_path):
    (tmp_path / "new.csv").write_text('text,labels\na,"=1+1;red"\nb,red\n')
    (tmp_path / "p.jsonl").write_text('{"labels": ["red"]}\n{"labels": ["=1+1", "red"]}\n')
    read = {"t.tsv": pd.read_table, "t.csv.gz": pd.read_csv, "t.xlsx": pd.read_excel, "t.parquet": pd.read_parquet}
    for name, reader in read.items():
        assert run("p.jsonl", "new.csv", "--by-label", name).exit_code == 0
        table = reader(name)
        assert table.pop("training_points").isna().all()
        assert list(table) == ["label", "test_points", "predicted", "right", "precision", "recall", "F1"]
        assert table.to_numpy().tolist() == [["red", 2, 2, 2, 1, 1, 1], ["=1+1", 1, 1, 0, 0, 0, 0]]
    (tmp_path / "p.jsonl").write_text('{"labels": ["blue"]}\n{"labels": []}\n')
    before = (tmp_path / "t.tsv").read_bytes()
    assert run("p.jsonl", "new.csv", "--by-label", "t.tsv").exit_code == 1
    assert (tmp_path / "t.tsv").read_bytes() == before


# Documents and predictions of them, in another order, with one that is not asked for. Nothing gives `new`.
CORPUS = "id,text,labels\nx,a,red;new\ny,b,blue\n1,c,\n4,d,new\n"
PREDICTED = """
{"id": 1, "labels": [{"label": "blue", "score": 0.5}]}
{"id": "y", "labels": [{"label": "red", "score": 0.75}, {"label": "blue", "score": 0.25}]}
{"id": "x", "labels": [{"label": "red", "score": 0.5}, {"label": "green", "score": 0.25}]}
{"id": "z", "labels": []}
{"id": "4", "labels": [{"label": "blue", "score": 0.5}]}
"""


@pytest.fixture
def named(tmp_path):
    for name, content in {
        "new.csv": CORPUS,
        "p.jsonl": PREDICTED,
        "train.csv": "text,labels\na,red\nb,blue\nc,red;green\nd,red\n",
        "names.jsonl": '{"labels": ["red"]}\n{"labels": ["red", "blue"]}\n{"labels": []}\n{"labels": ["blue"]}\n',
        "numbers.scores": "4 3\n2:0.5 1:0.25\n2:0.75 0:0.25\n0:0.5\n0:0.5\n",
        "rows.txt": "4 2 3\n2 0:1\n0 0:1\n 0:1\n 0:1\n",
    }.items():
        (tmp_path / name).write_text(content)


@pytest.mark.usefixtures("named")
def test_labels_are_matched_by_name_and_points_by_identifier():
    left_out = "p.jsonl: 1 of 5 points are not in new.csv and left out"
    result = run("p.jsonl", "new.csv", "-k", "1,2")
    # Of x, y and 4, which have labels, the first is right for x, and the second for y.
    assert result.stdout.splitlines()[1:] == [
        "P     33.33 [0.55, 97.83]  33.33 [2.04, 92.32]",
        f"nDCG  33.33 [0.55, 97.83]  {(61.315 + 63.093) / 3:.2f} [2.26, 95.60]",
    ]
    assert result.stderr.splitlines()[:-1] == [left_out, "p.jsonl ranks the labels of each point", WITHOUT_PSP]
    # Numbers are those of the training labels in order: blue, green, red.
    result = run("p.jsonl", "new.csv", "-k", "1,2", "--train", "train.csv")
    note = "1 label of new.csv is unknown to the model and counted as missed (2 of 4 true labels): new (2)"
    assert result.stderr.splitlines()[1] == note
    by_number = run("numbers.scores", "new.csv", "-k", "1,2", "--train", "train.csv")
    assert by_number.stdout == result.stdout
    assert json.loads(run("p.jsonl", "new.csv", "--train", "train.csv", "--json").stdout)["unknown_labels"] == {
        "new": 2
    }
    # Rows do not have the label, so the last point has none.
    rows = run("numbers.scores", "rows.txt", "-k", "1,2", "--train", "train.csv", "--json")
    assert json.loads(rows.stdout)["P@2"] == 50
    assert "unknown" not in rows.stderr


def test_auc_alone_says_which_labels_are_listed():
    note = (
        "AUC treats the labels that are not listed as tied in the last place; a.scores lists at most 3 of 4 per point; "
        "`xmlgp predict -k all` lists all labels"
    )
    assert note in run("a.scores", "test.txt", "--auc").stderr.splitlines()


def test_the_order_of_names_without_scores_is_their_rank(tmp_path):
    (tmp_path / "p.jsonl").write_text('{"labels": [3, 0]}\n{"labels": [2, 1]}\n{"labels": []}\n')
    (tmp_path / "q.jsonl").write_text('{"labels": [0, 3]}\n{"labels": [1, 2]}\n{"labels": []}\n')
    (tmp_path / "true.txt").write_text("3 2 4\n3 0:1\n2 1:0.5\n 0:1\n")
    right, wrong = (
        json.loads(run(name, "true.txt", "--ranking", "--json").stdout)["P@1"] for name in ("p.jsonl", "q.jsonl")
    )
    assert (right, wrong) == (100.0, 0.0)


def test_identifiers_that_are_numbers_of_rows_are_those_rows(tmp_path):
    lines = ['{"id": 3, "labels": []}', '{"id": 1, "labels": [0, 3]}', '{"id": 2, "labels": [1]}']
    (tmp_path / "p.jsonl").write_text("\n".join(lines))
    found = json.loads(run("p.jsonl", "test.txt", "--json").stdout)
    assert (found["precision_micro"], found["recall_micro"]) == (1, 1)
    (tmp_path / "p.jsonl").write_text("\n".join(lines).replace('"id": ', '"id": 1'))
    note = "p.jsonl has identifiers, but test.txt has none, so points are matched by their order"
    assert note in run("p.jsonl", "test.txt").stderr.splitlines()


@pytest.mark.parametrize("ids", ["3 1 2", "003 001 002", "3.0 1.0 2.0", "3e0 +1 2."])
def test_identifiers_that_a_spreadsheet_changed_are_the_same(tmp_path, ids):
    rows = [f"{own},z,{label}\n" for own, label in zip(ids.split(), "cab", strict=True)]
    (tmp_path / "true.csv").write_text("id,text,labels\n" + "".join(rows))
    for predicted in "123", ("1.0", "2.0", "3.0"):
        lines = [
            f'{{"id": {own}, "text": "", "labels": ["{label}"]}}' for own, label in zip(predicted, "abc", strict=True)
        ]
        (tmp_path / "p.jsonl").write_text("\n".join(lines))
        result = run("p.jsonl", "true.csv", "--json")
        assert json.loads(result.stdout)["F1_micro"] == 1
        first, *others = result.stderr.splitlines()
        assert others == ["p.jsonl has the assigned labels of each point"][: len(others)]
        assert first.startswith("identifiers are compared without blanks") == (ids.split()[0] != predicted[2])
        assert json.loads(run("p.jsonl", "p.jsonl", "--json").stdout)["F1_micro"] == 1


def test_a_file_without_labels_is_no_ranking(tmp_path):
    (tmp_path / "p.jsonl").write_text('{"labels": []}\n' * 3)
    assert run("p.jsonl", "test.txt").stderr.splitlines()[:-1] == ["p.jsonl lists no labels", WITHOUT_PSP]


@pytest.mark.usefixtures("named")
def test_unknown_labels_count_as_missed_in_recall():
    result = run("names.jsonl", "new.csv", "--train", "train.csv", "--json")
    assert result.stderr.splitlines()[2:] == ["names.jsonl has the assigned labels of each point"]
    found = json.loads(result.stdout)
    assert (found["precision_micro"], found["recall_micro"], found["recall_point"]) == (0.5, 0.5, 0.5)
    # F1 of red and blue is 2/3, and that of the unknown label is 0.
    assert found["F1_macro"] == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("numbers.scores new.csv", "numbers.scores has numbers of labels, but new.csv has names; --train MODEL gives"),
        (
            "names.jsonl rows.txt",
            "rows.txt has numbers of labels, but names.jsonl has names; --train MODEL gives the names",
        ),
        ("a.scores new.csv --train train.csv", "a.scores has 3 points, but new.csv has 4 points"),
        ("b.jsonl new.csv", "b.jsonl has no labels of 'y', a point of new.csv"),
        ("c.jsonl new.csv", "c.jsonl has 'x' twice"),
        ("d.jsonl new.csv", "d.jsonl has 2 points, but new.csv has 4 points"),
        ("e.jsonl new.csv", "e.jsonl:1: there is no field labels"),
        ("p.jsonl bad.csv", "bad.csv:2: "),
        ("one.jsonl rows.txt", "one.jsonl: label '3' is not below 3; the numbers of labels start from 0"),
        ("train.csv numbers.scores", "train.csv:1: a table of scores has the columns id and label or uri; the scores"),
        ("a.csv new.csv", "a.csv:3: this row has 2 fields, but the header has 3"),
        ("b.tsv new.csv", "b.tsv:2: probability is 'high', not a number"),
        ("c.csv new.csv", "c.csv:2: a score is nan, not a finite number"),
        ("d.csv new.csv", "d.csv:3: point 'x': label 'red' occurs twice"),
        ("e.csv new.csv", "e.csv:2: the row has no id"),
        ("f.csv new.csv", "f.csv and new.csv have no identifier in common, such as 'v' and 'x'; --id-column says"),
        (". p.jsonl", ". is a folder; the scores come first, then the data"),
        (
            "test.txt a.scores",
            "test.txt:1: the first line must be two nonnegative integers `N K`, not '3 2 4', as data have; the scores",
        ),
        ("plain.scores test.txt", "plain.scores has 3 points and 6 labels, but test.txt has 3 points and 4 labels"),
    ],
)
def test_labels_that_cannot_be_matched(tmp_path, arguments, sentence):
    for name, content in {
        "b.jsonl": '{"id": "x", "labels": ["red"]}\n' * 2,
        "c.jsonl": PREDICTED + '{"id": "x", "labels": []}\n',
        "d.jsonl": '{"labels": ["red"]}\n' * 2,
        "e.jsonl": "{}\n",
        "one.jsonl": '{"labels": [{"label": 3, "score": 1}]}\n' * 4,
        "plain.scores": "0:1\n5:1\n\n",
        "a.csv": "id,label,score\nx,red,1\nx,blue\n",
        "b.tsv": "id\tlabel\tprobability\nx\tred\thigh\n",
        "c.csv": "id,label,score\nx,red,nan\n",
        "d.csv": "id,label,score\nx,red,1\nx,red,2\n",
        "e.csv": "id,label,score\n,red,1\n",
        "f.csv": "id;label;score\nv;red;1\n",
        "bad.csv": "text,labels\na,b\x07\n",
    }.items():
        (tmp_path / name).write_text(content)
    assert said(run(*arguments.split(), "-q")).startswith(sentence)


#: The scores of a.scores as other programs write them.
FORMS = {
    "a.csv": "id,label,probability\n1,0,0.9\n1,1,0.8\n1,3,0.7\n2,2,0.5\n2,1,0.4\n3,0,1\n",
    # In another order, without the last point, which has no labels, and with another point.
    "a.tsv": "id\turi\tlabel\tscore\n2\t1\t\t4\n2\t2\t\t5\n9\t1\tx\t1\n1\t3\t\t7\n1\t1\t\t8\n1\t0\t\t9\n",
    "semicolons.txt": "id;label;utility\n1;0;9\n1;1;8\n1;3;7\n2;2;5\n2;1;4\n3;0;1\n",
    "nxc.txt": "0:0.9 1:0.8 3:0.7 \n2:0.5 1:0.4 \n\n",
    "omikuji.txt": "0 0.900\t1 0.800\t3 0.700\n2 0.500\t1 0.400\n0 1.000\n",
}


@pytest.mark.parametrize("train", [[], ["--train", "train.txt"]])
def test_scores_of_other_programs(tmp_path, train):
    matrix = np.array([[9.0, 8, 0, 7], [0, 4, 5, 0], [1, 0, 0, 0]])
    sp.save_npz(tmp_path / "pyxclib.npz", sp.csr_matrix(matrix))
    np.save(tmp_path / "dense.npy", matrix)
    for name, content in FORMS.items():
        (tmp_path / name).write_text(content)
    expected = run("a.scores", "test.txt", *train)
    for name in [*FORMS, "pyxclib.npz", "dense.npy"]:
        result = run(name, "test.txt", *train)
        assert (result.exit_code, result.stdout) == (0, expected.stdout), name
    assert run("-", "test.txt", *train, stdin=FORMS["a.csv"].encode()).stdout == expected.stdout


def test_the_number_of_labels_is_that_of_the_data_if_scores_do_not_say_it(tmp_path):
    (tmp_path / "nxc.txt").write_text("1:0.9 0:0.8 \n0:0.5 \n")
    (tmp_path / "several.svm").write_text("0,5 1:1\n2 1:1\n")
    assert run("nxc.txt", "several.svm", "-k", "2").stdout.splitlines()[1] == "P     25.00 [0.06, 99.49]"
    (tmp_path / "train6.txt").write_text("5 1 6\n" + "0 0:1\n5 0:1\n 0:1\n" + "1 0:1\n2 0:1\n")
    result = run("nxc.txt", "several.svm", "-k", "2", "--train", "train6.txt")
    assert (result.exit_code, result.stdout.splitlines()[1]) == (0, "P       25.00 [0.06, 99.49]")


@pytest.mark.parametrize(
    ("matrix", "reason"),
    [
        (np.ones(3), "scores are a matrix N×K, with a row for each point, not (3,)"),
        (np.array([["a"]]), "its values are of the type <U1, not real numbers"),
        (np.ones((3, 4), complex), "its values are of the type complex128, not real numbers"),
        (np.array([[1, np.nan]]), "a score is not a finite number"),
        (np.array([[None]], dtype=object), "this is not a complete .np"),
        (sp.csr_matrix((np.ones(2), [0, 0], [0, 2]), (1, 4)), "a label occurs twice in a row"),
        (sp.csr_matrix((np.ones(2), [0, 4], [0, 2]), (1, 4)), "this is not a complete .npz file"),
        (sp.csc_matrix(np.eye(3)), "this is not a complete .npz file with one array of numbers or a CSR matrix"),
        (np.ones((3, 2)), "3 points and 2 labels, but test.txt has 3 points and 4 labels"),
    ],
)
def test_matrices_that_are_no_scores(tmp_path, matrix, reason):
    if sp.issparse(matrix):
        sp.save_npz(tmp_path / "a.npz", matrix)
        names = ["a.npz"]
    else:
        np.save(tmp_path / "a.npy", matrix, allow_pickle=True)
        np.savez(tmp_path / "a.npz", matrix)
        names = ["a.npy", "a.npz"]
    for name in names:
        assert reason in said(run(name, "test.txt", "-q"))


def test_json():
    found = json.loads(run("a.scores", "test.txt", "--train", "train.txt", "-k", "5,1,3,1", "--json").stdout)
    intervals = found.pop("intervals")
    assert list(found) == [f"{name}@{k}" for name in ("P", "nDCG", "PSP", "PSnDCG") for k in (1, 3, 5)]
    assert found["P@5"] == 30.0
    assert {name: entry["value"] for name, entry in intervals.items()} == found
    assert intervals["P@5"]["interval"] == pytest.approx([0.55, 97.07], abs=0.005)
    found = json.loads(run("a.scores", "test.txt", "-k", "2", "--reliability", "--json").stdout)
    assert list(found) == ["P@2", "nDCG@2", "intervals", "reliability"]
    first = {"bin": "1", "count": 3, "probability": pytest.approx(0.8), "true": pytest.approx(1 / 3)}
    assert found["reliability"]["rank"][0] == first


def test_one_point_has_an_interval_without_a_bound_in_json(tmp_path):
    (tmp_path / "one.scores").write_text("1 2\n0:0.5 1:0.25\n")
    (tmp_path / "one.txt").write_text("1 1 2\n0 0:1\n")
    printed = run("one.scores", "one.txt", "--calibration", "--json").stdout
    intervals = json.loads(printed, parse_constant=pytest.fail)["intervals"]
    assert intervals["log_loss"]["interval"] == [0, None]
    assert intervals["P@1"]["interval"] == [0, 100]


def test_a_table_that_is_too_wide_has_a_measure_in_each_row(monkeypatch):
    for_80 = run("a.scores", "test.txt", "-k", "1,2,3,4").stdout.splitlines()
    assert [line.split()[0] for line in for_80] == [f"{name}@{k}" for name in ("P", "nDCG") for k in (1, 2, 3, 4)]
    assert for_80[0] == "P@1     50.00 [0.08, 99.92]"
    monkeypatch.setenv("COLUMNS", "100")
    assert run("a.scores", "test.txt", "-k", "1,2,3,4").stdout.split()[:4] == ["@1", "@2", "@3", "@4"]


@pytest.mark.parametrize("arguments", [[".", "--train", "."], ["-"]])
def test_a_folder_and_standard_input_stand_for_files(arguments):
    expected = run("a.scores", "test.txt", *(["--train", "train.txt"] if "." in arguments else []))
    assert expected.exit_code == 0
    assert run("a.scores", *arguments, stdin=DATA).stdout == expected.stdout


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
