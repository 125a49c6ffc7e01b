"""Closed-form updates of q(W), label by label, that raise the bound of Jaakkola and Jordan.

Given the rest of the utilities, f_ik = o_ik + w_kᵀ x_i, and pairs (i, k) with weights c_ik, the bound of a label is

    F_k = Σ_i c_ik [y_ik f̄_ik − ½ f̄_ik − log(2 cosh(½ ξ_ik))] − KL[q(w_k) ‖ p(w_k)],   ξ_ik² = E f_ik²,

with y_ik ∈ {0, 1}, and the prior p(w_kd) = N(0, 1/π_kd), 1/π_kd = ρ_k τ_d. With Λ_ik = 2 c_ik λ(ξ_ik) the bound is
largest at the variances 1/v_kd = π_kd + Σ_i Λ_ik x_id² and at the means of the linear system

    (diag(π_k) + Σ_i Λ_ik x_i x_iᵀ) m_k = Σ_i ((y_ik − ½) c_ik − Λ_ik o_ik) x_i,

which conjugate gradient steps approach from the current means. Each of these updates raises the bound, there is no
learning rate, and labels are independent of each other. Newton's method, with the logistic curvature in place of Λ,
overshoots where utilities are far below zero.

Source: T. Jaakkola, M. Jordan, Bayesian parameter estimation via variational methods, Statistics and Computing 10,
2000.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.gp.expectations.closed_form import expected_softplus_and_slope
from xmlgp.linear_algebra.compiled import compiled, compiled_part
from xmlgp.linear_algebra.elementary import logarithm
from xmlgp.models.mlgpf.label_weights.pairs import LabelPairs
from xmlgp.models.mlgpf.label_weights.posterior import LabelWeights
from xmlgp.runtime.threads import run_parallel

__all__ = ["update_label_weights"]

#: Tasks that a block of labels is split into, of about equal numbers of pairs.
TASKS = 16

#: Conjugate gradient steps end at this share of the squared residual they start from.
CG_TOLERANCE = 1e-3

#: Elements of the features of a label's pairs for which a task has memory at first.
FIRST_CAPACITY = 1024


class _Design(NamedTuple):
    """Features of points, as the arrays of a csr_array."""

    indptr: NDArray[np.integer]
    indices: NDArray[np.integer]
    values: NDArray[Any]


class _Pairs(NamedTuple):
    """`LabelPairs` with their offsets, and targets and weights of the type of the label weights."""

    starts: NDArray[np.int64]
    points: NDArray[np.int32]
    target: NDArray[Any]
    weight: NDArray[Any]
    offset: NDArray[Any]


def update_label_weights(
    pairs: LabelPairs,
    offset: NDArray[Any],
    features: csr_array,
    weights: LabelWeights,
    precisions: NDArray[Any],
    rounds: int,
    cg_steps: int,
) -> NDArray[np.float64]:
    """Update m and log v of L labels in place; return their bounds F_k before the last round, L.

    The pairs have offsets o, the utilities without W x. X is weighted; the precisions are π. Each round updates ξ, v
    and, by at most `cg_steps` conjugate gradient steps, m.
    """
    count = len(pairs.starts) - 1
    bounds = np.zeros(count)
    # The loops below take two seconds to compile for each combination of types.
    target, weight = (array.astype(weights.mean.dtype, copy=False) for array in (pairs.target, pairs.weight))
    indptr = features.indptr.astype(np.int64, copy=False)
    design = _Design(indptr, features.indices.astype(np.int32, copy=False), features.data)
    arguments = _Pairs(pairs.starts, pairs.points, target, weight, offset), design, weights, precisions
    cuts = np.searchsorted(pairs.starts, pairs.starts[-1] * np.arange(1, TASKS) // TASKS)
    ends = np.unique([0, *np.minimum(cuts, count), count])
    run_parallel(
        partial(_update_labels, start, *arguments, rounds, cg_steps, bounds[start:stop])
        for start, stop in pairwise(ends)
    )
    return bounds


@compiled
def _update_labels(  # noqa: C901
    first: int,
    pairs: _Pairs,
    design: _Design,
    weights: LabelWeights,
    precisions: NDArray[Any],
    rounds: int,
    cg_steps: int,
    bounds: NDArray[np.float64],
) -> None:
    """Update consecutive labels from `first` on, as many as there are `bounds`.

    The loops over rounds stay in one function: compiled apart, their sums round differently.
    """
    dtype = weights.mean.dtype
    real = dtype.type
    half = real(0.5)
    zero = real(0)
    one = real(1)
    # The index of each feature among those of the label; −1 for the others.
    position = np.full(len(weights.log_prior), -1, np.int32)
    capacity = FIRST_CAPACITY
    # Unsigned integers, for which Numba does not check whether they count from the end.
    inner = np.empty(capacity, np.uint32)
    values = np.empty(capacity, dtype)
    for label in range(first, first + len(bounds)):
        start = pairs.starts[label]
        n = pairs.starts[label + 1] - start
        base = weights.indptr[label]
        d = weights.indptr[label + 1] - base
        if n == 0:
            continue
        # The features of the label's pairs, renumbered; they stay in the cache for all rounds.
        for j in range(d):
            position[weights.features[base + j]] = j
        points = pairs.points[start : start + n]
        needed = 0
        for point in points:
            needed += design.indptr[point + 1] - design.indptr[point]
        if needed > capacity:
            # A frequent label may need most of the memory of this function.
            capacity = needed + needed // 4
            inner = np.empty(capacity, np.uint32)
            values = np.empty(capacity, dtype)
        rows = np.empty(n + 1, np.uint64)
        _select(points, design, position, _Design(rows, inner, values))
        target = pairs.target[start : start + n]
        weight = pairs.weight[start : start + n]
        offset = pairs.offset[start : start + n]
        precision = precisions[base : base + d]
        m = np.empty(d, dtype)
        v = np.empty(d, dtype)
        for j in range(d):
            position[weights.features[base + j]] = -1
            m[j] = weights.mean[base + j]
            v[j] = np.exp(weights.log_variance[base + j])
        utility = np.empty(n, dtype)
        curvature = np.empty(n, dtype)
        diagonal = np.empty(d, dtype)
        residual = np.empty(d, dtype)
        direction = np.empty(d, dtype)
        image = np.empty(d, dtype)
        # The utilities of the direction.
        along = np.empty(n, dtype)
        _fill_utilities(offset, rows, inner, values, m, utility)
        for r in range(rounds):
            likelihood = 0.0
            for j in range(d):
                diagonal[j] = precision[j]
                residual[j] = -precision[j] * m[j]
            for i in range(n):
                s = zero
                for e in range(rows[i], rows[i + 1]):
                    s += values[e] * values[e] * v[inner[e]]
                c = weight[i]
                softplus, slope = expected_softplus_and_slope(utility[i], s)
                curvature[i] = real(2) * c * real(slope)
                push = c * (target[i] - half) - curvature[i] * utility[i]
                for e in range(rows[i], rows[i + 1]):
                    residual[inner[e]] += push * values[e]
                    diagonal[inner[e]] += curvature[i] * values[e] * values[e]
                likelihood += c * (target[i] * utility[i] - softplus)
            if r == rounds - 1:
                bounds[label - first] = likelihood - _divergence(m, v, precision)
            square = zero
            for j in range(d):
                v[j] = one / diagonal[j]
                direction[j] = residual[j] * v[j]
                square += residual[j] * direction[j]
            least = real(CG_TOLERANCE) * square
            for _ in range(cg_steps):
                if not square > least:
                    break
                for j in range(d):
                    image[j] = precision[j] * direction[j]
                for i in range(n):
                    total = zero
                    for e in range(rows[i], rows[i + 1]):
                        total += values[e] * direction[inner[e]]
                    along[i] = total
                    total *= curvature[i]
                    for e in range(rows[i], rows[i + 1]):
                        image[inner[e]] += total * values[e]
                product = zero
                for j in range(d):
                    product += direction[j] * image[j]
                step = square / product
                for i in range(n):
                    utility[i] += step * along[i]
                before = square
                square = zero
                for j in range(d):
                    m[j] += step * direction[j]
                    residual[j] -= step * image[j]
                    square += residual[j] * residual[j] * v[j]
                for j in range(d):
                    direction[j] = residual[j] * v[j] + (square / before) * direction[j]
        for j in range(d):
            weights.mean[base + j] = m[j]
            weights.log_variance[base + j] = np.log(v[j])


@compiled_part
def _select(points: NDArray[np.int32], design: _Design, position: NDArray[np.int32], local: _Design) -> None:
    """Write the features of some points that have a position to `local`, by their positions."""
    end = np.uint64(0)
    for i in range(len(points)):
        local.indptr[i] = end
        for e in range(np.uint64(design.indptr[points[i]]), np.uint64(design.indptr[points[i] + 1])):
            j = position[np.uint32(design.indices[e])]
            # Without a branch, which would be mispredicted.
            local.indices[end] = j
            local.values[end] = design.values[e]
            end += np.uint64(j >= 0)
    local.indptr[len(points)] = end


@compiled_part
def _divergence(m: NDArray[Any], v: NDArray[Any], precision: NDArray[Any]) -> float:
    """Return KL[q(w_k) ‖ p(w_k)] of a label."""
    real = m.dtype.type
    divergence = 0.0
    for j in range(m.size):
        ratio = precision[j] * v[j]
        divergence += real(0.5) * (precision[j] * m[j] * m[j] + ratio - real(1) - logarithm(ratio))
    return divergence


@compiled_part
def _fill_utilities(
    offset: NDArray[Any],
    rows: NDArray[np.uint64],
    inner: NDArray[np.uint32],
    values: NDArray[Any],
    m: NDArray[Any],
    utility: NDArray[Any],
) -> None:
    """Write o + X m to `utility`, for the pairs of one label."""
    for i in range(utility.size):
        total = offset[i]
        for e in range(rows[i], rows[i + 1]):
            total += values[e] * m[inner[e]]
        utility[i] = total
