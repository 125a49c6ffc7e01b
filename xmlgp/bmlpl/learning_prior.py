"""The prior for learning on: what a trained BMLPL says about the earlier points, those that it was trained on."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from xmlgp.linear_algebra import sparse

__all__ = ["WeightPrior", "mean_point", "recover_counts", "weight_prior", "with_point"]


def recover_counts(topics, shares, positives, concentration):
    """Return the latent counts m_kt of the earlier points, K×T, from V, shares of topics and the number of positives.

    Topics are v_kt = (η + m_kt) / Σ_k (η + m_kt), so m_kt = v_kt (M_t + K η) − η with the sum M_t of the counts of a
    topic. A topic that some label has no counts of has the least weight η/(M_t + K η), from which M_t is known. Without
    such a label this is a lower bound. Another one is the number of positive labels times the share of the topic, up to
    how unequally labels exceed one latent count a positive label. The larger of both is used.
    """
    K, dtype = len(topics), topics.dtype
    least = topics.min(axis=0).astype(np.float64)
    normalisers = shares.astype(np.float64) * positives + K * concentration
    np.maximum(normalisers, np.divide(concentration, least, out=normalisers.copy(), where=least > 0), out=normalisers)
    counts = topics * normalisers.astype(dtype)
    counts -= dtype.type(concentration)
    # Rounding can make the count of a label that a topic does not have negative.
    return np.maximum(counts, 0, out=counts)


class WeightPrior(NamedTuple):
    """The curvature of the log posterior of the earlier points in W, which includes τ.

    It is −½ Σ_d P_dt δ_dt² − ½ s_t (x̄ᵀδ_t)² for a change δ of the weights, with the precisions P, d×T, and the
    strength s, T.
    """

    precisions: np.ndarray
    strength: np.ndarray


def mean_point(features, point_counts):
    """Return the mean x̄ of the earlier points, d, with values as in the new points, B×d.

    x̄_d = n_d/N times the mean of x_d over the new points that have feature d, of which there is at least one. The
    counts are the numbers n_d of earlier points with each feature, and N last.
    """
    d = features.shape[1]
    sums = np.bincount(features.indices, features.data, d)
    present = np.bincount(features.indices, minlength=d)
    return (point_counts[:-1] / max(1, point_counts[-1]) * sums / present).astype(features.dtype)


def with_point(features, point):
    """Return features with a last row for one more point, (B+1)×d (csr_array)."""
    return csr_array(vstack([features, csr_array(point[None])], format="csr", dtype=features.dtype))


def weight_prior(design, omega, point_counts, precisions):
    """Return the `WeightPrior` of the earlier points, of which only the numbers with each feature are known.

    The curvature of the earlier points is Xᵀ Ω_t X. Its diagonal is estimated as C_dt = n_d times the mean of ω_nt
    x_nd² over the new points that have feature d. Off the diagonal, features are taken as independent of each other and
    of ω_t. With the mean ω̄_t over all new points, this leaves the matrix N ω̄_t x̄ x̄ᵀ, which is that of one point x̄
    with the Pólya–Gamma variable s_t = N ω̄_t, and the rest of the diagonal, P_dt = τ_d + max(0, C_dt − s_t x̄_d²).
    Without x̄, a change of many weights in the same direction would seem too cheap. A new feature has its τ_d alone.

    The design and ω, (B+1)×T, have the new points and x̄ as the last row, whose ω is not used.
    """
    B = len(omega) - 1
    omega = omega.copy()
    omega[-1] = 0
    strength = point_counts[-1] / B * omega.sum(axis=0, dtype=np.float64)
    columns, dtype = design.columns, omega.dtype
    is_last = columns.indices == B
    owner = np.repeat(np.arange(columns.shape[0]), np.diff(columns.indptr))
    present = np.bincount(owner[~is_last], minlength=len(precisions))
    mean = np.bincount(owner[is_last], columns.data[is_last], len(precisions))
    curvature = sparse.product(design.squares, omega)
    curvature *= (point_counts / present).astype(dtype)[:, None]
    curvature -= (np.square(mean)[:, None] * strength).astype(dtype)
    np.maximum(curvature, 0, out=curvature)
    curvature += precisions[:, None]
    return WeightPrior(curvature, strength.astype(dtype))
