"""Learning on: what changes and what stays, resuming, batches with little in them, and label weights by dense sums."""

import functools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from tests.grids import each_value
from tests.problems import small_dataset
from xmlgp.data.dataset import Dataset
from xmlgp.data.features import Features
from xmlgp.errors import SettingsError
from xmlgp.gp.inner_products import Points
from xmlgp.label_weights.posterior import PRIOR_VARIANCE, RARE_SPREAD
from xmlgp.linear_algebra import conjugate_gradients
from xmlgp.mlgpf import incremental, learning_steps, replay_selection, sweep
from xmlgp.mlgpf.inducing import InducingMethod
from xmlgp.mlgpf.learning import learn
from xmlgp.mlgpf.predictor import MLGPFPredictor
from xmlgp.mlgpf.replay import ReplayBuffer
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.mlgpf.train import train
from xmlgp.mlgpf.weight_space import WeightSpaceMethod
from xmlgp.preprocess.pipeline import find_inducing_inputs, grow
from xmlgp.regression import fitting
from xmlgp.regression.fitting import fit_regression
from xmlgp.regression.regression import Regression
from xmlgp.training.trained import Earlier, add_statistics, statistics_of

SMALL = {
    "inducing": "free", "inducing_count": 12, "basis_size": 9, "factors": 3, "epochs": 4, "batch_size": 16,
    "regression_points": 0,
}  # fmt: skip

#: The model knows some of the points, features and labels; the others are the batch, and points to predict.
N, D, K = 240, 25, 9
N_KNOWN, D_KNOWN, K_KNOWN, N_SEEN = 60, 20, 7, 100
DATASET = small_dataset(N=N, D=D, K=K)
BATCH, OTHERS = DATASET.rows(slice(N_KNOWN, N_SEEN)), DATASET.rows(slice(N_SEEN, N))


@pytest.fixture
def few_steps(monkeypatch):
    """Make few stochastic steps."""
    monkeypatch.setattr(learning_steps, "LEAST_EPOCHS", 3)
    for method in (InducingMethod, WeightSpaceMethod):
        monkeypatch.setattr(method, "learning_steps", 5)


@functools.cache
def trained(items):
    """Return a trained model of the first points, features and labels, as `Earlier`; its arrays cannot be written."""
    known = DATASET.rows(slice(0, N_KNOWN))
    features, labels = Features(known.features.sparse[:, :D_KNOWN]), known.labels[:, :K_KNOWN]
    settings = MLGPFSettings(**dict(items))
    preprocessed = find_inducing_inputs(features, settings)
    parameters = train(features, labels, preprocessed, settings).parameters
    for value in parameters.values():
        value.flags.writeable = False
    return Earlier(settings, preprocessed, parameters, N_KNOWN, D_KNOWN, K_KNOWN)


def model(**chosen):
    """Return a trained model; by default with label weights where they are possible."""
    chosen = SMALL | chosen
    return trained(tuple(sorted(({"label_weights": chosen["inducing"] == "features"} | chosen).items())))


def problem(earlier, batch=BATCH):
    """Return the arguments of `learn`."""
    counts = add_statistics(earlier.parameters, statistics_of(batch.features, batch.labels))
    grown = grow(earlier.preprocessed, earlier.settings, earlier.N + batch.N, counts["statistics.features"])
    return earlier, batch.features, batch.labels, grown


def after(earlier, batch=BATCH):
    """Return the model after a batch, as `Earlier`."""
    arguments = problem(earlier, batch)
    found = learn(*arguments)
    return Earlier(earlier.settings, arguments[-1], found.parameters, earlier.N + batch.N, batch.D, batch.K)


def predictor(found):
    """Return the predictor of a model whose arrays have been checked."""
    made = MLGPFPredictor.from_arrays(found.settings, found.preprocessed, dict(found.parameters), found.D, found.K)
    assert made is not None
    return made


def utilities(found, features, output="utility"):
    """Return the scores of all labels of points that may have other features, N×K."""
    made, features = predictor(found), features[:, : found.D]
    points = made.prepare(features, output, with_std=False)
    return np.array(made.scores(points, slice(0, found.K), output), float)


def nothing(D, K):
    return Dataset(Features(sp.csr_array((0, D), dtype=np.float32)), sp.csr_array((0, K), dtype=bool))


def log_odds(counts, count):
    return np.log((counts + 0.5) / (count - counts + 0.5))


def check_growth(earlier, found, batch):
    """Check shapes, types, and what learning does not change."""
    predictor(found)
    assert found.parameters.keys() == earlier.parameters.keys()
    before, counts = (np.array(labels.sum(axis=0)).ravel() for labels in (known_labels(earlier), batch.labels))
    before = np.concatenate([before, np.zeros(batch.K - earlier.K, int)])
    for name, value in found.parameters.items():
        old = earlier.parameters[name]
        assert value.dtype == old.dtype, name
        assert np.isfinite(value).all(), name
        if name.startswith("kernel.") or name in ("inducing", "calibration"):
            known = value[..., : old.shape[-1]] if old.ndim else value
            np.testing.assert_array_equal(known, old, err_msg=name)
    np.testing.assert_array_equal(found.parameters["statistics.labels"], before + counts)
    change = log_odds(before + counts, earlier.N + batch.N)
    change[: earlier.K] -= log_odds(before[: earlier.K], earlier.N) - earlier.parameters["bias"]
    if np.all(earlier.parameters.get("replay.weights", 0) == 1) and batch.labels.nnz:
        # Steps over all points move everything, from the log odds, but few of them may miss a label without points.
        moved = (found.parameters["loadings"][: earlier.K] != earlier.parameters["loadings"]).any(axis=1)
        assert moved.mean() > 0.8
        assert (found.parameters["bias"] != change.astype(np.float32)).any()
        np.testing.assert_allclose(found.parameters["bias"], change, atol=0.5)
        return
    # Loadings of labels that were more frequent before stay.
    stay = np.flatnonzero((before > counts) | (counts == 0))
    stay = stay[stay < earlier.K]
    np.testing.assert_array_equal(found.parameters["loadings"][stay], earlier.parameters["loadings"][stay])
    np.testing.assert_allclose(found.parameters["bias"], change, rtol=1e-5, atol=1e-6)


def known_labels(earlier):
    return DATASET.labels[: earlier.N, : earlier.K]


def auc(found, labels):
    scores, truth = utilities(found, OTHERS.features), OTHERS.labels.toarray()
    return [roc_auc_score(truth[:, k], scores[:, k]) for k in labels]


@each_value(
    posterior=["shared-diagonal", "diagonal", "cholesky"],
    inducing=["free", "subspace"],
    kernel=["linear", "se+linear"],
    weighting=["root-idf", "unit"],
    negatives=[None, 20],
)
def test_learning_on_with_inducing_inputs(inducing, posterior, kernel, weighting, negatives):
    earlier = model(inducing=inducing, posterior=posterior, kernel=kernel, weighting=weighting, negatives=negatives)
    found = after(earlier)
    check_growth(earlier, found, BATCH)
    if kernel == "linear":
        # Unknown labels are predicted.
        assert np.mean(auc(found, range(K_KNOWN, K))) > 0.6
    assert found.parameters["loadings"][K_KNOWN:].any()


@pytest.mark.parametrize(
    "chosen", [{"label_weights": False, "weighting": "unit"}, {"label_sample": 2, "weighting": "none"}], ids=str
)
def test_learning_on_in_weight_space(chosen):
    found = after(model(inducing="features", **chosen))
    check_growth(model(inducing="features", **chosen), found, BATCH)
    assert np.mean(auc(found, range(K_KNOWN, K))) > 0.6
    earlier = model(inducing="features", replay=0, **chosen)
    found = after(earlier)
    check_growth(earlier, found, BATCH)
    assert np.mean(auc(found, range(K_KNOWN, K))) > 0.6
    # Features that no point of the batch has keep their weights.
    few = Dataset(Features(sp.csr_array(BATCH.features.sparse.toarray() * (np.arange(D) % 2))), BATCH.labels)
    found = after(earlier, few)
    for name in ("mean", "log_variance"):
        name = f"latent_weights.{name}"
        np.testing.assert_array_equal(found.parameters[name][:D_KNOWN:2], earlier.parameters[name][::2])
        assert (found.parameters[name][1:D_KNOWN:2] != earlier.parameters[name][1::2]).any()


@pytest.mark.parametrize(("inducing", "label_weights"), [("free", False), ("features", True), ("features", False)])
def test_known_labels_are_predicted_better_after_more_points(inducing, label_weights):
    earlier = model(inducing=inducing, label_weights=label_weights)
    frequent = [k for k in range(K_KNOWN) if known_labels(earlier).sum(axis=0)[k] >= 10]
    assert len(frequent) >= 3
    assert np.mean(auc(after(earlier), frequent)) > np.mean(auc(earlier, frequent)) - 0.01


@pytest.mark.parametrize(("inducing", "replay"), [("free", 200000), ("features", 0), ("features", 200000)])
def test_several_batches_are_learned_one_after_the_other(inducing, replay):
    earlier = found = model(inducing=inducing, regression_points=1000, replay=replay)
    for start in range(N_KNOWN, N_SEEN, 20):
        found = after(found, DATASET.rows(slice(start, start + 20)))
    assert found.N == N_SEEN
    predictor(found)
    known = statistics_of(DATASET.features[:N_KNOWN, :D_KNOWN], known_labels(earlier))
    expected = add_statistics(known, statistics_of(BATCH.features, BATCH.labels))
    for name, value in expected.items():
        np.testing.assert_array_equal(found.parameters[name], value)
    together = after(earlier)
    refined = "replay.weights" in earlier.parameters
    np.testing.assert_allclose(found.parameters["bias"], together.parameters["bias"], atol=0.5 if refined else 1e-5)
    assert np.mean(auc(found, range(K))) > np.mean(auc(together, range(K))) - 0.1


#: Each way of learning on: with inducing inputs, in weight space, and with regression.
MODELS = [
    {},
    {"inducing": "features", "regression_points": 1000},
    # With as many dimensions as features, which are then added.
    {"inducing": "subspace", "posterior": "cholesky", "kernel": "se+linear", "basis_size": D_KNOWN},
    {"inducing": "features", "label_sample": 2, "replay": 0},
    # Half of the points are remembered.
    {"inducing": "features", "replay": N_KNOWN // 2},
]
EVERY_MODEL = pytest.mark.parametrize("chosen", MODELS, ids=str)


@each_value(chosen=MODELS, output=["utility", "probability"])
def test_added_labels_leave_the_predictions_of_known_ones(chosen, output):
    earlier = model(**chosen)
    found = after(earlier, nothing(D_KNOWN, K_KNOWN + 3))
    before, now = (utilities(one, OTHERS.features, output) for one in (earlier, found))
    # Some BLAS libraries sum a product with more columns in another order.
    np.testing.assert_allclose(now[:, :K_KNOWN], before, rtol=1e-5, atol=1e-6)
    # Ranked low, and all alike.
    assert (now[:, K_KNOWN:] == now[:, [K_KNOWN]]).all()
    assert (now[:, K_KNOWN:].mean(axis=0) < before.mean(axis=0).min()).all()
    unchanged = [name for name, value in found.parameters.items() if value is earlier.parameters[name]]
    assert not {"loadings", "bias", "statistics.labels"}.intersection(unchanged)
    if chosen.get("inducing") == "features":
        # Arrays that are the same need not be written again.
        assert {"label_weights.mean", "label_weights.log_variance"} <= set(unchanged)


@EVERY_MODEL
def test_added_labels_are_learned_from_later_points(chosen):
    earlier = model(**chosen)
    grown = after(earlier, nothing(D_KNOWN, K))
    later = after(grown)
    assert np.mean(auc(later, range(K_KNOWN, K))) > 0.6
    predictor(later)


@pytest.mark.usefixtures("few_steps")
@each_value(chosen=MODELS, kind=["no points", "no labels", "no features", "one point", "all labels"])
def test_batches_with_little_in_them_are_learned(chosen, kind):
    batch = {
        "no points": nothing(D, K),
        "no labels": Dataset(BATCH.features, sp.csr_array(BATCH.labels.shape, dtype=bool)),
        "no features": Dataset(Features(sp.csr_array(BATCH.features.sparse.shape, dtype=np.float32)), BATCH.labels),
        "one point": BATCH.rows([int(np.argmax(np.diff(BATCH.labels.indptr)))]),
        "all labels": Dataset(BATCH.features[:3], sp.csr_array(np.ones((3, K), bool))),
    }[kind]
    earlier = model(**chosen)
    found = after(earlier, batch)
    check_growth(earlier, found, batch)
    if kind == "no labels":
        # Points without labels tell what is rare, and no more.
        loadings = found.parameters["loadings"]
        np.testing.assert_array_equal(loadings[:K_KNOWN], earlier.parameters["loadings"])
        assert not loadings[K_KNOWN:].any()


@EVERY_MODEL
def test_points_of_a_new_label_hardly_change_what_is_said_of_others(chosen):
    earlier = model(**chosen)
    # Of the batch, only the points of a new label.
    batch = BATCH.rows(np.flatnonzero(BATCH.labels.toarray()[:, K - 1]))
    found = after(earlier, batch)
    rows = ~OTHERS.labels.toarray()[:, K - 1]
    before, now = (utilities(one, OTHERS.features, "probability")[rows, :K_KNOWN] for one in (earlier, found))
    assert np.abs(now - before).mean() < 0.08
    assert np.corrcoef(now.ravel(), before.ravel())[0, 1] > 0.9


#: What is replayed of the 60 known points: none; all; all of half of them, which then stand for two; those that have
#: the labels of the batch or list them, which are all of these few.
REPLAYED = {"none": 0, "all": 200_000, "half": N_KNOWN // 2, "some": 200_001}


@pytest.mark.usefixtures("few_steps")
@each_value(dtype=["float64", "float32", "float64", "float64"], kind=list(REPLAYED))
def test_label_weights_solve_their_equations_with_what_is_replayed_and_the_earlier_posterior(monkeypatch, dtype, kind):
    # Where all points are replayed, nothing else than the prior of training remains of the earlier posterior.
    monkeypatch.setattr(incremental, "ROUNDS", 300)
    monkeypatch.setattr(incremental, "ROUNDS_OF_ALL", 300)
    monkeypatch.setattr(incremental, "ROUNDS_OF_SOME", 300)
    monkeypatch.setattr(sweep, "CG_STEPS", 30)
    if kind == "some":
        monkeypatch.setattr(replay_selection, "REPLAYED_LEAST", 25)
        monkeypatch.setattr(replay_selection, "REPLAYED_EACH", 0)
    earlier = model(inducing="features", dtype=dtype, replay=REPLAYED[kind])
    found = after(earlier)
    parameters, old, preprocessed = found.parameters, earlier.parameters, found.preprocessed
    batch = preprocessed.weigh(BATCH.features).sparse.toarray().astype(float)
    # The rows that are replayed, how many points they stand for, and the share of the earlier points with each label.
    points = ReplayBuffer.of_points(BATCH.features[:0], BATCH.labels[:0])
    if kind != "none":
        points = ReplayBuffer.of(old, D, K)
    M, before = points.size, parameters["statistics.labels"] - BATCH.labels.sum(axis=0)
    assert {"none": 0, "all": N_KNOWN, "half": N_KNOWN // 2, "some": N_KNOWN}[kind] == M
    shares = np.where(before > 0, points.labels.sum(axis=0) / np.maximum(before, 1), 1.0 * (M > 0))
    assert (shares == 1).all() == (kind in ("all", "some"))
    x = np.vstack([preprocessed.weigh(points.features).sparse.toarray(), batch])
    labels = np.vstack([points.labels.toarray(), BATCH.labels.toarray()])
    # The mean of the earlier points, as a further point of each label.
    occurrences = (batch != 0).sum(axis=0)
    mean_point = batch.sum(axis=0) * (parameters["statistics.features"] - occurrences)
    mean_point /= np.maximum(occurrences, 1) * earlier.N
    x = np.vstack([x, mean_point])
    rows = Points(Features(sp.csr_array(x.astype(dtype))), np.zeros(len(x), dtype))
    latent = WeightSpaceMethod(found.settings).predict(parameters).mean(rows).astype(float)
    offsets = sweep.OFFSET_SHARE * latent @ parameters["loadings"].T.astype(float) + parameters["bias"]
    tau = np.full(D, PRIOR_VARIANCE)
    tau[:D_KNOWN] = np.exp(old["label_weights.log_prior"])
    # Of points without a label that is new, and that none lists, some are drawn.
    for k in range(K if kind in ("none", "all") else K_KNOWN):
        columns, m, log_v = own_weights(parameters, k)
        was, center, log_variance = own_weights(old, k) if k < K_KNOWN else np.zeros((3, 0), int)
        assert set(columns) == {*was, *np.flatnonzero((batch[BATCH.labels.toarray()[:, k]] != 0).any(axis=0))}
        # The prior: what the earlier points added to that of training counts for those that are not replayed.
        f, prior = shares[k], 1 / ((1 + RARE_SPREAD / parameters["statistics.labels"][k]) * tau[columns])
        a, precision, place = np.zeros(len(columns)), prior.copy(), np.searchsorted(columns, was)
        a[place], precision[place] = center, np.exp(-log_variance)
        slope = (1 - f) * precision * a
        precision = prior + (1 - f) * np.maximum(precision - prior, 0)
        X, v = x[:, columns], np.exp(log_v)
        utility = offsets[-1, k] + mean_point[columns] @ a
        p, half = 1 / (1 + np.exp(-utility)), np.tanh(utility / 2) / (4 * utility)
        weight = np.ones(len(x))
        weight[:M] = np.where(labels[:M, k], 1, f * points.weights)
        weight[-1] = (1 - f) * earlier.N * p * (1 - p) / (2 * half)
        target = np.append(labels[:, k].astype(float), p if before[k] else p - 2 * half / (1 - p))
        g = offsets[:, k] + X @ m
        xi = np.sqrt(g**2 + X**2 @ v)
        curvature = weight * np.tanh(xi / 2) / (2 * xi)
        tolerance = 1e-5 if dtype == "float64" else 1e-2
        np.testing.assert_allclose(v, 1 / (precision + X.T**2 @ curvature), rtol=tolerance)
        residual = slope + X.T @ (weight * (target - 0.5) - curvature * g) - m * precision
        np.testing.assert_allclose(residual * v, 0, atol=tolerance)


def own_weights(parameters, k):
    """Return the features, means and log variances of the weights of a label."""
    part = slice(*parameters["label_weights.indptr"][k : k + 2])
    mean, log_variance = (parameters[f"label_weights.{name}"][part].astype(float) for name in ("mean", "log_variance"))
    return parameters["label_weights.features"][part], mean, log_variance


def with_regression(earlier):
    """Return a model with inducing inputs that has regression beside them, as an earlier xmlgp made it."""
    known, scales = DATASET.rows(slice(0, N_KNOWN)), None
    features = earlier.preprocessed.weigh(Features(known.features.sparse[:, :D_KNOWN]))
    if earlier.settings.inducing == "free":
        relevance = earlier.parameters["kernel.linear.log_relevance"]
        scales = np.exp(relevance / 2).astype(np.float32)
    regression, _ = fit_regression(features, known.labels[:, :K_KNOWN], scales, N_KNOWN)
    return replace(earlier, parameters=earlier.parameters | regression.parameters())


@pytest.mark.parametrize(
    ("inducing", "weighting"),
    [("features", "root-idf"), ("features", "unit"), ("free", "root-idf"), ("subspace", "unit")],
)
def test_regression_is_that_of_all_points_as_weighted_today(monkeypatch, inducing, weighting):
    monkeypatch.setattr(conjugate_gradients, "TOLERANCE", 1e-6)
    monkeypatch.setattr(fitting, "FINE", 1e-6)
    earlier = model(inducing=inducing, weighting=weighting, regression_points=1000)
    if inducing != "features":
        earlier = with_regression(earlier)
    found = after(earlier)
    check_growth(earlier, found, BATCH)
    raw, labels = DATASET.features.sparse[:N_SEEN].toarray(), DATASET.labels[:N_SEEN].toarray()
    raw[:N_KNOWN, D_KNOWN:], labels[:N_KNOWN, K_KNOWN:] = 0, False
    features, scales = found.preprocessed.weigh(Features(sp.csr_array(raw))), None
    regression = Regression.of(found.parameters, D)
    if inducing != "subspace":
        scales = np.ones(D, np.float32)
        scales[:D_KNOWN] = earlier.parameters["regression.scales"]
        np.testing.assert_array_equal(regression.scales, scales)
    expected, _ = fit_regression(features, sp.csr_array(labels), scales, N_SEEN)
    np.testing.assert_allclose(
        regression.features.sparse.toarray(), expected.features.sparse.toarray(), rtol=1e-4, atol=1e-6
    )
    found, wanted = (one.weights @ one.loadings.T for one in (regression, expected))
    np.testing.assert_allclose(found, wanted, atol=2e-3)
    np.testing.assert_allclose(regression.mean, expected.mean, rtol=1e-6)


@pytest.mark.parametrize("name", ["statistics.labels", "regression.labels", "label_weights"])
def test_a_model_of_an_earlier_version_is_refused(name):
    earlier = model(inducing="features", regression_points=1000)
    parameters = {other: value for other, value in earlier.parameters.items() if other != name}
    if name == "label_weights":
        # Beside inducing inputs.
        weights = {other: value for other, value in parameters.items() if other.startswith("label_weights.")}
        earlier = model()
        parameters = earlier.parameters | weights
    reason = "^the model lacks what learning on needs, because an earlier version trained it; train it again$"
    with pytest.raises(SettingsError, match=reason):
        learn(replace(earlier, parameters=parameters), *problem(earlier)[1:])
