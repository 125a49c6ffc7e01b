"""The logistic function against that of SciPy."""

import numpy as np
import pytest
import scipy.special

from xmlgp.linear_algebra.logistic import expit


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_logistic_function_is_that_of_scipy(dtype):
    precision = 4 * np.finfo(dtype).eps
    x = np.array([-np.inf, -80, -20, -1, -1e-3, 0, 0.5, 20, 80, np.inf, np.nan], dtype)
    assert expit(x).dtype == dtype
    np.testing.assert_allclose(expit(x), scipy.special.expit(x), rtol=precision)
