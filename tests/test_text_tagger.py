"""`TextTagger`: texts in, label names out, in the scikit-learn API."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer

import xmlgp
from tests.cli.command import run
from tests.held_out import calibrated
from tests.problems import small_dataset
from xmlgp.data.dataset import Dataset
from xmlgp.data.repository_format import read_dataset, write_dataset
from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.estimators import BMLPLClassifier, GPCClassifier, MLGPFClassifier, TextTagger, load_estimator
from xmlgp.estimators import text_tagger as module
from xmlgp.regression import fitting
from xmlgp.text import vectorize
from xmlgp.text.analysis import Analysis

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
def test_predict_assigns_by_one_half_or_as_tuned(taggers, name):
    tagger = taggers(name)
    probabilities = tagger.predict_proba(NEW)
    assert [set(names) for names in tagger.predict(NEW)] == [
        {NAMES[k] for k in np.flatnonzero(row > 0.5)} for row in probabilities
    ]
    tuned = pickle.loads(pickle.dumps(tagger)).tune(NEW, [*TRUTH[:-1], ["unknown", " fish "]], "f1-point")
    assert tagger.tuned_ is None
    assert (tuned.tuned_.metric, tuned.tuned_.points) == ("f1-point", 25)
    expected = tuned.classifier_.predict(tuned.vectorizer_.features(TEXTS).sparse)
    assert [sorted(names) for names in tuned.predict(TEXTS)] == [
        [NAMES[k] for k in np.flatnonzero(r)] for r in expected
    ]
    assert tuned.predict(TEXTS) == [[label for label, _ in pairs] for pairs in tuned.suggest(TEXTS, None)]
    assert tuned.fit(TEXTS, LABELS).tuned_ is None


@pytest.mark.parametrize("name", ["topics", "by utility"])
def test_a_rule_about_utilities_is_applied_to_them_and_probabilities_are_returned(tmp_path, monkeypatch, taggers, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "PROBABILITIES", 12)
    tagger = taggers(name)
    tagger.save("model")
    features = tagger.vectorizer_.features(NEW)
    labels = sp.csr_array([[label in names for label in NAMES] for names in TRUTH])
    write_dataset("held.txt", Dataset(features, labels))
    assert run("tune", "-q", "model", "held.txt").exit_code == 0
    tuned = TextTagger.load("model")
    assert tuned.tuned_.output == "utility"
    probabilities, assigned = tagger.predict_proba(NEW), tuned.classifier_.predict(features.sparse)
    assert 0 < assigned.sum() < assigned.size
    for row, ones, pairs in zip(probabilities, assigned, tuned.suggest(NEW, k=None), strict=True):
        order = [k for k in np.argsort(-row, kind="stable") if ones[k]]
        assert [label for label, _ in pairs] == [NAMES[k] for k in order]
        np.testing.assert_allclose([p for _, p in pairs], row[order], rtol=1e-5)


@pytest.mark.parametrize("analysis", [None, Analysis("char-wb", 2, 3)], ids=str)
def test_features_and_labels_are_those_of_the_command(tmp_path, monkeypatch, analysis):
    monkeypatch.chdir(tmp_path)
    # More texts than are counted at a time.
    monkeypatch.setattr(vectorize, "DOCUMENTS", 7)
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
    assert tagger.classifier_.model_.data == dataset.facts
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
    # It can be tuned, saved and fitted again.
    loaded.tune(NEW, TRUTH).save("model")
    second = TextTagger.load("model")
    assert (second.tuned_, second.predict(NEW)) == (loaded.tuned_, loaded.predict(NEW))
    assert clone(second).fit(TEXTS, LABELS).suggest(NEW) == tagger.suggest(NEW)


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


@pytest.mark.parametrize("vectorizer", [TfidfVectorizer(min_df=2), HashingVectorizer(n_features=64)], ids=str)
def test_any_vectorizer_in_a_pipeline_or_as_a_parameter(tmp_path, vectorizer):
    inside = TextTagger(SMALL, vectorizer).fit(TEXTS, LABELS)
    before = make_pipeline(vectorizer, TextTagger(SMALL)).fit(TEXTS, LABELS)
    assert inside.vectorizer_ is not vectorizer
    np.testing.assert_array_equal(before.predict_proba(NEW), inside.predict_proba(NEW))
    assert before.predict(NEW) == inside.predict(NEW)
    assert before[-1].suggest(before[:-1].transform(NEW)) == inside.suggest(NEW)
    assert hits(inside.suggest(NEW), TRUTH) > 0.9
    assert inside.tune(NEW, TRUTH).tuned_.points == 25
    before[-1].save(tmp_path / "model")
    assert TextTagger.load(tmp_path / "model").suggest(vectorizer.fit(TEXTS).transform(NEW)) == inside.suggest(NEW)


def test_labels_can_be_chosen_and_explained(tmp_path, tagger, taggers):
    (tmp_path / "some.txt").write_text("fish\nbirds\n")
    expected_pairs = [[pair for pair in pairs if pair[0] in ("fish", "birds")] for pairs in tagger.suggest(NEW)]
    assert tagger.suggest(NEW, only=["fish", "birds"]) == expected_pairs
    assert tagger.suggest(NEW, only=tmp_path / "some.txt", without=["birds"]) == [
        [pair for pair in pairs if pair[0] == "fish"] for pairs in expected_pairs
    ]
    assert tagger.suggest(NEW, None, without=NAMES[1:]) == [
        [pair for pair in pairs if pair[0] == NAMES[0] and pair[1] > 0.5] for pairs in tagger.suggest(NEW)
    ]
    explainable = taggers("calibrated")
    explanations = explainable.explain(["salmon and trout"], 2, 1, without=["birds"])
    expected = xmlgp.predict(explainable.classifier_.model_, ["salmon and trout"], k=2, explain=1, without=["birds"])
    assert explanations == [point["labels"] for point in expected]
    assert explanations[0][0]["label"] == "fish"
    assert explanations[0][0]["for"][0]["word"] in ("salmon", "trout")
    with pytest.raises(SettingsError, match="^this model cannot be explained"):
        tagger.explain(NEW)
    with pytest.raises(SettingsError, match="^'mosses' is not a label of the model"):
        tagger.suggest(NEW, only=["mosses"])


@any_classifier
def test_scores_are_micro_f1_and_numbers_for_rankings(taggers, name):
    tagger = taggers(name)
    binary = MultiLabelBinarizer(classes=[*NAMES, "unknown"])
    truth = [*TRUTH[:-1], ["unknown", " fish "]]
    true, predicted = (
        binary.fit_transform(names) for names in ([*TRUTH[:-1], ["unknown", "fish"]], tagger.predict(NEW))
    )
    assert tagger.score(NEW, truth) == pytest.approx(f1_score(true, predicted, average="micro"))
    features = tagger.vectorizer_.features(NEW).sparse
    np.testing.assert_array_equal(tagger.decision_function(NEW), tagger.classifier_.decision_function(features))
    with pytest.raises(SettingsError, match="^there are 25 points, but the labels of 24 points$"):
        tagger.score(NEW, TRUTH[1:])


def _as_objects(values):
    return np.fromiter(values, object, len(values))


def _shuffled_series(values):
    return pd.Series(values, index=range(100, 100 + len(values))[::-1])


@pytest.mark.parametrize("kind", [list, _as_objects, _shuffled_series])
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


def test_probabilities_in_cross_validation_need_a_matrix():
    lists = [["a", "b"], ["b", "c"], ["c", "a"]] * 20
    with pytest.raises(SettingsError, match="^cross_val_predict takes lists of names with method='predict' only"):
        cross_val_predict(TextTagger(SMALL), TEXTS, lists, cv=2, method="predict_proba")
    matrix = pd.DataFrame(MultiLabelBinarizer().fit_transform(lists), columns=["a", "b", "c"])
    pipeline = make_pipeline(TfidfVectorizer(), SMALL)
    assert cross_val_predict(pipeline, TEXTS, matrix, cv=2, method="predict_proba").shape == (60, 3)


def test_parameters_are_those_of_scikit_learn(tagger):
    fresh = TextTagger()
    names = "classifier", "vectorizer", "encoder", "random_state", "n_jobs"
    assert fresh.get_params(deep=False) == dict.fromkeys(names)
    nested = TextTagger(BMLPLClassifier(), TfidfVectorizer()).set_params(classifier__topics=3, vectorizer__min_df=2)
    assert (nested.classifier.topics, nested.vectorizer.min_df) == (3, 2)
    copy = clone(tagger)
    assert not hasattr(copy, "classes_")
    assert copy.classifier is not tagger.classifier
    assert not hasattr(SMALL, "parameters_")
    for method in (fresh.predict, fresh.suggest, fresh.predict_proba, fresh.save):
        with pytest.raises(NotFittedError):
            method(TEXTS)
    with pytest.raises(NotFittedError):
        fresh.tune(TEXTS, LABELS)


def test_random_state_and_n_jobs_are_those_of_the_classifier_unless_given():
    seeded = TextTagger(SMALL, random_state=7, n_jobs=2)
    copy = clone(seeded)
    assert (copy.random_state, copy.n_jobs) == (7, 2)
    fitted = seeded.fit(TEXTS, LABELS).classifier_
    assert (fitted.random_state, fitted.n_jobs, SMALL.random_state, SMALL.n_jobs) == (7, 2, 0, None)
    inside = TextTagger(clone(SMALL).set_params(random_state=7)).fit(TEXTS, LABELS)
    np.testing.assert_array_equal(inside.predict_proba(NEW), seeded.predict_proba(NEW))


class Series:
    """Iterates over its values, as a series of pandas does, and has one dimension."""

    def __init__(self, values):
        self._values, self.shape = values, (len(values),)

    def __iter__(self):
        return iter(self._values)


@pytest.mark.parametrize("kind", [iter, Series, lambda texts: np.array(texts, object)])
def test_texts_and_labels_of_other_types(tagger, kind):
    y = [set(names) if i % 2 else np.array(names) for i, names in enumerate(LABELS)]
    assert TextTagger(SMALL).fit(kind(TEXTS), Series(y)).suggest(kind(NEW)) == tagger.suggest(NEW)


def test_documents_without_words_get_the_labels_of_none(tagger):
    empty, *without_words = tagger.suggest(["", "?", "unheard-of nonsense"])
    assert without_words == [empty, empty]
    assert tagger.suggest([]) == tagger.predict([]) == []
    assert tagger.predict_proba([]).shape == (0, 4)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ("one text", [["a"]], r"X must be a list of texts, not one text; write it as \[text\]"),
        (["a text", None], [["a"], ["a"]], r"X must be a list of texts, but X\[1\] is None; a missing text is '', .*"),
        ([float("nan")], [["a"]], r"X must be a list of texts, but X\[0\] is nan; a missing text is '', .*"),
        (
            ["a text"],
            ["abc"],
            r"labels must be a list of .*, but labels\[0\] is 'abc'; write a single name as \[name\]",
        ),
        (["a text"], [7], r"labels must be a list .*, but labels\[0\] is 7; write a single name as \[name\]"),
        (
            ["a text"],
            [["a", 7]],
            r"labels must be a list of names for each document, but labels\[0\] has 7, which is no text; .*",
        ),
        (
            ["a text"],
            np.ones((1, 3)),
            "labels must be a list of names for each document, not numbers; a matrix of 0 and 1 needs .*",
        ),
        (["a text"], [["a"], ["b"]], "there are 1 points, but the labels of 2 points"),
        (["a text"], [["a\tb"]], r"labels\[0\]: label 'a\\tb' has a control character, U\+0009"),
        (["a text"], [["a\ud800"]], r"label 'a\\ud800' has half of a surrogate pair, which is no character"),
        (["a text", "text"], [[], [" "]], "no document has a label"),
        (["a", "?"], [["a"], []], "no document has a word"),
    ],
)
def test_what_is_no_corpus_is_refused_in_one_sentence(X, y, message):
    with pytest.raises(SettingsError, match=f"^{message}$"):
        TextTagger(SMALL).fit(X, y)


def test_a_tagger_has_the_model_of_the_functions(tagger):
    (point,) = xmlgp.predict(tagger.model_, TEXTS[:1], k=2)
    assert [label["label"] for label in point["labels"]] == [name for name, _ in tagger.suggest(TEXTS[:1], 2)[0]]


def test_what_cannot_be_used_is_refused(tagger):
    for other in (LogisticRegression(), GPCClassifier(), "mlgpf"):
        message = f"^classifier must be an MLGPFClassifier or a BMLPLClassifier, not {type(other).__name__}"
        with pytest.raises(SettingsError, match=message):
            TextTagger(other).fit(TEXTS, LABELS)
    for analysis, X, message in [
        (Analysis(), np.ones((60, 3)), "X is a matrix of features, but the vectorizer divides texts into words"),
        (Analysis("letters"), TEXTS, "analyzer must be one of word, char, char-wb, none"),
        (Analysis("char"), ["\ud800"] * 60, "a text has half of a surrogate pair, which is no character"),
    ]:
        with pytest.raises(SettingsError, match=f"^{message}$"):
            TextTagger(SMALL, analysis).fit(X, LABELS)
    with pytest.raises(SettingsError, match="^the points have 2 features, but the model was trained on"):
        tagger.predict_proba(np.ones((1, 2)))
    for k in (0, True, "5"):
        with pytest.raises(SettingsError, match=f"^k must be a positive integer or None, not {k!r}$"):
            tagger.suggest(NEW, k)
    for threshold in (1.5, float("nan"), True):
        with pytest.raises(SettingsError, match=f"^threshold must be a probability from 0 to 1, not {threshold!r}$"):
            tagger.suggest(NEW, threshold=threshold)
    for y, message in (
        (TRUTH[:9], "there are 25 points, but the labels of 9 points"),
        ([["unknown"]] * 25, "no point has a true"),
    ):
        with pytest.raises(SettingsError, match=f"^{message}"):
            tagger.tune(NEW, y)
    assert tagger.tuned_ is None


#: Documents with new words and labels; the second has neither words nor labels.
MORE = ["the oak and a zebra", "?", "mosses and an ape", "salmon"]
MORE_LABELS = [["9 zebras", "10 trees"], [], ["mosses", " apes ", ""], ["fish"]]

LEARNING = MLGPFClassifier(factors=3, epochs=4)


@pytest.fixture
def _few_steps(monkeypatch):
    monkeypatch.setattr("xmlgp.mlgpf.weight_space.WeightSpaceMethod.learning_steps", 6)


@pytest.mark.usefixtures("_few_steps")
def test_more_documents_are_learned_as_by_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tagger = TextTagger(LEARNING, Analysis("word", 1, 2)).fit(TEXTS, LABELS)
    tagger.save("model")
    words = tagger.vectorizer_.words
    for texts, labels in (MORE, MORE_LABELS), (["an ape", "a yew"], [["apes"], ["yews"]]):
        documents = [{"text": text, "labels": names} for text, names in zip(texts, labels, strict=True)]
        Path("more.jsonl").write_text("".join(json.dumps(document) + "\n" for document in documents))
        assert run("learn", "-q", "model", "more.jsonl").exit_code == 0
        assert tagger.partial_fit(texts, labels) is tagger
        learned = TextTagger.load("model")
        assert tagger.vectorizer_.words == learned.vectorizer_.words
        assert tagger.classifier_.model_.data == learned.classifier_.model_.data
        assert tagger.suggest(NEW) == learned.suggest(NEW)
    assert tagger.classes_.tolist() == learned.classes_.tolist() == [*NAMES, "9 zebras", "apes", "mosses", "yews"]
    assert tagger.vectorizer_.words[: len(words)] == words
    assert "yew" in tagger.vectorizer_.words
    # A model of a folder goes on, and so does one without new words or labels.
    for model in (learned, tagger):
        model.partial_fit(["salmon", "trout"], [["fish"], []])
    assert learned.suggest(MORE) == tagger.suggest(MORE)
    assert len(learned.classifier_.learned_) == 3


@pytest.mark.usefixtures("_few_steps")
def test_the_next_suggestion_knows_the_correction_of_one_document(monkeypatch):
    # So that of the earlier points only some change, as where there are many.
    for name, value in (("DIRECT", 0), ("EACH", 8), ("LEAST", 16)):
        monkeypatch.setattr(fitting, name, value)
    tagger = TextTagger(LEARNING).fit(TEXTS, LABELS)
    model, fish = tagger.model_, NAMES.index("fish")
    assert "regression.weights" in model.parameters
    parameters = {name: value.copy() for name, value in model.parameters.items()}
    corrected, similar = "the oak, oak, eagle, OWL, eagle, OWL", "the oak, eagle, OWL"
    without_birds = [text for text, names in zip(TEXTS, LABELS, strict=True) if "birds" not in names]
    texts = [corrected, similar, *without_birds]
    before = tagger.predict_proba(texts)[:, fish]
    tagger.partial_fit([corrected], [["10 trees", "birds", "fish"]])
    rise = tagger.predict_proba(texts)[:, fish] - before
    assert rise[:2].min() > 0.1 > 5 * np.abs(rise[2:]).mean()
    # The model before is another one.
    for name, value in parameters.items():
        np.testing.assert_array_equal(model.parameters[name], value)


@pytest.mark.usefixtures("_few_steps")
def test_more_documents_for_a_vectorizer_that_stays():
    inside = TextTagger(LEARNING, TfidfVectorizer(min_df=2)).fit(TEXTS, LABELS)
    words = dict(inside.vectorizer_.vocabulary_)
    features = inside.vectorizer_.transform(MORE)
    outside = TextTagger(LEARNING).fit(inside.vectorizer_.transform(TEXTS), LABELS)
    for tagger, X in (inside, MORE), (outside, features):
        tagger.partial_fit(X, MORE_LABELS)
        assert tagger.classes_.tolist() == [*NAMES, "9 zebras", "apes", "mosses"]
    assert inside.vectorizer_.vocabulary_ == words
    assert inside.suggest(NEW) == outside.suggest(inside.vectorizer_.transform(NEW))
    # A matrix may have more features, if it is not one of known words.
    wider = sp.csr_array(sp.hstack([features, features]))
    assert outside.partial_fit(wider, MORE_LABELS).suggest(wider, 1)
    counted = TextTagger(LEARNING).fit(TEXTS, LABELS)
    counted.partial_fit(counted.vectorizer_.features(NEW).sparse, TRUTH)
    assert hits(counted.suggest(NEW), TRUTH) > 0.9
    with pytest.raises(SettingsError, match="^the points have 2 features, but the model was trained on"):
        counted.partial_fit(np.ones((4, 2)), MORE_LABELS)


def test_folders_that_hold_no_tagger_are_refused(tmp_path):
    dataset = small_dataset()
    BMLPLClassifier(topics=2, iterations=2).fit(dataset.features.sparse, dataset.labels).save(tmp_path / "numbers")
    classes = dataset.labels.toarray()[:, 0]
    GPCClassifier(inducing_count=4, iterations=2).fit(dataset.features.sparse, classes).save(tmp_path / "classes")
    for name, message in [
        ("numbers", "the labels of this model have no names; use load_estimator"),
        ("classes", "a model of two classes has no labels to suggest; use load_estimator"),
        ("nowhere", "No such file or directory"),
    ]:
        with pytest.raises(ModelFolderError, match=f"{name}: {message}$"):
            TextTagger.load(tmp_path / name)
