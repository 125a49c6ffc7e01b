"""Closed-form predictions against Monte Carlo over activations, integrals and the formula in double precision."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import quad
from scipy.stats import gamma

from tests.bmlpl.problems import UNWEIGHTED
from tests.grids import each_value
from xmlgp.bmlpl.predictor import LARGEST_LOG_ODDS, BMLPLPredictor
from xmlgp.bmlpl.settings import BMLPLSettings

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])

#: Relative error of three terms of the series of the logarithm.
SERIES_ERROR = 8e-6


def parameters(K=6, T=3, D=4, seed=0):
    random = np.random.default_rng(seed)
    return {
        "topics": random.dirichlet(np.full(K, 0.3), T).T,
        "weights": random.normal(size=(D, T)),
        "intercepts": random.normal(size=T),
        "shapes": random.gamma(1.0, size=T),
    }


def predictor_of(parameters, dtype=np.float64):
    D = len(parameters["weights"])
    return BMLPLPredictor(BMLPLSettings(dtype=np.dtype(dtype).name), UNWEIGHTED, parameters, D)


def direct(parameters, scales):
    """Return Σ_t r_t log(1 + v_kt e^ψ_t), B×K, in double precision."""
    return (parameters["shapes"] * np.log1p(scales[:, None] * parameters["topics"])).sum(axis=2)


def std_of_all_labels(predictor, scales, output, K=6):
    labels = np.ascontiguousarray(np.broadcast_to(np.arange(K), (len(scales), K)))
    return predictor.std(scales, labels, output)


@BOTH
def test_scales_are_clipped_to_finite_values(dtype):
    predictor = predictor_of(parameters(), dtype)
    result = predictor.prepare(sp.csr_array(1e30 * np.random.default_rng(1).normal(size=(5, 4))), "utility", False)
    assert result.dtype == dtype
    limits = np.exp([-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS])
    assert (np.isclose(result[..., None].astype(float), limits, rtol=1e-4)).any(axis=2).all()


@pytest.mark.parametrize("scale", [1e-5, 0.02, 0.5, 40.0])
def test_closed_form_is_the_integral_over_activations(scale):
    model = {"topics": np.array([[0.7], [0.3]]), "shapes": np.array([0.8])}
    model |= {"weights": np.zeros((1, 1)), "intercepts": np.zeros(1)}
    scales, predictor = np.array([[scale]]), predictor_of(model)
    density, end = gamma(0.8, scale=scale), gamma.isf(1e-14, 0.8, scale=scale)

    def moment(function):
        # Integrated over √u, where the density has no pole.
        return quad(lambda s: function(s * s) * density.pdf(s * s) * 2 * s, 0, np.sqrt(end), epsabs=1e-13, limit=200)[0]

    for k, v in enumerate([0.7, 0.3]):
        mean = moment(lambda u, v=v: -np.expm1(-v * u))
        result = -np.expm1(-predictor.scores(scales, slice(0, 2), "utility")[0, k])
        assert result == pytest.approx(mean, rel=2 * SERIES_ERROR)
        second = moment(lambda u, v=v, mean=mean: (-np.expm1(-v * u) - mean) ** 2)
        assert std_of_all_labels(predictor, scales, "probability", 2)[0, k] == pytest.approx(np.sqrt(second), rel=1e-5)
        assert std_of_all_labels(predictor, scales, "utility", 2)[0, k] == pytest.approx(
            v * scale * np.sqrt(0.8), rel=1e-12
        )


@each_value(dtype=[np.float32, np.float64], width=[1, 4, 50, 1000])
def test_rates_agree_with_the_formula_for_all_scales_and_blocks(width, dtype):
    model = parameters(K=50, T=9, seed=4)
    model["topics"][:, 2] = 0
    model["topics"][7, 2] = 1
    random = np.random.default_rng(5)
    model = {name: value.astype(dtype) for name, value in model.items()}
    scales = np.exp(random.uniform(-LARGEST_LOG_ODDS, LARGEST_LOG_ODDS, (30, 9))).astype(dtype)
    predictor = predictor_of(model, dtype)
    result = np.hstack(
        [predictor.scores(scales, slice(start, start + width), "utility") for start in range(0, 50, width)]
    )
    assert result.dtype == dtype
    expected = direct({name: value.astype(float) for name, value in model.items()}, scales.astype(float))
    np.testing.assert_allclose(result, expected, rtol=1.5e-5 if dtype == np.float32 else SERIES_ERROR)


@each_value(dtype=[np.float32, np.float64], least=[0.0, 1e-37, 1e-30, 1e-16])
def test_rates_of_tiny_weights_are_accurate_for_the_largest_scale(least, dtype):
    model = {"topics": np.array([[1.0, 1.0], [least, least / 2]]), "shapes": np.array([1.5, 0.1])}
    model |= {"weights": np.zeros((1, 2)), "intercepts": np.zeros(2)}
    scales = np.full((1, 2), np.exp(LARGEST_LOG_ODDS), dtype)
    result = predictor_of(model, dtype).scores(scales, slice(1, 2), "utility")
    np.testing.assert_allclose(result, direct(model, scales.astype(float))[:, 1:], rtol=2e-5)


@each_value(dtype=[np.float32, np.float64], log_odds=[-LARGEST_LOG_ODDS, 0, LARGEST_LOG_ODDS])
def test_std_is_finite_for_all_scales(log_odds, dtype):
    T = 300
    model = {"topics": np.ones((1, T)), "shapes": np.ones(T), "weights": np.zeros((1, T)), "intercepts": np.zeros(T)}
    scales = np.full((1, T), np.exp(log_odds), dtype)
    predictor = predictor_of(model, dtype)
    assert np.isfinite(std_of_all_labels(predictor, scales, "utility", 1)).all()
    std = std_of_all_labels(predictor, scales, "probability", 1)
    assert std.dtype == dtype
    assert (std >= 0).all()
    assert (std <= 0.5).all()
    if log_odds < 0:
        # For tiny activations the probability is the rate.
        np.testing.assert_allclose(std, std_of_all_labels(predictor, scales, "utility", 1), rtol=1e-4)


def test_std_is_of_the_given_labels():
    predictor, scales = predictor_of(parameters()), np.array([[0.1, 2.0, 5.0], [1.0, 0.3, 0.2]])
    labels = np.array([[5, 0], [3, 3]])
    whole = std_of_all_labels(predictor, scales, "probability")
    np.testing.assert_array_equal(
        predictor.std(scales, labels, "probability"), np.take_along_axis(whole, labels, axis=1)
    )
