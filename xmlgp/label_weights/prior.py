"""The prior of W: N(0, ρ_k τ_d) in training, and where a model learns on the posterior of what it learned before."""

from typing import NamedTuple

import numpy as np

from xmlgp.gp.log_parameters import bounded_exp
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled

__all__ = ["PRIOR_VARIANCE", "WeightsPrior", "prior_of_training", "prior_scales", "update_prior_variances"]

#: Initial prior variance τ.
PRIOR_VARIANCE = 4.0

#: The prior variances of a label with n points are τ times 1 + this/n. Frequent labels decide τ. If it were the prior
#: variance of all labels, those with one or two points would have small weights and be predicted too rarely.
RARE_SPREAD = 4.0


class WeightsPrior(NamedTuple):
    """The prior p(w_kd) = N(a_kd, 1/π_kd) of the weights of some labels, in the order of the weights."""

    mean: np.ndarray
    precision: np.ndarray


def prior_scales(counts, dtype):
    """Return ρ_k = 1 + `RARE_SPREAD` / n_k, K, given the number of points n with each label, at least 1."""
    return (1 + RARE_SPREAD / np.maximum(counts, 1)).astype(dtype)


def prior_of_training(weights, scales):
    """Return the prior N(0, ρ_k τ_d) of all weights of a `LabelWeights`; scales are ρ, K."""
    precision = bounded_exp(-weights.log_prior)[weights.features]
    precision *= np.repeat((1 / scales).astype(precision.dtype), np.diff(weights.indptr))
    return WeightsPrior(np.zeros_like(precision), precision)


def update_prior_variances(weights, scales):
    """Update log τ in place: τ_d is the mean of (m_kd² + v_kd)/ρ_k over the labels with a weight of feature d.

    Only KL[q(W) ‖ p(W)] depends on τ, and it is least there. Features without weights keep theirs.
    """
    count = sparse.column_sums(weights.features, len(weights.log_prior))
    total = np.zeros(len(weights.log_prior))
    _add_second_moments(*weights[:4], scales, total)
    used = count > 0
    weights.log_prior[used] = np.log(total[used] / count[used])


@compiled
def _add_second_moments(indptr, columns, means, log_variances, scales, total):
    for k in range(indptr.size - 1):
        for e in range(indptr[k], indptr[k + 1]):
            total[columns[e]] += (means[e] * means[e] + np.exp(log_variances[e])) / scales[k]
