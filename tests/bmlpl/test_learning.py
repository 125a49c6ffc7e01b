"""Learning on against a dense NumPy implementation, against EM of all points, and at its limits."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import digamma, expit
from sklearn.metrics import roc_auc_score

from tests.bmlpl.problems import UNWEIGHTED, clustered
from tests.grids import each_value
from tests.problems import small_dataset
from xmlgp.bmlpl import inference
from xmlgp.bmlpl import learning as module
from xmlgp.bmlpl.inference import ROUNDS
from xmlgp.bmlpl.learning import learn, recover_counts
from xmlgp.bmlpl.least_squares import INTERCEPT_PRECISION
from xmlgp.bmlpl.parameters import ARRAYS, topic_shares
from xmlgp.bmlpl.predictor import BMLPLPredictor
from xmlgp.bmlpl.settings import BMLPLSettings
from xmlgp.bmlpl.train import train
from xmlgp.data.features import Features
from xmlgp.errors import SettingsError
from xmlgp.linear_algebra.array_groups import arrays_fit
from xmlgp.preprocess.pipeline import weight_features
from xmlgp.training.trained import Earlier

SMALL = {"topics": 4, "iterations": 8, "batch_size": 16, "weighting": "none", "dtype": "float64"}


def arrays_of(features, labels):
    return Features(sp.csr_array(np.asarray(features, np.float32))), sp.csr_array(np.asarray(labels, bool))


def trained_on(features, labels, **chosen):
    """Return the `Earlier` of a model of these points, for as many features and labels as they have."""
    settings = BMLPLSettings(**SMALL | chosen)
    features, labels = arrays_of(features, labels)
    preprocessed = weight_features(features, settings)
    parameters = train(features, labels, preprocessed, settings).parameters
    for value in parameters.values():
        # Learning on must not change the model.
        value.setflags(write=False)
    return Earlier(settings, preprocessed, parameters, features.N, features.D, labels.shape[1])


def learned(earlier, features, labels):
    return learn(earlier, *arrays_of(features, labels), earlier.preprocessed)


def problem(**chosen):
    """Return the arguments of `learn`: the second half of a small data set has two new features and a new label."""
    data = small_dataset(60, 12, 6)
    features = data.features.sparse.toarray()
    labels = data.labels.toarray()
    earlier = trained_on(features[:30, :10], labels[:30, :5], **chosen)
    return earlier, *arrays_of(features[30:], labels[30:]), earlier.preprocessed


def probabilities(parameters, features):
    predictor = BMLPLPredictor(BMLPLSettings(dtype="float64"), UNWEIGHTED, parameters, np.shape(features)[1])
    return predictor.score(Features(sp.csr_array(np.asarray(features, np.float64))), "probability")[0]


def dense(earlier, X, Y, iterations):
    """Return topics, weights with intercepts, and shapes after EM with dense arrays and exact M-steps."""
    model = earlier.parameters
    eta = earlier.settings.concentration
    B, D, K, T = *X.shape, Y.shape[1], len(model["shapes"])
    point_counts = np.zeros(D + 1)
    tau = np.full(D + 1, np.median(model["precisions"]))
    point_counts[: earlier.D] = model["statistics.features"]
    point_counts[-1] = earlier.N
    tau[: earlier.D] = model["precisions"]
    tau[-1] = INTERCEPT_PRECISION
    counts = np.zeros((K, T))
    totals = model["shares"] * model["statistics.labels"].sum() + earlier.K * eta
    totals = np.maximum(totals, eta / model["topics"].min(axis=0))
    counts[: earlier.K] = np.maximum(model["topics"] * totals - eta, 0)
    start = np.zeros((D + 1, T))
    start[: earlier.D] = model["weights"]
    start[-1] = model["intercepts"]
    r = start_r = model["shapes"]
    X = np.hstack([X, np.ones((B, 1))])

    def expectations(V, u):
        parts = u[:, None] * V
        rates = parts.sum(axis=2, keepdims=True)
        return np.where(Y[:, :, None], parts / -np.expm1(-rates), 0)

    V = (counts + eta) / (counts + eta).sum(axis=0)
    psi = X @ start
    u = r * np.exp(psi)
    for _ in range(ROUNDS):
        m = expectations(V, u).sum(axis=1)
        u = (m + r) * expit(psi)
    omega = (m + r) / (2 * psi) * np.tanh(psi / 2)
    present = (X != 0).sum(axis=0)
    point = np.divide(point_counts / earlier.N * X.sum(axis=0), present, out=np.zeros(D + 1), where=present > 0)
    strength = earlier.N * omega.mean(axis=0)
    times = np.divide(point_counts, present, out=np.zeros(D + 1), where=present > 0)[:, None]
    P = tau[:, None] + np.maximum(times * (np.square(X).T @ omega) - np.square(point)[:, None] * strength, 0)
    rate = 1 + earlier.N / B * np.logaddexp(0, psi).sum(axis=0)
    tables = start_r * rate
    W = start.copy()
    label_counts = np.zeros((K, T))
    for _ in range(iterations):
        omega = (m + r) / (2 * psi) * np.tanh(psi / 2)
        for t in range(T):
            matrix = (X.T * omega[:, t]) @ X + np.diag(P[:, t]) + strength[t] * np.outer(point, point)
            prior = P[:, t] * start[:, t] + strength[t] * point * (point @ start[:, t])
            W[:, t] = np.linalg.solve(matrix, X.T @ (m - r)[:, t] / 2 + prior)
        psi = X @ W
        u = (m + r) * expit(psi)
        digammas = (digamma(m + r) - digamma(r)).sum(axis=0)
        V = counts + eta + label_counts
        V = V / V.sum(axis=0)
        each = expectations(V, u)
        m = each.sum(axis=1)
        label_counts = each.sum(axis=0)
        r = (tables + r * digammas) / (rate + np.logaddexp(0, psi).sum(axis=0))
    V = counts + eta + label_counts
    return V / V.sum(axis=0), W, r


def test_the_fixed_point_is_that_of_dense_formulas(monkeypatch):
    """The problem has new features, a new label, a feature and a label without further points, and an empty point."""
    monkeypatch.setattr(module, "ITERATIONS", 1500)
    earlier, features, labels, preprocessed = problem(topics=3)
    X = features.sparse.toarray()
    Y = labels.toarray()
    X[:, 2] = 0
    Y[:, 1] = False
    X[0] = 0
    Y[0] = False
    topics, weights, shapes = dense(earlier, X.astype(float), Y, 1500)
    parameters = learn(earlier, *arrays_of(X, Y), preprocessed).parameters
    np.testing.assert_allclose(parameters["topics"], topics, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(parameters["weights"], weights[:-1], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(parameters["intercepts"], weights[-1], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(parameters["shapes"], shapes, rtol=1e-3)
    # A feature that no further point has keeps its weights.
    np.testing.assert_array_equal(parameters["weights"][2], earlier.parameters["weights"][2])
    assert arrays_fit(parameters, {ARRAYS: True}, {"D": 12, "K": 6, "T": 3})


def test_no_iteration_lowers_the_log_posterior_while_shapes_are_fixed(monkeypatch):
    monkeypatch.setattr(inference.parameters, "update_shapes", lambda shapes, *rest: shapes)
    monkeypatch.setattr(module, "ITERATIONS", 60)
    values = [epoch["log_posterior"] for epoch in learn(*problem()).history]
    assert len(values) == 60
    assert (np.diff(values) >= -1e-6 * np.abs(values[1:])).all()
    assert values[-1] > values[0]


@pytest.mark.parametrize("factor", [1, 2.5])
def test_recovered_counts_are_those_of_the_model(factor):
    random = np.random.default_rng(0)
    frequencies = random.integers(1, 50, size=9)
    counts = random.dirichlet(np.ones(3), size=9) * frequencies[:, None]
    # A topic in which every label has counts is known by its share, if a positive label has one count.
    counts[:2] = [frequencies[0], 0, 0], [0 if factor > 1 else 1, 1, 1]
    frequencies[:2] = counts[:2].sum(axis=1)
    shares = topic_shares(counts, frequencies)
    counts *= factor
    topics = (counts + 0.3) / (counts + 0.3).sum(axis=0)
    np.testing.assert_allclose(recover_counts(topics, shares, frequencies.sum(), 0.3), counts, atol=1e-9)


def test_a_model_of_few_points_approaches_em_of_all():
    features, labels = clustered(900)
    chosen = {"inference": "em-cg", "iterations": 60}
    few = trained_on(features[:60], labels[:60], **chosen)
    updated = learned(few, features[60:], labels[60:]).parameters
    new, truth = clustered(seed=1)
    anew = trained_on(features, labels, **chosen).parameters
    areas = [roc_auc_score(truth.ravel(), probabilities(one, new).ravel()) for one in (few.parameters, updated, anew)]
    assert areas[2] > 0.85
    assert areas[1] == pytest.approx(areas[2], abs=0.01)
    assert areas[1] > areas[0]
    mean = probabilities(updated, new).mean(axis=0)
    np.testing.assert_allclose(mean, probabilities(anew, new).mean(axis=0), rtol=0.15)


# How many points have features and labels, at most.
@each_value(full=[(27, 30), (30, 0), (0, 30)], count=[1, 30], dtype=["float32", "float64"])
def test_points_without_labels_or_features_are_learned(full, count, dtype):
    earlier, features, labels, preprocessed = problem(dtype=dtype)
    X = features.sparse.toarray()[:count]
    Y = labels.toarray()[:count]
    X[full[0] :] = 0
    Y[full[1] :] = False
    parameters, history, _ = learn(earlier, *arrays_of(X, Y), preprocessed)
    assert arrays_fit(parameters, {ARRAYS: True}, {"D": 12, "K": 6, "T": 4})
    assert {value.dtype for value in parameters.values()} == {np.dtype(dtype)}
    assert [set(epoch) for epoch in history] == [{"epoch", "log_posterior", "seconds"}] * module.ITERATIONS


def test_no_points_leave_the_model_as_it_is():
    earlier, features, labels, preprocessed = problem()
    parameters, history, _ = learn(earlier, Features(features.sparse[:0, :10]), labels[:0, :5], preprocessed)
    assert history == []
    for name, value in parameters.items():
        tolerance = {"topics": 1e-3, "shares": 0.02}.get(name, 0)
        np.testing.assert_allclose(value, earlier.parameters[name], rtol=0, atol=tolerance)


def test_a_model_of_gibbs_sampling_is_refused():
    earlier, *rest = problem(inference="gibbs", burn_in=1, thinning=2)
    with pytest.raises(SettingsError, match="^a model of Gibbs sampling cannot learn on, because .*; train with inf"):
        learn(earlier, *rest)


def test_chunks_have_each_point_once_and_build_on_each_other(monkeypatch):
    features, labels = clustered(500)
    earlier = trained_on(features[:100], labels[:100], batch_size=90)
    at_once = learned(earlier, features[100:], labels[100:])
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", 1)
    priors = []
    original = module.weight_prior

    def weight_prior(design, omega, points, precisions):
        priors.append((len(omega) - 1, points[-1]))
        return original(design, omega, points, precisions)

    monkeypatch.setattr(module, "weight_prior", weight_prior)
    chunks = learned(earlier, features[100:], labels[100:])
    assert priors == [(80, 100), (80, 180), (80, 260), (80, 340), (80, 420)]
    assert len(chunks.history) == 5 * len(at_once.history)
    new, truth = clustered(seed=1)
    areas = [roc_auc_score(truth.ravel(), probabilities(one.parameters, new).ravel()) for one in (at_once, chunks)]
    assert areas[1] == pytest.approx(areas[0], abs=0.01)
