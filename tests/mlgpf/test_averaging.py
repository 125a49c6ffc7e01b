"""Utilities pooled with the exact GP, and label weights, against dense formulas."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, logit
from scipy.stats import norm
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.preprocessing import normalize

from tests.damage import around, changed_at, longer, shorter
from tests.gp.reference import conditional, inducing_posterior, random_parameters, scikit_covariances
from tests.grids import each_value
from tests.problems import small_dataset, small_features
from xmlgp.errors import ModelFolderError
from xmlgp.gp.exact_gp import LENGTHSCALE, NOISE, PROBABILITY_MARGIN, fit_exact_gp, scaled_features
from xmlgp.gp.posteriors import POSTERIORS
from xmlgp.label_weights.posterior import initial_label_weights
from xmlgp.linear_algebra import conjugate_gradients
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction import predictor as module
from xmlgp.runs.preprocess import preprocess_model
from xmlgp.runs.stored import open_predictor, stored_preprocessing

D, K, M, P, NODES = 25, 7, 5, 3, 100
DATASET = small_dataset(D=D, K=K)
#: New points, three training points, and one point without features.
NEW = sp.csr_array(sp.vstack([small_features(8, D, seed=9), DATASET.features[:3], sp.csr_array((1, D))]), dtype="f4")


@pytest.fixture(autouse=True)
def exact_solutions(monkeypatch):
    """Solve linear systems to single precision."""
    monkeypatch.setattr(conjugate_gradients, "TOLERANCE", 1e-6)


def model(path, own=True, regressed=True, scaled=True, **chosen):
    """Write a model with random parameters; return its folder.

    `own` adds label weights, `regressed` adds the exact GP, fitted to the training points, whose features are `scaled`.
    """
    small = {
        "weighting": "idf",
        "inducing_count": M,
        "inducing_start": "kmeans",
        "factors": P,
        "nodes": NODES,
        "dtype": "float64",
    }
    settings = MLGPFSettings(**small | chosen)
    folder = preprocess_model(DATASET, path, settings)
    inducing, random = folder.array("preprocess.inducing").astype(float), np.random.default_rng(3)
    _, parameters = random_parameters(
        random, settings.kernel.split("+"), settings.ard, settings.posterior, inducing, P, K, settings.dtype
    )
    features = stored_preprocessing(folder).weigh(DATASET.features)
    if own:
        weights = initial_label_weights(features, DATASET.labels, parameters["bias"], settings.dtype).parameters()
        for name in ("label_weights.mean", "label_weights.log_variance", "label_weights.log_prior"):
            weights[name] += random.normal(0, 0.7, weights[name].shape).astype(settings.dtype)
        parameters |= weights
    if regressed:
        scales = {"scales": random.uniform(0.2, 3, D).astype(np.float32)} if scaled else {}
        if scaled:
            features = scaled_features(features, scales["scales"])
        found = scales | fit_exact_gp(features, DATASET.labels, K)._asdict()
        found |= {
            "indptr": features.indptr.astype(np.int64),
            "indices": features.indices.astype(np.int32),
            "values": features.data,
        }
        parameters |= {f"regression.{name}": value for name, value in found.items()}
    return write(folder, parameters)


def write(folder, changes):
    """Replace parameters, or remove those that are None."""
    arrays = folder.arrays("") | {f"parameters.{name}": value for name, value in changes.items()}
    return ModelFolder.write(
        folder.path,
        settings=folder.settings,
        stage="trained",
        data=folder.description["data"],
        arrays={name: value for name, value in arrays.items() if value is not None},
        history=[{"epoch": 1, "bound": -1.0, "seconds": 0.0}],
    )


def weighted():
    """Return the training points and the new ones, weighted by scikit-learn."""
    transformer = TfidfTransformer().fit(DATASET.features)
    return [transformer.transform(points).toarray().astype(float) for points in (DATASET.features, NEW)]


def factor_utilities(folder):
    """Return mean and variance of q(f) at the new points by dense formulas, without the exact GP."""
    parameters, points = folder.arrays("parameters."), weighted()[1]
    cross, prior, own = scikit_covariances(
        folder.settings.kernel.split("+"), parameters, points, parameters["inducing"]
    )
    latent = [
        conditional(cross, prior, own, *inducing_posterior(folder.settings.posterior, parameters, prior, p))
        for p in range(P)
    ]
    mean = np.stack([mean for mean, _ in latent], axis=1) @ parameters["loadings"].T + parameters["bias"]
    variance = np.stack([np.diagonal(covariance) for _, covariance in latent], axis=1) @ parameters["loadings"].T ** 2
    if "label_weights.mean" in parameters:
        stored = {name: parameters[f"label_weights.{name}"] for name in ("indptr", "features", "mean", "log_variance")}
        for k in range(K):
            for e in range(stored["indptr"][k], stored["indptr"][k + 1]):
                x = points[:, stored["features"][e]]
                mean[:, k] += stored["mean"][e] * x
                variance[:, k] += np.exp(stored["log_variance"][e]) * x**2
    return mean, variance


def exact_gp_predictions(scales):
    """Return the predictions of scikit-learn at the new points, with scaled features if there are scales."""
    points, new = weighted()
    if scales is not None:
        # The points of both have unit length, but for one without features.
        points, new = (normalize(rows * scales) for rows in (points, new))
    labels = DATASET.labels.toarray().astype(float)
    regressor = GaussianProcessRegressor(RBF(LENGTHSCALE), alpha=NOISE, optimizer=None)
    return regressor.fit(points, labels - labels.mean(axis=0)).predict(new) + labels.mean(axis=0)


def utilities(folder, regressed):
    """Return mean and variance of the pooled utilities, ½ f + ½ log(g/(1 − g))."""
    mean, variance = factor_utilities(folder)
    if not regressed:
        return mean, variance
    predictions = exact_gp_predictions(folder.arrays("parameters.").get("regression.scales"))
    clipped = np.clip(predictions, 0, 1)
    assert np.abs(clipped - predictions).max() > 0.005
    return (mean + logit((clipped + PROBABILITY_MARGIN) / (1 + 2 * PROBABILITY_MARGIN))) / 2, variance / 4


def moments_of_probabilities(mean, variance):
    """Return the mean and the standard deviation of σ(f)."""
    z = np.linspace(-10, 10, 2001)
    weights = norm.pdf(z) / norm.pdf(z).sum()
    values = expit(mean[..., None] + np.sqrt(variance)[..., None] * z)
    expected = values @ weights
    return expected, np.sqrt((values - expected[..., None]) ** 2 @ weights)


PARTS = [(True, True), (True, False), (False, True)]


@each_value(parts=PARTS, posterior=list(POSTERIORS), kernel=["linear", "se"])
def test_scores_agree_with_pooled_utilities(tmp_path, parts, posterior, kernel):
    own, regressed = parts
    folder = model(tmp_path, own, regressed, posterior=posterior, kernel=kernel)
    predictor = open_predictor(folder)
    mean, variance = utilities(folder, regressed)
    utility, std = predictor.score(NEW, "utility", with_std=True)
    for found, expected in (utility, mean), (std**2, variance):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3 if regressed else 1e-5)
    probability, deviation = moments_of_probabilities(mean, variance)
    scores, std = predictor.score(NEW, "probability", with_std=True)
    np.testing.assert_allclose(scores, probability, atol=1e-4)
    np.testing.assert_allclose(std, deviation, atol=1e-4)


def test_a_regression_without_scales_agrees_with_pooled_utilities(tmp_path):
    folder = model(tmp_path, scaled=False)
    assert "parameters.regression.scales" not in folder.description["arrays"]
    found, _ = open_predictor(folder).score(NEW, "utility")
    np.testing.assert_allclose(found, utilities(folder, True)[0], rtol=1e-4, atol=1e-3)


@each_value(parts=PARTS, dtype=["float32", "float64"])
def test_labels_are_ranked_by_pooled_utilities(tmp_path, parts, dtype):
    own, regressed = parts
    folder = model(tmp_path, own, regressed, dtype=dtype)
    mean, variance = utilities(folder, regressed)
    scores, std = open_predictor(folder).score(NEW, "utility", with_std=True)
    assert scores.dtype == std.dtype == dtype
    np.testing.assert_allclose(scores, mean, atol=1e-3)
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-3, atol=1e-4)
    # Pooled utilities descend, up to rounding. The factor model alone has another order.
    order = np.argsort(-scores, axis=1)
    assert np.diff(np.take_along_axis(mean, order, axis=1), axis=1).max() < 1e-3
    assert (order != np.argsort(-factor_utilities(folder)[0], axis=1)).any() == regressed


@pytest.mark.parametrize(("regressed", "sign", "dtype"), [(50, 1, "float32"), (-50, -1, "float64")])
def test_probabilities_of_the_exact_gp_are_never_zero_or_one(tmp_path, regressed, sign, dtype):
    folder = model(tmp_path, dtype=dtype)
    expected = (factor_utilities(folder)[0] + sign * logit((1 + PROBABILITY_MARGIN) / (1 + 2 * PROBABILITY_MARGIN))) / 2
    folder = write(folder, {"regression.mean": np.full(K, regressed, np.float32)})
    np.testing.assert_allclose(open_predictor(folder).score(NEW, "utility")[0], expected, atol=1e-3)


@each_value(parts=PARTS, k=[1, 5, None], output=["utility", "probability"], with_std=[True, False], memory=[0, 256])
def test_top_labels_agree_with_all_scores(tmp_path, monkeypatch, parts, k, output, with_std, memory):
    own, regressed = parts
    predictor = open_predictor(model(tmp_path, own, regressed))
    values, deviations = predictor.score(NEW, output, with_std=True)
    kept = k or K
    order = np.argsort(-values, axis=1)[:, :kept]
    # Labels in blocks, the last one smaller; then a sort of all labels.
    for few in (64, 0):
        monkeypatch.setattr(module, "MAX_STREAMED", few)
        monkeypatch.setattr(module, "LABELS", 3)
        pieces = list(predictor.top(NEW, k, output, with_std, memory))
        assert len(pieces) == (1 if memory else NEW.shape[0])
        labels, scores = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("labels", "scores"))
        np.testing.assert_array_equal(labels.reshape(-1, kept), order)
        expected = np.take_along_axis(values, order, axis=1)
        np.testing.assert_allclose(scores.reshape(-1, kept), expected, rtol=1e-5, atol=1e-5)
        if with_std:
            std = np.concatenate([piece.std for piece in pieces]).reshape(-1, kept)
            np.testing.assert_allclose(std, np.take_along_axis(deviations, order, axis=1), rtol=1e-5, atol=1e-6)
        else:
            assert all(piece.std is None for piece in pieces)


def test_no_points(tmp_path):
    predictor = open_predictor(model(tmp_path))
    assert predictor.score(NEW[:0], "probability")[0].shape == (0, K)
    assert list(predictor.top(NEW[:0], 3)) == []


def missing(array):
    return None


def column(array):
    return array[..., None]


def narrower(array):
    return array[:, :-1].copy()


def scalar(array):
    return array.flat[0]


def integers(array):
    return array.astype(np.int64 if array.dtype != np.int64 else np.int32)


SHAPES = [missing, shorter, longer, column, scalar, integers]
ROW_ENDS = [changed_at(0, 1), changed_at(2, -5), changed_at(2, 10**9), changed_at(-1, 10**9), around]
PLACES = [changed_at(0, -1), changed_at(-1, D), changed_at(1, 2**31 - 1)]
DAMAGE = {
    "label_weights.indptr": [*SHAPES, *ROW_ENDS],
    "label_weights.features": [*SHAPES, *PLACES],
    "label_weights.mean": [shorter],
    "label_weights.log_variance": [missing, column],
    "label_weights.log_prior": [longer, scalar],
    "regression.indptr": [missing, longer, integers, *ROW_ENDS],
    "regression.indices": [integers, *PLACES],
    "regression.values": [shorter, column],
    "regression.weights": [scalar, narrower],
    "regression.loadings": [shorter, narrower],
    "regression.mean": [longer, column],
    "regression.scales": [shorter, scalar],
}


def assert_rejected(folder):
    with pytest.raises(ModelFolderError, match="the model is damaged, its arrays do not fit each other$") as caught:
        open_predictor(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "damage"), [(name, damage) for name in DAMAGE for damage in DAMAGE[name]])
def test_damaged_arrays_are_rejected(tmp_path, name, damage):
    folder = model(tmp_path)
    assert_rejected(write(folder, {name: damage(folder.array(f"parameters.{name}"))}))


def test_byte_order_of_arrays_does_not_change_predictions(tmp_path):
    folder = model(tmp_path)
    before = open_predictor(folder)
    arrays = folder.arrays("parameters.")
    changes = {name: arrays[name].astype(arrays[name].dtype.newbyteorder()) for name in arrays}
    folder = write(folder, changes)
    for name, array in changes.items():
        assert folder.description["arrays"][f"parameters.{name}"]["dtype"] == array.dtype.str != arrays[name].dtype.str
    after = open_predictor(folder)
    for found, expected in zip(*(predictor.score(NEW, with_std=True) for predictor in (after, before)), strict=True):
        np.testing.assert_array_equal(found, expected)
    (found,), (expected,) = (predictor.top(NEW, 3, "probability", with_std=True) for predictor in (after, before))
    for name in ("labels", "scores", "std"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@each_value(change=[1, -1], described=[True, False])
def test_another_number_of_labels_is_rejected(tmp_path, change, described):
    # Loadings and biases agree with each other, and in one case with the description.
    folder = model(tmp_path)
    loadings, bias = (folder.array(f"parameters.{name}") for name in ("loadings", "bias"))
    folder = write(folder, {"loadings": np.resize(loadings, (K + change, P)), "bias": np.resize(bias, K + change)})
    if described:
        file = tmp_path / "model.json"
        description = json.loads(file.read_text())
        description["data"]["K"] = K + change
        file.write_text(json.dumps(description))
    assert_rejected(ModelFolder(tmp_path))


@pytest.mark.parametrize("name", ["label_weights.mean", "regression.mean"])
def test_unknown_arrays_are_rejected(tmp_path, name):
    assert_rejected(write(model(tmp_path), {f"{name}s": np.zeros(3)}))


@pytest.mark.parametrize(
    "changes",
    [
        {"bias": np.zeros(1), "label_weights.indptr": np.zeros(2, np.int64)},
        {"loadings": np.zeros((K, P, 1))},
        {"loadings": np.zeros(P)},
    ],
    ids=lambda changes: " ".join(changes),
)
def test_inconsistent_numbers_of_labels_or_dimensions_are_rejected(tmp_path, changes):
    assert_rejected(write(model(tmp_path), changes))
