"""More documents keep the numbers of known words and labels, and append the new ones in order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzzing.data_files import standard_input
from tests.problems import DETERMINISTIC
from tests.text.corpora import vectorized
from tests.text.test_vectorize import as_json, corpus
from xmlgp.data.lines import LineReader
from xmlgp.data.streams import open_input
from xmlgp.text import vectorize
from xmlgp.text.analysis import Analysis
from xmlgp.text.documents import NO_OPTIONS, Columns, CorpusOptions
from xmlgp.text.vectorizer import Vectorizer


def more(path, content, vectorizer, labels, options=NO_OPTIONS, extend=True):
    """Return a corpus with this content, vectorized with the words and labels of another one."""
    path.write_bytes(content)
    with open_input(path) as stream:
        return vectorize.vectorize(LineReader(stream, str(path)), vectorizer, labels, options, extend=extend)


def assert_equal(found, expected):
    """Check that two data sets are the same."""
    assert found.shape == expected.shape
    for matrix, other in (found.features, expected.features), (found.labels, expected.labels):
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(matrix, part), getattr(other, part))
            assert getattr(matrix, part).dtype == getattr(other, part).dtype


def test_new_words_and_labels_follow_the_known_ones_in_order(tmp_path):
    content = as_json(
        ["zebra cat ant zebra", "sat", "", "émigré zebra"], [["z", "y", "a", "z"], ["x"], [], ["", "é", " a "]]
    )
    vectorizer, labels = Vectorizer(Analysis(), ["sat", "cat"]), ["y", "x"]
    found = more(tmp_path / "a", content, vectorizer, labels)
    dataset = found.dataset()
    assert found.vectorizer.words == ["sat", "cat", "ant", "zebra", "émigré"]
    assert found.labels == ["y", "x", "a", "z", "é"]
    np.testing.assert_array_equal(
        dataset.features.toarray(), [[0, 1, 1, 2, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 1, 1]]
    )
    np.testing.assert_array_equal(
        dataset.labels.toarray(), [[1, 0, 1, 1, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 1]]
    )
    assert found.new == (3, 3)
    assert found.summary(more=True) == (
        "4 documents, 5 features (3 new), 5 labels (3 new); 1 document has no labels; 1 document has no words"
    )
    # What was passed has not changed.
    assert (vectorizer.words, len(vectorizer.numbers), labels) == (["sat", "cat"], 2, ["y", "x"])
    assert found.vectorizer.features(["zebra émigré"]).toarray().tolist() == [[0, 0, 0, 1, 1]]


def test_columns_are_those_of_the_vectorizer_unless_others_are_given(tmp_path):
    columns = Columns(("title",), "tags", "|")
    vectorizer = Vectorizer(Analysis("char", 2, 2), ["ab"], columns)
    found = more(tmp_path / "a.csv", b"title,tags\nabc,x|y\n", vectorizer, ["y"])
    assert (found.vectorizer.words, found.labels) == (["ab", "bc"], ["y", "x"])
    given = CorpusOptions(("body",), separator="/")
    found = more(tmp_path / "a.csv", b"title,body,tags\nabc,bd,z/y\n", vectorizer, ["y"], given)
    assert (found.vectorizer.words, found.labels) == (["ab", "bd"], ["y", "z"])
    # Later files are as the first one, if nothing else is said.
    assert (found.vectorizer.columns, found.vectorizer.analysis) == (columns, Analysis("char", 2, 2))


def test_names_of_known_labels_may_be_empty_or_occur_twice(tmp_path):
    # Names beside rows of numbers are free.
    found = more(tmp_path / "a", as_json(["cat"], [["", "x", "new"]]), Vectorizer(Analysis(), ["cat"]), ["x", "", "x"])
    assert found.labels == ["x", "", "x", "new"]
    assert found.dataset().labels.toarray().tolist() == [[0, 0, 1, 1]]


@pytest.mark.parametrize("analysis", [Analysis(), Analysis("word", 1, 2), Analysis("char-wb", 2, 3)], ids=str)
def test_a_corpus_in_parts_is_counted_as_a_whole(tmp_path, monkeypatch, analysis):
    documents = 7
    monkeypatch.setattr(vectorize, "DOCUMENTS", documents)
    texts, labels = corpus()
    whole = vectorized(tmp_path / "whole", as_json(texts, labels), analysis)
    first = vectorized(tmp_path / "first", as_json(texts[:30], labels[:30]), analysis)
    found = more(tmp_path / "rest", as_json(texts[30:], labels[30:]), first.vectorizer, first.labels)
    assert 0 < len(first.vectorizer.words) < len(found.vectorizer.words) == len(whole.vectorizer.words)
    words, names = whole.vectorizer.numbers, {name: number for number, name in enumerate(whole.labels)}
    expected, dataset = whole.dataset().rows(slice(30, None)), found.dataset()
    order = [words[word] for word in found.vectorizer.words]
    np.testing.assert_array_equal(dataset.features.toarray(), expected.features.toarray()[:, order])
    order = [names[name] for name in found.labels]
    np.testing.assert_array_equal(dataset.labels.toarray(), expected.labels.toarray()[:, order])
    # The blocks can be read again.
    assert_equal(found.dataset(), dataset)


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=3)
TEXTS = st.text(st.sampled_from("ab機é ̈"), max_size=9)
LABELS = st.lists(NAMES.map(str.strip).filter(bool), unique=True, min_size=1, max_size=4)
DOCUMENTS = st.lists(st.tuples(TEXTS, st.lists(NAMES, max_size=3)), min_size=1, max_size=5)


def test_known_numbers_stay_and_later_documents_get_the_same_rows(tmp_path):
    analysis = Analysis("char", 1, 2)

    @DETERMINISTIC
    @given(st.sets(TEXTS), LABELS, DOCUMENTS)
    def check(known, labels, documents):
        words = sorted({word for text in {"a", *known} for word in analysis.function()(text)}, reverse=True)
        content = as_json(*zip(*documents, strict=True))
        found = more(tmp_path / "a", content, Vectorizer(analysis, words), labels)
        dataset, longer = found.dataset(), found.vectorizer
        D, K = len(words), len(labels)
        assert (longer.words[:D], found.labels[:K]) == (words, labels)
        assert all(longer.numbers[word] == number for number, word in enumerate(words))
        assert len(set(longer.words)) == len(longer.words) == D + found.new[0]
        assert len(set(found.labels)) == len(found.labels) == K + found.new[1]
        assert longer.words[D:] == sorted(longer.words[D:])
        # Nothing is left out, and each new word and label occurs.
        read = more(tmp_path / "a", content, longer, found.labels, extend=False)
        assert_equal(read.dataset(), dataset)
        assert read.unknown_labels == 0
        assert (read.without_labels, read.without_words) == (found.without_labels, found.without_words)
        assert dataset.features.sum() == sum(len(analysis.function()(text)) for text, _ in documents)
        assert dataset.features[:, D:].sum(axis=0).all()
        assert dataset.labels[:, K:].sum(axis=0).all()
        # What the earlier words and labels count stays.
        before = more(tmp_path / "a", content, Vectorizer(analysis, words), labels, extend=False).dataset()
        assert (dataset.features[:, :D] != before.features).nnz == (dataset.labels[:, :K] != before.labels).nnz == 0
        # The same again has nothing new, also through a pipe.
        with standard_input(content), open_input("-") as stream:
            again = vectorize.vectorize(LineReader(stream, "-"), longer, found.labels, extend=True)
        assert (again.vectorizer.words, again.labels, again.new) == (longer.words, found.labels, (0, 0))
        assert_equal(again.dataset(), dataset)

    check()
