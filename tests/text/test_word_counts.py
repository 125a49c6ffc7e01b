"""Features of texts are the counts of scikit-learn's CountVectorizer, and descriptions of vectorizers are untrusted."""

import json
import unicodedata

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from tests.problems import DETERMINISTIC
from xmlgp.text.documents import Columns
from xmlgp.text.word_counts import LONGEST, SPACES, Analysis, WordCounts, normalized_text

TEXTS = [
    "The cat sat on the mat; the cat sat.",
    "Zürich, Zu\u0308rich — naïve café",
    "機械学習と 自然言語処理 機械",
    "e\u0301te\u0301 न\u092e\u0938\u094d\u0924\u0947 เชียงใหม่",
    "👩\u200d👩\u200d👧 🎉🎉 ok 🇨🇭",
    "İstanbul ISPARTA ıı Iİ ß ẞ ǅ",
    "x_y 3.14 a1 1a \u0663\u0664 ½ ²³",
    "",
    " ",
    "a b c",
    "one  two\u00a0three\u2003four",
]

ANALYSES = [
    Analysis(analyzer, shortest, longest)
    for analyzer in ("word", "char", "char-wb")
    for shortest, longest in ((1, 1), (1, 2), (2, 4))
] + [Analysis("word", 1, longest, 2, 9) for longest in (1, 2)]


def assert_as_counted(analysis, texts):
    kind, lengths = analysis.analyzer.replace("-", "_"), (analysis.shortest, analysis.longest)
    expected = CountVectorizer(analyzer=kind, ngram_range=lengths, dtype=np.float32)
    # What looks the same is the same.
    texts = list(map(normalized_text, texts))
    if analysis.analyzer == "word":
        # It divides words at the marks that remain, see `test_marks_do_not_divide_words`.
        texts = [text for text in texts if not any(unicodedata.category(c)[0] == "M" for c in text.lower())]
    # Two or more spaces of any kind are one to scikit-learn too.
    plain = texts if analysis.analyzer == "word" else [SPACES.sub(" ", text) for text in texts]
    try:
        counted = expected.fit_transform(plain)
    except ValueError:
        return  # it refuses an empty vocabulary
    words = expected.get_feature_names_out().tolist()
    found = WordCounts(analysis, words).features(texts).sparse
    assert found.dtype == np.float32
    assert found.has_canonical_format
    counted.sort_indices()
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(found, name), getattr(counted, name))


@pytest.mark.parametrize("analysis", ANALYSES, ids=str)
def test_counts_of_any_text_are_those_of_scikit_learn(analysis):
    @DETERMINISTIC
    @example(TEXTS)
    @given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), max_size=4))
    def check(texts):
        assert_as_counted(analysis, texts)

    check()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ka\u0308se Bro\u0308tchen", ["käse", "brötchen"]),
        ("Do\xadnau\xaddampf\u200bschiff a\u2060b", ["donaudampfschiff", "ab"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", ["\u0645\u06cc\u062e\u0648\u0627\u0647\u0645"]),
        ("İstanbul x\u0304y \u0304 z\u0304", ["i\u0307stanbul", "x\u0304y", "z\u0304"]),
        ("ẹ\u0300kọ\u0301", ["ẹ\u0300kọ\u0301"]),
    ],
)
def test_marks_and_what_is_not_seen_do_not_divide_words(text, words):
    assert Analysis().finder()(text) == words
    assert Analysis(longest=2).finder()(text)[: len(words)] == words
    composed = [unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)]
    for analysis in ANALYSES:
        one, other = map(analysis.finder(), composed)
        assert one == other


def test_whitespace_and_control_characters_in_runs_of_characters_are_spaces():
    analyse = Analysis("char", 3, 3).finder()
    assert analyse("a\tb\0\x85\u2028c\x9bd") == ["a b", " b ", "b c", " c ", "c d"]
    assert Analysis("char-wb", 3, 3).finder()("a\x1bbc") == [" a ", " bc", "bc "]


def test_unknown_words_do_not_count():
    found = WordCounts(Analysis(), ["cat", "sat"]).features(["the cat", "", "dog", "cat sat cat"]).sparse
    np.testing.assert_array_equal(found.toarray(), [[1, 0], [0, 0], [0, 0], [2, 1]])
    assert WordCounts(Analysis(), ["cat"]).features([]).sparse.shape == (0, 1)
    assert WordCounts(Analysis(), []).features(["cat"]).sparse.shape == (1, 0)


COLUMNS = Columns(("title", "Überschrift"), ("tags",), " ", "key")


@pytest.mark.parametrize("analysis", [*ANALYSES[::5], ANALYSES[-1]], ids=str)
@pytest.mark.parametrize("columns", [Columns(), COLUMNS], ids=str)
def test_a_description_gives_the_same_vectorizer(analysis, columns):
    mapping = json.loads(json.dumps(WordCounts(analysis, ["aa", "bb"], columns).description()))
    found = WordCounts.from_description(mapping, ["aa", "bb"])
    assert (found.analysis, found.columns, found.words) == (analysis, columns, ["aa", "bb"])


DESCRIPTION = WordCounts(Analysis(), [], COLUMNS).description()


@pytest.mark.parametrize(
    "change",
    [
        {"format": "another"}, {"format_version": 2}, {"analyzer": None}, {"analyzer": "char_wb"},
        {"ngrams": [0, 1]}, {"ngrams": [1, LONGEST + 1]}, {"ngrams": [True, True]}, {"ngrams": "12"},
        {"ngrams": [1, 2, 3]}, {"stop_words": ["of"]}, {"min_count": 0},
        {"max_features": "2"}, {"columns": None}, {"columns": {"text": []}}, {"columns": {"text": "title"}},
        {"columns": {"text": ["a\nb"]}}, {"columns": {"text": ["\ud800"]}},
        *({"columns": DESCRIPTION["columns"] | change} for change in (
            {"labels": "\x1b[2J"}, {"separator": "\t"}, {"labels": ["a", 1]},
            {"text": []}, {"text": "title"},
        )),
    ],
    ids=str,
)  # fmt: skip
def test_other_descriptions_are_refused(change):
    assert WordCounts.from_description(DESCRIPTION, []) is not None
    assert WordCounts.from_description(DESCRIPTION | change, []) is None
    rest = {name: value for name, value in DESCRIPTION.items() if name not in change}
    assert rest == DESCRIPTION or WordCounts.from_description(rest, []) is None
    assert WordCounts.from_description(DESCRIPTION, ["aa", "bb", "aa"]) is None
