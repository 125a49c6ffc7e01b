"""A path becomes points: rows, with names beside them, or a corpus; more data go with the names of a model."""

import os

import numpy as np
import pytest

from tests.api.reading import open_points, read_more, read_training
from tests.api.test_corpus import as_json, corpus
from tests.fuzzing.data_files import standard_input
from tests.problems import small_dataset
from tests.text.corpora import vectorized
from xmlgp.data.formats import LIBSVM, MULTILABEL, REPOSITORY, read_dataset
from xmlgp.data.repository_format import write_dataset
from xmlgp.runtime.errors import DataFormatError, SettingsError, XmlgpError
from xmlgp.text.data_folder import write_folder
from xmlgp.text.documents import NO_OPTIONS, Columns, CorpusOptions
from xmlgp.text.names import FEATURES, LABELS, VECTORIZER, Names
from xmlgp.text.word_counts import Analysis, WordCounts


def same(one, other):
    return (
        one.shape == other.shape
        and (one.features.sparse != other.features.sparse).nnz == (one.labels != other.labels).nnz == 0
    )


D, K = 25, 7
WORDS, TOPICS = [f"word {number}" for number in range(D)], [f"topic {number}" for number in range(K)]
COLUMNS = Columns(("title",), "tags")
OF_TEXT = Names(TOPICS, WORDS, WordCounts(Analysis("word", 1, 2), WORDS, COLUMNS))
OF_ROWS = Names(TOPICS, WORDS)


@pytest.fixture
def rows(tmp_path):
    """Return a function that writes points and the names beside them, and returns the file of the points."""

    def write(features=D, labels=K, words=None, topics=None):
        dataset = small_dataset(D=features, K=labels)
        write_dataset(tmp_path / "new.txt", dataset)
        for name, names in (FEATURES, words), (LABELS, topics):
            (tmp_path / name).unlink(missing_ok=True)
            if names is not None:
                (tmp_path / name).write_text("".join(f"{name}\n" for name in names))
        return str(tmp_path / "new.txt")

    return write


def refusal(path, *arguments, **options):
    """Return the text of the SettingsError of reading more data."""
    with pytest.raises(SettingsError) as caught:
        read_more(path, *arguments, **options)
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 3 * len(str(path)) + 300
    return text


# Training data


def test_rows_and_corpora(tmp_path):
    write_dataset(tmp_path / "rows.txt", small_dataset())
    (tmp_path / "two.svm").write_text("+1 1:1\n-1 2:1\n")
    (tmp_path / "corpus").write_bytes(as_json(*corpus()))
    for name, data_format, has_names in (
        ("rows.txt", REPOSITORY, False),
        ("two.svm", LIBSVM, False),
        ("corpus", REPOSITORY, True),
    ):
        found = read_training(tmp_path / name)
        assert (found.format, found.names != Names()) == (data_format, has_names)
        with standard_input((tmp_path / name).read_bytes()):
            piped = read_training("-")
        assert same(piped.dataset, found.dataset)
        assert (piped.format, piped.names.labels) == (data_format, found.names.labels)
    assert found.names.features == found.names.vectorizer.words
    assert found.names.vectorizer.columns == Columns()


# More rows of numbers


@pytest.mark.parametrize(("features", "labels"), [(D, K), (D + 1, K + 3)])
def test_rows_may_have_more_features_and_labels(rows, features, labels):
    path, told = rows(features, labels), []
    found = read_more(path, Names(), D, K, note=told.append)
    assert same(found.dataset, small_dataset(D=features, K=labels))
    assert found[1:] == (REPOSITORY, Names())
    assert told == []


@pytest.mark.parametrize(
    ("features", "labels", "reason"),
    [(1, K, "1 feature, but the model was trained on 25"), (D, 1, "1 label, but the model was trained on 7")],
)
def test_rows_with_fewer_features_or_labels_are_refused(rows, features, labels, reason):
    path = rows(features, labels)
    assert refusal(path, OF_TEXT, D, K) == f"{path}: {reason}; points to learn from need at least as many"


def test_points_in_libsvm_format_get_the_features_of_the_model(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("+1 1:1 3:2\n-1 2:0.5\n")
    for features, expected in (2, 3), (3, 3), (5, 5):
        found = read_more(path, Names(), features, 1)
        assert (found.dataset.shape, found.format) == ((2, expected, 1), LIBSVM)
        np.testing.assert_array_equal(found.dataset.features.sparse.toarray()[:, :3], [[1, 0, 2], [0, 0.5, 0]])
    with pytest.raises(DataFormatError, match="2: label -1 is not a number from 0 to 10000000"):
        read_more(path, Names(), 3, 2, first=1)
    words = ["a", "b", "c"]
    assert read_more(path, Names(None, [*words, "d"]), 4, 1).names.features == [*words, "d"]
    assert refusal(path, Names(None, words[:2]), 2, 1).startswith(
        f"{path}: the points have 3, but the model has names for 2; those of all must be in features.txt"
    )


def test_points_with_several_labels_get_the_sizes_of_the_model(tmp_path):
    path, notes = tmp_path / "a.svm", []
    path.write_text("1,2 1:1 3:2\n0 2:0.5\n")
    found = read_training(path, note=notes.append)
    assert (found.dataset.shape, found.format) == ((2, 3, 3), MULTILABEL)
    from_1 = f"{path}: labels are the numbers as they are; features count from 1, as none is 0; rows that count from 0 "
    assert notes == [from_1 + "need a first line `N D K`"]
    path.write_text("1 1:1 4:2\n0 2:0.5\n")
    found = read_more(path, Names(), 3, 3, first=1).dataset
    assert found.shape == (2, 4, 3)
    assert found.labels.toarray().tolist() == [[False, True, False], [True, False, False]]
    assert read_more(path, Names(), 3, 1).dataset.labels.toarray().tolist() == [[True], [False]]
    # To be predicted, it may have any numbers as labels.
    path.write_text("-1 1:1 3:2\n1 2:0.5\n")
    for labelled in True, False:
        notes = []
        opened = open_points(path, Names(), (3, 3), labelled=labelled, note=notes.append, first=1)
        if labelled:
            with pytest.raises(DataFormatError, match="1: label -1 is not a number"), opened:
                pass
        else:
            with opened as points:
                (block,) = points.blocks()
            assert (points.D, points.K) == (3, 0)
            assert block.points.features.sparse.toarray().tolist() == [[1, 0, 2], [0, 0.5, 0]]
            assert notes == [from_1.partition("as none")[0] + "as the training data do"]


#: What a file to predict has, and the number of the first feature of a model with four features: X, or the message.
BASES = [
    ("1,2 1:1 3:2\n", 0, [0, 1, 0, 2]),
    ("1,2 1:1 3:2\n", 1, [1, 0, 2, 0]),
    ("1,2 0:1 3:2\n", 0, [1, 0, 0, 2]),
    (
        "1,2 0:1 3:2\n",
        1,
        "1: there is a feature 0, but the training data count from 1; number the features as they do, or train",
    ),
    ("1 1:1\n\n2 4:2\n", 1, [1, 0, 0, 0]),
    ("1 1:1\n\n2 4:2\n", 0, "3: a feature is above 3, the last of the training data, which count from 0; leave it out"),
    ("1 1:1\n2 5:2\n", 1, "2: a feature is above 4, the last of the training data, which count from 1; leave it out"),
    ("1\n5:0\n", 1, "2: a feature is above 4"),
    (
        "1 1:1\n",
        None,
        " the model does not say whether its features count from 0 or from 1; give rows with a first line",
    ),
]


@pytest.mark.parametrize(("content", "first", "expected"), BASES)
def test_features_to_predict_are_numbered_as_those_of_the_training_data(tmp_path, content, first, expected):
    path = tmp_path / "a.svm"
    path.write_text(content)
    opened = open_points(path, Names(), (4, 3), first=first)
    if isinstance(expected, str):
        with pytest.raises(XmlgpError, match=f"^{path}:{expected}"), opened:
            pass
        return
    with opened as points:
        (block,) = points.blocks()
    assert block.points.features.sparse.toarray()[0].tolist() == expected


def test_data_sets_that_count_features_from_another_number_are_refused(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("1,2 1:1 3:2\n")
    points = read_dataset(path)
    assert points.first_feature == points.rows(slice(0, 1)).first_feature == 1
    with pytest.raises(SettingsError, match="^the features count from 1, but those of the training data from 0; give"):
        read_more(points, Names(), 3, 3, first=0)
    for first in 1, None:
        assert read_more(points, Names(), 3, 3, first=first).dataset is points


def test_standard_input_is_not_a_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_dataset(tmp_path / "rows", small_dataset(D=D, K=K))
    (tmp_path / "-").write_text("another file\n")
    (tmp_path / VECTORIZER).write_text("damaged\n")
    with standard_input((tmp_path / "rows").read_bytes()):
        assert same(read_more("-", OF_ROWS, D, K).dataset, small_dataset(D=D, K=K))
    with standard_input((tmp_path / "rows").read_bytes()):
        assert same(read_training("-").dataset, small_dataset(D=D, K=K))


# Their names


def test_names_beside_rows_follow_those_of_the_model(rows):
    words, topics = [*WORDS, "new word", " "], [*TOPICS, "new topic"]
    path = rows(D + 2, K + 1, words, topics)
    assert read_more(path, OF_ROWS, D, K).names == Names(topics, words)
    reason = "the points have 27 features, but the model has 25 words; it learns new words from text"
    assert refusal(path, OF_TEXT, D, K) == f"{path}: {reason}"


@pytest.mark.parametrize("more", [0, 2])
def test_names_that_clash_are_refused(rows, more):
    path = rows(
        D + more,
        K + more,
        [*WORDS, "new 1", "new 2"][: D + more],
        ["topic 0", "topic 2", *TOPICS[2:], "a", "b"][: K + more],
    )
    file = os.path.join(os.path.dirname(path), LABELS)
    reason = "number 1 is the label 'topic 2', but the model was trained with 'topic 1' there; give it the same labels"
    assert refusal(path, OF_TEXT, D, K) == f"{file}: {reason} in the same order"
    path = rows(D + more, K, WORDS[:-1] + ["\u202e" * 99, "new 1", "new 2"][: more + 1])
    file = os.path.join(os.path.dirname(path), FEATURES)
    found = refusal(path, OF_ROWS, D, K)
    assert found.startswith(rf"{file}: number 24 is the feature '\u202e\u202e")
    assert ", but the model was trained with 'word 24' there; " in found


@pytest.mark.parametrize(("sizes", "counted", "name"), [((D + 1, K), "26, 25", FEATURES), ((D, K + 2), "9, 7", LABELS)])
def test_more_features_or_labels_need_names_if_the_model_has_them(rows, sizes, counted, name):
    path, (count, known) = rows(*sizes), counted.split(", ")
    reason = f"the points have {count}, but the model has names for {known}; those of all must be in {name} beside"
    assert refusal(path, OF_ROWS, D, K) == f"{path}: {reason} the file"
    with open(path, "rb") as stream, standard_input(stream.read()):
        assert refusal("-", OF_ROWS, D, K) == f"-: {reason} the file"


def test_names_are_not_used_if_the_model_has_none(rows):
    path = rows(D + 1, K + 1, [*WORDS, "new"], [*TOPICS, "new"])
    assert read_more(path, Names(TOPICS), D, K).names == Names([*TOPICS, "new"])


# Text


@pytest.fixture
def of_text(tmp_path):
    """What a model of the first documents has: names, D and K."""
    found = vectorized(tmp_path / "first", as_json(*corpus(20)))
    return found.names, found.dataset.D, found.dataset.K


def test_text_has_new_words_and_labels(tmp_path, of_text):
    names, features, labels = of_text
    (tmp_path / "new").write_bytes(as_json(*corpus(200, seed=1)))
    told = []
    found = read_more(tmp_path / "new", *of_text, note=told.append)
    assert found.dataset.shape == (200, len(found.names.features), len(found.names.labels))
    assert found.names.labels[:labels] == names.labels
    assert found.names.features[:features] == names.features
    assert found.names.features == found.names.vectorizer.words
    _, D, K = found.dataset.shape
    new = f"{D} features ({D - features} new), {K} labels ({K - labels} new); "
    assert told[0].startswith(f"{tmp_path / 'new'}: 200 documents, {new}")


def test_rows_of_vectorized_text_are_those_of_the_text(tmp_path, of_text):
    names, features, labels = of_text
    first = vectorized(tmp_path / "first", as_json(*corpus(20)))
    write_folder(tmp_path / "data", {"train.txt": first.dataset}, first.names)
    told = []
    for name in "first", "data/train.txt":
        found = read_more(tmp_path / name, *of_text, note=told.append)
        assert same(found.dataset, read_training(tmp_path / "first").dataset)
        assert found.names[:2] == names[:2]
        assert found.names.vectorizer.words == names.features
    # Rows say nothing.
    (message,) = told
    assert f": 20 documents, {features} features (none new), {labels} labels (none new); " in message


def test_text_is_refused_if_the_model_was_not_trained_on_text(tmp_path):
    reason = " is text, but the model was not trained on text"
    for name, options in ("a.csv", NO_OPTIONS), ("a.JSON", NO_OPTIONS), ("a", CorpusOptions(("title",))):
        (tmp_path / name).write_bytes(as_json(["word"], [["label"]]))
        assert refusal(tmp_path / name, OF_ROWS, D, K, options) == f"{tmp_path / name}{reason}"
    # A file of any name may as well have a mistake in its first line.
    with pytest.raises(DataFormatError, match="a:1: the first line must be three nonnegative integers"):
        read_more(tmp_path / "a", OF_ROWS, D, K)


@pytest.mark.parametrize(("name", "order"), [(FEATURES, WORDS[::-1]), (LABELS, TOPICS[::-1])])
def test_rows_to_be_scored_have_the_names_of_the_model_in_the_same_order(rows, name, order):
    path = rows(words=order if name == FEATURES else WORDS, topics=order if name == LABELS else TOPICS)
    for labelled in False, True:
        opened = open_points(path, OF_ROWS, (D, K), labelled)
        with pytest.raises(SettingsError, match=f"{name}: number 0 is the .*, but the model was trained with "), opened:
            pass
    with open_points(rows(words=WORDS, topics=TOPICS), OF_ROWS, (D, K)) as points:
        assert points.count() == small_dataset(D=D, K=K).N
