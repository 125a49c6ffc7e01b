"""The likelihood of the factor model f = Φ h + b: expected log likelihoods and their gradients.

Σ_ik E log σ(y_ik f_ik) = Σ_{i, k∈P_i} E f_ik − Σ_ik E log(1 + e^{f_ik}). The positives P_i contribute only
through their means, so all labels need the same expectation. With sampled negatives the same holds for a list of
(point, label) pairs with weights.

The forward and the backward pass are one function: it handles a few labels at a time, so memory does not grow with B·K.
"""

import functools
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from xmlgp.gp.expectations import BlockPairs, Expectations, Quadrature
from xmlgp.gp.parameters import Gradients, IndexedRows
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import core_count, parallel_for, run_parallel

__all__ = [
    "Moments",
    "SampledPairs",
    "full_log_likelihood",
    "pair_moments",
    "pairwise_products",
    "sampled_log_likelihood",
    "utility_variance",
]

#: Utilities of a block of labels, B of each label: few enough for the cache, and enough for the full rate of BLAS.
BLOCK = 1 << 19

#: Least number of multiplications per thread in the moments of pairs.
PAIRWISE_GRAIN = 1 << 17


class Moments(NamedTuple):
    """Means m_ip, B×P, and variances s_ip, B×P, or B×1 if shared, of q(h_p(x_i)), or the gradients by them."""

    mean: NDArray[np.floating]
    variance: NDArray[np.floating]


class SampledPairs(NamedTuple):
    """The E (point, label) pairs of a minibatch with sampled negatives; those of point i are `indptr[i]:indptr[i + 1]`.

    `positive`, bool, says whether the label is in P_i; `weight` is 1 for positives, |N_i| / |L_i| for negatives.
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


def utility_variance(moments: Moments, loadings: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the variance Σ_p φ_kp² s_ip of q(f_ik) for all labels, B×K ([S] (21))."""
    squares = loadings * loadings
    if moments.variance.shape[1] == 1:
        product: NDArray[np.floating] = moments.variance * squares.sum(axis=1)
        return product
    variance: NDArray[np.floating] = moments.variance @ squares.T
    return variance


def full_log_likelihood(
    moments: Moments,
    loadings: NDArray[np.floating],
    bias: NDArray[np.floating],
    labels: sp.csr_array,
    expectations: Expectations,
    value_needed: bool = True,
    fast: bool = False,
    negative_weights: NDArray[np.floating] | None = None,
) -> tuple[float | None, Moments, dict[str, NDArray[np.floating]]]:
    """Return Σ_ik E log σ(y_ik f_ik), its gradients by the moments, and those by `loadings` and `bias`.

    The moments are those of the latent functions at the points of a minibatch; Φ is K×P; labels are the positives, B×K.
    With `negative_weights` c ≥ 1, K, it is Σ_{i, k∈P_i} E log σ(f_ik) + Σ_{i, k∈N_i} c_k E log σ(−f_ik). Without
    `value_needed` the value is None, and a step saves half of the expectations. For `fast` see `Quadrature.gradients`.
    """
    B, K = labels.shape
    d_loadings = np.empty_like(loadings)
    d_bias = np.empty_like(bias)
    pairs = _LabelPairs(labels, negative_weights, loadings.dtype)
    labels_per_block = max(1, BLOCK // max(1, B))
    # A multiple of the number of cores, so that all cores have the same number of blocks.
    cores = core_count()
    blocks = max(1, -(-K // (labels_per_block * cores))) * cores
    bounds = np.linspace(0, K, blocks + 1).astype(int)
    values = [0.0] * blocks

    def process_blocks(core: int) -> Moments:
        """Fill the values and gradients of every `cores`th block; return the sum of the gradients by moments."""
        d_means = []
        d_variance = np.zeros_like(moments.variance)
        for block in range(core, blocks, cores):
            start, stop = bounds[block : block + 2]
            phi = loadings[start:stop]
            mean = moments.mean @ phi.T
            mean += bias[start:stop]
            if value_needed:
                variance = utility_variance(moments, phi)
                values[block] = pairs.log_likelihood(start, stop, mean, expectations.expected_softplus(mean, variance))
            if isinstance(expectations, Quadrature) and moments.variance.shape[1] == 1:
                arguments = moments.variance[:, 0], np.square(phi).sum(axis=1), pairs.by_point(start, stop), fast
                d_shared, d_spreads, d_bias[start:stop] = expectations.pair_gradients(mean, *arguments)
                d_variance[:, 0] += d_shared
                d_squares = d_spreads[:, None]
            else:
                variance = utility_variance(moments, phi)
                # In place: from here on these are the gradients of −log likelihood by mean and variance.
                expectations.gradients(mean, variance, fast, out=(mean, variance))
                pairs.weigh(start, stop, mean, variance)
                mean[pairs.positives(start, stop)] -= 1
                d_bias[start:stop] = mean.sum(axis=0)
                d_squares = _add_variance_gradients(variance, moments, phi, d_variance)
            d_means.append(mean @ phi)
            d_loadings[start:stop] = mean.T @ moments.mean + 2 * d_squares * phi
        return Moments(sum(d_means[1:], start=d_means[0]), d_variance)

    d_moments_by_core = run_parallel(partial(process_blocks, core) for core in range(cores))
    np.negative(d_loadings, out=d_loadings)
    np.negative(d_bias, out=d_bias)
    d_moments = Moments(*(np.negative(sum(gradients)) for gradients in zip(*d_moments_by_core, strict=True)))
    return sum(values) if value_needed else None, d_moments, {"loadings": d_loadings, "bias": d_bias}


class _LabelPairs:
    """The positives of B points, B×K, and the weights of labels in negative pairs, K, or None for ones.

    Both are read for some consecutive labels, from `start` to before `stop`.
    """

    def __init__(
        self, labels: sp.csr_array, weights: NDArray[np.floating] | None, dtype: np.dtype[np.floating]
    ) -> None:
        self._labels = labels
        self._weights = np.ones(labels.shape[1], dtype) if weights is None else weights.astype(dtype, copy=False)
        indices = (array.astype(np.int32, copy=False) for array in (labels.indptr, labels.indices))
        self._by_point = BlockPairs(0, self._weights, *indices)

    # Conversions take time, and most steps do not need them.
    @functools.cached_property
    def _by_label(self) -> sp.csc_array:
        return self._labels.tocsc()

    def by_point(self, start: int, stop: int) -> BlockPairs:
        """Return the pairs by point."""
        return self._by_point._replace(first=int(start), weights=self._weights[start:stop])

    def positives(self, start: int, stop: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Return the points and the labels of the positives; labels are counted from `start`."""
        by_label = self._by_label
        first, last = by_label.indptr[[start, stop]]
        lengths = np.diff(by_label.indptr[start : stop + 1])
        return by_label.indices[first:last], np.repeat(np.arange(stop - start), lengths)

    def weigh(self, start: int, stop: int, *values: NDArray[np.floating]) -> None:
        """Multiply values, B×L, by the weights of the pairs, in place."""
        positives = self.positives(start, stop)
        for array in values:
            of_positives = array[positives]
            array *= self._weights[start:stop]
            array[positives] = of_positives

    def log_likelihood(
        self, start: int, stop: int, mean: NDArray[np.floating], softplus: NDArray[np.floating]
    ) -> float:
        """Return the expected log likelihood, given means and E log(1 + e^f) of the utilities, which it changes."""
        value = float(mean[self.positives(start, stop)].sum(dtype=np.float64))
        self.weigh(start, stop, softplus)
        return value - float(softplus.sum(dtype=np.float64))


def _add_variance_gradients(
    d_utilities: NDArray[np.floating],
    moments: Moments,
    loadings: NDArray[np.floating],
    d_variance: NDArray[np.floating],
) -> NDArray[np.floating]:
    """Add the gradients by the variances of the moments to `d_variance`, and return those by Φ², K×P or K×1.

    `d_utilities` are those by the variances of the utilities, B×K.
    """
    squares = loadings * loadings
    if moments.variance.shape[1] == 1:
        d_variance += (d_utilities @ squares.sum(axis=1))[:, None]
        shared: NDArray[np.floating] = (moments.variance[:, 0] @ d_utilities)[:, None]
        return shared
    d_variance += d_utilities @ squares
    d_squares: NDArray[np.floating] = d_utilities.T @ moments.variance
    return d_squares


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
