"""Inner products of points and inducing inputs: the only module that depends on the input dimension.

Every kernel is a function of inner products. Points are given by coordinates: in the subspace C = X X̃ᵀ, for free
inducing inputs C = X itself, dense or sparse. The part of a point outside the subspace is orthogonal to all inducing
inputs, so it contributes only to the squared norm of the point.

Inducing inputs are used transposed, one row per coordinate, because a sparse point selects rows. If A is in Fortran
order, as in training, the transpose needs no copy.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmlgp.gp.log_parameters import bounded_exp, is_inside
from xmlgp.linear_algebra import dense, sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for

__all__ = ["Covariances", "Points", "backward", "forward_inducing", "forward_points"]

#: Least number of elements per thread.
GRAIN = 1 << 17

#: Tasks per core in the product of points and inducing inputs.
ROUNDS = 3


class Points(NamedTuple):
    """Points: their coordinates C, B×R (subspace) or B×D (free), in which inducing inputs are written too.

    The residual, B, is ‖x‖² − ‖c‖², the part of the squared norm outside the subspace; 0 for free inducing inputs.
    """

    coordinates: np.ndarray | sp.csr_array
    residual: np.ndarray


class Covariances(NamedTuple):
    """Covariances of points and inducing inputs, B×M, of inducing inputs, M×M, and of each point with itself, B.

    Or their inner products, or the gradients by either.
    """

    K_BZ: np.ndarray
    K_Z: np.ndarray
    K_diag: np.ndarray


def forward_inducing(inducing, log_relevance=None):
    """Return the inner products A W Aᵀ of the inducing inputs A, M×M, and a pair for `forward_points`.

    W = diag(exp(log_relevance)), or I without relevances. The pair is W^½ Aᵀ, R×M or D×M, and the diagonal of W^½, or
    None without relevances.
    """
    transposed = np.ascontiguousarray(inducing.T)
    if log_relevance is None:
        return dense.gram(transposed), (transposed, None)
    scale = bounded_exp(log_relevance, 0.5)
    scaled = np.empty_like(transposed)

    def multiply(start, stop):
        np.multiply(transposed[start:stop], scale[start:stop, None], out=scaled[start:stop])

    parallel_for(multiply, len(scaled), GRAIN // max(1, len(inducing)))
    return dense.gram(scaled), (scaled, scale)


def forward_points(points, scaled):
    """Return the inner products C W Aᵀ, B×M, the squared norms diag(C W Cᵀ) + residual of points, B, and a tape.

    The residual is not weighted.
    """
    coordinates, residual = points
    transposed, scale = scaled
    if sp.issparse(coordinates):
        data = coordinates.data.astype(transposed.dtype, copy=False)
        data = data if scale is None else data * scale[coordinates.indices]
        coordinates = sp.csr_array((data, coordinates.indices, coordinates.indptr), shape=coordinates.shape)
        squares = sp.csr_array((data * data, coordinates.indices, coordinates.indptr), shape=coordinates.shape)
        norms = squares.sum(axis=1)
        products = sparse.product(coordinates, transposed)
    else:
        coordinates = coordinates if scale is None else coordinates * scale
        norms = np.einsum("br,br->b", coordinates, coordinates)
        # Small tasks: at first the other cores may be busy with the factorisation of K_Z.
        products = dense.product(coordinates, transposed, rounds=ROUNDS)
    return products, norms + residual, (coordinates, scaled)


def backward(tape, d_products, inducing_needed=True):
    """Return the gradients by the inducing inputs, in Fortran order, and by the logarithms of relevances.

    The former is None if not needed, the latter without ARD. The tape is that of `forward_points`; the gradients by the
    inner products and squared norms are `Covariances`, whose `K_Z` need not be symmetric.
    """
    coordinates, (transposed, scale) = tape
    from_K_Z = dense.product(transposed, d_products.K_Z + d_products.K_Z.T)
    if sp.issparse(coordinates):
        coordinates_transposed = coordinates.T.tocsr()
        from_K_BZ = sparse.product(coordinates_transposed, d_products.K_BZ)
        d_relevance = None if scale is None else coordinates_transposed.power(2) @ d_products.K_diag
    else:
        from_K_BZ = dense.product(coordinates.T, d_products.K_BZ)
        d_relevance = None if scale is None else np.square(coordinates).T @ d_products.K_diag
    if scale is None:
        from_K_Z += from_K_BZ
        return from_K_Z.T, None

    def combine(start, stop):
        _combine(transposed, from_K_BZ, from_K_Z, scale, d_relevance, start, stop)

    parallel_for(combine, len(transposed), GRAIN // max(1, transposed.shape[1]))
    d_relevance *= is_inside(scale, 0.5)
    return from_K_Z.T if inducing_needed else None, d_relevance


@compiled
def _combine(transposed, from_K_BZ, from_K_Z, scale, d_relevance, start, stop):
    """Add the part of the inducing inputs to `d_relevance`, and replace `from_K_Z` with the gradient w.r.t. Aᵀ."""
    half = transposed.dtype.type(0.5)
    for r in range(start, stop):
        total = d_relevance[r]
        factor = scale[r]
        for m in range(transposed.shape[1]):
            by_points = from_K_BZ[r, m]
            by_inducing = from_K_Z[r, m]
            total += transposed[r, m] * (by_points + half * by_inducing)
            from_K_Z[r, m] = factor * (by_points + by_inducing)
        d_relevance[r] = total
