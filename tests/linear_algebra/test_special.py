"""Special functions against those of SciPy."""

import numpy as np
import pytest
import scipy.special

from xmlgp.linear_algebra.special import expit, log_factorials, logit


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_functions_are_those_of_scipy(dtype):
    precision = 4 * np.finfo(dtype).eps
    x = np.array([-np.inf, -80, -20, -1, -1e-3, 0, 0.5, 20, 80, np.inf, np.nan], dtype)
    assert expit(x).dtype == dtype
    np.testing.assert_allclose(expit(x), scipy.special.expit(x), rtol=precision)
    p = np.array([0.003, 0.2, 0.5, 0.9, 0.997], dtype)
    assert logit(p).dtype == dtype
    np.testing.assert_allclose(logit(p), scipy.special.logit(p), rtol=precision, atol=precision)


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_the_factorials_are_those_of_scipy(count):
    expected = scipy.special.gammaln(np.arange(count + 1) + 1.0)
    np.testing.assert_allclose(log_factorials(count), expected, rtol=1e-13, atol=1e-15)
