"""Initial parameters: a Newton step increases the likelihood, from all points or from some."""

import numpy as np

from tests.grids import grid
from tests.problems import small_dataset
from xmlgp.gp.inner_products import Points
from xmlgp.gp.posteriors import POSTERIORS
from xmlgp.mlgpf import inducing as module
from xmlgp.mlgpf.inducing import InducingMethod
from xmlgp.mlgpf.settings import MLGPFSettings
from xmlgp.preprocess.inputs import Inputs

SMALL = {"inducing": "free", "inducing_count": 6, "factors": 4, "dtype": "float64"}


def started(seed=0, points=None, **chosen):
    """Return initial parameters, and the log likelihood of the labels at the mean utilities."""
    dataset = small_dataset(N=300)
    settings = MLGPFSettings(**SMALL | chosen)
    coordinates = Inputs(dataset.features, None, np.float64)
    method = InducingMethod(settings)
    inducing = dataset.features[:6].toarray()
    parameters = method.initial(coordinates, dataset.labels, inducing, np.random.default_rng(seed))
    latent = method.predict(parameters).mean(Points(*coordinates.rows(np.arange(300))))
    utility = latent @ parameters["loadings"].T + parameters["bias"]
    positive = dataset.labels.toarray()
    return parameters, -np.logaddexp(0, np.where(positive, -utility, utility)).sum()


@grid(posterior=list(POSTERIORS), kernel=["linear", "se+linear"], chunk=[7, 1000])
def test_newton_start_has_a_higher_likelihood_than_a_random_start(monkeypatch, posterior, kernel, chunk):
    monkeypatch.setattr(module, "CHUNK", chunk)
    options = {"posterior": posterior, "kernel": kernel, "lengthscale": 5.0}
    _, random = started(start="random", **options)
    _, newton = started(**options)
    assert newton > random + 0.05 * abs(random)


def test_newton_start_from_some_points_has_a_higher_likelihood_than_a_random_start(monkeypatch):
    whole, likelihood = started()
    monkeypatch.setattr(module, "NEWTON_POINTS", 200)
    some, lower = started()
    _, random = started(start="random")
    assert (some["loadings"] != whole["loadings"]).any()
    assert random < lower < likelihood + 0.1 * (likelihood - random)


def test_factors_beyond_the_newton_directions_stay_random():
    newton, _ = started(factors=20)
    random, _ = started(factors=20, start="random")
    same = (newton["loadings"] == random["loadings"]).all(axis=0)
    assert 0 < np.count_nonzero(~same) <= 6
    np.testing.assert_array_equal(newton["posterior.mean"][:, same], random["posterior.mean"][:, same])


def test_same_seed_gives_the_same_start(monkeypatch):
    monkeypatch.setattr(module, "NEWTON_POINTS", 50)
    for name, value in started(seed=3)[0].items():
        np.testing.assert_array_equal(value, started(seed=3)[0][name])


def test_start_is_random_if_inducing_inputs_have_no_features():
    dataset = small_dataset(N=30)
    coordinates = Inputs(dataset.features, None, np.float64)
    inducing = np.zeros((6, dataset.D))
    parameters, expected = (
        InducingMethod(MLGPFSettings(start=start, **SMALL)).initial(
            coordinates, dataset.labels, inducing, np.random.default_rng(0)
        )
        for start in ("newton", "random")
    )
    np.testing.assert_array_equal(parameters["loadings"], expected["loadings"])
