"""The likelihood of the factor model f = Φ h + b: expected log likelihoods and their gradients.

Σ_ik E log σ(y_ik f_ik) = Σ_{i, k∈P_i} E f_ik − Σ_ik E log(1 + e^{f_ik}). The positives P_i contribute only
through their means, so all labels need the same expectation. A minibatch says which pairs of points and labels it uses:
`AllPairs`, `SharedLabels` or `SampledPairs`. The forward and the backward pass are one method of each.
"""

from functools import partial
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from xmlgp.gp.expectations.quadrature import Quadrature
from xmlgp.gp.parameters import Gradients, IndexedRows
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for, run_parallel

__all__ = ["AllPairs", "Likelihood", "Moments", "SampledPairs", "SharedLabels", "pairwise_products"]

#: Most utilities of a pair of blocks of labels, B of each label: few enough for the caches of two cores, and enough for
#: the full rate of BLAS. The blocks do not depend on the number of threads, so neither do the sums over them.
PAIR_OF_BLOCKS = 1 << 19

#: Utilities up to which one block takes less time than two on two cores.
ONE_BLOCK = 1 << 15

#: Least number of multiplications per thread in the moments of pairs.
PAIRWISE_GRAIN = 1 << 17


class Moments(NamedTuple):
    """Means m_ip, B×P, and variances s_ip, B×P, or B×1 if shared, of q(h_p(x_i)), or the gradients by them."""

    mean: NDArray[np.floating]
    variance: NDArray[np.floating]


class Likelihood(Protocol):
    """The pairs of points and labels that a minibatch uses, with the labels of its points."""

    def value_and_gradients(
        self,
        moments: Moments,
        loadings: NDArray[np.floating],
        bias: NDArray[np.floating],
        quadrature: Quadrature,
        value_needed: bool = True,
        for_step: bool = False,
    ) -> tuple[float | None, Moments, Gradients]:
        """Return Σ_ik E log σ(y_ik f_ik), its gradients by the moments, and those by `loadings` and `bias`.

        The moments are those of the latent functions at the points of the minibatch; Φ is K×P. If not all labels are
        used, the last gradients are `IndexedRows`. Without `value_needed` the value is None, and a step saves half of
        the expectations. For `for_step` see `Quadrature.gradients`.
        """


class _SelectedLabels(NamedTuple):
    """The U labels that occur in E pairs, ascending: their rows of Φ and Φ², and for each pair the index of its label.

    `squares` has the sums of the rows of Φ², U×1, if the latent functions share a variance.
    """

    labels: NDArray[np.integer]
    columns: NDArray[np.integer]
    loadings: NDArray[np.floating]
    squares: NDArray[np.floating]


class AllPairs:
    """All pairs of B points and K labels, given the positives, B×K.

    With weights c ≥ 1 of negative pairs, K, the log likelihood is Σ_{i, k∈P_i} E log σ(f_ik) + Σ_{i, k∈N_i} c_k E
    log σ(−f_ik). A few labels are handled at a time, so memory does not grow with B·K.
    """

    def __init__(self, positives: sp.csr_array, negative_weights: NDArray[np.floating] | None = None) -> None:
        self.positives = positives
        self.negative_weights = negative_weights

    def value_and_gradients(
        self,
        moments: Moments,
        loadings: NDArray[np.floating],
        bias: NDArray[np.floating],
        quadrature: Quadrature,
        value_needed: bool = True,
        for_step: bool = False,
    ) -> tuple[float | None, Moments, dict[str, NDArray[np.floating]]]:
        """Return the log likelihood and its gradients; see `Likelihood`."""
        B, K = self.positives.shape
        d_loadings = np.empty_like(loadings)
        d_bias = np.empty_like(bias)
        weights = self.negative_weights
        points = np.repeat(np.arange(B), np.diff(self.positives.indptr))
        blocks = 2 * -(-B * K // PAIR_OF_BLOCKS) if B * K > ONE_BLOCK else 1
        bounds = [K * number // blocks for number in range(blocks + 1)]

        def process(start: int, stop: int) -> tuple[float, NDArray[np.floating], NDArray[np.floating]]:
            """Fill the gradients of a block of labels; return its value, and the gradients by moments."""
            labels = self.positives.indices - start
            inside = (labels >= 0) & (labels < stop - start)
            positives = points[inside], labels[inside]
            phi = loadings[start:stop]
            squares = _squares(moments, phi)
            mean = moments.mean @ phi.T
            mean += bias[start:stop]
            # NumPy's product of a column and a row takes three times as long.
            shared = moments.variance.shape[1] == 1
            variance = moments.variance * squares[:, 0] if shared else moments.variance @ squares.T

            def weigh(values: NDArray[np.floating]) -> NDArray[np.floating]:
                if weights is not None:
                    of_positives = values[positives]
                    values *= weights[start:stop].astype(values.dtype, copy=False)
                    values[positives] = of_positives
                return values

            value = 0.0
            if value_needed:
                softplus = weigh(quadrature.expected_softplus(mean, variance))
                value = float(mean[positives].sum(dtype=np.float64) - softplus.sum(dtype=np.float64))
            d_mean, d_variance = map(weigh, quadrature.gradients(mean, variance, for_step))
            d_mean[positives] -= 1
            d_bias[start:stop] = d_mean.sum(axis=0)
            d_squares = d_variance.T @ moments.variance
            d_loadings[start:stop] = d_mean.T @ moments.mean + 2 * d_squares * phi
            return value, d_mean @ phi, d_variance @ squares

        results = run_parallel(partial(process, *limits) for limits in pairwise(bounds))
        values, *parts = zip(*results, strict=True)
        d_moments = Moments(*map(np.negative, map(sum, parts)))
        return sum(values) if value_needed else None, d_moments, {"loadings": -d_loadings, "bias": -d_bias}


class SharedLabels(NamedTuple):
    """L labels that all points of a minibatch use, ascending: those of its points, and sampled ones.

    The weight of a label as a negative is the inverse of the probability that the minibatch uses it. `pairs` are those
    of the points and these labels.
    """

    labels: NDArray[np.integer]
    pairs: AllPairs

    @classmethod
    def among(
        cls, labels: NDArray[np.integer], positives: sp.csr_array, weights: NDArray[np.floating]
    ) -> "SharedLabels":
        """Return the pairs, given the positives of all labels, B×K, and the weights of these labels, L."""
        columns = np.searchsorted(labels, positives.indices)
        shape = positives.shape[0], len(labels)
        return cls(labels, AllPairs(sp.csr_array((positives.data, columns, positives.indptr), shape=shape), weights))

    def value_and_gradients(
        self,
        moments: Moments,
        loadings: NDArray[np.floating],
        bias: NDArray[np.floating],
        quadrature: Quadrature,
        value_needed: bool = True,
        for_step: bool = False,
    ) -> tuple[float | None, Moments, Gradients]:
        """Return an unbiased estimate of the log likelihood of all pairs, and its gradients; see `Likelihood`."""
        value, d_moments, gradients = self.pairs.value_and_gradients(
            moments, loadings[self.labels], bias[self.labels], quadrature, value_needed, for_step
        )
        return value, d_moments, {name: IndexedRows(self.labels, gradient) for name, gradient in gradients.items()}


class SampledPairs(NamedTuple):
    """The positives and sampled negatives of B points, E pairs; those of point i are `indptr[i]:indptr[i + 1]`.

    `positive`, bool, says whether the label is in P_i; `weight` is 1 for positives, |N_i| / |L_i| for negatives.
    """

    indptr: NDArray[np.integer]
    labels: NDArray[np.integer]
    positive: NDArray[np.bool_]
    weight: NDArray[np.floating]

    def value_and_gradients(
        self,
        moments: Moments,
        loadings: NDArray[np.floating],
        bias: NDArray[np.floating],
        quadrature: Quadrature,
        value_needed: bool = True,
        for_step: bool = False,
    ) -> tuple[float | None, Moments, Gradients]:
        """Return an estimate of the log likelihood of all pairs, and its gradients; see `Likelihood`.

        Its expectation over samples is [S] (23) without N/|B|.
        """
        selected = _select_labels(moments, loadings, self.labels)
        mean = pairwise_products(moments.mean, selected.loadings, self.indptr, selected.columns)
        mean += bias[selected.labels][selected.columns]
        variance = pairwise_products(moments.variance, selected.squares, self.indptr, selected.columns)
        value = None
        if value_needed:
            value = float(mean[self.positive].sum(dtype=np.float64))
            value -= float(np.vdot(self.weight, quadrature.expected_softplus(mean, variance)))
        d_mean, d_variance = quadrature.gradients(mean, variance, for_step)
        weight = self.weight.astype(mean.dtype, copy=False)
        d_mean *= -weight
        d_variance *= -weight
        d_mean += self.positive
        shape = (len(self.indptr) - 1, len(selected.labels))
        d_mean_matrix = sp.csr_array((d_mean, selected.columns, self.indptr), shape=shape)
        d_variance_matrix = sp.csr_array((d_variance, selected.columns, self.indptr), shape=shape)
        d_moments = Moments(
            sparse.product(d_mean_matrix, selected.loadings), sparse.product(d_variance_matrix, selected.squares)
        )
        d_squares = sparse.product(d_variance_matrix.T.tocsr(), moments.variance)
        d_loadings = sparse.product(d_mean_matrix.T.tocsr(), moments.mean)
        d_loadings += selected.loadings * (2 * d_squares)
        d_bias = np.bincount(selected.columns, d_mean, len(selected.labels)).astype(bias.dtype)
        gradients = {"loadings": d_loadings, "bias": d_bias}
        return value, d_moments, {name: IndexedRows(selected.labels, values) for name, values in gradients.items()}


def _select_labels(moments: Moments, loadings: NDArray[np.floating], labels: NDArray[np.integer]) -> _SelectedLabels:
    """Return the `_SelectedLabels`, given the label of each pair."""
    present, columns = np.unique(labels, return_inverse=True)
    phi = loadings[present]
    return _SelectedLabels(present, columns, phi, _squares(moments, phi))


def _squares(moments: Moments, loadings: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return Φ², K×P, or its sums, K×1, if the latent functions share a variance.

    With the variances s of the moments the utilities have the variances s (Φ²)ᵀ, B×K ([S] (21)).
    """
    squares: NDArray[np.floating] = loadings * loadings
    return squares.sum(axis=1, keepdims=True) if moments.variance.shape[1] == 1 else squares


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
