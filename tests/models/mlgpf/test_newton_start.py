"""The Newton start against Newton steps of each label and their best low-rank approximation."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import approx_fprime
from scipy.special import expit

from tests.grids import each_value
from tests.problems import small_dataset
from xmlgp.features.inputs import Inputs
from xmlgp.gp.posteriors import POSTERIORS
from xmlgp.models.mlgpf import methods
from xmlgp.models.mlgpf import newton_start as start_in_closed_form
from xmlgp.models.mlgpf.methods import InducingMethod
from xmlgp.models.mlgpf.newton_start import DAMPING, newton_start
from xmlgp.models.mlgpf.settings import MLGPFSettings

SMALL = {"inducing": "free", "inducing_count": 6, "factors": 4, "dtype": "float64"}
N, M, K = 60, 5, 7


def started(seed=0, inducing_inputs=None, **chosen):
    """Return initial parameters, and the log likelihood of the labels at the mean utilities."""
    dataset = small_dataset(N=300)
    coordinates = Inputs(dataset.features, None, np.float64)
    method = InducingMethod(MLGPFSettings(**SMALL | chosen))
    start = dataset.features.sparse[:6].toarray() if inducing_inputs is None else inducing_inputs
    parameters = method.initial(coordinates, dataset.labels, start, np.random.default_rng(seed))
    latent = method.predict(parameters).mean(coordinates.rows(np.arange(300)))
    utility = latent @ parameters["loadings"].T + parameters["bias"]
    positive = dataset.labels.toarray()
    return parameters, -np.logaddexp(0, np.where(positive, -utility, utility)).sum()


@each_value(posterior=list(POSTERIORS), kernel=["linear", "se+linear"], chunk=[7, 1000])
def test_newton_start_has_a_higher_likelihood_than_a_random_start(monkeypatch, posterior, kernel, chunk):
    monkeypatch.setattr(methods, "CHUNK", chunk)
    options = {"posterior": posterior, "kernel": kernel, "lengthscale": 5.0}
    _, random = started(start="random", **options)
    _, newton = started(**options)
    assert newton > random + 0.05 * abs(random)


def test_newton_start_from_some_points_has_a_higher_likelihood_than_a_random_start(monkeypatch):
    whole, likelihood = started()
    monkeypatch.setattr(methods, "NEWTON_POINTS", 200)
    some, lower = started()
    _, random = started(start="random")
    assert (some["loadings"] != whole["loadings"]).any()
    assert random < lower < likelihood + 0.1 * (likelihood - random)
    for name, value in started()[0].items():
        np.testing.assert_array_equal(value, some[name])


def test_factors_beyond_the_newton_directions_stay_random():
    newton, random = (started(factors=20, start=start)[0] for start in ("newton", "random"))
    same = (newton["loadings"] == random["loadings"]).all(axis=0)
    assert 0 < np.count_nonzero(~same) <= 6
    np.testing.assert_array_equal(newton["posterior.mean"][:, same], random["posterior.mean"][:, same])


@pytest.fixture
def no_jitter(monkeypatch):
    monkeypatch.setattr(start_in_closed_form, "JITTER", 0)


def problem(seed=0, labels=K):
    random = np.random.default_rng(seed)
    points, inducing = random.normal(size=(N, 8)), random.normal(size=(M, 8))
    positives = random.random((N, labels)) < expit(points[:, :labels] - 1)
    return points @ inducing.T / 8, inducing @ inducing.T / 8, sp.csr_array(positives), random.normal(-1, 0.5, labels)


def step_of(cross, prior, positives, bias):
    """Return the Newton step from f = b for one label, by differences of the gradient of its log posterior."""

    def gradient(weights):
        return cross.T @ (positives - expit(bias + cross @ weights)) - prior @ weights

    hessian = np.array([approx_fprime(np.zeros(M), lambda w, j=j: gradient(w)[j], 1e-6) for j in range(M)])
    return -np.linalg.solve(hessian, gradient(np.zeros(M)))


@pytest.mark.usefixtures("no_jitter")
@each_value(seed=[0, 1], block=[2, 100])
def test_full_rank_start_is_the_newton_step_of_every_label(monkeypatch, seed, block):
    monkeypatch.setattr(start_in_closed_form, "LABEL_BLOCK", block)
    cross, prior, labels, bias = problem(seed)
    weights, loadings = newton_start(cross, prior, labels, bias, size=M)
    assert (weights.shape, loadings.shape) == ((M, M), (K, M))
    steps = np.stack([step_of(cross, prior, labels.toarray()[:, k], bias[k]) for k in range(K)], axis=1)
    np.testing.assert_allclose(cross @ weights @ loadings.T, DAMPING * cross @ steps, rtol=1e-4, atol=1e-6)
    assert np.square(loadings).sum() == pytest.approx(K)


@pytest.mark.usefixtures("no_jitter")
@pytest.mark.parametrize("size", [1, 4])
def test_lower_rank_start_is_the_best_approximation_of_that_rank(size):
    cross, prior, labels, bias = problem()
    weights, loadings = newton_start(cross, prior, labels, bias, M)
    whole = weights @ loadings.T
    weights, loadings = newton_start(cross, prior, labels, bias, size)
    root = np.sqrt(expit(bias) * expit(-bias))
    error = np.linalg.norm((cross @ (weights @ loadings.T - whole)) * root)
    singular = np.linalg.svd((cross @ whole) * root, compute_uv=False)
    assert error == pytest.approx(np.linalg.norm(singular[size:]), rel=1e-6)


@pytest.mark.usefixtures("no_jitter")
def test_scale_multiplies_the_weight_of_points():
    cross, prior, labels, bias = problem()
    one = newton_start(cross, prior, labels, bias, 3, scale=2)
    two = newton_start(np.vstack([cross, cross]), prior, sp.csr_array(sp.vstack([labels, labels])), bias, 3)
    np.testing.assert_allclose(one[0] @ one[1].T, two[0] @ two[1].T, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_directions_without_information_are_left_out(dtype):
    cross, prior, labels, bias = problem(labels=2)
    # Two labels give two directions. Equal inducing inputs, and one without covariance with any point, add none.
    cross[:, 1], prior[1], prior[:, 1] = cross[:, 0], prior[0], prior[:, 0]
    cross[:, 2], prior[2], prior[:, 2], prior[2, 2] = 0, 0, 0, 1
    weights, loadings = newton_start(*(a.astype(dtype) for a in (cross, prior)), labels, bias.astype(dtype), M)
    assert weights.dtype == loadings.dtype == dtype
    assert weights.shape[1] == 2
    assert np.isfinite(weights).all()
    assert np.abs(cross @ weights @ loadings.T).max() < 10


@pytest.mark.parametrize("case", ["no labels", "no points", "no covariance"])
def test_no_directions_without_labels_points_or_covariance(case):
    cross, prior, labels, bias = problem()
    cross, labels, bias = {
        "no labels": (cross, labels[:, :0], bias[:0]),
        "no points": (cross[:0], labels[:0], bias),
        "no covariance": (np.zeros_like(cross), labels, bias),
    }[case]
    weights, loadings = newton_start(cross, prior, labels, bias, 3)
    assert weights.shape[1] == loadings.shape[1] == 0
