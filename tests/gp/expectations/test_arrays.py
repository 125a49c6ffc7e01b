"""All expectations on arrays of any shape, layout and size, and on extreme and invalid numbers."""

import numpy as np

from tests.grids import each_value
from xmlgp.gp.expectations import JaakkolaJordan, Quadrature, Taylor, expected_sigmoid

EXPECTATIONS = {"quadrature": Quadrature, "jj": JaakkolaJordan, "taylor": Taylor}


def results(name, mean, variance):
    """Return the value, both derivatives, and with quadrature the probability."""
    chosen = EXPECTATIONS[name]()
    values = [chosen.expected_softplus(mean, variance), *chosen.gradients(mean, variance)]
    return [*values, expected_sigmoid(mean, variance)] if name == "quadrature" else values


@each_value(name=list(EXPECTATIONS), dtype=[np.float32, np.float64], of_means=[True, False])
def test_nan_gives_nan(name, dtype, of_means):
    mean, variance = np.full(40, -20 if of_means else -2, dtype), np.full(40, 0.1, dtype)
    wrong = mean if of_means else variance
    wrong[[3, 33]] = np.nan
    value, d_mean, *others = results(name, mean, variance)
    for values in (value, d_mean, *(others if of_means else ())):
        assert np.array_equal(np.isnan(values), np.isnan(wrong))


@each_value(name=list(EXPECTATIONS), dtype=[np.float32, np.float64], variance=[0, 1e-30, 28.5, 3e38])
def test_extreme_inputs_give_finite_results(name, dtype, variance):
    magnitudes = np.array([0, 1e-30, 1, 30, 90, 800, 1e4, 3e38], dtype)
    mean = np.concatenate([magnitudes, -magnitudes])
    for values in results(name, mean, np.full_like(mean, variance)):
        assert values.dtype == dtype
        assert np.isfinite(values).all()


@each_value(name=list(EXPECTATIONS), dtype=[np.float32, np.float64], variance=[-1e-30, -1e-6, -0.1])
def test_negative_variances_count_as_zero(name, dtype, variance):
    mean = np.linspace(-5, 5, 11).astype(dtype)
    below, zero = results(name, mean, np.full_like(mean, variance)), results(name, mean, np.zeros_like(mean))
    for values, expected in zip(below, zero, strict=True):
        np.testing.assert_array_equal(values, expected)
    # The relative error of e^−|f| in quadrature.
    precision = 1e-5 if dtype == np.float32 else 1e-9
    np.testing.assert_allclose(below[0], np.log1p(np.exp(mean)), rtol=precision)


@each_value(name=list(EXPECTATIONS), dtype=[np.float32, np.float64])
def test_result_does_not_depend_on_chunks(name, dtype):
    # Some sizes end at a boundary of chunks or next to it; the pieces never do.
    random = np.random.default_rng(0)
    longest, piece = 2**16 + 1, 997
    mean, variance = random.normal(0, 3, longest).astype(dtype), random.random(longest).astype(dtype)
    pieces = [results(name, mean[i : i + piece], variance[i : i + piece]) for i in range(0, longest, piece)]
    expected, tolerance = [np.concatenate(parts) for parts in zip(*pieces, strict=True)], 8 * np.finfo(dtype).eps
    for size in (2**power + offset for power in range(10, 17) for offset in (-1, 0, 1)):
        for values, whole in zip(results(name, mean[:size], variance[:size]), expected, strict=True):
            np.testing.assert_allclose(values, whole[:size], rtol=tolerance, atol=tolerance)


@each_value(
    name=list(EXPECTATIONS), arrange=[np.asfortranarray, lambda a: np.repeat(a, 2, axis=1)[:, ::2], lambda a: a[::-1]]
)
def test_result_does_not_depend_on_the_memory_layout(name, arrange):
    random = np.random.default_rng(0)
    mean, variance = arrange(random.normal(size=(70, 300))), arrange(random.random((70, 300)))
    before = mean.copy(), variance.copy()
    expected = results(name, np.ascontiguousarray(mean), np.ascontiguousarray(variance))
    for values, other in zip(results(name, mean, variance), expected, strict=True):
        np.testing.assert_allclose(values, other, rtol=1e-14)
    np.testing.assert_array_equal(mean, before[0])
    np.testing.assert_array_equal(variance, before[1])


@each_value(name=["quadrature"], dtype=[np.float32, np.float64], variance=[0, 0.3, np.float64(2.5), -1])
def test_scalar_variance_is_broadcast_and_shapes_are_kept(name, dtype, variance):
    for shape in ((), (0,), (3, 0), (4, 3, 2)):
        mean = np.linspace(-3, 3, int(np.prod(shape)), dtype=dtype).reshape(shape)
        expected = results(name, mean, np.full_like(mean, variance))
        for values, other in zip(results(name, mean, variance), expected, strict=True):
            assert (values.dtype, values.shape) == (dtype, shape)
            np.testing.assert_array_equal(values, other)
