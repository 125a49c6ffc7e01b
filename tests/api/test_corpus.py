"""A corpus gives the counts, words and labels of a straightforward computation; more documents append new ones."""

import json
import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

from tests.problems import DETERMINISTIC
from tests.text.corpora import signature_of, vectorized, vectorized_by
from xmlgp.api import corpus as corpora
from xmlgp.api.corpus import Corpus, _summary
from xmlgp.api.source import open_lines
from xmlgp.data.dataset import Dataset, empty_dataset, stack, widen
from xmlgp.runtime.errors import XmlgpError
from xmlgp.runtime.progress import QUIET
from xmlgp.text.documents import NO_OPTIONS
from xmlgp.text.word_counts import Analysis, WordCounts


def corpus(N=300, seed=0):
    """Return texts and lists of labels in which words and labels occur with all frequencies."""
    chosen = random.Random(seed)
    words = [f"w{'äb機'[i % 3]}{i}" for i in range(60)]
    texts = [
        " ".join(words[int(len(words) * chosen.random() ** 3)] for _ in range(chosen.randrange(9))) for _ in range(N)
    ]
    labels = [[f"label {int(15 * chosen.random() ** 2)}" for _ in range(chosen.randrange(4))] for _ in range(N)]
    return texts, labels


def as_json(texts, labels):
    pairs = zip(texts, labels, strict=True)
    return "".join(json.dumps({"text": text, "labels": names}) + "\n" for text, names in pairs).encode()


def assert_same_points(found, expected):
    """Check that two data sets are the same."""
    assert found.shape == expected.shape
    for matrix, other in (found.features.sparse, expected.features.sparse), (found.labels, expected.labels):
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(matrix, part), getattr(other, part))


def assert_same(found, expected):
    expected.sort_indices()
    assert found.shape == expected.shape
    for name in ("indptr", "indices"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def lacking(corpus):
    """Return how many documents lack labels and words."""
    dataset = corpus.dataset
    matrices = dataset.labels, dataset.features.sparse
    return tuple(np.count_nonzero(np.diff(matrix.indptr) == 0) for matrix in matrices)


def blocks_of(path, content, vectorizer, labels):
    """Return the blocks of a corpus with this content for a model that does not change, and the names of labels."""
    path.write_bytes(content)
    with open_lines(str(path)) as lines:
        stream = Corpus(str(path), lines, NO_OPTIONS, QUIET).stream(signature_of(vectorizer, labels), labelled=True)
        return list(stream.blocks()), stream.labels


def scored(path, content, vectorizer, labels):
    """Return the points of a corpus with this content for a model that does not change."""
    blocks, names = blocks_of(path, content, vectorizer, labels)
    points = [Dataset(block.points.features, widen(block.points.labels, len(names))) for block in blocks]
    return stack([empty_dataset(vectorizer.D, len(names)), *points])


@pytest.mark.parametrize("analysis", [Analysis(), Analysis("word", 1, 2), Analysis("char", 2, 3)], ids=str)
def test_a_corpus_is_counted_as_scikit_learn_does(tmp_path, monkeypatch, analysis):
    documents = 7
    monkeypatch.setattr(corpora, "DOCUMENTS", documents)
    texts, labels = corpus()
    found = vectorized(tmp_path / "a", as_json(texts, labels), analysis)
    dataset = found.dataset
    expected = CountVectorizer(
        analyzer=analysis.analyzer.replace("-", "_"), ngram_range=(analysis.shortest, analysis.longest)
    )
    counted = expected.fit_transform(texts)
    assert found.names.vectorizer.words == expected.get_feature_names_out().tolist()
    assert_same(dataset.features.sparse, counted)
    np.testing.assert_array_equal(dataset.features.sparse.data, counted.data)
    binarizer = MultiLabelBinarizer(sparse_output=True)
    assert_same(dataset.labels, binarizer.fit_transform(labels))
    assert found.names.labels == binarizer.classes_.tolist()
    assert lacking(found) == (labels.count([]), np.count_nonzero(counted.sum(axis=1) == 0))
    assert min(lacking(found)) > 0
    assert dataset.N == 300
    # Points of the same texts are the same, a block at a time too.
    blocks, _ = blocks_of(tmp_path / "a", as_json(texts, labels), found.names.vectorizer, found.names.labels)
    assert [text for block in blocks for text in block.texts] == texts
    points = stack([block.points for block in blocks])
    assert (points.features.sparse != dataset.features.sparse).nnz == (points.labels != dataset.labels).nnz == 0


@pytest.mark.parametrize(("min_count", "max_features"), [(1, 7), (3, 20)])
def test_rare_words_are_left_out(tmp_path, min_count, max_features):
    texts, labels = corpus()
    occurrences = Counter(word for text in texts for word in text.split())
    frequent = [word for word, count in occurrences.items() if count >= min_count]
    kept = sorted(sorted(frequent, key=lambda word: (-occurrences[word], word))[:max_features])
    analysis = Analysis(min_count=min_count, max_features=max_features)
    found = vectorized(tmp_path / "a", as_json(texts, labels), analysis)
    assert found.names.vectorizer.words == kept
    expected = [[text.split().count(word) for word in kept] for text in texts]
    np.testing.assert_array_equal(found.dataset.features.sparse.toarray(), expected)
    assert lacking(found)[1] == sum(not any(row) for row in expected)


def test_more_documents_add_words_as_the_analysis_says(tmp_path):
    content = as_json(["new new once of of ten ten ten"], [["x"]])
    for limit, expected in (None, ["cat", "new", "of", "ten"]), (2, ["cat", "ten"]), (1, ["cat"]):
        analysis = Analysis(min_count=2, max_features=limit)
        assert vectorized_by(tmp_path / "a", content, WordCounts(analysis, ["cat"]), ["x"]).names.features == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["b", "a", "B", "ä", "10", "9"], ["10", "9", "B", "a", "b", "ä"]),
        (["10", "9", "0", "007", "7"], ["0", "007", "7", "9", "10"]),
        (["9" * 5000, "1", "8" * 5000, "1" + "0" * 5000], ["1", "8" * 5000, "9" * 5000, "1" + "0" * 5000]),
        (["\u0663", "10", "2"], ["10", "2", "\u0663"]),
    ],
    ids=lambda names: str(names)[:40],
)
def test_labels_are_in_order_of_numbers_or_of_characters(tmp_path, names, expected):
    found = vectorized(tmp_path / "a", as_json(["word"] * len(names), [[name] for name in names]))
    assert found.names.labels == expected
    assert [expected[label] for label in found.dataset.labels.indices] == names


def test_names_of_labels_have_no_surrounding_spaces_and_are_not_empty(tmp_path):
    labels = [[" a ", "a", "\u2003a"], ["", "  "], ["a b", "", "a b\n"]]
    found = vectorized(tmp_path / "a", as_json(["word"] * 3, labels))
    assert found.names.labels == ["a", "a b"]
    np.testing.assert_array_equal(found.dataset.labels.toarray(), [[1, 0], [0, 0], [0, 1]])
    assert lacking(found)[0] == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "there are no documents"),
        (b"a b\t\n", "no document has a label"),
        (b"a b\tx\n", "no document has a word"),
        (b'{"text": "word", "labels": [""]}\n', "no document has a label"),
    ],
)
def test_corpora_without_documents_words_or_labels_are_refused(tmp_path, content, reason):
    path = tmp_path / "a"
    with pytest.raises(XmlgpError) as caught:
        vectorized(path, content)
    assert str(caught.value) == f"{path}: {reason}"


def test_other_words_and_labels_of_test_documents_are_left_out(tmp_path):
    content = as_json(["cat dog cat", "dog", "", "sat"], [["x", "new", "new"], ["other"], [], ["", "y", "x"]])
    points = scored(tmp_path / "test", content, WordCounts(Analysis(), ["cat", "sat"]), ["x", "y"])
    np.testing.assert_array_equal(points.features.sparse.toarray(), [[2, 0], [0, 0], [0, 0], [0, 1]])
    # Labels that the model does not have follow its own.
    np.testing.assert_array_equal(points.labels.toarray(), [[1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0], [1, 1, 0, 0]])


def test_new_words_and_labels_follow_the_known_ones_in_order(tmp_path):
    content = as_json(
        ["zebra cat ant zebra", "sat", "", "émigré zebra"], [["z", "y", "a", "z"], ["x"], [], ["", "é", " a "]]
    )
    vectorizer, labels = WordCounts(Analysis(), ["sat", "cat"]), ["y", "x"]
    found = vectorized_by(tmp_path / "a", content, vectorizer, labels)
    dataset = found.dataset
    assert found.names.vectorizer.words == ["sat", "cat", "ant", "zebra", "émigré"]
    assert found.names.labels == ["y", "x", "a", "z", "é"]
    np.testing.assert_array_equal(
        dataset.features.sparse.toarray(), [[0, 1, 1, 2, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]
    )
    np.testing.assert_array_equal(
        dataset.labels.toarray(), [[1, 0, 1, 1, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 1]]
    )
    assert _summary(dataset, signature_of(vectorizer, labels)) == (
        "4 documents, 5 features (3 new), 5 labels (3 new); 1 document has no labels and will train as having "
        "none; docs/other-tools.md leaves out those whose labels are not known yet; 1 document has no words"
    )
    # What was passed has not changed.
    assert (vectorizer.words, len(vectorizer._numbers), labels) == (["sat", "cat"], 2, ["y", "x"])
    assert found.names.vectorizer.features(["zebra émigré"]).sparse.toarray().tolist() == [[0, 0, 0, 1, 1]]


def test_names_of_known_labels_may_be_empty_or_occur_twice(tmp_path):
    # Names beside rows of numbers are free.
    found = vectorized_by(
        tmp_path / "a", as_json(["cat"], [["", "x", "new"]]), WordCounts(Analysis(), ["cat"]), ["x", "", "x"]
    )
    assert found.names.labels == ["x", "", "x", "new"]
    assert found.dataset.labels.toarray().tolist() == [[0, 0, 1, 1]]


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=3)
TEXTS = st.text(st.sampled_from("ab機é ̈"), max_size=9)
LABELS = st.lists(NAMES.map(str.strip).filter(bool), unique=True, min_size=1, max_size=4)
DOCUMENTS = st.lists(st.tuples(TEXTS, st.lists(NAMES, max_size=3)), min_size=1, max_size=5)


def test_known_numbers_stay_and_later_documents_get_the_same_rows(tmp_path):
    analysis = Analysis("char", 1, 2)

    @DETERMINISTIC
    @given(st.sets(TEXTS), LABELS, DOCUMENTS)
    def check(known, labels, documents):
        words_in = analysis.finder()
        words = sorted({word for text in {"a", *known} for word in words_in(text)}, reverse=True)
        content = as_json(*zip(*documents, strict=True))
        found = vectorized_by(tmp_path / "a", content, WordCounts(analysis, words), labels)
        dataset, longer = found.dataset, found.names.vectorizer
        D, K = len(words), len(labels)
        assert (longer.words[:D], found.names.labels[:K]) == (words, labels)
        assert all(longer._numbers[word] == number for number, word in enumerate(words))
        assert len(set(longer.words)) == len(longer.words)
        assert len(set(found.names.labels)) == len(found.names.labels)
        assert longer.words[D:] == sorted(longer.words[D:])
        # Nothing is left out, and each new word and label occurs.
        assert_same_points(scored(tmp_path / "a", content, longer, found.names.labels), dataset)
        assert dataset.features.sparse.sum() == sum(len(words_in(text)) for text, _ in documents)
        assert dataset.features.sparse[:, D:].sum(axis=0).all()
        assert dataset.labels[:, K:].sum(axis=0).all()
        # What the earlier words and labels count stays.
        before = scored(tmp_path / "a", content, WordCounts(analysis, words), labels)
        assert (
            (dataset.features.sparse[:, :D] != before.features.sparse).nnz
            == (dataset.labels[:, :K] != before.labels[:, :K]).nnz
            == 0
        )
        # The same again has nothing new.
        again = vectorized_by(tmp_path / "a", content, longer, found.names.labels)
        assert (again.names.vectorizer.words, again.names.labels) == (longer.words, found.names.labels)
        assert_same_points(again.dataset, dataset)

    check()
