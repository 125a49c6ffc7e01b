"""The layouts in which the Extreme Classification Repository and LIBSVM distribute data, through the commands."""

import json
import os

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from tests.cli.command import SMALL, changed_description, run, said
from tests.problems import small_dataset
from xmlgp.api.trained_model import load
from xmlgp.data.repository_format import write_dataset

SCORES = "3 2\n0:0.9 1:0.5\n1:0.8\n1:0.1\n"
TRUTH = "3 1 2\n0,1\n1\n \n"
RANKED = "a.scores ranks the labels of each point"
WITHOUT_PSP = "Without training data there are no propensity-scored measures"


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XMLGP_CACHE_DIR", str(tmp_path / "cache"))


def write(**files):
    for name, content in files.items():
        path = name.replace("__", ".")
        with open(path, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)


def ok(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def as_svm(dataset, first=1):
    """Return the lines of multi-label libsvm with features from 1, or from another number."""
    rows = []
    for row in range(dataset.N):
        features = dataset.features.sparse[[row]].tocoo()
        labels = ",".join(map(str, dataset.labels[[row]].tocoo().col))
        pairs = zip(features.col + first, features.data, strict=True)
        rows.append(labels + " " + " ".join(f"{column}:{float(value)}" for column, value in pairs) + "\n")
    return "".join(rows)


def test_all_layouts_train_the_same_model():
    dataset = small_dataset()
    # Blank lines are no points of libsvm.
    dataset = dataset.rows(np.diff(dataset.features.sparse.indptr) > 0)
    write_dataset("train.txt", dataset)
    write(rows__svm=as_svm(dataset))
    assert ok("train", ".", "m1", *SMALL).stderr.count("labels are the numbers as they are") == 0
    noted = ok("train", "rows.svm", "m2", *SMALL).stderr
    assert "rows.svm: labels are the numbers as they are; features count from 1" in noted
    expected = ok("predict", "m1", "train.txt", "-k", "3").stdout
    write(from0__svm=as_svm(dataset, first=0))
    for model, data in ("m1", "train.txt"), ("m1", "from0.svm"), ("m2", "rows.svm"):
        assert ok("predict", model, data, "-k", "3").stdout == expected
    write(a__scores=expected)
    measures = [ok("evaluate", "a.scores", data, "--train", data).stdout for data in ("train.txt", "rows.svm")]
    assert measures[0] == measures[1]


def test_rows_with_a_first_line_do_not_count_features_from_1():
    write(train__svm=as_svm(small_dataset().rows(slice(0, 20))), more__svm="1,2 1:1 3:2\n0 2:0.5\n" * 5)
    ok("train", "train.svm", "model", *SMALL)
    ok("split", "more.svm", "parts")
    # Parts of a file that counts from 1 have an empty feature 0, so each feature would be taken for the next one.
    reason = (
        "after a first line `N D K` features count from 0, but those of the training data from 1; give rows without"
    )
    for command in "learn", "predict":
        for path in "parts/train.txt", "parts/test.txt":
            assert said(run(command, "model", path)).startswith(f"{path}: {reason}")


def test_files_that_scikit_learn_writes_are_read_as_the_training_data():
    dataset = small_dataset()
    # A blank line is no point of libsvm.
    dataset = dataset.rows(np.diff(dataset.features.sparse.indptr) > 0)
    documents = dataset.rows(dataset.features.sparse.toarray()[:, 0] == 0)
    os.mkdir("data")
    for name, part in ("train", dataset), ("test", documents), ("doc", documents.rows(slice(0, 1))):
        write_dataset(f"{name}.txt", part)
        dump_svmlight_file(part.features.sparse, part.labels.astype(int), f"data/{name}.svm", multilabel=True)
    for model, data in ("m1", "train.txt"), ("m2", "data"):
        ok("train", data, model, *SMALL)
    for name, data in ("test.txt", "data"), ("test.txt", "data/test.svm"), ("doc.txt", "data/doc.svm"):
        assert ok("predict", "m2", data, "-k", "3").stdout == ok("predict", "m1", name, "-k", "3").stdout
    ok("learn", "m2", "data/test.svm")
    for again in [], ["--retrain"]:
        ok("learn", "m2", "data/doc.svm", *again)
        assert load("m2").data["first_feature"] == 0
    assert [batch["first_feature"] for batch in load("m2").learned] == [0, 0, 0]
    changed_description("m2", lambda description: description["data"].pop("first_feature"))
    reason = "data/doc.svm: m2 does not say whether its features count from 0 or from 1; give rows with a first line"
    assert said(run("predict", "m2", "data/doc.svm")).startswith(reason)
    assert ok("predict", "m2", "doc.txt").stdout


def test_features_alone_are_refused():
    write(trn_X_Xf__txt="3 4\n0:1.0 3:2.5\n1:0.5\n2:1.0\n")
    reason = "the first line must be three nonnegative integers `N D K`, not '3 4'; docs/data-formats.md joins"
    assert said(run("train", "trn_X_Xf.txt", "model")).startswith(f"trn_X_Xf.txt:1: {reason}")


def test_names_beside_rows():
    dataset = small_dataset()
    write_dataset("train.txt", dataset)
    names = "".join(f"title {number}\n" for number in range(dataset.K))
    write(labels__txt=names, features__txt="".join(f"word{number}\n" for number in range(dataset.D)))
    ok("train", ".", "model", *SMALL)
    written = ok("predict", "model", "train.txt", "-k", "2", "--format", "jsonl").stdout
    first = json.loads(written.splitlines()[0])["labels"]
    assert {label["label"].split()[0] for label in first} == {"title"}
    write(a__jsonl=written, b__scores=ok("predict", "model", "train.txt", "-k", "2", "--format", "scores").stdout)
    (by_name, by_number) = (
        ok("evaluate", name, "train.txt", "--train", ".").stdout for name in ("a.jsonl", "b.scores")
    )
    assert by_name == by_number
    write(labels__txt=names + "one more\n")
    noted = ok("train", ".", "other", *SMALL).stderr
    assert (
        f"names are not used: labels.txt:{dataset.K + 1}: the file has more names than the {dataset.K} labels" in noted
    )


def test_a_note_names_a_file_of_pairs_that_measures_should_leave_out():
    write(a__scores=SCORES, test__txt=TRUTH, filter_labels_test__txt="0 0\n2 1\n1 0\n")
    note = "Note: filter_labels_test.txt is not used; docs/evaluation.md leaves out such pairs of a point and a label"
    assert note in ok("evaluate", "a.scores", "test.txt", "-k", "1").stderr.splitlines()


def test_true_labels_beyond_those_of_scores_count_as_missed():
    write(a__scores="2 3\n1:0.9\n2:0.8\n", test__svm="1,3 1:1\n2 2:1\n")
    result = ok("evaluate", "a.scores", "test.svm", "-k", "1,2", "--json")
    measures = json.loads(result.stdout)
    assert (measures["P@1"], measures["P@2"]) == (100, 50)
    assert (
        "a.scores never lists 1 label of test.svm among the first 1 (1 of 3 true labels), which count as missed"
        in result.stderr
    )
    # Fewer labels than the scores have are the same labels.
    write(test__svm="1 1:1\n0 2:1\n")
    assert json.loads(ok("evaluate", "a.scores", "test.svm", "--json").stdout)["P@1"] == 50
