"""Exponentials of parameters cannot overflow, wherever these lie, and their gradients are exact on either side."""

import itertools

import numpy as np
import pytest

from tests.gp.test_bound import COMPONENTS, M, label_weights, problem, sampled, written_out
from tests.grids import grid
from xmlgp.errors import NumericalError
from xmlgp.gp.bound import Batch, Bound
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inner_products import Points
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.label_weights import LABEL_WEIGHTS_FIXED
from xmlgp.gp.log_parameters import LIMIT, bounded_exp, bounded_exp_derivative, checked_log, is_inside
from xmlgp.gp.posteriors import POSTERIORS

PRECISIONS = pytest.mark.parametrize("dtype", [np.float32, np.float64])
FAR = (LIMIT + 1, 100.0, 1e30, 3e38)


@PRECISIONS
def test_within_the_limit_they_are_those_of_numpy(dtype):
    x = np.linspace(-LIMIT, LIMIT, 1001).astype(dtype)
    np.testing.assert_array_equal(bounded_exp(x), np.exp(x))
    np.testing.assert_array_equal(bounded_exp(x, 0.5), np.exp(0.5 * x))
    out = np.empty_like(x)
    assert bounded_exp(x, out=out) is out
    np.testing.assert_array_equal(out, np.exp(x))
    scalar = bounded_exp(np.array(1.25, dtype))
    assert scalar == np.exp(dtype(1.25))
    assert scalar.dtype == dtype


@PRECISIONS
def test_beyond_it_they_stay(dtype):
    x = np.array([LIMIT, *FAR, np.inf], dtype)
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(bounded_exp(x), np.exp(dtype(LIMIT)))
        np.testing.assert_array_equal(bounded_exp(-x), np.exp(dtype(-LIMIT)))
        # The product of two, and a square.
        assert np.isfinite(bounded_exp(x) * bounded_exp(x)).all()
    # What is no number stays none: a training that diverges has to be noticed.
    assert np.isnan(bounded_exp(np.array([np.nan], dtype))).all()


@PRECISIONS
def test_the_slope_agrees_with_central_differences(dtype):
    x = np.array([-1e30, -100, -LIMIT - 1e-3, 1e-3 - LIMIT, -5, 0, 5, LIMIT - 1e-3, LIMIT + 1e-3, 100, 1e30])
    step = 1e-5
    numeric = (bounded_exp(x + step) - bounded_exp(x - step)) / (2 * step)
    np.testing.assert_allclose(bounded_exp_derivative(bounded_exp(x.astype(dtype))), numeric, rtol=1e-4)
    np.testing.assert_array_equal(is_inside(bounded_exp(x.astype(dtype))), np.abs(x) < LIMIT)
    np.testing.assert_array_equal(is_inside(bounded_exp(x.astype(dtype), 0.5), 0.5), np.abs(x) < LIMIT)


def extreme_problem(terms, ard, posterior, coordinates, negatives, own, dtype):
    kernel, parameters, points, labels = problem(terms, ard, posterior, coordinates)
    weights, features = label_weights(np.random.default_rng(2)) if own else ({}, None)
    parameters |= weights
    parameters = {n: v if n in LABEL_WEIGHTS_FIXED else v.astype(dtype) for n, v in parameters.items()}
    pairs = None
    if negatives == "sampled":
        pairs = sampled(labels, np.random.default_rng(1))
        pairs = pairs._replace(weight=pairs.weight.astype(dtype))
    points = Points(points.coordinates.astype(dtype), points.residual.astype(dtype))
    bound = Bound(kernel, POSTERIORS[posterior], expectations=Quadrature(40 if dtype == np.float64 else 10))
    return bound, parameters, Batch(points, labels, pairs, 1.7, features)


def logarithms(parameters):
    return [name for name in parameters if ".log_" in name or name == "posterior.factor"]


def moved(parameters, name, value):
    """The same with logarithms, which those of a triangular factor are on its diagonal, at a value."""
    array = parameters[name].copy()
    if name == "posterior.factor":
        array[:, range(M), range(M)] = value
    else:
        array[...] = value
    return parameters | {name: array}


@grid(**COMPONENTS)
def test_the_bound_and_its_gradients_are_finite_at_extremes(terms, ard, posterior, coordinates, negatives, own):
    bound, parameters, batch = extreme_problem(terms, ard, posterior, coordinates, negatives, own, np.float32)
    names = logarithms(parameters)
    places = [{name: sign * x} for name in names for sign in (1, -1) for x in FAR[::2]]
    # All at once, upwards, downwards, and each way.
    places += [dict(zip(names, itertools.cycle(signs), strict=False)) for signs in ((100,), (-100,), (100, -100))]
    for place in places:
        there = parameters
        for name, value in place.items():
            there = moved(there, name, value)
        # What several do together can be too much, and is refused; one alone never is.
        alone = len(place) == 1
        with np.errstate(all="raise" if alone else "ignore", under="ignore"):
            try:
                value, gradients = written_out(*bound.value_and_gradients(there, batch))
            except NumericalError:
                assert not alone
                continue
        assert np.isfinite(value), place
        for name, gradient in gradients.items():
            assert np.isfinite(gradient).all(), (place, name)


@grid(**COMPONENTS)
def test_beyond_the_limit_gradients_agree_with_central_differences(terms, ard, posterior, coordinates, negatives, own):
    bound, parameters, batch = extreme_problem(terms, ard, posterior, coordinates, negatives, own, np.float64)
    for name in logarithms(parameters):
        for value in (LIMIT + 1, -LIMIT - 1):
            there = moved(parameters, name, value)
            _, gradients = written_out(*bound.value_and_gradients(there, batch))
            gradient = gradients[name]
            if name == "posterior.factor":
                gradient = gradient[:, range(M), range(M)]
            np.testing.assert_array_equal(gradient, 0, err_msg=name)
            values = [bound.value_and_gradients(moved(there, name, value + s), batch)[0] for s in (0.5, -0.5)]
            assert values[0] == values[1]


def test_a_start_beyond_the_limit_is_refused():
    assert checked_log(np.exp(LIMIT), "it") == pytest.approx(LIMIT)
    with pytest.raises(NumericalError, match=r"^it is 1e\+18, but must be from 4e-18 to 2e\+17$"):
        checked_log(1e18, "it")
    for lengthscale in (5e-324, 1e-30, 1e30, 1.7e308):
        with pytest.raises(NumericalError, match="^the lengthscale is .*, but must be from 2e-09 to 5e"):
            Kernel(["se"], False).initial(3, lengthscale, np.float32)
    for posterior in POSTERIORS.values():
        for diagonal in (5e-324, 1e30, 1.7e308):
            with pytest.raises(NumericalError, match="^the diagonal of Σ is .*, but must be from 4e-18 to 2e"):
                posterior.initial(3, 2, diagonal, np.random.default_rng(0), np.float32)
