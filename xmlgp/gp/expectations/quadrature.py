"""Gaussian expectations of the logistic likelihood by Gauss–Hermite quadrature."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xmlgp.linear_algebra.compiled import compiled, compiled_part
from xmlgp.linear_algebra.elementary import polynomial, softplus
from xmlgp.runtime.threads import parallel_for

__all__ = ["DEFAULT_NODES", "Quadrature", "expected_sigmoid", "nodes_and_weights"]

#: Elements per chunk: the arrays of a chunk fit in the first-level cache of a core.
CHUNK = 1024

#: Least number of elements per thread.
GRAIN = 1 << 15

#: Quadrature nodes of [L] section 5.
DEFAULT_NODES = 10

#: (variance, nodes): up to this variance, so many nodes give E σ and ½ E σ(1 − σ) with an error of at most about 1e-4
#: for any mean, by comparison with 120 nodes.
SUFFICIENT_NODES = ((0.05, 2), (0.15, 3), (0.5, 4), (1.0, 6), (2.0, 8))

#: Three terms of the series in `_fill_tails` suffice up to this value of a² c³, the square root of the fourth term. The
#: error is then 1e-6.
FAST_TAIL = 1e-3

#: The same with an error below that of the quadrature.
EXACT_TAIL = 3e-5

#: Largest variance for that series: c³ is well within single precision.
LARGEST_VARIANCE = 28.0


@functools.cache
def nodes_and_weights(count: int, dtype: np.dtype[np.floating]) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return nodes z and weights w with E g(f) ≈ Σ_j w_j g(m + √v z_j), exact for polynomials up to 2·count − 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes.astype(dtype), (weights / weights.sum()).astype(dtype)


class Quadrature:
    """E log(1 + e^f), f ~ N(m, v), by Gauss–Hermite quadrature with some nodes."""

    def __init__(self, nodes: int = DEFAULT_NODES) -> None:
        self.nodes = nodes

    def expected_softplus(
        self, mean: NDArray[np.floating], variance: NDArray[np.floating] | float
    ) -> NDArray[np.floating]:
        """Return E log(1 + e^f), elementwise."""
        result = np.zeros(mean.shape, mean.dtype)
        # `broadcast_to` makes a read-only array, for which compiled functions are compiled again.
        _, variance = np.broadcast_arrays(mean, np.asarray(variance, mean.dtype))
        flat = np.ravel(mean), np.ravel(variance), result.reshape(-1)
        rule = nodes_and_weights(self.nodes, mean.dtype)

        def fill(start: int, stop: int) -> None:
            m, v, total = (array[start:stop] for array in flat)
            _add_softplus(m, v, total, *rule)

        parallel_for(fill, mean.size, GRAIN)
        return result

    def gradients(
        self, mean: NDArray[np.floating], variance: NDArray[np.floating] | float, for_step: bool = False
    ) -> list[NDArray[np.floating]]:
        """Return the derivatives E σ(f) by the mean and ½ E σ(f)(1 − σ(f)) by the variance, elementwise.

        With `for_step` it uses fewer nodes for small variances, and a series without nodes for very negative f. The
        error is at most about 1e-4, far below the noise of minibatches.
        """
        return _gradients(mean, variance, FAST_TAIL if for_step else 0, _rules(self.nodes, for_step, mean.dtype))


def expected_sigmoid(
    mean: NDArray[np.floating], variance: NDArray[np.floating] | float, nodes: int = DEFAULT_NODES
) -> NDArray[np.floating]:
    """Return the predictive probability E σ(f) under f ~ N(mean, variance), elementwise ([S] A.3)."""
    probability, _ = _gradients(mean, variance, EXACT_TAIL, _rules(nodes, False, mean.dtype))
    # Rounding can take the sum of the weights above one.
    np.minimum(probability, 1, out=probability)
    return probability


class _Rules(NamedTuple):
    """Quadrature rules, from which each chunk takes the first whose limit its largest variance does not exceed.

    The last rule has no limit. `counts` are the numbers of nodes; nodes and weights are rules×count.
    """

    limits: NDArray[np.floating]
    counts: NDArray[np.integer]
    nodes: NDArray[np.floating]
    weights: NDArray[np.floating]


@functools.cache
def _rules(count: int, fast: bool, dtype: np.dtype[np.floating]) -> _Rules:
    """Return the rules with at most `count` nodes; without `fast`, that with `count` nodes alone."""
    fewer = [(limit, nodes) for limit, nodes in SUFFICIENT_NODES if nodes < count] if fast else []
    counts = [nodes for _, nodes in fewer] + [count]
    tables = np.zeros((2, len(counts), count), dtype)
    for rule, nodes in enumerate(counts):
        tables[:, rule, :nodes] = nodes_and_weights(nodes, dtype)
    return _Rules(np.array([limit for limit, _ in fewer], dtype), np.array(counts), *tables)


class _Buffers(NamedTuple):
    """What a chunk is computed in: the elements that need quadrature and their positions, and numbers of all elements.

    Machine code that makes arrays takes longer to compile, and to load.
    """

    center: NDArray[np.floating]
    std: NDArray[np.floating]
    first: NDArray[np.floating]
    second: NDArray[np.floating]
    size: NDArray[np.floating]
    remaining: NDArray[np.uint32]

    @classmethod
    def empty(cls, dtype: np.dtype[np.floating]) -> _Buffers:
        """Return buffers for numbers of a type."""
        center, std, first, second, size = np.empty((5, CHUNK), dtype)
        return cls(center, std, first, second, size, np.empty(CHUNK + 1, np.uint32))


def _gradients(
    mean: NDArray[np.floating], variance: NDArray[np.floating] | float, tail: float, rules: _Rules
) -> list[NDArray[np.floating]]:
    """Return the derivatives by the mean and by the variance, elementwise; for the `tail` see `_fill_tails`."""
    results = [np.empty(mean.shape, mean.dtype) for _ in range(2)]
    _, variance = np.broadcast_arrays(mean, np.asarray(variance, mean.dtype))
    flat = np.ravel(mean), np.ravel(variance), results[0].reshape(-1), results[1].reshape(-1)
    limit = mean.dtype.type(tail)

    def fill(start: int, stop: int) -> None:
        m, v, d_m, d_v = (array[start:stop] for array in flat)
        _fill_gradients(m, v, d_m, d_v, limit, rules, _Buffers.empty(mean.dtype))

    parallel_for(fill, mean.size, GRAIN)
    return results


@compiled
def _add_softplus(
    mean: NDArray[np.floating],
    variance: NDArray[np.floating],
    total: NDArray[np.floating],
    nodes: NDArray[np.floating],
    weights: NDArray[np.floating],
) -> None:
    """Add the expectations; NumPy takes five times as long, at every tenth step of training."""
    real = mean.dtype.type
    std = np.empty(CHUNK, mean.dtype)
    for start in range(0, mean.size, CHUNK):
        center = mean[start : start + CHUNK]
        part = total[start : start + CHUNK]
        for k in range(center.size):
            std[k] = np.sqrt(max(variance[start + k], real(0)))
        for j in range(nodes.size):
            node = nodes[j]
            weight = weights[j]
            for k in range(center.size):
                part[k] += weight * softplus(center[k] + node * std[k])


@compiled_part
def _choose_rule(variance: NDArray[np.floating], limits: NDArray[np.floating]) -> int:
    """Return the index of the rule for a chunk; NaN selects the last, which has the most nodes."""
    # Assignments of arrays, maxima and other functions of NumPy would take seconds to compile.
    for rule in range(limits.size):
        larger = 0
        for k in range(variance.size):
            larger += not variance[k] <= limits[rule]
        if larger == 0:
            return rule
    return limits.size


@compiled_part
def _exp_minus(x: float, real: Callable[[float], float]) -> float:
    """Return e^−x for x ≥ 0, in vector instructions only.

    e^−x = (e^(−x/128))^128, with a Taylor polynomial for the inner exponential. The relative error is 1e-5 in single
    precision. In double precision it is 2e-9 up to x = 6, 3e-6 up to x = 20, and at most 2e-2. x is clipped to 80.
    """
    x = min(x, real(80)) * real(-1 / 128)
    p = polynomial(x, (1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0))
    for _ in range(7):
        p *= p
    return p


@compiled_part
def _fill_tails(
    mean: NDArray[np.floating],
    variance: NDArray[np.floating],
    d_mean: NDArray[np.floating],
    d_variance: NDArray[np.floating],
    tail: float,
    buffers: _Buffers,
) -> int:
    """Fill in the derivatives for very negative f by a series; return the number of the remaining elements.

    Their means and variances are then in the buffers `center` and `std`. For a `tail` of 0, all elements remain. σ(f) =
    e^f − e^2f + e^3f − …, and E e^nf = exp(nm + n²v/2) = aⁿ c^(n(n−1)/2) with a = exp(m + v/2) and c = e^v.
    """
    real = mean.dtype.type
    center, std, _, _, size, remaining = buffers
    if tail == real(0):
        size[: mean.size] = real(1)
    else:
        for k in range(mean.size):
            v = max(variance[k], real(0))
            x = mean[k] + real(0.5) * v
            a = _exp_minus(max(-x, real(0)), real)
            c = real(1) / _exp_minus(min(v, real(LARGEST_VARIANCE)), real)
            first = a * c
            second = a * c * c
            d_mean[k] = a * (real(1) - first * (real(1) - second))
            d_variance[k] = real(0.5) * a * (real(1) - first * (real(2) - real(3) * second))
            size[k] = first * second if x < real(0) and v < real(LARGEST_VARIANCE) else real(1)
    count = 0
    for k in range(mean.size):
        remaining[count] = k
        center[count] = mean[k]
        std[count] = variance[k]
        # NaN is one of them.
        count += not size[k] <= tail
    return count


@compiled
def _fill_gradients(
    means: NDArray[np.floating],
    variances: NDArray[np.floating],
    d_means: NDArray[np.floating],
    d_variances: NDArray[np.floating],
    tail: float,
    rules: _Rules,
    buffers: _Buffers,
) -> None:
    real = means.dtype.type
    center, std, first, second, _, remaining = buffers
    for start in range(0, means.size, CHUNK):
        d_mean = d_means[start : start + CHUNK]
        d_variance = d_variances[start : start + CHUNK]
        count = _fill_tails(
            means[start : start + CHUNK], variances[start : start + CHUNK], d_mean, d_variance, tail, buffers
        )
        rule = _choose_rule(std[:count], rules.limits)
        for k in range(count):
            # Rounding can take a variance below 0.
            std[k] = np.sqrt(max(std[k], real(0)))
            first[k] = real(0)
            second[k] = real(0)
        for j in range(rules.counts[rule]):
            node = rules.nodes[rule, j]
            weight = rules.weights[rule, j]
            for k in range(count):
                f = center[k] + node * std[k]
                # σ(|f|) = 1/(1 + e^−|f|), and σ(f)(1 − σ(f)) = e^−|f| σ(|f|)²: nothing overflows.
                e = _exp_minus(abs(f), real)
                above = real(1) / (real(1) + e)
                below = e * above
                first[k] += weight * (above if f >= real(0) else below)
                second[k] += weight * (above * below)
        for k in range(count):
            d_mean[remaining[k]] = first[k]
            d_variance[remaining[k]] = real(0.5) * second[k]
