"""The estimators follow the scikit-learn API and give the models of the library."""

import dataclasses
import inspect
from typing import get_type_hints

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import label_ranking_average_precision_score

import xmlgp
from tests.problems import small_dataset
from xmlgp.data.toy import toy_dataset
from xmlgp.estimators import BMLPLClassifier, GPCClassifier, MLGPFClassifier, TextTagger, load_estimator
from xmlgp.estimators.from_settings import parameters_of
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.threads import core_count, limit_threads

SMALL = {
    MLGPFClassifier: {"factors": 8, "inducing_count": 30, "epochs": 25, "batch_size": 200},
    BMLPLClassifier: {"topics": 30, "iterations": 25},
}
KINDS = list(SMALL)


@pytest.fixture(scope="module", params=KINDS)
def fitted(request):
    train, _ = toy_dataset()
    return request.param(**SMALL[request.param]).fit(train.features.sparse, train.labels)


@pytest.mark.parametrize("kind", [*KINDS, GPCClassifier])
def test_parameters_are_the_settings(kind):
    settings = kind.model.settings
    assert kind().get_params() == parameters_of(settings()) | {"n_jobs": None, "keep_points": True}
    expected = {spec.name: (spec.default, spec.type) for spec in dataclasses.fields(settings)}
    default, _ = expected.pop("seed")
    expected |= {"random_state": (default, int | np.random.RandomState | None), "n_jobs": (None, int | None)}
    expected["keep_points"] = (True, bool)
    types = get_type_hints(kind.__init__)
    parameters = inspect.signature(kind).parameters.values()
    assert {parameter.name: (parameter.default, types[parameter.name]) for parameter in parameters} == expected
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("kind", [*KINDS, GPCClassifier])
def test_random_state_is_the_seed(tmp_path, kind):
    data, small = small_dataset(K=1), {} if kind is MLGPFClassifier else {"iterations": 1}
    small = SMALL.get(kind, {"inducing_count": 9}) | small
    labels = data.labels.toarray()[:, 0] if kind is GPCClassifier else data.labels
    fitted = kind(**small, random_state=7).fit(data.features.sparse, labels)
    assert fitted.model_.settings.seed == 7
    fitted.save(tmp_path)
    assert load_estimator(tmp_path).get_params()["random_state"] == 7
    states = [np.int64(7), np.random.RandomState(7), np.random.RandomState(7), None, None]
    seeds = [kind(**small, random_state=s).fit(data.features.sparse, labels).model_.settings.seed for s in states]
    assert (seeds[0], seeds[1]) == (7, seeds[2])
    assert seeds[3] != seeds[4]
    for random_state in (-1, "seven"):
        with pytest.raises(ValueError, match="[Ss]eed"):
            kind(**small, random_state=random_state).fit(data.features.sparse, labels)
    with pytest.raises(TypeError, match="unexpected keyword argument 'seed'"):
        kind(seed=7)


@pytest.mark.parametrize(("n_jobs", "threads"), [(None, 3), (1, 1), (2, 2), (-1, 3), (-2, 2), (-9, 1)])
def test_n_jobs_is_the_number_of_threads(monkeypatch, n_jobs, threads):
    used = set()

    def counted(tasks):
        used.add(core_count())
        return [task() for task in tasks]

    data, (texts, labels) = small_dataset(), (["a dog", "a cat", "a cow"] * 9, [["dog"], ["cat"], []] * 9)
    model = MLGPFClassifier(factors=2, epochs=2, n_jobs=n_jobs).fit(data.features.sparse, data.labels)
    tagger = TextTagger(clone(model)).fit(texts, labels)
    monkeypatch.setattr("xmlgp.prediction.top_k.run_parallel", counted)
    train = xmlgp.train
    counted_train = lambda *args, **more: counted([lambda: train(*args, **more)])[0]  # noqa: E731
    monkeypatch.setattr("xmlgp.estimators.estimator.train", counted_train)
    with limit_threads(3):
        for use in model.predict_proba, model.predict, model.decision_function:
            use(data.features.sparse)
        for use in tagger.suggest, tagger.predict, tagger.predict_proba:
            use(texts)
        model.fit(data.features.sparse, data.labels)
    assert used == {threads}
    with pytest.raises(ValueError, match="threads is 0"):
        model.set_params(n_jobs=0).predict(data.features.sparse)


def test_stored_zeros_in_Y_are_no_labels():
    data = small_dataset()
    stored = data.labels.astype(float)
    zeros = sp.csr_array((np.zeros(3), ([0, 1, 2], [0, 0, 0])), shape=(3, data.K))
    with_zeros = sp.csr_array(sp.vstack([stored, zeros]))
    assert with_zeros.nnz == stored.nnz + 3
    X = sp.csr_array(sp.vstack([data.features.sparse, data.features.sparse[:3]]))
    first, second = (BMLPLClassifier(topics=5, iterations=2).fit(X, Y) for Y in (with_zeros, with_zeros.toarray()))
    for name, array in first.parameters_.items():
        np.testing.assert_array_equal(array, second.parameters_[name])


def test_fit_learns(fitted):
    _, test = toy_dataset()
    truth = test.labels.toarray()
    labelled = truth.any(axis=1)
    scores = fitted.decision_function(test.features.sparse)
    frequency = np.broadcast_to(truth.mean(axis=0), truth.shape)
    learned = label_ranking_average_precision_score(truth[labelled], scores[labelled])
    assert learned > 1.5 * label_ranking_average_precision_score(truth[labelled], frequency[labelled])
    probabilities = fitted.predict_proba(test.features.sparse)
    assert ((probabilities > 0) & (probabilities < 1)).all()
    np.testing.assert_array_equal(fitted.predict(test.features.sparse), probabilities > 0.5)


def test_decision_functions_are_log_odds_or_utilities(fitted):
    _, test = toy_dataset()
    predictor, decision = fitted.model_.predictor, fitted.decision_function(test.features.sparse)
    probabilities, utilities = (predictor.score(test.features, output)[0] for output in ("probability", "utility"))
    np.testing.assert_array_equal(fitted.predict_proba(test.features.sparse), probabilities)
    if isinstance(fitted, MLGPFClassifier):
        np.testing.assert_allclose(decision, logit(probabilities), rtol=1e-5)
    else:
        np.testing.assert_array_equal(decision, utilities)
        np.testing.assert_allclose(probabilities, -np.expm1(-utilities), rtol=1e-6)
        np.testing.assert_allclose(fitted.topics_.sum(axis=0), 1, rtol=1e-5)
    (top,) = predictor.top(test.features, test.K)
    np.testing.assert_array_equal(top.labels.reshape(decision.shape), np.argsort(-decision, axis=1, kind="stable"))


def test_unfitted_estimators_and_other_features_are_refused(fitted):
    _, test = toy_dataset()
    for kind in KINDS:
        with pytest.raises(NotFittedError):
            kind().predict(test.features.sparse)
    with pytest.raises(SettingsError, match=r"^X has 3 features, but \w+ is expecting \d+ features as input"):
        fitted.predict_proba(test.features.sparse[:, :3])
    assert fitted.n_features_in_ == test.D
    assert [classes.tolist() for classes in fitted.classes_] == [[0, 1]] * test.K


def test_features_far_from_zero_are_standardised_without_loss():
    random, y = np.random.default_rng(0), np.arange(60) % 2
    X = np.c_[1.6e9 + 30 * (2 * y - 1), random.normal(size=(60, 2))]
    assert GPCClassifier(inducing_count=20, iterations=5).fit(X, y).score(X, y) == 1


@pytest.mark.parametrize("classes", [[-1, 1], ["ham", "spam"]], ids=str)
def test_classes_of_any_type(classes):
    dataset, classes = small_dataset(N=100, K=1), np.array(classes)
    y = classes[dataset.labels.toarray()[:, 0].astype(int)]
    model = clone(GPCClassifier(inducing_count=30, iterations=10)).fit(dataset.features.sparse, y)
    np.testing.assert_array_equal(model.classes_, classes)
    predicted = model.predict(dataset.features.sparse)
    assert model.score(dataset.features.sparse, y) > 0.8
    np.testing.assert_array_equal(predicted == classes[1], model.decision_function(dataset.features.sparse) > 0)
    probabilities = model.predict_proba(dataset.features.sparse)
    np.testing.assert_array_equal(classes[probabilities.argmax(axis=1)], predicted)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_other_than_two_classes_are_refused():
    features = small_dataset().features.sparse
    for y, message in ((np.arange(40) % 3, "3 classes"), (np.zeros(40), "one class")):
        with pytest.raises(ValueError, match=f"^Only binary classification is supported, but y has {message}$"):
            GPCClassifier().fit(features, y)
    with pytest.raises(SettingsError, match="inference is 'em', but must be one of svi-adadelta, "):
        GPCClassifier(inference="em").fit(features, np.arange(40) % 2)
    with pytest.raises(NotFittedError):
        GPCClassifier().predict(features)


def test_a_cluster_gives_the_same_model_and_probabilities(cluster):
    data, client = small_dataset(), cluster._client
    model, expected = (
        MLGPFClassifier(factors=3, epochs=2, label_weights=True).fit(data.features.sparse, data.labels, **options)
        for options in ({"client": client}, {})
    )
    for name, array in expected.parameters_.items():
        np.testing.assert_allclose(model.parameters_[name], array, rtol=1e-5, atol=1e-6)
