"""Exponentials of log-transformed parameters do not overflow, and have no gradient where they are clipped."""

import itertools

import numpy as np
import pytest

from tests.gp.reference import FACTORS
from tests.gp.test_bound import COMPONENTS, M, dense_gradients, random_problem
from tests.grids import grid
from xmlgp.gp.bound import Bound
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.inducing import Inducing
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.parameters import LIMIT, bounded_exp, checked_log, is_inside
from xmlgp.gp.posteriors import POSTERIORS
from xmlgp.runtime.errors import NumericalError

PRECISIONS = pytest.mark.parametrize("dtype", [np.float32, np.float64])
BEYOND = (LIMIT + 1, 100.0, 1e30, 3e38)


@PRECISIONS
def test_exponential_inside_the_limits_is_that_of_numpy(dtype):
    x = np.linspace(-LIMIT, LIMIT, 1001).astype(dtype)
    np.testing.assert_array_equal(bounded_exp(x), np.exp(x))
    np.testing.assert_array_equal(bounded_exp(x, 0.5), np.exp(0.5 * x))
    scalar = bounded_exp(np.array(1.25, dtype))
    assert scalar == np.exp(dtype(1.25))
    assert scalar.dtype == dtype


@PRECISIONS
def test_exponential_beyond_the_limits_is_constant(dtype):
    x = np.array([LIMIT, *BEYOND, np.inf], dtype)
    assert not is_inside(bounded_exp(x)).any()
    near = np.array([1e-3 - LIMIT, -5, 0, LIMIT - 1e-3], dtype)
    assert is_inside(bounded_exp(near)).all()
    assert is_inside(bounded_exp(near, 0.5), 0.5).all()
    assert not is_inside(bounded_exp(-x, 0.5), 0.5).any()
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(bounded_exp(x), np.exp(dtype(LIMIT)))
        np.testing.assert_array_equal(bounded_exp(-x), np.exp(dtype(-LIMIT)))
        # The product of two is finite.
        assert np.isfinite(bounded_exp(x) * bounded_exp(x)).all()
    # NaN stays NaN, so that divergence is noticed.
    assert np.isnan(bounded_exp(np.array([np.nan], dtype))).all()


def log_parameters(parameters):
    """Return the names of the parameters that are logarithms, or whose diagonals are."""
    return [name for name in parameters if ".log_" in name or name in FACTORS]


def with_logarithms(parameters, name, value):
    """Return the parameters with the logarithms of one name at a value; those of a factor are its diagonal."""
    array = parameters[name].copy()
    if name in FACTORS:
        array[:, range(M), range(M)] = value
    else:
        array[...] = value
    return parameters | {name: array}


@grid(**COMPONENTS)
def test_bound_and_gradients_are_finite_at_extreme_logarithms(terms, ard, posterior, coordinates, negatives):
    kernel, parameters, batch = random_problem(terms, ard, posterior, coordinates, negatives, dtype=np.float32)
    bound = Bound(Inducing(kernel, POSTERIORS[posterior]), Quadrature(10))
    names = log_parameters(parameters)
    extremes = [{name: sign * x} for name in names for sign in (1, -1) for x in BEYOND[::2]]
    # All at once: large, small, and alternating.
    extremes += [dict(zip(names, itertools.cycle(signs), strict=False)) for signs in ((100,), (-100,), (100, -100))]
    for extreme in extremes:
        moved = parameters
        for name, value in extreme.items():
            moved = with_logarithms(moved, name, value)
        # Several extreme parameters together may be refused, a single one must not be.
        single = len(extreme) == 1
        with np.errstate(all="raise" if single else "ignore", under="ignore"):
            try:
                value, gradients = dense_gradients(*bound.value_and_gradients(moved, batch))
            except NumericalError:
                assert not single
                continue
        assert np.isfinite(value), extreme
        for name, gradient in gradients.items():
            assert np.isfinite(gradient).all(), (extreme, name)


@grid(**COMPONENTS)
def test_clipped_logarithms_have_no_gradient(terms, ard, posterior, coordinates, negatives):
    kernel, parameters, batch = random_problem(terms, ard, posterior, coordinates, negatives)
    bound = Bound(Inducing(kernel, POSTERIORS[posterior]), Quadrature(40))
    for name in log_parameters(parameters):
        for value in (LIMIT + 1, -LIMIT - 1):
            moved = with_logarithms(parameters, name, value)
            _, gradients = dense_gradients(*bound.value_and_gradients(moved, batch))
            gradient = gradients[name]
            if name in FACTORS:
                gradient = gradient[:, range(M), range(M)]
            np.testing.assert_array_equal(gradient, 0, err_msg=name)
            sides = [with_logarithms(moved, name, value + step) for step in (0.5, -0.5)]
            values = [bound.value_and_gradients(side, batch)[0] for side in sides]
            assert values[0] == values[1]


def test_initial_value_beyond_the_limits_raises_an_error():
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
