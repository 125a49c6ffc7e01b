"""The labels that nobody judged: files of numbers and of names, matrices and lists, and what is wrong with them."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import xmlgp
from xmlgp import Source
from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Features
from xmlgp.data.repository_format import write_dataset
from xmlgp.errors import DataFormatError, SettingsError, UsageError, XmlgpError
from xmlgp.estimators import MLGPFClassifier
from xmlgp.inputs.unjudged import one_sided_labels
from xmlgp.text.documents import CorpusOptions

LABELS = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]], bool)
UNKNOWN = np.array([[0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 1, 0]], bool)
FEATURES = sp.csr_array(np.eye(4, dtype=np.float32))
DATASET = Dataset(Features(FEATURES), sp.csr_array(LABELS))
CORPUS = "text,labels\none,red\ntwo,blue;green\nthree,\nfour,the white\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_dataset("train.txt", DATASET)
    Path("train.csv").write_text(CORPUS)


def read(data, unknown, **options):
    return Source(data, unknown=unknown, **options).training()


FILES = {
    "numbers": "1,3\n\n0,1,2,3\n2\n",
    "any order": "3,1\n\n2,0,3,1\n02\n",
    "pairs": "1:1 3:1\n\n0:1 1:1 2:1 3:1\n2:1\n",
    "pairs with sizes": "4 4\n3:1.0 1:1\n\n0:1 1:1 2:1 3:1\n2:1 0:0\n",
    "carriage returns and blank lines": "1,3\r\n\r\n0,1,2,3\r\n2\r\n\r\n \n",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_files_of_numbers(text, packed):
    Path("unknown").write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    dataset = read("train.txt", "unknown").dataset
    np.testing.assert_array_equal(dataset.unknown.toarray(), UNKNOWN)
    np.testing.assert_array_equal(dataset.labels.toarray(), LABELS)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("green; blue\n\nred;blue;green;the white\nred", {}),
        ('["green", "blue"]\n\n["red", "blue", "green", "the white"]\n"red"\n', {}),
        ("green|blue\n\nred|blue|green|the white\nred\n", {"corpus": "|"}),
        ("green;blue\r\n\r\nred;blue;green;the white\r\nred\r\n\r\n \r\n", {}),
    ],
    ids=["semicolons", "lists", "separator", "blank lines"],
)
def test_files_of_names_beside_a_corpus(text, options):
    if options:
        options = {"corpus": CorpusOptions(separator=options["corpus"])}
        Path("train.csv").write_text(CORPUS.replace(";", "|"))
    Path("unknown").write_text(text)
    points = read("train.csv", "unknown", **options)
    assert points.names.labels == ["blue", "green", "red", "the white"]
    expected = [[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 1, 0]]
    np.testing.assert_array_equal(points.dataset.unknown.toarray(), expected)


def test_points_in_memory():
    for unknown in UNKNOWN, sp.csr_array(UNKNOWN.astype(float)), pd.DataFrame(UNKNOWN):
        np.testing.assert_array_equal(read(FEATURES, unknown, labels=LABELS).dataset.unknown.toarray(), UNKNOWN)
    names = [["red"], ["blue"], []]
    points = read(["one two", "two", "one"], [["blue"], [], ["red", "blue"]], labels=names)
    np.testing.assert_array_equal(points.dataset.unknown.toarray(), [[1, 0], [0, 0], [1, 1]])


WRONG = {
    "1\n\n\n": "unknown has 3 lines, but train.txt has 4 points",
    "1\n\n\n\n2\n": "unknown has 5 lines, but train.txt has 4 points",
    "\n\n\n4\n": "unknown:4: label '4' is not below 4, the number of labels of train.txt",
    "\n2\n\n\n": "unknown:2: label 2 is unknown here, but the point has it in train.txt",
    "4 4\n\n2:1\n\n\n": "unknown:3: label 2 is unknown here, but the point has it in train.txt",
    "4 5\n\n\n\n\n": "unknown:1: the first line is `4 5`, but train.txt has 4 points and 4 labels",
    "1,1\n\n\n\n": "unknown:1: label 1 occurs twice",
    "\n1 2\n\n\n": "unknown:2: '1 2' is not a list of labels separated by commas, such as 3,17",
    "\n1,\n\n\n": "unknown:2: a label is missing",
    "\nx\n\n\n": "unknown:2: 'x' is not a label: a nonnegative integer",
    "\n1:1 2\n\n\n": "unknown:2: '2' is not a label:value pair",
    "\n1:-1\n\n\n": "unknown:2: '1:-1' has a negative value, but unknown labels have the value 1",
    "\n\n\n2": "unknown:4: the file ends within this line: it is truncated, or its newline is missing",
}


@pytest.mark.parametrize(("text", "message"), WRONG.items(), ids=map(repr, WRONG))
def test_wrong_files_of_numbers_have_one_sentence(text, message):
    Path("unknown").write_text(text)
    with pytest.raises(XmlgpError) as error:
        read("train.txt", "unknown")
    assert str(error.value) == message


def test_wrong_names_have_one_sentence():
    Path("unknown").write_text("blue\ngrey\n\n\n")
    with pytest.raises(DataFormatError, match="unknown:2: 'grey' is not a label of train.csv"):
        read("train.csv", "unknown")
    Path("unknown").write_text("blue\n\n\nthe white\n")
    with pytest.raises(DataFormatError, match="unknown:4: label 'the white' is unknown here, but the point has it"):
        read("train.csv", "unknown")


def test_wrong_arguments_have_one_sentence():
    for unknown, message in [
        (LABELS, "`unknown`, point 0: label 0 is unknown here, but the point has it in the data"),
        (UNKNOWN[:3], "`unknown` has 3 points, but the data has 4 points"),
        (UNKNOWN[:, :3], "`unknown` has 3 labels, but the data has 4 labels"),
        (
            np.where(UNKNOWN, np.nan, 0),
            "`unknown`: a label is negative or not a number; 1 says that nobody judged the label, 0 that somebody did",
        ),
    ]:
        with pytest.raises(SettingsError) as error:
            read(FEATURES, unknown, labels=LABELS)
        assert str(error.value) == message
    with pytest.raises(SettingsError, match="`unknown` has the label 'grey', which no point of the data has"):
        read(["one two", "two"], [["grey"], []], labels=[["red"], ["blue"]])
    source = Source(FEATURES, LABELS, unknown=UNKNOWN)
    model = xmlgp.train(source, settings={"factors": 2, "epochs": 1})
    for call in xmlgp.learn, xmlgp.tune, lambda *arguments: list(xmlgp.predict(*arguments)):
        with pytest.raises(UsageError, match="Only training leaves out unknown labels; leave out `unknown`"):
            call(model, source)


def test_columns_of_tables_are_those_of_the_labels():
    names = ["red", "blue", "green", "white"]
    labels = pd.DataFrame(LABELS, columns=names)
    unknown = pd.DataFrame(UNKNOWN, columns=names)
    np.testing.assert_array_equal(read(FEATURES, unknown, labels=labels).dataset.unknown.toarray(), UNKNOWN)
    with pytest.raises(SettingsError, match="^`unknown`: column 0 is the label 'white', but the data has 'red' there"):
        read(FEATURES, unknown[names[::-1]], labels=labels)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float16, np.float64, object])
@pytest.mark.parametrize("everywhere", [False, True])
def test_labels_and_masks_are_of_any_numbers(dtype, everywhere):
    labels = LABELS * (not everywhere)
    unknown = UNKNOWN | everywhere
    dataset = read(FEATURES, unknown.astype(dtype), labels=labels.astype(dtype)).dataset
    np.testing.assert_array_equal(dataset.unknown.toarray(), unknown)
    np.testing.assert_array_equal(dataset.labels.toarray(), labels)


def test_nan_among_labels_of_training_names_the_mask():
    for labels in np.where(UNKNOWN, np.nan, LABELS), sp.csr_array(np.where(UNKNOWN, np.nan, LABELS)):
        with pytest.raises(SettingsError, match="where nobody judged a label, give 0, and to training also `unknown`"):
            read(FEATURES, None, labels=labels)


def test_labels_without_judged_negatives_are_noted():
    # Label 0 has no judged negative, label 1 no judged point, label 2 both kinds; label 3 has no unknown pair.
    labels = np.array([[1, 0, 1, 1], [0, 0, 0, 1], [1, 0, 0, 1]], bool)
    unknown = np.array([[0, 1, 0, 0], [1, 1, 1, 0], [0, 1, 0, 0]], bool)
    assert one_sided_labels(read(np.eye(3), unknown, labels=labels).dataset) == [
        "labels that nobody judged for any point: 1 of 4; nothing is learned about them",
        "labels that all points judged for them have: 1 of 4; all points will get them, unless some are judged not to "
        "have them",
    ]
    assert one_sided_labels(read(np.eye(3), None, labels=labels).dataset) == []
    assert one_sided_labels(read(np.eye(3), np.zeros((3, 4)), labels=labels).dataset) == []


def test_masked_labels_are_refused():
    # NumPy reads what is under a mask.
    masked = np.ma.masked_array(LABELS, UNKNOWN)
    with pytest.raises(SettingsError, match="^some labels are masked; give `labels.filled\\(0\\)`"):
        read(FEATURES, None, labels=masked)
    with pytest.raises(SettingsError, match="^some labels are masked"):
        MLGPFClassifier().fit(FEATURES, masked)


def test_unknown_pairs_are_a_part_of_the_data():
    dataset = read("train.txt", UNKNOWN).dataset
    own = {"unknown": 7, "first": DATASET.fingerprint, "fingerprint": dataset.fingerprint}
    assert dataset.facts == DATASET.facts | own
    assert dataset.fingerprint not in (DATASET.fingerprint, read("train.txt", UNKNOWN & False).dataset.fingerprint)
    rows = dataset.rows(slice(2, 4))
    np.testing.assert_array_equal(rows.unknown.toarray(), UNKNOWN[2:])
