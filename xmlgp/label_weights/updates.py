"""Closed-form updates of q(W), label by label, that raise the bound of Jaakkola and Jordan.

Given the rest of the utilities, f_ik = o_ik + w_kᵀ x_i, and pairs (i, k) with weights c_ik, the bound of a label is

    F_k = Σ_i c_ik [y_ik f̄_ik − ½ f̄_ik − log(2 cosh(½ ξ_ik))] − KL[q(w_k) ‖ p(w_k)],   ξ_ik² = E f_ik²,

with y_ik ∈ {0, 1} for a pair of one point, and a prior p(w_kd) = N(a_kd, 1/π_kd). In training that is N(0, ρ_k τ_d),
and where a model learns on it is the posterior of what was learned before. With Λ_ik = 2 c_ik λ(ξ_ik) the bound is
largest at the variances 1/v_kd = π_kd + Σ_i Λ_ik x_id² and at the means of the linear system

    (diag(π_k) + Σ_i Λ_ik x_i x_iᵀ) m_k = π_k a_k + Σ_i ((y_ik − ½) c_ik − Λ_ik o_ik) x_i,

which conjugate gradient steps approach from the current means. Each of these updates raises the bound, there is no
learning rate, and labels are independent of each other. Newton's method, with the logistic curvature in place of Λ,
overshoots where utilities are far below zero.

Source: T. Jaakkola, M. Jordan, Bayesian parameter estimation via variational methods, Statistics and Computing 10,
2000.
"""

from functools import partial
from itertools import pairwise

import numpy as np

from xmlgp.gp.expectations.closed_form import expected_softplus_and_slope
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.elementary import logarithm
from xmlgp.runtime.threads import run_parallel

__all__ = ["update_label_weights"]

#: Tasks that a block of labels is split into, of about equal numbers of pairs.
TASKS = 16

#: Conjugate gradient steps end at this share of the squared residual they start from.
CG_TOLERANCE = 1e-3


def update_label_weights(pairs, offset, features, weights, prior, rounds, cg_steps):
    """Update m and log v of L labels in place; return their bounds F_k before the last round, L.

    The `LabelPairs` have offsets o, the utilities without W x. X is weighted; weights are `LabelWeights`, the prior is
    their `WeightsPrior`. Each round updates ξ, v and, by at most `cg_steps` conjugate gradient steps, m.
    """
    count = len(pairs.starts) - 1
    bounds = np.zeros(count)
    # The loops below take two seconds to compile for each combination of types.
    target, weight = (part.astype(weights.mean.dtype, copy=False) for part in (pairs.target, pairs.weight))
    arrays = pairs.starts, pairs.points, target, weight, offset, *weights[:4], *prior, features.shape[1]
    design = features.indptr.astype(np.int64, copy=False), features.indices.astype(np.int32, copy=False), features.data
    arrays = *arrays, *design, rounds, cg_steps, bounds
    cuts = np.searchsorted(pairs.starts, pairs.starts[-1] * np.arange(1, TASKS) // TASKS)
    ends = np.unique([0, *np.minimum(cuts, count), count])
    run_parallel(partial(_update_labels, start, stop, *arrays) for start, stop in pairwise(ends))
    return bounds


@compiled
def _fill_utilities(offset, rows, inner, values, m, utility):
    """Write o + X m to `utility`, for the pairs of one label."""
    for i in range(utility.size):
        total = offset[i]
        for e in range(rows[i], rows[i + 1]):
            total += values[e] * m[inner[e]]
        utility[i] = total


@compiled
def _update_labels(
    start, stop, starts, points, target, weight, offset,
    indptr, columns, means, log_variances, prior_means, prior_precisions, feature_count,
    x_indptr, x_indices, x_values, rounds, cg_steps, bounds,
):  # fmt: skip
    dtype = means.dtype
    real = dtype.type
    half = real(0.5)
    zero = real(0)
    one = real(1)
    # The index of each feature among those of the label; −1 for the others.
    position = np.full(feature_count, -1, np.int32)
    capacity = 1024
    inner = np.empty(capacity, np.int32)
    values = np.empty(capacity, dtype)
    for label in range(start, stop):
        first = starts[label]
        n = starts[label + 1] - starts[label]
        base = indptr[label]
        d = indptr[label + 1] - base
        if n == 0:
            continue
        # The features of the label's pairs, renumbered; they stay in the cache for all rounds.
        for j in range(d):
            position[columns[base + j]] = j
        needed = 0
        for i in range(first, first + n):
            needed += x_indptr[points[i] + 1] - x_indptr[points[i]]
        if needed > capacity:
            # A frequent label may need most of the memory of this function.
            capacity = needed + needed // 4
            inner = np.empty(capacity, np.int32)
            values = np.empty(capacity, dtype)
        rows = np.empty(n + 1, np.int64)
        end = 0
        for i in range(n):
            rows[i] = end
            for e in range(x_indptr[points[first + i]], x_indptr[points[first + i] + 1]):
                j = position[x_indices[e]]
                if j >= 0:
                    inner[end] = j
                    values[end] = x_values[e]
                    end += 1
        rows[n] = end
        m = np.empty(d, dtype)
        v = np.empty(d, dtype)
        center = prior_means[base : base + d]
        prior = prior_precisions[base : base + d]
        for j in range(d):
            position[columns[base + j]] = -1
            m[j] = means[base + j]
            v[j] = np.exp(log_variances[base + j])
        utility = np.empty(n, dtype)
        curvature = np.empty(n, dtype)
        diagonal = np.empty(d, dtype)
        residual = np.empty(d, dtype)
        direction = np.empty(d, dtype)
        image = np.empty(d, dtype)
        _fill_utilities(offset[first : first + n], rows, inner, values, m, utility)
        for r in range(rounds):
            likelihood = 0.0
            for j in range(d):
                diagonal[j] = prior[j]
                residual[j] = prior[j] * (center[j] - m[j])
            for i in range(n):
                s = zero
                for e in range(rows[i], rows[i + 1]):
                    s += values[e] * values[e] * v[inner[e]]
                c = weight[first + i]
                softplus, slope = expected_softplus_and_slope(utility[i], s)
                curvature[i] = real(2) * c * real(slope)
                push = c * (target[first + i] - half) - curvature[i] * utility[i]
                for e in range(rows[i], rows[i + 1]):
                    residual[inner[e]] += push * values[e]
                    diagonal[inner[e]] += curvature[i] * values[e] * values[e]
                likelihood += c * (target[first + i] * utility[i] - softplus)
            if r == rounds - 1:
                divergence = 0.0
                for j in range(d):
                    ratio = prior[j] * v[j]
                    distance = m[j] - center[j]
                    divergence += half * (prior[j] * distance * distance + ratio - one - logarithm(ratio))
                bounds[label] = likelihood - divergence
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
                    image[j] = prior[j] * direction[j]
                for i in range(n):
                    total = zero
                    for e in range(rows[i], rows[i + 1]):
                        total += values[e] * direction[inner[e]]
                    total *= curvature[i]
                    for e in range(rows[i], rows[i + 1]):
                        image[inner[e]] += total * values[e]
                product = zero
                for j in range(d):
                    product += direction[j] * image[j]
                step = square / product
                before = square
                square = zero
                for j in range(d):
                    m[j] += step * direction[j]
                    residual[j] -= step * image[j]
                    square += residual[j] * residual[j] * v[j]
                for j in range(d):
                    direction[j] = residual[j] * v[j] + (square / before) * direction[j]
            _fill_utilities(offset[first : first + n], rows, inner, values, m, utility)
        for j in range(d):
            means[base + j] = m[j]
            log_variances[base + j] = np.log(v[j])
