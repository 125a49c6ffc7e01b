"""The estimators follow the scikit-learn API and give the models of the library."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import label_ranking_average_precision_score
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import xmlgp
from tests.problems import paired_dataset, small_dataset
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.data.toy import toy_dataset
from xmlgp.errors import SettingsError
from xmlgp.estimators import BMLPLClassifier, GPCClassifier, MLGPFClassifier
from xmlgp.gpc.settings import GPCSettings
from xmlgp.metrics.assignment import evaluate_assignment
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.tuning import METRICS, best_rule
from xmlgp.runs.trained_model import open_predictor

SMALL = {
    MLGPFClassifier: {"factors": 8, "inducing_count": 30, "epochs": 25, "batch_size": 200},
    BMLPLClassifier: {"topics": 30, "iterations": 25},
}
KINDS = list(SMALL)

any_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    train, _ = toy_dataset()
    return request.param(**SMALL[request.param]).fit(train.features, train.labels)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(MLGPFClassifier, MLGPFSettings), (BMLPLClassifier, BMLPLSettings), (GPCClassifier, GPCSettings)],
)
def test_parameters_are_the_settings(kind, settings):
    assert kind().get_params() == settings().mapping()


def test_an_unknown_parameter_is_a_type_error():
    with pytest.raises(TypeError, match="MLGPFClassifier.* unexpected keyword argument 'topics'"):
        MLGPFClassifier(topics=3)


def test_stored_zeros_in_Y_are_no_labels():
    data = small_dataset()
    stored = data.labels.astype(float)
    absent = sp.csr_array((np.zeros(3), ([0, 1, 2], [0, 0, 0])), shape=stored.shape)
    with_zeros = sp.csr_array(sp.vstack([stored, absent]))
    doubled = sp.csr_array(sp.vstack([data.features, data.features]))
    assert with_zeros.nnz > stored.nnz
    settings = {"topics": 5, "iterations": 2}
    expected = sp.csr_array(sp.vstack([stored, sp.csr_array(stored.shape)]))
    models = [BMLPLClassifier(**settings).fit(doubled, Y) for Y in (with_zeros, expected)]
    for name, array in models[0].parameters_.items():
        np.testing.assert_array_equal(array, models[1].parameters_[name])


def test_fit_learns(fitted):
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


@pytest.mark.parametrize(
    ("kind", "chosen"),
    [
        (MLGPFClassifier, {}),
        (BMLPLClassifier, {}),
        (BMLPLClassifier, {"inference": "gibbs", "iterations": 12}),
        (GPCClassifier, {"inducing_count": 8, "iterations": 3}),
        (GPCClassifier, {"inducing_count": 8, "iterations": 3, "inference": "svi-adadelta", "batch_size": 16}),
    ],
)
def test_an_estimator_has_the_model_of_the_library(tmp_path, kind, chosen):
    if kind is MLGPFClassifier:
        # Enough features for label weights, and enough points for a calibration.
        dataset, new = paired_dataset(N=200, D=1000), paired_dataset(D=1000, seed=3).features
    else:
        dataset, new = small_dataset(N=200, K=1 if kind is GPCClassifier else 7), small_dataset(seed=3).features
    labels = dataset.labels.toarray()[:, 0] if kind is GPCClassifier else dataset.labels
    model = kind(**chosen).fit(dataset.features, labels)
    folder = xmlgp.train(dataset, tmp_path, settings=kind.model.settings(**chosen).for_shape(*dataset.shape)).folder
    assert model.parameters_.keys() == folder.arrays("parameters.").keys()
    for name, value in folder.arrays("parameters.").items():
        np.testing.assert_array_equal(model.parameters_[name], value)
    for epoch, stored in zip(model.history_, folder.description["history"], strict=True):
        assert epoch | {"seconds": 0} == stored | {"seconds": 0}
    predictor = open_predictor(folder)
    probabilities, utilities = predictor.score(new, "probability")[0], predictor.score(new, "utility")[0]
    decision = model.decision_function(new)
    if kind is MLGPFClassifier:
        assert {"label_weights.mean", "regression.weights", "calibration"} <= model.parameters_.keys()
        np.testing.assert_array_equal(model.predict_proba(new), probabilities)
        np.testing.assert_allclose(decision, logit(probabilities), rtol=1e-6)
        (top,) = predictor.top(new, dataset.K)
        np.testing.assert_array_equal(top.labels.reshape(decision.shape), np.argsort(-decision, axis=1, kind="stable"))
    elif kind is BMLPLClassifier:
        np.testing.assert_array_equal(decision, utilities)
        np.testing.assert_array_equal(model.predict_proba(new), probabilities)
        np.testing.assert_allclose(probabilities, -np.expm1(-utilities), rtol=1e-6)
        np.testing.assert_allclose(model.topics_.sum(axis=0), 1, rtol=1e-5)
    else:
        np.testing.assert_array_equal(decision, utilities[:, 0])
        np.testing.assert_array_equal(model.predict_proba(new)[:, 1], probabilities[:, 0])


def test_dense_and_sparse_input_agree(fitted):
    _, test = toy_dataset()
    dense = test.features[:20].toarray()
    np.testing.assert_allclose(
        fitted.decision_function(dense), fitted.decision_function(sp.csr_matrix(dense)), rtol=1e-6
    )


@pytest.mark.parametrize(("kind", "name"), [(MLGPFClassifier, "factors"), (BMLPLClassifier, "topics")])
def test_clone_and_grid_search(kind, name):
    train, _ = toy_dataset()
    model = clone(kind(**SMALL[kind]))
    search = GridSearchCV(model, {name: [2, 4]}, cv=2, scoring=lambda m, X, Y: m.predict_proba(X)[Y.toarray()].mean())
    search.fit(train.features[:300], train.labels[:300])
    assert search.best_params_[name] in (2, 4)


def test_a_fitted_estimator_can_be_pickled(fitted):
    _, test = toy_dataset()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(test.features), fitted.predict_proba(test.features))


@pytest.mark.parametrize(("kind", "name"), [(MLGPFClassifier, "epochs"), (BMLPLClassifier, "iterations")])
def test_errors_name_the_cause(kind, name):
    train, _ = toy_dataset()
    with pytest.raises(SettingsError, match=f"{name} is 0"):
        kind(**{name: 0}).fit(train.features, train.labels)
    with pytest.raises(SettingsError, match="there are 5 points, but labels of 4"):
        kind().fit(train.features[:5], train.labels[:4])


@any_kind
def test_unfitted_estimators_and_other_features_are_refused(kind, fitted):
    _, test = toy_dataset()
    with pytest.raises(NotFittedError):
        kind().predict(test.features)
    with pytest.raises(SettingsError, match=r"^the points have 3 features, but the model was trained on \d+$"):
        fitted.predict_proba(test.features[:, :3])
    assert fitted.n_features_in_ == test.D
    assert [classes.tolist() for classes in fitted.classes_] == [[0, 1]] * test.K


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (MLGPFClassifier, {"inducing_count": 5, "factors": 3, "epochs": 1, "dtype": "float64"}),
        (BMLPLClassifier, {"topics": 3, "iterations": 3, "dtype": "float64"}),
        (GPCClassifier, {"inducing_count": 5, "iterations": 3}),
    ],
)
def test_the_users_matrix_is_not_changed(kind, settings):
    dataset = small_dataset(K=7 if kind is not GPCClassifier else 1)
    labels = dataset.labels if kind is not GPCClassifier else dataset.labels.toarray()[:, 0]
    coo = dataset.features.tocoo()
    # Each element is stored twice, halved, in random order.
    order = np.random.default_rng(0).permutation(2 * coo.nnz)
    rows, columns, data = (np.concatenate([a, a])[order] for a in (coo.row, coo.col, coo.data / 2))
    rank = np.argsort(rows, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=coo.shape[0]))])
    doubled = sp.csr_array((data[rank], columns[rank], indptr), shape=coo.shape)
    for array in (doubled.data, doubled.indices, doubled.indptr):
        array.flags.writeable = False
    model = kind(**settings).fit(doubled, labels)
    assert doubled.nnz == 2 * coo.nnz
    expected = kind(**settings).fit(dataset.features, labels)
    np.testing.assert_allclose(
        model.decision_function(doubled), expected.decision_function(dataset.features), rtol=1e-6, atol=1e-9
    )


def test_features_far_from_zero_are_standardised_without_loss():
    random, y = np.random.default_rng(0), np.arange(60) % 2
    X = np.c_[1.6e9 + 30 * (2 * y - 1), random.normal(size=(60, 2))]
    assert GPCClassifier(inducing_count=20, iterations=5).fit(X, y).score(X, y) == 1


@pytest.mark.exhaustive
@parametrize_with_checks([GPCClassifier(inducing_count=10, iterations=5)])
def test_gpc_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("classes", [[-1, 1], ["ham", "spam"]], ids=str)
def test_classes_of_any_type(classes):
    dataset, classes = small_dataset(N=100, K=1), np.array(classes)
    second = dataset.labels.toarray()[:, 0]
    model = clone(GPCClassifier(inducing_count=30, iterations=10)).fit(dataset.features, classes[second.astype(int)])
    np.testing.assert_array_equal(model.classes_, classes)
    found = model.predict(dataset.features)
    assert set(found) == set(classes)
    assert model.score(dataset.features, classes[second.astype(int)]) > 0.8
    np.testing.assert_array_equal(found == classes[1], model.decision_function(dataset.features) > 0)
    probabilities = model.predict_proba(dataset.features)
    np.testing.assert_array_equal(classes[probabilities.argmax(axis=1)], found)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_other_than_two_classes_are_refused():
    features = small_dataset().features
    for y, message in ((np.arange(40) % 3, "3 classes"), (np.zeros(40), "one class")):
        with pytest.raises(ValueError, match=f"^Only binary classification is supported, but y has {message}$"):
            GPCClassifier().fit(features, y)
    with pytest.raises(SettingsError, match="inference is 'em', but must be one of svi-adadelta, "):
        GPCClassifier(inference="em").fit(features, np.arange(40) % 2)
    with pytest.raises(NotFittedError):
        GPCClassifier().predict(features)


def test_tune_chooses_what_predict_assigns(fitted):
    metric = "f1-macro"
    _, held = toy_dataset()
    model = copy.copy(fitted)
    before = evaluate_assignment(sp.csr_array(model.predict(held.features)), held.labels)
    assert model.tune(held.features, held.labels.toarray(), metric) is model
    rule, value = best_rule(
        Scores.stack(list(model.model_.predictor.top(held.features, 64, "probability"))), held.labels, metric
    )
    assert model.assignment_rule_ == rule
    found = model.predict(held.features)
    assert found.dtype == int
    after = evaluate_assignment(sp.csr_array(found), held.labels)
    assert after[METRICS[metric]] == pytest.approx(value, abs=1e-3)
    assert after[METRICS[metric]] > before[METRICS[metric]] + 0.05
    assert found.sum(axis=1).max() <= rule.limit
    probabilities = model.predict_proba(held.features)
    assert probabilities[found > 0].min() >= rule.threshold
    train, _ = toy_dataset()
    assert clone(model).fit(train.features, train.labels).assignment_rule_ is None


def test_what_cannot_be_tuned_is_refused():
    data = small_dataset(60)
    with pytest.raises(NotFittedError):
        BMLPLClassifier().tune(data.features, data.labels)
    model = BMLPLClassifier(topics=3, iterations=3).fit(data.features, data.labels)
    for Y, metric, message in [
        (data.labels, "f1", "metric must be one of f1-micro, f1-macro, f1-point, not 'f1'"),
        (data.labels[:9], "f1-micro", "there are 60 points, but labels of 9"),
        (data.labels[:, :3], "f1-micro", "the points have 3 labels, but the model was trained on 7"),
        (np.zeros((60, 7)), "f1-micro", "no point has a true label, so there is nothing to tune for"),
    ]:
        with pytest.raises(SettingsError, match=f"^{message}$"):
            model.tune(data.features, Y, metric)
    with pytest.raises(SettingsError, match="the points have 24 features, but the model was trained on 25"):
        model.tune(data.features[:, :24], data.labels)
    classes = data.labels.toarray()[:, 0]
    classifier = GPCClassifier(inducing_count=5, iterations=2).fit(data.features, classes)
    assert not hasattr(classifier, "tune")
    one = BMLPLClassifier(topics=3, iterations=3).fit(data.features, classes[:, None])
    with pytest.raises(SettingsError, match=r"^the model has one label, so there is no number of labels to tune$"):
        one.tune(data.features, classes[:, None])
