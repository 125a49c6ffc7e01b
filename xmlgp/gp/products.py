"""Inner products of points and inducing inputs: the only place where the input dimension is met.

Every kernel here is a function of inner products. Points come as coordinates: in the subspace C = X X̃ᵀ, for
free inducing inputs C = X itself, dense or sparse. What the subspace leaves out of a point is orthogonal to
all inducing inputs, so it enters through its squared norm alone.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

__all__ = ["Points", "Products", "backward", "forward"]


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


def forward(points, inducing, log_relevance=None):
    """Return the (ARD-weighted) inner products and the tape for `backward`.

    cross = C W Aᵀ, inducing = A W Aᵀ, points = diag(C W Cᵀ) + residual, W = diag(exp(log_relevance)) or I.

    Parameters
    ----------
    points : Points
        C and residual of a minibatch.
    inducing : ndarray, M×R or M×D
        A, or Z when free.
    log_relevance : ndarray, R or D, optional
        Logarithm of the ARD weight of each coordinate; the residual keeps the weight one.

    Returns
    -------
    Products, tuple
    """
    coordinates, residual = points
    if log_relevance is None:
        weighted = rooted = inducing
        relevance = None
        norms = _squares(coordinates).sum(axis=1)
    else:
        relevance = np.exp(log_relevance)
        root = np.exp(0.5 * log_relevance)
        rooted = inducing * root
        weighted = rooted * root
        norms = _squares(coordinates) @ relevance
    # NumPy computes half of the product of a matrix and its own transpose.
    products = Products(coordinates @ weighted.T, rooted @ rooted.T, norms + residual)
    return products, (coordinates, inducing, relevance)


def backward(tape, d_products, inducing_needed=True):
    """Return the gradients of the inducing inputs and of the logarithmic relevances.

    Parameters
    ----------
    tape : tuple
        From `forward`.
    d_products : Products
        Gradients of the three kinds of inner products; that of `inducing` need not be symmetric.
    inducing_needed : bool
        False where the inducing inputs are fixed: without ARD this saves the two largest products of a step.

    Returns
    -------
    d_inducing : ndarray, M×R or M×D, or None
    d_log_relevance : ndarray, R or D, or None
        None without ARD.
    """
    coordinates, inducing, relevance = tape
    if not inducing_needed and relevance is None:
        return None, None
    # coordinatesᵀ first: for sparse coordinates it is the product SciPy has.
    from_cross = (coordinates.T @ d_products.cross).T if sp.issparse(coordinates) else d_products.cross.T @ coordinates
    from_inducing = (d_products.inducing + d_products.inducing.T) @ inducing
    if relevance is None:
        return from_cross + from_inducing, None
    d_relevance = np.einsum("mr,mr->r", inducing, from_cross) + 0.5 * np.einsum("mr,mr->r", inducing, from_inducing)
    d_relevance += _squares(coordinates).T @ d_products.points
    from_cross += from_inducing
    from_cross *= relevance
    return from_cross if inducing_needed else None, d_relevance * relevance


def _squares(coordinates):
    return coordinates.power(2) if sp.issparse(coordinates) else coordinates * coordinates
