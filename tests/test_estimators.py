"""The estimator keeps scikit-learn's manners and gives what the library gives."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import label_ranking_average_precision_score
from sklearn.model_selection import GridSearchCV

from tests.problems import paired_dataset, small_dataset
from xmlgp.data.toy import toy_dataset
from xmlgp.errors import SettingsError
from xmlgp.estimators import MLGPFClassifier
from xmlgp.models.build import train_model
from xmlgp.prediction.predictor import Predictor
from xmlgp.settings import MLGPFSettings

SMALL = {"factors": 8, "inducing_count": 30, "epochs": 25, "batch_size": 200}


@pytest.fixture(scope="module")
def fitted():
    train, _ = toy_dataset()
    return MLGPFClassifier(**SMALL).fit(train.features, train.labels)


def test_its_parameters_are_the_settings():
    assert MLGPFClassifier().get_params() == MLGPFSettings().mapping()


def test_it_learns(fitted):
    _, test = toy_dataset()
    truth = test.labels.toarray()
    some = truth.any(axis=1)
    scores = fitted.decision_function(test.features)
    frequency = np.broadcast_to(truth.mean(axis=0), truth.shape)
    learned = label_ranking_average_precision_score(truth[some], scores[some])
    assert learned > 1.5 * label_ranking_average_precision_score(truth[some], frequency[some])
    probabilities = fitted.predict_proba(test.features)
    assert ((probabilities > 0) & (probabilities < 1)).all()
    np.testing.assert_array_equal(fitted.predict(test.features), probabilities > 0.5)


def test_with_nothing_but_defaults_it_is_the_model_of_the_library(tmp_path):
    # Features enough for labels to have weights of their own, and held-out points that the regression ranks better.
    dataset, new = paired_dataset(N=200, D=1000), paired_dataset(D=1000, seed=3).features
    model = MLGPFClassifier().fit(dataset.features, dataset.labels)
    folder = train_model(dataset, tmp_path, MLGPFSettings())
    assert model.parameters_.keys() == folder.arrays("parameters.").keys()
    assert {"label_weights.mean", "regression.weights"} <= model.parameters_.keys()
    for name, value in folder.arrays("parameters.").items():
        np.testing.assert_array_equal(model.parameters_[name], value)
    for found, stored in ((model.history_, "history"), (model.validation_history_, "validation")):
        assert [epoch["bound"] for epoch in found] == [epoch["bound"] for epoch in folder.description[stored]]
    predictor = Predictor.open(folder)
    np.testing.assert_array_equal(model.decision_function(new), predictor.score(new)[0])
    np.testing.assert_array_equal(model.predict_proba(new), predictor.score(new, "probability")[0])
    none_held_out = MLGPFClassifier(validation=0, epochs=2).fit(dataset.features, dataset.labels)
    assert none_held_out.validation_history_ is None


def test_dense_and_sparse_input_agree(fitted):
    _, test = toy_dataset()
    dense = test.features[:20].toarray()
    np.testing.assert_allclose(
        fitted.decision_function(dense), fitted.decision_function(sp.csr_matrix(dense)), rtol=1e-6
    )


def test_clone_and_grid_search():
    train, _ = toy_dataset()
    model = clone(MLGPFClassifier(**SMALL))
    search = GridSearchCV(
        model, {"factors": [2, 4]}, cv=2, scoring=lambda m, X, Y: m.predict_proba(X)[Y.toarray()].mean()
    )
    search.fit(train.features[:300], train.labels[:300])
    assert search.best_params_["factors"] in (2, 4)


def test_it_can_be_pickled(fitted):
    _, test = toy_dataset()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(test.features), fitted.predict_proba(test.features))


def test_mistakes_are_named():
    train, _ = toy_dataset()
    with pytest.raises(SettingsError, match="epochs is 0"):
        MLGPFClassifier(epochs=0).fit(train.features, train.labels)
    with pytest.raises(SettingsError, match="X has 5 points, but Y has 4"):
        MLGPFClassifier().fit(train.features[:5], train.labels[:4])


def test_the_users_matrix_stays_as_it_is():
    dataset = small_dataset()
    coo = dataset.features.tocoo()
    # Every element twice, halved, in no order.
    order = np.random.default_rng(0).permutation(2 * coo.nnz)
    rows, columns, data = (np.concatenate([a, a])[order] for a in (coo.row, coo.col, coo.data / 2))
    rank = np.argsort(rows, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=coo.shape[0]))])
    doubled = sp.csr_array((data[rank], columns[rank], indptr), shape=coo.shape)
    for array in (doubled.data, doubled.indices, doubled.indptr):
        array.flags.writeable = False
    settings = {"inducing_count": 5, "factors": 3, "epochs": 1, "dtype": "float64"}
    model = MLGPFClassifier(**settings).fit(doubled, dataset.labels)
    assert doubled.nnz == 2 * coo.nnz
    expected = MLGPFClassifier(**settings).fit(dataset.features, dataset.labels)
    np.testing.assert_allclose(
        model.decision_function(doubled), expected.decision_function(dataset.features), rtol=1e-6, atol=1e-9
    )
