"""Inner products of points and inducing inputs: the only place where the input dimension is met.

Every kernel here is a function of inner products. Points come as coordinates: in the subspace C = X X̃ᵀ, for
free inducing inputs C = X itself, dense or sparse. What the subspace leaves out of a point is orthogonal to
all inducing inputs, so it enters through its squared norm alone.

Inducing inputs are met as their transpose, a row for each coordinate: that is what a sparse point selects from.
Where A lies in memory in Fortran's order, as in training, the transpose is free.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmlgp.gp.log_parameters import exponential, within
from xmlgp.linear_algebra import dense, sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for

__all__ = ["Inducing", "Points", "Products", "backward", "between_inducing", "linear_map", "with_points"]

#: Elements that are worth a thread.
GRAIN = 1 << 17

#: Parts for each core, of the products of points and inducing inputs.
ROUNDS = 3


class Points(NamedTuple):
    """A minibatch of points as the kernels see them.

    Attributes
    ----------
    coordinates : ndarray or csr_array, B×R (subspace) or B×D (free)
        C, in which inducing inputs are written too.
    residual : ndarray, B
        ‖x‖² − ‖c‖², the squared norm that the coordinates leave out; zero for free inducing inputs.
    """

    coordinates: np.ndarray | sp.csr_array
    residual: np.ndarray


class Products(NamedTuple):
    """Inner products, or covariances, or the gradients of either.

    Attributes
    ----------
    cross : ndarray, B×M
        Between points and inducing inputs.
    inducing : ndarray, M×M
        Between inducing inputs.
    points : ndarray, B
        Of each point with itself.
    """

    cross: np.ndarray
    inducing: np.ndarray
    points: np.ndarray


class Inducing(NamedTuple):
    """Inducing inputs ready for products with points.

    Attributes
    ----------
    rooted : ndarray, R×M or D×M
        W^½ Aᵀ, with W = diag(exp(log_relevance)), or Aᵀ without ARD.
    root : ndarray, R or D, or None
        The diagonal of W^½.
    """

    rooted: np.ndarray
    root: np.ndarray | None


def between_inducing(inducing, log_relevance=None):
    """Return the (ARD-weighted) inner products A W Aᵀ, M×M, and the `Inducing` for the products with points.

    Parameters
    ----------
    inducing : ndarray, M×R or M×D
        A, or Z when free.
    log_relevance : ndarray, R or D, optional
        Logarithm of the ARD weight of each coordinate.
    """
    transposed = np.ascontiguousarray(inducing.T)
    if log_relevance is None:
        return dense.gram(transposed), Inducing(transposed, None)
    if log_relevance.shape != (len(transposed),):
        raise ValueError(f"relevances of shape {log_relevance.shape} for {len(transposed)} coordinates")
    root = exponential(log_relevance, 0.5)
    rooted = np.empty_like(transposed)

    def part(start, stop):
        np.multiply(transposed[start:stop], root[start:stop, None], out=rooted[start:stop])

    parallel_for(part, len(rooted), GRAIN // max(1, len(inducing)))
    return dense.gram(rooted), Inducing(rooted, root)


def with_points(points, inducing):
    """Return the inner products C W Aᵀ, B×M, and diag(C W Cᵀ) + residual, B, and the tape for `backward`.

    Parameters
    ----------
    points : Points
        C and residual of a minibatch; the residual keeps the weight one.
    inducing : Inducing
    """
    coordinates, residual = points
    rooted, root = inducing
    if sp.issparse(coordinates):
        data = coordinates.data.astype(rooted.dtype, copy=False)
        data = data if root is None else data * root[coordinates.indices]
        coordinates = sp.csr_array((data, coordinates.indices, coordinates.indptr), shape=coordinates.shape)
        squares = sp.csr_array((data * data, coordinates.indices, coordinates.indptr), shape=coordinates.shape)
        norms = squares.sum(axis=1)
        cross = sparse.product(coordinates, rooted)
    else:
        coordinates = coordinates if root is None else coordinates * root
        norms = np.einsum("br,br->b", coordinates, coordinates)
        # The other cores may be busy with K_Z at first.
        cross = dense.product(coordinates, rooted, rounds=ROUNDS)
    return cross, norms + residual, (coordinates, inducing)


def linear_map(inducing, log_relevance, weights):
    """Return W Aᵀ weights, R×P or D×P, for `weights` M×P: applied to C it gives the products with points times them."""
    mapped = dense.product(inducing.T, weights)
    if log_relevance is not None:
        mapped *= exponential(log_relevance)[:, None]
    return mapped


def backward(tape, d_products, inducing_needed=True):
    """Return the gradients of the inducing inputs and of the logarithmic relevances.

    Parameters
    ----------
    tape : tuple
        From `with_points`.
    d_products : Products
        Gradients of the three kinds of inner products; that of `inducing` need not be symmetric.
    inducing_needed : bool
        False where the inducing inputs are fixed: without ARD this saves the two largest products of a step.

    Returns
    -------
    d_inducing : ndarray, M×R or M×D, or None
        In Fortran's order.
    d_log_relevance : ndarray, R or D, or None
        None without ARD.
    """
    coordinates, (rooted, root) = tape
    if not inducing_needed and root is None:
        return None, None
    from_inducing = dense.product(rooted, d_products.inducing + d_products.inducing.T)
    if sp.issparse(coordinates):
        transposed = coordinates.T.tocsr()
        from_cross = sparse.product(transposed, d_products.cross)
        d_relevance = None if root is None else transposed.power(2) @ d_products.points
    else:
        from_cross = dense.product(coordinates.T, d_products.cross)
        d_relevance = None if root is None else np.square(coordinates).T @ d_products.points
    if root is None:
        from_inducing += from_cross
        return from_inducing.T, None

    def part(start, stop):
        _combine(rooted, from_cross, from_inducing, root, d_relevance, start, stop)

    parallel_for(part, len(rooted), GRAIN // max(1, rooted.shape[1]))
    d_relevance *= within(root, 0.5)
    return from_inducing.T if inducing_needed else None, d_relevance


@compiled
def _combine(rooted, from_cross, from_inducing, root, d_relevance, start, stop):
    """Add to the gradient of the relevances, and turn `from_inducing` into that of Aᵀ."""
    half = rooted.dtype.type(0.5)
    for r in range(start, stop):
        total, scale = d_relevance[r], root[r]
        for m in range(rooted.shape[1]):
            cross, inducing = from_cross[r, m], from_inducing[r, m]
            total += rooted[r, m] * (cross + half * inducing)
            from_inducing[r, m] = scale * (cross + inducing)
        d_relevance[r] = total
