"""Predictions of GPC against Monte Carlo over q(u) and p(f* | u) by dense formulas."""

import tracemalloc

import numpy as np
import pytest
from scipy.special import expit
from sklearn.gaussian_process.kernels import RBF
from sklearn.preprocessing import StandardScaler

import xmlgp
from tests.problems import small_dataset, small_features
from xmlgp import api
from xmlgp.data.dataset import Dataset
from xmlgp.errors import ModelFolderError
from xmlgp.gpc.model import GPCPredictor
from xmlgp.gpc.settings import GPCSettings
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.runs.trained_model import open_predictor

D, M = 25, 6
DRAWS = 20_000


def points(density, N=8, seed=9):
    return small_features(N, D, density, seed)


def model(path, density=0.25, **chosen):
    """Write a model with random parameters, none of them small or symmetric."""
    dataset = Dataset(points(density, 40, 0), small_dataset(K=1).labels)
    folder = api.preprocess(dataset, path, settings=GPCSettings(inducing_count=M, nodes=30, **chosen))
    random = np.random.default_rng(3)
    factor = np.tril(random.normal(size=(M, M)) / 3)
    parameters = {
        "inducing": folder.array("preprocess.inducing").astype(float) + random.normal(size=(M, D)) / 3,
        "kernel.se.log_variance": np.array(0.7),
        "kernel.se.log_lengthscale": np.array(1.3),
        "kernel.noise.log_variance": np.array(-1.5),
        "posterior.mean": random.normal(size=(M, 1)),
        "posterior.factor": factor[None],
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


def draws_of_f(folder, density, features):
    """Return draws of f, DRAWS×N, from q(u), then p(f* | u), at points standardised by scikit-learn."""
    p = folder.arrays("parameters.")
    seen = features.toarray().astype(float)
    inducing = p["inducing"]
    if folder.settings.standardise:
        scaler = StandardScaler().fit(points(density, 40, 0).toarray().astype(float))
        seen = scaler.transform(seen)
        # Constant features are ignored.
        seen[:, scaler.var_ == 0] = 0
        if density == 0.05:
            # Sparse points are not centred by the model, so shift its inducing inputs as well.
            inducing = inducing - scaler.mean_ / scaler.scale_
    kernel = RBF(np.exp(p["kernel.se.log_lengthscale"]))
    variance, noise = np.exp(p["kernel.se.log_variance"]), np.exp(p["kernel.noise.log_variance"])
    prior = variance * kernel(inducing) + noise * np.eye(M)
    weights = np.linalg.solve(prior, variance * kernel(inducing, seen)).T
    left_over = variance + noise - np.einsum("im,im->i", weights, variance * kernel(seen, inducing))
    factor = p["posterior.factor"][0].copy()
    np.fill_diagonal(factor, np.exp(np.diagonal(factor)))
    random = np.random.default_rng(0)
    u = p["posterior.mean"][:, 0] + random.normal(size=(DRAWS, M)) @ factor.T
    return u @ weights.T + np.sqrt(left_over) * random.normal(size=(DRAWS, len(seen)))


def assert_agrees(found, draws):
    """Assert that values match the means of draws, and that these means are precise."""
    error = draws.std(axis=0) / np.sqrt(DRAWS)
    assert np.abs((found - draws.mean(axis=0)) / error).max() < 5
    assert error.max() < 0.1 * np.ptp(found)


@pytest.mark.parametrize(("density", "standardise"), [(0.05, True), (0.25, True), (0.25, False)])
def test_scores_agree_with_monte_carlo(tmp_path, density, standardise):
    folder = model(tmp_path, density, standardise=standardise)
    if standardise:
        assert folder.array("preprocess.center").any() == (density == 0.25)
    features = points(density)
    draws = draws_of_f(folder, density, features)
    predictor = open_predictor(folder)
    for output, drawn in (("utility", draws), ("probability", expit(draws))):
        scores, std = predictor.score(features, output, with_std=True)
        assert scores.shape == std.shape == (8, 1)
        assert scores.dtype == std.dtype == np.float64
        assert_agrees(scores[:, 0], drawn)
        assert_agrees(std[:, 0] ** 2, (drawn - scores[:, 0]) ** 2)


def test_memory_is_bounded(tmp_path):
    predictor, many = open_predictor(model(tmp_path)), small_features(15_000, D, 0.25, seed=4)
    list(predictor.top(many[:9], 1, "probability", with_std=True))
    tracemalloc.start()
    pieces = 0
    for _ in predictor.top(many, 1, "probability", with_std=True, memory=2):
        pieces += 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert pieces > 1
    assert peak < 4 << 20


def test_trained_model_predicts_its_training_points(tmp_path):
    dataset = small_dataset(N=100, D=D, K=1)
    predictor = xmlgp.train(dataset, tmp_path, settings=GPCSettings(inducing_count=30, iterations=20)).predictor
    assert type(predictor) is GPCPredictor
    assert predictor.default_output == "probability"
    probability = predictor.score(dataset.features, "probability")[0]
    truth = dataset.labels.toarray()
    assert ((probability > 0.5) == truth).mean() > max(truth.mean(), 1 - truth.mean()) + 0.05


DAMAGE = {
    "inducing": [(M - 1, D), (M, D - 1)],
    "kernel.se.log_variance": [(2,)],
    "kernel.se.log_lengthscale": [(D,)],
    "kernel.noise.log_variance": [None],
    "posterior.mean": [(M + 1, 1), (M, 2), (M,)],
    "posterior.factor": [(2, M, M), (1, M, M - 1), ()],
    "extra": [()],
    "kernel.linear.log_variance": [()],
}


def test_damaged_parameters_are_rejected(tmp_path):
    folder = model(tmp_path)
    known = {name: np.array(value) for name, value in folder.arrays("parameters.").items()}

    def fit(changes):
        parameters = {name: value for name, value in (known | changes).items() if value is not None}
        return GPCPredictor.parameters_fit(folder.settings, parameters, D, 1)

    assert fit({})
    for name, shapes in DAMAGE.items():
        for shape in shapes:
            assert not fit({name: None if shape is None else np.ones(shape)}), (name, shape)
    for name, value in known.items():
        for bad in (np.full_like(value, np.nan), np.full_like(value, np.inf), value.astype("f4"), value.astype(int)):
            assert not fit({name: bad}), (name, bad)
    assert not fit(
        {"inducing": np.ones((0, D)), "posterior.mean": np.ones((0, 1)), "posterior.factor": np.ones((1, 0, 0))}
    )
    with pytest.raises(ModelFolderError, match="the model is damaged, its arrays do not fit each other$"):
        open_predictor(write(folder, {"parameters.inducing": None}))


NAN = np.where(np.arange(D) == 7, np.nan, 1)
PREPROCESSED = {
    "scale": [None, np.ones(D - 1), np.ones((1, D)), NAN],
    "center": [None, np.ones(D + 1), np.ones((D, 1)), np.array(1.0), NAN],
    "inducing": [None, np.ones((M, D - 1))],
    "idf": [np.ones(D)],
}
