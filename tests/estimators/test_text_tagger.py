"""`TextTagger`: texts in, label names out, in the scikit-learn API."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline

from tests.cli.command import run
from tests.held_out import calibrated
from xmlgp.api import corpus as corpora
from xmlgp.data.formats import read_dataset
from xmlgp.estimators import BMLPLClassifier, GPCClassifier, MLGPFClassifier, TextTagger, load_estimator
from xmlgp.runtime.errors import SettingsError, UsageError, XmlgpError
from xmlgp.text.word_counts import Analysis

#: The words of each label.
WORDS = {
    "fish": ["Salmon", "trout", "Fluß"],
    "birds": ["eagle", "OWL", "sparrow"],
    "10 trees": ["oak", "ÉRABLE", "ʼbirch"],
    "9 flowers": ["rose", "tulip", "daisy"],
}
NAMES = sorted(WORDS)

SMALL = BMLPLClassifier(topics=4, iterations=15)

#: A model for each way of ranking labels and calibrating their probabilities.
CLASSIFIERS = {
    "topics": SMALL,
    "calibrated": MLGPFClassifier(factors=3, epochs=4),
    "by utility": MLGPFClassifier(
        factors=3, inducing="free", inducing_count=10, epochs=4, ranking="utility", calibration=False
    ),
}


def corpus(count=60, seed=0):
    """Return texts of the words of their labels, and the labels; the first text has neither words nor labels."""
    random = np.random.default_rng(seed)
    texts, labels = ["?"], [[]]
    for _ in range(count - 1):
        chosen = random.choice(NAMES, size=random.integers(1, 3), replace=False).tolist()
        texts.append(", ".join(["the", *(random.choice(WORDS[name]) for name in chosen for _ in range(4))]))
        labels.append(chosen)
    return texts, labels


@pytest.fixture(scope="module", autouse=True)
def _calibrated():
    with calibrated(0.3):
        yield


TEXTS, LABELS = corpus()
NEW, TRUTH = corpus(25, seed=1)


@pytest.fixture(scope="module")
def taggers():
    """Return a function that returns a fitted tagger by its name in `CLASSIFIERS`; do not change it."""
    made = {}

    def make(name):
        if name not in made:
            made[name] = TextTagger(CLASSIFIERS[name]).fit(TEXTS, LABELS)
        return made[name]

    return make


@pytest.fixture
def tagger(taggers):
    return taggers("topics")


any_classifier = pytest.mark.parametrize("name", CLASSIFIERS)


def hits(suggestions, truth):
    """Return the share of texts with a label whose first suggestion is right."""
    right = [pairs[0][0] in names for pairs, names in zip(suggestions, truth, strict=True) if names]
    return np.mean(right)


@any_classifier
def test_suggestions_are_the_names_of_the_most_probable_labels(taggers, name):
    tagger = taggers(name)
    assert tagger.classes_.tolist() == NAMES
    probabilities = tagger.predict_proba(NEW)
    assert probabilities.shape == (25, 4)
    for k, count in (3, 3), (np.int64(4), 4), (5, 4):
        suggestions = tagger.suggest(NEW, k)
        for row, pairs in zip(probabilities, suggestions, strict=True):
            order = np.argsort(-row, kind="stable")[:count]
            assert [label for label, _ in pairs] == [NAMES[k] for k in order]
            np.testing.assert_allclose([p for _, p in pairs], row[order], rtol=1e-5)
            assert all(type(label) is str and type(p) is float for label, p in pairs)
    assert hits(suggestions, TRUTH) > 0.9
    likely = tagger.suggest(NEW, 2, threshold=0.4)
    assert likely == [[pair for pair in pairs[:2] if pair[1] >= 0.4] for pairs in tagger.suggest(NEW)]
    assert tagger.suggest(NEW, None, 0) == tagger.suggest(NEW, 4)


@any_classifier
def test_predict_assigns_by_one_half(taggers, name):
    tagger = taggers(name)
    probabilities = tagger.predict_proba(NEW)
    assert [set(names) for names in tagger.predict(NEW)] == [
        {NAMES[k] for k in np.flatnonzero(row > 0.5)} for row in probabilities
    ]
    assert tagger.predict(TEXTS) == [[label for label, _ in pairs] for pairs in tagger.suggest(TEXTS, None)]


@pytest.mark.parametrize("analysis", [None, Analysis("char-wb", 2, 3)], ids=str)
def test_features_and_labels_are_those_of_the_command(tmp_path, monkeypatch, analysis):
    monkeypatch.chdir(tmp_path)
    # More texts than are counted at a time.
    monkeypatch.setattr(corpora, "DOCUMENTS", 7)
    labels = [[*names, " fish", ""] if i == 3 else names for i, names in enumerate(LABELS)]
    documents = [{"text": text, "labels": names} for text, names in zip(TEXTS, labels, strict=True)]
    Path("corpus.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
    name, shortest, longest, *_ = analysis or Analysis()
    options = ["--analyzer", name, "--ngrams", f"{shortest}-{longest}"] if analysis else []
    assert run("vectorize", "-q", "corpus.jsonl", "data", *options).exit_code == 0
    dataset = read_dataset("data/train.txt")
    tagger = TextTagger(SMALL, analysis).fit(TEXTS, labels)
    assert tagger.vectorizer_.words == Path("data/features.txt").read_text().split("\n")[:-1]
    assert tagger.classes_.tolist() == Path("data/labels.txt").read_text().split("\n")[:-1]
    # The fingerprint is that of all features and labels.
    assert tagger.classifier_.model_.data | {"first_feature": 0} == dataset.facts
    # A matrix of counts is taken too.
    assert tagger.suggest(dataset.features.sparse) == tagger.suggest(TEXTS)
    tagger.save("model")
    loaded = TextTagger.load("model")
    assert loaded.vectorizer == analysis
    assert clone(loaded).fit(TEXTS, labels).vectorizer_.words == tagger.vectorizer_.words


@pytest.mark.parametrize("name", ["topics", "calibrated"])
def test_saved_taggers_are_models_of_the_commands(tmp_path, monkeypatch, taggers, name):
    monkeypatch.chdir(tmp_path)
    tagger = taggers(name)
    tagger.save("model")
    loaded = TextTagger.load("model")
    assert loaded.suggest(NEW) == tagger.suggest(NEW)
    assert loaded.classes_.tolist() == NAMES
    assert type(load_estimator("model")) is type(loaded.classifier) is type(CLASSIFIERS[name])
    stdin = "".join(json.dumps({"text": text}) + "\n" for text in NEW)
    written = run("predict", "-q", "model", "-", "--output", "probability", "-k", "2", stdin=stdin).stdout
    for line, pairs in zip(written.splitlines(), tagger.suggest(NEW, 2), strict=True):
        entries = json.loads(line)["labels"]
        assert [label["label"] for label in entries] == [label for label, _ in pairs]
        np.testing.assert_allclose([label["probability"] for label in entries], [p for _, p in pairs], rtol=1e-5)
    # It can be fitted again.
    assert clone(loaded).fit(TEXTS, LABELS).suggest(NEW) == tagger.suggest(NEW)


def test_features_need_no_vectorizer(tmp_path, tagger):
    kind = sp.csr_array.toarray
    features = tagger.vectorizer_.features(TEXTS).sparse
    fitted = TextTagger(SMALL).fit(kind(features), LABELS)
    assert fitted.vectorizer_ is None
    assert fitted.suggest(kind(tagger.vectorizer_.features(NEW).sparse)) == tagger.suggest(NEW)
    fitted.save(tmp_path)
    loaded = TextTagger.load(tmp_path)
    assert loaded.suggest(features) == fitted.suggest(features)
    assert loaded.vectorizer_ is None
    for model in (fitted, loaded):
        with pytest.raises(SettingsError, match="^the points are text, but the model was not trained on text$"):
            model.predict(NEW)
        with pytest.raises(SettingsError, match="^X has 2 features, but TextTagger is expecting 13 features as input$"):
            model.predict(features[:, :2])


def _shuffled_series(values):
    return pd.Series(values, index=range(100, 100 + len(values))[::-1])


@pytest.mark.parametrize("kind", [list, _shuffled_series])
def test_model_selection_takes_lists_of_names(kind):
    texts, labels = kind(TEXTS), kind(LABELS)
    cv, chosen = KFold(3), {"classifier__topics": [1, 4]}
    search = GridSearchCV(TextTagger(SMALL), chosen, cv=cv, error_score="raise").fit(texts, labels)
    assert search.best_params_ == {"classifier__topics": 4}
    assert search.score(kind(NEW), kind(TRUTH)) > 0.9
    predicted = cross_val_predict(TextTagger(SMALL), texts, labels, cv=cv)
    assert len(predicted) == len(TEXTS)
    train, test = next(cv.split(TEXTS))
    first = TextTagger(SMALL).fit([TEXTS[i] for i in train], [LABELS[i] for i in train])
    assert list(predicted[test]) == first.predict([TEXTS[i] for i in test])
    scores = cross_val_score(make_pipeline(TfidfVectorizer(), TextTagger(SMALL)), texts, labels, cv=cv)
    assert scores.mean() > 0.7


def test_parameters_are_those_of_scikit_learn(tagger):
    fresh = TextTagger()
    assert fresh.get_params() == {"classifier": None, "vectorizer": None}
    nested = TextTagger(BMLPLClassifier()).set_params(classifier__topics=3)
    assert nested.classifier.topics == 3
    copy = clone(tagger)
    assert not hasattr(copy, "classes_")
    assert copy.classifier is not tagger.classifier
    assert not hasattr(SMALL, "parameters_")
    for method in (fresh.predict, fresh.suggest, fresh.predict_proba, fresh.save):
        with pytest.raises(NotFittedError):
            method(TEXTS)


def test_documents_without_words_get_the_labels_of_none(tagger):
    empty, *without_words = tagger.suggest(["", "?", "unheard-of nonsense"])
    assert without_words == [empty, empty]
    assert tagger.suggest([]) == tagger.predict([]) == []
    assert tagger.predict_proba([]).shape == (0, 4)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ("one text", [["a"]], r"X must be a list of texts, not one text; write it as .text."),
        (["a text", None], [["a"], ["a"]], r"X must be a list of texts, but X\[1\] is None"),
        ([float("nan")], [["a"]], r"X must be a list of texts, but X\[0\] is nan. Reshape .*"),
        (
            ["a text"],
            ["abc"],
            r"labels must be a list of .*, but labels\[0\] is 'abc'; write one name as \[name\], none as \[\], .*",
        ),
        (
            ["a text"],
            [7],
            r"labels must be a list .*, but labels\[0\] is 7; write one name as \[name\], none as \[\], .*",
        ),
        (["a text"], [["a", 7]], r"labels must be a list of names for each document, but labels\[0\] .*7.*"),
        (
            ["a text"],
            np.ones((1, 3)),
            r"labels must be a list of names .*, but labels\[0\] is .*; .* and a matrix of 0 and 1 as .*",
        ),
        (["a text"], [["a"], ["b"]], "there are 1 points, but the labels of 2 points"),
        (["a text"], [["a\ud800"]], r"labels\[0\]: label 'a\\ud800' has U\+D800, which no name can have"),
        (["a text", "text"], [[], [" "]], "no document has a label"),
        (["a", "?"], [["a"], []], "no document has a word"),
    ],
)
def test_what_is_no_corpus_is_refused_in_one_sentence(X, y, message):
    with pytest.raises(XmlgpError, match=f"^{message}$"):
        TextTagger(SMALL).fit(X, y)


def test_what_cannot_be_used_is_refused(tagger):
    for other in (LogisticRegression(), GPCClassifier(), "mlgpf"):
        message = f"^classifier must be an MLGPFClassifier or a BMLPLClassifier, not {type(other).__name__}"
        with pytest.raises(SettingsError, match=message):
            TextTagger(other).fit(TEXTS, LABELS)
    for analysis, X, message in [
        (Analysis("char"), np.ones((60, 3)), "the points: these are rows of numbers; .*"),
        (Analysis("letters"), TEXTS, "analyzer must be one of word, char, char-wb"),
        (Analysis("char"), ["\ud800"] * 60, "the word '.ud800' has U.D800, which no name can have"),
    ]:
        with pytest.raises(SettingsError, match=f"^{message}$"):
            TextTagger(SMALL, analysis).fit(X, LABELS)
    with pytest.raises(SettingsError, match="the points have 2 features, but the model was trained on"):
        tagger.predict_proba(np.ones((1, 2)))
    for k in (0, True, "5"):
        with pytest.raises(UsageError, match=f"^k must be a positive integer or all, not {k!r}.$"):
            tagger.suggest(NEW, k)
    for threshold in (1.5, float("nan")):
        with pytest.raises(UsageError, match=f"^the threshold {threshold!r} is not a probability from 0 to 1.$"):
            tagger.suggest(NEW, threshold=threshold)


def test_one_text_is_refused_also_where_a_file_has_this_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "printer").write_text("a secret\n")
    with pytest.raises(SettingsError, match="write it as"):
        TextTagger().fit("printer", [["hardware"]])
