"""Predictions of GPC from model folders against dense formulas, their memory, and damaged models."""

import tracemalloc

import numpy as np
import pytest
from scipy.special import expit
from sklearn.preprocessing import StandardScaler

import xmlgp
from tests.gp.reference import conditional, inducing_posterior, scikit_covariances
from tests.problems import small_dataset, small_features
from xmlgp.api.trained_model import open_model
from xmlgp.data.dataset import Dataset, Features
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.models.gpc.predictor import GPCPredictor
from xmlgp.models.gpc.settings import GPCSettings
from xmlgp.runtime.errors import ModelFolderError

D = 25
M = 6


def points(density, N=8, seed=9):
    return small_features(N, D, density, seed)


def model(path, density=0.25, **chosen):
    """Write a model with random parameters, none of them small or symmetric."""
    dataset = Dataset(Features(points(density, 40, 0)), small_dataset(K=1).labels)
    folder = xmlgp.preprocess(dataset, path, settings=GPCSettings(inducing_count=M, nodes=30, **chosen))
    random = np.random.default_rng(3)
    factor = np.tril(random.normal(size=(M, M)) / 3)
    parameters = {
        "inducing": folder.array("preprocess.inducing").astype(float) + random.normal(size=(M, D)) / 3,
        "kernel.se.log_variance": np.array(0.7),
        "kernel.se.log_lengthscale": np.array(1.3),
        "kernel.noise.log_variance": np.array(-1.5),
        "posterior.whitened_mean": random.normal(size=(M, 1)),
        "posterior.whitened_factor": factor[None],
    }
    return write(folder, {f"parameters.{name}": value for name, value in parameters.items()})


def write(folder, changes):
    """Replace arrays, or remove those that are None."""
    return ModelFolder.write(
        folder.path,
        settings=folder.settings,
        stage="trained",
        data=folder.description["data"],
        arrays={name: value for name, value in (folder.arrays("") | changes).items() if value is not None},
        history=[{"epoch": 1, "bound": -1.0, "seconds": 0.0}],
    )


def dense_moments(folder, density, features):
    """Return mean and variance of f at points standardised by scikit-learn, by dense formulas."""
    p = dict(folder.arrays("parameters."))
    seen = features.toarray().astype(float)
    if folder.settings.standardise:
        scaler = StandardScaler().fit(points(density, 40, 0).toarray().astype(float))
        seen = scaler.transform(seen)
        # Constant features are ignored.
        seen[:, scaler.var_ == 0] = 0
        if density == 0.05:
            # Sparse points are not centred by the model, so shift its inducing inputs as well.
            p["inducing"] = p["inducing"] - scaler.mean_ / scaler.scale_
    covariances = scikit_covariances(("se", "noise"), p, seen, p["inducing"])
    mean, covariance = conditional(*covariances, *inducing_posterior("cholesky", p, covariances[1], 0))
    return mean[:, None], np.diagonal(covariance)[:, None]


@pytest.mark.parametrize(("density", "standardise"), [(0.05, True), (0.25, True), (0.25, False)])
def test_scores_agree_with_dense_formulas(tmp_path, density, standardise):
    folder = model(tmp_path, density, standardise=standardise)
    if standardise:
        assert folder.array("preprocess.center").any() == (density == 0.25)
    features = points(density)
    mean, variance = dense_moments(folder, density, features)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    sigmoids = expit(mean + np.sqrt(variance) * nodes)
    weights = weights / weights.sum()
    probability = (sigmoids @ weights)[:, None]
    predictor = open_model(folder).predictor
    for output, expected, spread in (
        ("utility", mean, np.sqrt(variance)),
        ("probability", probability, np.sqrt((sigmoids - probability) ** 2 @ weights)[:, None]),
    ):
        scores, std = predictor.score(Features(features), output, with_std=True)
        assert scores.dtype == std.dtype == np.float64
        np.testing.assert_allclose(scores, expected, rtol=1e-5)
        np.testing.assert_allclose(std, spread, rtol=1e-4)


def test_memory_is_bounded(tmp_path, monkeypatch):
    predictor = open_model(model(tmp_path)).predictor
    many = small_features(15_000, D, 0.25, seed=4)
    list(predictor.top(Features(many[:9]), 1, "probability", with_std=True))
    tracemalloc.start()
    pieces = 0
    monkeypatch.setattr("xmlgp.prediction.predictor.MEMORY", 1 << 18)
    for _ in predictor.top(Features(many), 1, "probability", with_std=True):
        pieces += 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert pieces > 1
    assert peak < 4 << 20


DAMAGE = {
    "inducing": [(M - 1, D), (M, D - 1)],
    "kernel.se.log_variance": [(2,)],
    "kernel.se.log_lengthscale": [(D,)],
    "kernel.noise.log_variance": [None],
    "posterior.whitened_mean": [(M + 1, 1), (M, 2), (M,)],
    "posterior.whitened_factor": [(2, M, M), (1, M, M - 1), ()],
    "extra": [()],
    "kernel.linear.log_variance": [()],
}


def test_damaged_parameters_are_rejected(tmp_path):
    folder = model(tmp_path)
    valid = {name: np.array(value) for name, value in folder.arrays("parameters.").items()}

    def fit(changes):
        parameters = {name: value for name, value in (valid | changes).items() if value is not None}
        return GPCPredictor.parameters_fit(folder.settings, parameters, D, 1)

    assert fit({})
    for name, shapes in DAMAGE.items():
        for shape in shapes:
            assert not fit({name: None if shape is None else np.ones(shape)}), (name, shape)
    for name, value in valid.items():
        for bad in (np.full_like(value, np.nan), np.full_like(value, np.inf), value.astype("f4"), value.astype(int)):
            assert not fit({name: bad}), (name, bad)
    empty = {"posterior.whitened_mean": np.ones((0, 1)), "posterior.whitened_factor": np.ones((1, 0, 0))}
    assert not fit(empty | {"inducing": np.ones((0, D))})
    with pytest.raises(ModelFolderError, match="the model is damaged, its arrays do not fit each other$"):
        open_model(write(folder, {"parameters.inducing": None}))
