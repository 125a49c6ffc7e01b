"""Columns of DataFrames are the names of features and labels, which are checked and kept."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import cross_val_predict

import xmlgp
from tests.problems import small_features
from xmlgp.errors import SettingsError
from xmlgp.estimators import BMLPLClassifier, GPCClassifier, MLGPFClassifier, TextTagger, load_estimator
from xmlgp.text.names import Names

COLUMNS, LABELS = ["height", "width", "größe", "a b", "e"], ["red", "grün", "b c"]
X = pd.DataFrame(small_features(60, D=5, density=0.5).toarray(), columns=COLUMNS)
Y = pd.DataFrame(X.to_numpy()[:, :3] > 0, columns=LABELS)
SETTINGS = {"factors": 2, "epochs": 2}

#: Other columns than in training, what scikit-learn says of them, and what xmlgp does.
OTHERS = [
    (X[COLUMNS[::-1]], "must be in the same order", "column 0 is the feature 'e', but the model was trained with 'hei"),
    (X.rename(columns={"e": "f"}), "names unseen at fit time:\n- f", "column 4 is the feature 'f', but .* 'e' there"),
    (X[COLUMNS[1:]], "yet now missing:\n- height", "column 0 is the feature 'width', but .* 'height' there"),
]


@pytest.mark.parametrize("kind", [MLGPFClassifier, BMLPLClassifier, GPCClassifier])
def test_estimators_check_columns_as_scikit_learn_does(tmp_path, kind):
    settings = SETTINGS if kind is MLGPFClassifier else {"iterations": 2}
    true = Y["red"].astype(int) if kind is GPCClassifier else Y
    fitted = kind(**settings).fit(X, true)
    unnamed = kind(**settings).fit(X.to_numpy(), np.asarray(true))
    assert not hasattr(unnamed, "feature_names_in_")
    with pytest.warns(UserWarning, match="^X has feature names, but .* fitted without"):
        unnamed.predict(X)
    fitted.save(tmp_path)
    for model in fitted, load_estimator(tmp_path):
        assert (model.feature_names_in_.tolist(), model.n_features_in_) == (COLUMNS, 5)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(model.predict_proba(X), unnamed.predict_proba(X.to_numpy()))
            model.predict(sp.csr_array(X))
        for method in model.predict, model.predict_proba, model.decision_function:
            for other, message, _ in OTHERS:
                with pytest.raises(ValueError, match=message):
                    method(other)
            with pytest.warns(UserWarning, match="^X does not have valid feature names, but"):
                method(X.to_numpy())
    assert not hasattr(fitted.fit(X.to_numpy(), true), "feature_names_in_")


def test_label_columns_are_the_names_of_labels(tmp_path):
    fitted = MLGPFClassifier(**SETTINGS).fit(X, Y)
    fitted.tune(X[:50], Y[:50]).save(tmp_path)
    loaded = load_estimator(tmp_path)
    for model in fitted, loaded:
        assert (model.names_.labels, model.names_.features) == (LABELS, COLUMNS)
    for change in fitted.tune, fitted.partial_fit, fitted.score, loaded.score:
        with pytest.raises(SettingsError, match="^column 0 is the label 'b c', but the model was trained with 'red'"):
            change(X, Y[LABELS[::-1]])
        with pytest.raises((SettingsError, ValueError), match="^column 0 is the feature 'e', but|in the same order"):
            change(X[COLUMNS[::-1]], Y)
    with pytest.raises(SettingsError, match="^column 0 is the label 'new', but the model was trained with 'red'"):
        fitted.score(X, Y.rename(columns={"red": "new"}))
    assert fitted.score(X, Y) == fitted.score(X, Y.to_numpy()) == (fitted.predict(X) == Y.to_numpy()).all(1).mean()
    more = fitted.partial_fit(X[:9].assign(new=1), Y[:9].assign(white=0))
    assert (more.names_.labels, more.feature_names_in_.tolist()) == ([*LABELS, "white"], [*COLUMNS, "new"])
    tagger = TextTagger.load(tmp_path)
    assert tagger.suggest(X[:1], 1)[0][0][0] in LABELS
    with pytest.raises(SettingsError, match="^column 0 is the label 'b c', but"):
        tagger.score(X, Y[LABELS[::-1]])


def test_the_functions_check_and_keep_columns(tmp_path):
    model = xmlgp.train(X, tmp_path, labels=Y, settings=SETTINGS)
    for found in model, xmlgp.load(tmp_path):
        points = list(xmlgp.predict(found, X, k=3))
        assert {label["label"] for label in points[0]["labels"]} == set(LABELS)
        for other, _, message in OTHERS:
            with pytest.raises(SettingsError, match=message):
                list(xmlgp.predict(found, other))
    assert [own["labels"] for own in points] == [own["labels"] for own in xmlgp.predict(model, X.to_numpy(), k=3)]
    ranked = xmlgp.predict(model, X, k="all")
    assert xmlgp.evaluate(ranked, Y).measures == xmlgp.evaluate(ranked, Y.to_numpy()).measures
    with pytest.raises(SettingsError, match="^column 0 is the label 'b c', but"):
        xmlgp.tune(model, X, labels=Y[LABELS[::-1]])
    grown = xmlgp.learn(model, X[:5].assign(new=1), labels=Y[:5].assign(white=0))
    assert (grown.names.labels, grown.names.features) == ([*LABELS, "white"], [*COLUMNS, "new"])


def test_tables_are_evaluated_by_the_names_of_their_columns():
    model = xmlgp.train(X, labels=Y, settings=SETTINGS)
    ranked = xmlgp.predict(model, X, k="all")
    scores = pd.DataFrame(ranked.matrix().toarray(), columns=LABELS)
    names = [[name for name in LABELS if row[name]] for _, row in Y.iterrows()]
    expected = xmlgp.evaluate(scores.to_numpy(), Y.to_numpy()).measures
    other = LABELS[::-1]
    for pair in (ranked, Y[other]), (scores[other], Y), (scores, Y[other]), (scores[other], names), (ranked, names):
        assert xmlgp.evaluate(*pair).measures == pytest.approx(expected)
    # Names on one side only: the places count.
    for pair in (scores, Y.to_numpy()), (scores.to_numpy(), Y):
        assert xmlgp.evaluate(*pair).measures == expected
    assert xmlgp.evaluate(scores, Y.rename(columns={"red": "new"})).unknown == {"new": int(Y["red"].sum())}


def test_the_index_gives_the_identifiers():
    model = xmlgp.train(X, labels=Y, settings=SETTINGS)
    for index, ids in [
        (["a", "b"], ["a", "b"]),
        ([7, 3], [7, 3]),
        (pd.to_datetime(["2024-01-01", "2024-01-02"]), ["2024-01-01 00:00:00", "2024-01-02 00:00:00"]),
        (pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]), ["('a', 1)", "('b', 2)"]),
    ]:
        found = xmlgp.predict(model, X[:2].set_axis(index), k=1)
        assert [point["id"] for point in found] == found.named_scores().ids == ids
    texts = xmlgp.train(pd.Series(["dog", "cat"] * 9), labels=[["x"], ["y"]] * 9, settings=SETTINGS)
    assert [point["id"] for point in xmlgp.predict(texts, pd.Series({"u": "dog", "v": "cat"}))] == ["u", "v"]
    assert [point["id"] for point in xmlgp.predict(texts, ["dog", "cat"])] == [1, 2]


def test_tables_of_any_numbers_are_taken_and_others_refused():
    mixed = Y.astype({"red": int})
    assert xmlgp.train(X, labels=mixed, settings=SETTINGS).data == xmlgp.train(X, labels=Y, settings=SETTINGS).data
    numbered = xmlgp.train(X.set_axis(range(5), axis=1), labels=Y.set_axis(range(3), axis=1), settings=SETTINGS)
    assert numbered.names == Names()
    texts = pd.DataFrame({"text": ["a dog", "a cat"] * 9, "tags": [["x"], ["y", "z"]] * 9})
    for data, labels, message in [
        (texts[["text"]], texts["tags"], r"a DataFrame must have numbers; .* as a column of it, such as df\['text'\]"),
        (texts["text"], texts[["tags"]], r"a DataFrame must have numbers; .*, such as df\['tags'\]"),
        (texts.assign(text="").rename(columns={"tags": "long"}).map(str), texts["tags"], r".* such as df\['text'\]"),
        (texts[["tags"]].assign(no="1", body=texts["text"]), texts["tags"], r".* such as df\['body'\]"),
        (
            texts[["text"]].to_numpy(),
            texts["tags"],
            "a matrix must have numbers; texts and lists of names have one dim",
        ),
        (X.rename(columns={"e": "e\n"}), Y, r"the feature 'e\\n' has a character that a name cannot have"),
        (
            X,
            Y.set_axis(pd.Index(["\ud800", *Y.columns[1:]], dtype=object), axis=1),
            "the label .* has a character that a name",
        ),
    ]:
        with pytest.raises(SettingsError, match=f"^{message}"):
            xmlgp.train(data, labels=labels, settings=SETTINGS)
    named = xmlgp.train(texts["text"], labels=pd.DataFrame({"b": [1, 0] * 9, "a": 1}), settings=SETTINGS)
    assert named.names.labels == ["b", "a"]
    message = r"^TextTagger takes a list or column of texts, such as df\['text'\], not a DataFrame$"
    for vectorizer in None, TfidfVectorizer():
        tagger = TextTagger(BMLPLClassifier(iterations=2), vectorizer)
        with pytest.raises(SettingsError, match=message):
            tagger.fit(texts[["text"]], texts["tags"])
        tagger.fit(texts["text"], texts["tags"])
        with pytest.raises(SettingsError, match=message):
            tagger.predict(texts[["text"]])


def test_cross_val_predict_takes_all_methods():
    for method in "predict", "predict_proba", "decision_function":
        found = cross_val_predict(BMLPLClassifier(iterations=2), X, Y, cv=2, method=method)
        assert found.shape == Y.shape


def test_what_is_no_matrix_is_referred_to_the_estimator_for_it():
    texts, lists, matrix = ["a dog", "a cat"], [["x"], ["y", "z"]], np.eye(2)
    for features, labels, hint in [
        (texts, matrix, "^X has text; give texts to a TextTagger"),
        (pd.DataFrame({"text": texts}), matrix, "^X has text"),
        (matrix, lists, "^y has lists, .*; a TextTagger takes"),
        (matrix, pd.Series(lists), "^y has lists"),
        (matrix, [["x"], ["y"]], "^y has lists"),
        (matrix, [[1], []], "^y has lists"),
        (matrix, texts, "^y has one value for each point, .*; GPCClassifier is for two classes"),
        (matrix, np.array([0, 1]), "^y has one value"),
        (matrix, matrix * np.nan, "^there is nothing to learn: all labels of all training points are unknown"),
    ]:
        with pytest.raises((ValueError, SettingsError), match=hint):
            MLGPFClassifier().fit(features, labels)
