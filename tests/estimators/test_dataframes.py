"""Columns of DataFrames are the names of features and labels, which are checked and kept."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import xmlgp
from tests.problems import small_features
from xmlgp.api.predict import named_scores
from xmlgp.estimators import BMLPLClassifier, GPCClassifier, MLGPFClassifier, TextTagger, load_estimator
from xmlgp.runtime.errors import SettingsError

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
    fitted.save(tmp_path)
    loaded = load_estimator(tmp_path)
    for model in fitted, loaded:
        assert (model.names_.labels, model.names_.features) == (LABELS, COLUMNS)
    for change in fitted.score, loaded.score:
        with pytest.raises(SettingsError, match="^column 0 is the label 'b c', but the model was trained with 'red'"):
            change(X, Y[LABELS[::-1]])
        with pytest.raises((SettingsError, ValueError), match="^column 0 is the feature 'e', but|in the same order"):
            change(X[COLUMNS[::-1]], Y)
    with pytest.raises(SettingsError, match="^column 0 is the label 'new', but the model was trained with 'red'"):
        fitted.score(X, Y.rename(columns={"red": "new"}))
    assert fitted.score(X, Y) == fitted.score(X, Y.to_numpy()) == (fitted.predict(X) == Y.to_numpy()).all(1).mean()
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
    grown = xmlgp.learn(model, X[:5].assign(new=1), labels=Y[:5].assign(white=0))
    assert (grown.names.labels, grown.names.features) == ([*LABELS, "white"], [*COLUMNS, "new"])


def test_the_index_gives_the_identifiers():
    model = xmlgp.train(X, labels=Y, settings=SETTINGS)
    for index, ids in [
        (["a", "b"], ["a", "b"]),
        ([7, 3], [7, 3]),
        (pd.to_datetime(["2024-01-01", "2024-01-02"]), ["2024-01-01 00:00:00", "2024-01-02 00:00:00"]),
        (pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]), ["('a', 1)", "('b', 2)"]),
    ]:
        found = xmlgp.predict(model, X[:2].set_axis(index), k=1)
        assert [point["id"] for point in found] == named_scores(found).ids == ids
    texts = xmlgp.train(pd.Series(["dog", "cat"] * 9), labels=[["x"], ["y"]] * 9, settings=SETTINGS)
    assert [point["id"] for point in xmlgp.predict(texts, pd.Series({"u": "dog", "v": "cat"}))] == ["u", "v"]
    assert [point["id"] for point in xmlgp.predict(texts, ["dog", "cat"])] == [1, 2]
