"""The likelihood of the factor model f = Φ h + b: expected log likelihoods and their gradients.

Σ_ik E log σ(y_ik f_ik) = Σ_{i, k∈P_i} E f_ik − Σ_ik E log(1 + e^{f_ik}). The positives P_i contribute only
through their means, so all labels need the same expectation. With sampled negatives the same holds for a list of
(point, label) pairs with weights.

The forward and the backward pass are one function: it handles a few labels at a time, so memory does not grow with B·K.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from xmlgp.gp.expectations import Expectations
from xmlgp.gp.parameters import Gradients, IndexedRows
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import core_count, parallel_for, run_parallel

__all__ = [
    "Moments",
    "Negatives",
    "SampledPairs",
    "full_log_likelihood",
    "pair_moments",
    "pairwise_products",
    "sampled_log_likelihood",
    "utility_moments",
]

#: Utilities of a block of labels, B of each label: few enough for the cache, and enough that the cost of calls does not
#: matter.
BLOCK = 1 << 18

#: Least number of multiplications per thread in the moments of pairs.
PAIRWISE_GRAIN = 1 << 17


class Moments(NamedTuple):
    """Means m_ip, B×P, and variances s_ip, B×P, or B×1 if shared, of q(h_p(x_i)), or the gradients by them."""

    mean: NDArray[np.floating]
    variance: NDArray[np.floating]


class Negatives(NamedTuple):
    """How much negative pairs count: the weights c_k ≥ 1 of labels, K, by default 1; unknown pairs, B×K, not at all."""

    weights: NDArray[np.floating] | None = None
    unknown: sp.csr_array | None = None


class SampledPairs(NamedTuple):
    """The E (point, label) pairs of a minibatch with sampled negatives; those of point i are `indptr[i]:indptr[i + 1]`.

    `positive`, bool, says whether the label is in P_i; `weight` is 1 for positives, |N_i| / |L_i| for negatives. No
    unknown label is in N_i.
    """

    indptr: NDArray[np.integer]
    labels: NDArray[np.integer]
    positive: NDArray[np.bool_]
    weight: NDArray[np.floating]


class _SelectedLabels(NamedTuple):
    """The U labels that occur in E pairs, ascending: their rows of Φ and Φ², and for each pair the index of its label.

    `squares` has the sums of the rows of Φ², U×1, if the latent functions share a variance.
    """

    labels: NDArray[np.integer]
    columns: NDArray[np.integer]
    loadings: NDArray[np.floating]
    squares: NDArray[np.floating]


def utility_moments(
    moments: Moments, loadings: NDArray[np.floating], bias: NDArray[np.floating]
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return mean Σ_p φ_kp m_ip + b_k and variance Σ_p φ_kp² s_ip of q(f_ik) for all labels, both B×K ([S] (21))."""
    mean = moments.mean @ loadings.T
    mean += bias
    squares = loadings * loadings
    if moments.variance.shape[1] == 1:
        return mean, moments.variance * squares.sum(axis=1)
    return mean, moments.variance @ squares.T


def full_log_likelihood(
    moments: Moments,
    loadings: NDArray[np.floating],
    bias: NDArray[np.floating],
    labels: sp.csr_array,
    expectations: Expectations,
    value_needed: bool = True,
    fast: bool = False,
    negatives: Negatives | None = None,
) -> tuple[float | None, Moments, dict[str, NDArray[np.floating]]]:
    """Return Σ_ik E log σ(y_ik f_ik), its gradients by the moments, and those by `loadings` and `bias`.

    The moments are those of the latent functions at the points of a minibatch; Φ is K×P; labels are the positives, B×K.
    With `negatives`, the value is Σ_{i, k∈P_i} E log σ(f_ik) + Σ_{i, k∈N_i} c_k E log σ(−f_ik), and N_i has no unknown
    pairs. Without `value_needed` the value is None, and a step saves half of the expectations. For `fast` see
    `Quadrature.gradients`.
    """
    B, K = labels.shape
    d_loadings = np.empty_like(loadings)
    d_bias = np.empty_like(bias)
    by_label = labels.tocsc()
    label_of_positive = np.repeat(np.arange(K), np.diff(by_label.indptr))
    weights, unknown = negatives or Negatives()
    unknown_by_label = None if unknown is None else unknown.tocsc()
    labels_per_block = max(1, BLOCK // max(1, B))
    # A multiple of the number of cores, so that all cores have the same number of blocks.
    cores = core_count()
    blocks = max(1, -(-K // (labels_per_block * cores))) * cores
    bounds = np.linspace(0, K, blocks + 1).astype(int)
    values = [0.0] * blocks

    def process_blocks(core: int) -> Moments:
        """Fill the values and gradients of every `cores`th block; return the sum of the gradients by moments."""
        d_moments = Moments(*map(np.zeros_like, moments))
        for block in range(core, blocks, cores):
            start, stop = bounds[block : block + 2]
            first, last = by_label.indptr[[start, stop]]
            phi = loadings[start:stop]
            positive = (by_label.indices[first:last], label_of_positive[first:last] - start)
            mean, variance = utility_moments(moments, phi, bias[start:stop])
            block_weights = None if weights is None else weights[start:stop]
            left_out = None if unknown_by_label is None else _positions(unknown_by_label, start, stop)
            if value_needed:
                values[block] = float(mean[positive].sum(dtype=np.float64))
                softplus = expectations.expected_softplus(mean, variance)
                _weigh_negatives(softplus, block_weights, positive, left_out)
                values[block] -= float(softplus.sum(dtype=np.float64))
            # In place: from here on these are the gradients of −log likelihood by mean and variance.
            expectations.gradients(mean, variance, fast, out=(mean, variance))
            _weigh_negatives(mean, block_weights, positive, left_out)
            _weigh_negatives(variance, block_weights, positive, left_out)
            mean[positive] -= 1
            d_loadings[start:stop] = _add_latent_gradients(mean, variance, moments, phi, d_moments)
            d_bias[start:stop] = mean.sum(axis=0)
        return d_moments

    d_moments_by_core = run_parallel(partial(process_blocks, core) for core in range(cores))
    np.negative(d_loadings, out=d_loadings)
    np.negative(d_bias, out=d_bias)
    d_moments = Moments(*(np.negative(sum(gradients)) for gradients in zip(*d_moments_by_core, strict=True)))
    return sum(values) if value_needed else None, d_moments, {"loadings": d_loadings, "bias": d_bias}


def _weigh_negatives(
    values: NDArray[np.floating],
    weights: NDArray[np.floating] | None,
    positives: tuple[NDArray[np.integer], NDArray[np.integer]],
    left_out: tuple[NDArray[np.integer], NDArray[np.integer]] | None,
) -> None:
    """Multiply values, B×K, by the weights of labels, if there are any, in place, except at the positives.

    Those of pairs that are left out become zero.
    """
    if weights is not None:
        values_of_positives = values[positives]
        values *= weights
        values[positives] = values_of_positives
    if left_out is not None:
        values[left_out] = 0


def _positions(by_label: sp.csc_array, start: int, stop: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return the points and the labels of the elements of consecutive labels, which are counted from `start`."""
    first, last = by_label.indptr[[start, stop]]
    lengths = np.diff(by_label.indptr[start : stop + 1])
    return by_label.indices[first:last], np.repeat(np.arange(stop - start), lengths)


def _add_latent_gradients(
    d_mean: NDArray[np.floating],
    d_variance: NDArray[np.floating],
    moments: Moments,
    loadings: NDArray[np.floating],
    d_moments: Moments,
) -> NDArray[np.floating]:
    """Add the gradients of the moments to `d_moments` and return that of Φ, given those of the utilities, both B×K."""
    squares = loadings * loadings
    if moments.variance.shape[1] == 1:
        d_squares = (moments.variance[:, 0] @ d_variance)[:, None]
        d_latent_variance = (d_variance @ squares.sum(axis=1))[:, None]
    else:
        d_squares = d_variance.T @ moments.variance
        d_latent_variance = d_variance @ squares
    np.add(d_moments.mean, d_mean @ loadings, out=d_moments.mean)
    np.add(d_moments.variance, d_latent_variance, out=d_moments.variance)
    d_loadings: NDArray[np.floating] = d_mean.T @ moments.mean + 2 * d_squares * loadings
    return d_loadings


def sampled_log_likelihood(
    moments: Moments,
    loadings: NDArray[np.floating],
    bias: NDArray[np.floating],
    pairs: SampledPairs,
    expectations: Expectations,
    value_needed: bool = True,
    fast: bool = False,
) -> tuple[float | None, Moments, Gradients]:
    """Return the expected log likelihood over pairs, as an estimate of `full_log_likelihood`, and its gradients.

    Its expectation over samples is [S] (23) without N/|B|. Arguments and results are those of `full_log_likelihood`,
    but the gradients by `loadings` and `bias` are `IndexedRows` of the labels that occur in the pairs.
    """
    selected = _select_labels(moments, loadings, pairs.labels)
    mean, variance = _pair_moments(moments, selected, bias, pairs.indptr)
    value = None
    if value_needed:
        value = float(mean[pairs.positive].sum(dtype=np.float64))
        value -= float(np.vdot(pairs.weight, expectations.expected_softplus(mean, variance)))
    d_mean, d_variance = expectations.gradients(mean, variance, fast)
    d_mean *= -pairs.weight
    d_variance *= -pairs.weight
    d_mean += pairs.positive
    shape = (len(pairs.indptr) - 1, len(selected.labels))
    d_mean_matrix = sp.csr_array((d_mean, selected.columns, pairs.indptr), shape=shape)
    d_variance_matrix = sp.csr_array((d_variance, selected.columns, pairs.indptr), shape=shape)
    d_moments = Moments(
        sparse.product(d_mean_matrix, selected.loadings), sparse.product(d_variance_matrix, selected.squares)
    )
    d_squares = sparse.product(d_variance_matrix.T.tocsr(), moments.variance)
    d_loadings = sparse.product(d_mean_matrix.T.tocsr(), moments.mean)
    d_loadings += selected.loadings * (2 * d_squares)
    d_bias = np.bincount(selected.columns, d_mean, len(selected.labels)).astype(bias.dtype)
    gradients = {"loadings": d_loadings, "bias": d_bias}
    return value, d_moments, {name: IndexedRows(selected.labels, values) for name, values in gradients.items()}


def pair_moments(
    moments: Moments,
    loadings: NDArray[np.floating],
    bias: NDArray[np.floating],
    indptr: NDArray[np.integer],
    labels: NDArray[np.integer],
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return mean and variance of q(f_ik) for some labels of each point, `labels[indptr[i]:indptr[i + 1]]`, both E."""
    return _pair_moments(moments, _select_labels(moments, loadings, labels), bias, indptr)


def _select_labels(moments: Moments, loadings: NDArray[np.floating], labels: NDArray[np.integer]) -> _SelectedLabels:
    """Return the `_SelectedLabels`, given the label of each pair."""
    present, columns = np.unique(labels, return_inverse=True)
    phi = loadings[present]
    squares = phi * phi
    if moments.variance.shape[1] == 1:
        squares = squares.sum(axis=1, keepdims=True)
    return _SelectedLabels(present, columns, phi, squares)


def _pair_moments(
    moments: Moments, selected: _SelectedLabels, bias: NDArray[np.floating], indptr: NDArray[np.integer]
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return mean and variance of q(f_ik) for each pair, both E."""
    mean = pairwise_products(moments.mean, selected.loadings, indptr, selected.columns)
    mean += bias[selected.labels][selected.columns]
    return mean, pairwise_products(moments.variance, selected.squares, indptr, selected.columns)


def pairwise_products(
    left: NDArray[np.floating], right: NDArray[np.floating], indptr: NDArray[np.integer], columns: NDArray[np.integer]
) -> NDArray[np.floating]:
    """Return Σ_p left[i, p] right[k, p] for each pair (i, k), E, with k from `columns[indptr[i]:indptr[i + 1]]`."""
    out = np.empty(len(columns), left.dtype)
    rows = len(indptr) - 1
    grain = PAIRWISE_GRAIN * rows // max(1, len(columns) * left.shape[1])
    parallel_for(lambda start, stop: _fill_products(left, right, indptr, columns, out, start, stop), rows, grain)
    return out


@compiled
def _fill_products(
    left: NDArray[np.floating],
    right: NDArray[np.floating],
    indptr: NDArray[np.integer],
    columns: NDArray[np.integer],
    out: NDArray[np.floating],
    start: int,
    stop: int,
) -> None:
    for i in range(start, stop):
        left_row = left[i]
        for e in range(indptr[i], indptr[i + 1]):
            right_row = right[columns[e]]
            total = left.dtype.type(0)
            for p in range(left_row.size):
                total += left_row[p] * right_row[p]
            out[e] = total
