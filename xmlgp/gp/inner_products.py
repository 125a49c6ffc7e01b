"""Inner products of points and inducing inputs: the only part of a kernel that depends on the input dimension.

Every kernel is a function of inner products. Points are given by coordinates: in the subspace C = X X̃ᵀ, for free
inducing inputs C = X itself, dense or sparse. The part of a point outside the subspace is orthogonal to all inducing
inputs, so it contributes only to the squared norm of the point.

Inducing inputs are used transposed, one row per coordinate, because a sparse point selects rows. If A is in Fortran
order, as in training, the transpose needs no copy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from xmlgp.features.inputs import Points
from xmlgp.gp.parameters import bounded_exp, is_inside
from xmlgp.linear_algebra import dense, sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for

__all__ = ["Covariances", "backward", "forward_inducing", "forward_points"]

#: Least number of elements per thread.
GRAIN = 1 << 17

#: Tasks per core in the product of points and inducing inputs. They are small because at first the other cores may be
#: busy with the factorisation of K_Z.
ROUNDS = 3


class Covariances(NamedTuple):
    """Covariances of points and inducing inputs, B×M, of inducing inputs, M×M, and of each point with itself, B.

    They may also be inner products, or the gradients by covariances or inner products.
    """

    K_BZ: NDArray[np.floating]
    K_Z: NDArray[np.floating]
    K_diag: NDArray[np.floating]


class ScaledInducing(NamedTuple):
    """W^½ Aᵀ, R×M or D×M, for W = diag(exp(log_relevance)), and the diagonal of W^½, or None for W = I."""

    transposed: NDArray[np.floating]
    scale: NDArray[np.floating] | None


class Tape(NamedTuple):
    """C W^½ for the coordinates C of points, B×R or B×D, and the inducing inputs."""

    coordinates: NDArray[np.floating] | sp.csr_array
    scaled: ScaledInducing


def forward_inducing(
    inducing: NDArray[np.floating], log_relevance: NDArray[np.floating] | None = None
) -> tuple[NDArray[np.floating], ScaledInducing]:
    """Return the inner products A W Aᵀ of the inducing inputs A, M×M, and W^½ Aᵀ for `forward_points`.

    W = diag(exp(log_relevance)), or I without relevances.
    """
    transposed = np.ascontiguousarray(inducing.T)
    if log_relevance is None:
        return dense.gram(transposed), ScaledInducing(transposed, None)
    scale = bounded_exp(log_relevance, 0.5)
    scaled = np.empty_like(transposed)

    def multiply(start: int, stop: int) -> None:
        np.multiply(transposed[start:stop], scale[start:stop, None], out=scaled[start:stop])

    parallel_for(multiply, len(scaled), GRAIN // max(1, len(inducing)))
    return dense.gram(scaled), ScaledInducing(scaled, scale)


def forward_points(points: Points, scaled: ScaledInducing) -> tuple[NDArray[np.floating], NDArray[np.floating], Tape]:
    """Return the inner products C W Aᵀ, B×M, the squared norms diag(C W Cᵀ) + residual of points, B, and a tape.

    The residual is not weighted.
    """
    coordinates, residual = points
    transposed, scale = scaled
    weighted: NDArray[np.floating] | sp.csr_array
    if isinstance(coordinates, np.ndarray):
        weighted = coordinates if scale is None else coordinates * scale
        norms = np.einsum("br,br->b", weighted, weighted)
        products = dense.product(weighted, transposed, rounds=ROUNDS)
    else:
        X = coordinates.sparse
        data = X.data.astype(transposed.dtype, copy=False)
        data = data if scale is None else data * scale[X.indices]
        weighted = sp.csr_array((data, X.indices, X.indptr), shape=X.shape)
        squares = sp.csr_array((data * data, weighted.indices, weighted.indptr), shape=weighted.shape)
        norms = squares.sum(axis=1)
        products = sparse.product(weighted, transposed)
    return products, norms + residual, Tape(weighted, scaled)


def backward(tape: Tape, d_products: Covariances, inducing_needed: bool = True) -> dict[str, NDArray[np.floating]]:
    """Return the gradients by the `inducing` inputs, in Fortran order, and, with relevances, by `log_relevance`.

    The tape is that of `forward_points`; `d_products` are the gradients by inner products and squared norms, of which
    `K_Z` need not be symmetric. With relevances, the gradient by `inducing` is returned only if `inducing_needed`.
    """
    coordinates, (transposed, scale) = tape
    from_K_Z = dense.product(transposed, d_products.K_Z + d_products.K_Z.T)
    if isinstance(coordinates, np.ndarray):
        by_coordinate = coordinates.T
        from_K_BZ = dense.product(by_coordinate, d_products.K_BZ)
    else:
        by_coordinate = coordinates.T.tocsr()
        from_K_BZ = sparse.product(by_coordinate, d_products.K_BZ)
    if scale is None:
        from_K_Z += from_K_BZ
        return {"inducing": from_K_Z.T}
    # Through the squared norms of points; `combine` adds what comes through the inner products.
    d_relevance = by_coordinate**2 @ d_products.K_diag

    def combine(start: int, stop: int) -> None:
        _combine(transposed, from_K_BZ, from_K_Z, scale, d_relevance, start, stop)

    parallel_for(combine, len(transposed), GRAIN // max(1, transposed.shape[1]))
    gradients = {"log_relevance": d_relevance * is_inside(scale, 0.5)}
    return gradients | {"inducing": from_K_Z.T} if inducing_needed else gradients


@compiled
def _combine(
    transposed: NDArray[np.floating],
    from_K_BZ: NDArray[np.floating],
    from_K_Z: NDArray[np.floating],
    scale: NDArray[np.floating],
    d_relevance: NDArray[np.floating],
    start: int,
    stop: int,
) -> None:
    """Complete the gradient by relevances in `d_relevance`, and replace `from_K_Z` with the gradient by Aᵀ.

    `transposed` is W^½ Aᵀ, `scale` the diagonal of W^½. The gradients by W^½ Aᵀ are `from_K_BZ`, through the inner
    products with points, and `from_K_Z`, through those of the inducing inputs. W^½ Aᵀ is one factor of the former and
    both factors of the latter, but a relevance is in each inner product once: hence the half.
    """
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
