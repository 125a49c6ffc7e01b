"""The estimators take dense features beside X, in its blocks and columns, or as X."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.metrics import label_ranking_average_precision_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

import xmlgp
from tests.problems import small_features
from xmlgp.errors import SettingsError
from xmlgp.estimators import BMLPLClassifier, GPCClassifier, MLGPFClassifier, TextTagger, load_estimator

N, E, K = 120, 8, 5
RANDOM = np.random.default_rng(0)
DENSE = RANDOM.normal(size=(N, E)).astype(np.float32)
X = small_features(N)
Y = (DENSE @ RANDOM.normal(size=(E, K)) > 1).astype(int)
TEXTS = [" ".join(RANDOM.choice(["fish", "bird", "tree", "rose", "owl"], 4)) for _ in range(N)]
NAMES = [[f"label {k}" for k in np.flatnonzero(row)] for row in Y]
TABLE = pd.DataFrame({"text": TEXTS, "embedding": list(DENSE)})
MODEL = MLGPFClassifier(factors=3, epochs=3)
COLUMNS = [f"e{e}" for e in range(E)]


@pytest.fixture(scope="module")
def beside():
    return clone(MODEL).fit(X, Y, dense=DENSE)


@pytest.fixture(scope="module")
def alone():
    return clone(MODEL).fit(None, Y, dense=DENSE)


def ranking(model, *points, **dense):
    return label_ranking_average_precision_score(Y, model.predict_proba(*points, **dense))


@pytest.mark.parametrize(
    ("points", "dense"),
    [
        ([X, DENSE], None),
        (sp.csr_matrix(X), DENSE.astype(float)),
        (X.toarray(), pd.DataFrame(DENSE)),
        (pd.DataFrame(X.toarray()).assign(embedding=list(DENSE)), None),
        (pd.DataFrame.sparse.from_spmatrix(X).assign(embedding=DENSE.tolist()), None),
        (X, TABLE["embedding"]),
        (X, "file"),
    ],
    ids=["list", "matrix", "arrays", "columns", "sparse columns", "column", "file"],
)
def test_dense_features_beside_X_are_given_in_any_way(tmp_path, beside, points, dense):
    if isinstance(dense, str):
        dense = tmp_path / "embeddings.npy"
        np.save(dense, DENSE)
    model = clone(MODEL).fit(points, Y, dense=dense)
    assert (model.model_.data["D"], model.model_.data["dense"], model.n_features_in_) == (X.shape[1], [E], X.shape[1])
    expected = beside.predict_proba(X, dense=DENSE)
    # Double precision is standardised as such, so the last digits differ.
    np.testing.assert_allclose(model.predict_proba(points, dense=dense), expected, rtol=1e-3, atol=1e-5)
    decision, utilities = model.decision_function(points, dense=dense), beside.decision_function([X, DENSE])
    np.testing.assert_allclose(decision, utilities, rtol=1e-2, atol=1e-3)
    np.testing.assert_array_equal(model.predict(points, dense=dense), expected > 0.5)
    assert model.score(points, Y, dense=dense) == ((expected > 0.5) == Y).all(axis=1).mean()
    assert model.partial_fit(points, Y, dense=dense).model_.data["N"] == 2 * N


@pytest.mark.parametrize(
    "points",
    [DENSE, DENSE.tolist(), pd.DataFrame(DENSE), TABLE[["embedding"]], np.round(100 * DENSE).astype(int)],
    ids=["array", "lists", "table", "column", "integers"],
)
def test_X_of_embeddings_is_dense(alone, points):
    model = clone(MODEL).fit(points, Y)
    assert (model.model_.data["D"], model.model_.data["dense"], model.n_features_in_) == (0, [E], E)
    assert ranking(model, points) == pytest.approx(ranking(alone, None, dense=DENSE), abs=0.03)
    assert ranking(model, points) > 0.9
    model.partial_fit(points, Y)


def test_counts_and_sparse_numbers_are_weighted_as_words():
    counts = RANDOM.poisson(2, size=(N, 6)) + 1
    mostly_zero = np.where(RANDOM.random((N, E)) < 0.4, DENSE, 0)
    for model, points in [
        (MODEL, counts),
        (MODEL, counts / 7),
        (MODEL, mostly_zero),
        (MODEL, sp.csr_array(DENSE)),
        (MLGPFClassifier(kernel="se", inducing_count=5, factors=2, epochs=2), DENSE),
        (BMLPLClassifier(topics=2, iterations=2), np.abs(DENSE)),
    ]:
        fitted, expected = (clone(model).fit(matrix, Y) for matrix in (points, sp.csr_array(points)))
        assert "dense" not in fitted.model_.data
        np.testing.assert_array_equal(fitted.predict_proba(points), expected.predict_proba(sp.csr_array(points)))


def test_what_is_dense_is_decided_in_fit(tmp_path, alone, beside):
    few, dense = np.abs(DENSE[:3]), sp.csr_array(DENSE)
    alone.save(tmp_path)
    for model in alone, load_estimator(tmp_path):
        np.testing.assert_array_equal(model.predict_proba(few), model.predict_proba(None, dense=few))
        np.testing.assert_array_equal(model.predict_proba(dense), model.predict_proba(DENSE))
    words = clone(MODEL).fit(np.abs(DENSE), Y)
    np.testing.assert_array_equal(words.predict_proba(DENSE), words.predict_proba(dense))


def test_columns_of_dense_features_are_checked():
    table = pd.DataFrame(DENSE, columns=COLUMNS)
    model = clone(MODEL).fit(table, Y)
    assert model.feature_names_in_.tolist() == COLUMNS
    for use in model.predict, lambda X: model.partial_fit(X, Y):
        with pytest.raises(ValueError, match="must be in the same order"):
            use(table[COLUMNS[::-1]])
    assert not hasattr(model.fit(DENSE, Y), "feature_names_in_")


def test_other_dense_features_than_in_fit_are_one_sentence(alone, beside):
    words, missing = clone(MODEL).fit(X, Y), DENSE.copy()
    missing[3, 2] = np.nan
    for call, message in [
        (lambda: beside.predict(X), f"X has no dense features, but .* of width {E}.*"),
        (lambda: beside.predict(DENSE), f"X has {E} features, but MLGPFClassifier is expecting 25 features as input"),
        (lambda: beside.predict(X, dense=DENSE[:9]), f"`dense` has 9 rows, but X has {N} points"),
        (lambda: beside.predict(X, dense=DENSE[:, :3]), f"X has dense features of width 3, but .* of width {E}"),
        (lambda: beside.partial_fit(X, Y), f".* has no dense features, but .* of width {E}.*"),
        (lambda: alone.predict(X), f"X has 25 features, but MLGPFClassifier is expecting {E} features as input"),
        (lambda: alone.predict(DENSE, dense=DENSE), f".* of widths {E} and {E}, but .* of width {E}"),
        (lambda: alone.predict(None), "there are no points: give X, dense features, or both"),
        (lambda: words.predict(X, dense=DENSE), f"X has dense features of width {E}, but .* trained without any"),
        (lambda: MODEL.fit(X, Y, dense=missing), "`dense`: row 3, column 2, counted from 0, is nan, not a finite .*"),
        (
            lambda: MODEL.fit(X, Y, dense=pd.Series([*DENSE[1:], None], name="e")),
            "the column 'e': each row must have .*",
        ),
        (
            lambda: MODEL.fit(X, Y, dense=pd.Series(list(missing), name="e")),
            "the column 'e': row 3, column 2, .* is nan.*",
        ),
        (lambda: MODEL.fit(X, Y[:9], dense=DENSE), f"there are {N} points, but the labels of 9 points"),
        (lambda: BMLPLClassifier().fit(X, Y, dense=DENSE), "dense features need model=mlgpf .*"),
        (lambda: GPCClassifier().fit([X, DENSE], Y[:, 0]), "dense features need model=mlgpf .*"),
    ]:
        with pytest.raises(SettingsError, match=f"^{message}$"):
            call()
    with pytest.raises(ValueError, match=r"^Input contains NaN"):
        MODEL.fit(missing, Y)


def test_a_tagger_takes_dense_features_beside_texts(tmp_path):
    tagger, words = (TextTagger(MODEL).fit(TEXTS, NAMES, dense=dense) for dense in (DENSE, None))
    assert tagger.score(TEXTS, NAMES, dense=DENSE) > words.score(TEXTS, NAMES) + 0.2
    of_table = TextTagger(MODEL).fit(TABLE, NAMES)
    tagger.save(tmp_path)
    for other, points in [(tagger, TABLE), (of_table, TABLE), (TextTagger.load(tmp_path), TABLE)]:
        for method in "suggest", "explain", "predict", "predict_proba", "decision_function":
            expected = getattr(tagger, method)(TEXTS, dense=DENSE)
            np.testing.assert_array_equal(getattr(other, method)(points), expected)
        assert other.score(points, NAMES) == tagger.score(TEXTS, NAMES, dense=DENSE)
    of_table.partial_fit(TABLE[:20], NAMES[:20])
    assert of_table.suggest(TEXTS[:1], k=1, dense=DENSE[:1]) == of_table.suggest(TABLE[:1], k=1)


@pytest.mark.parametrize(
    ("points", "dense"),
    [(DENSE, None), (None, DENSE), (TABLE[["embedding"]], None), ([DENSE[:, :3], DENSE[:, 3:]], None)],
    ids=["X", "dense", "column", "blocks"],
)
def test_a_tagger_takes_dense_features_alone(points, dense):
    tagger = TextTagger(MODEL).fit(points, NAMES, dense=dense)
    assert (tagger.model_.data["D"], sum(tagger.model_.data["dense"])) == (0, E)
    assert tagger.score(points, NAMES, dense=dense) > 0.6
    assert tagger.partial_fit(points, NAMES, dense=dense).suggest(points, k=1, dense=dense)
    with pytest.raises(SettingsError, match="^the points are text, but the model was not trained on text$"):
        tagger.predict(TEXTS)


def test_cross_validation_slices_columns_and_routed_features():
    tagger, model = TextTagger(MODEL), clone(MODEL)
    columns = cross_val_score(tagger, TABLE, NAMES, cv=2)
    assert len(cross_val_predict(tagger, TABLE, NAMES, cv=2)) == N
    assert cross_val_predict(model, TABLE[["embedding"]], Y, cv=2, method="predict_proba").shape == (N, K)
    with sklearn.config_context(enable_metadata_routing=True):
        for routed in tagger, model:
            routed.set_fit_request(dense=True).set_score_request(dense=True)
        np.testing.assert_array_equal(cross_val_score(tagger, TEXTS, NAMES, cv=2, params={"dense": DENSE}), columns)
        search = GridSearchCV(model, {"factors": [2, 3]}, cv=2).fit(X, Y, dense=DENSE)
        assert search.score(X, Y, dense=DENSE) > 0.4


def test_functions_take_X_of_embeddings_for_a_model_of_them(alone):
    model, table = alone.model_, pd.DataFrame(DENSE, index=[f"point {row}" for row in range(N)])
    predictions = xmlgp.predict(model, table, k="all", output="probability")
    np.testing.assert_array_equal(predictions.matrix().toarray(), alone.predict_proba(DENSE))
    assert next(iter(predictions))["id"] == "point 0"
    assert xmlgp.learn(model, DENSE[:9], labels=Y[:9]).data["N"] == N + 9
    with pytest.raises(SettingsError, match=f"^`data` has dense features of width 3, but .* of width {E}$"):
        xmlgp.predict(model, DENSE[:, :3]).matrix()
    with pytest.raises(SettingsError, match="^`dense` has 9 rows, but `data` has 120 points$"):
        TextTagger(MODEL).fit(TEXTS, NAMES, dense=DENSE[:9])
