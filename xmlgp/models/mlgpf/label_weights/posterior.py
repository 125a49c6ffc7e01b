"""q(W), where W has elements, and its prior: before, in and after training; taken for some labels and put back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from xmlgp.gp.parameters import LIMIT, bounded_exp
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.array_groups import COMMON_FLOAT, Array, ArrayGroup, csr_pattern
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.logistic import expit
from xmlgp.models.mlgpf.label_weights.pattern import label_features
from xmlgp.runtime.threads import parallel_for

__all__ = [
    "LABEL_WEIGHTS",
    "PRIOR_VARIANCE",
    "LabelWeights",
    "hidden_label_weights",
    "initial_label_weights",
    "prior_scales",
]

#: The arrays of `LabelWeights`.
LABEL_WEIGHTS = ArrayGroup(
    "label_weights.",
    **csr_pattern("K D", "W", indices="features"),
    mean=Array("W", COMMON_FLOAT),
    log_variance=Array("W", COMMON_FLOAT),
    log_prior=Array("D", COMMON_FLOAT),
)

#: Labels whose initial variances are computed at a time.
LABELS = 1 << 12

#: The `indptr` and `indices` of a csr_array.
IndptrAndIndices: TypeAlias = tuple[NDArray[np.integer], NDArray[np.integer]]

#: Initial prior variance τ.
PRIOR_VARIANCE = 4.0

#: The prior variances of a label with n points are τ times 1 + this/n. Frequent labels decide τ. If it were the prior
#: variance of all labels, those with one or two points would have small weights and be predicted too rarely.
RARE_SPREAD = 4.0


class LabelWeights(NamedTuple):
    """q(w_kd) = N(m_kd, v_kd) for each weight of K labels, and the prior variances τ.

    Weights of label k are `indptr[k]:indptr[k + 1]`, `features` are their d, ascending within a label, `mean` and
    `log_variance` m and log v; `log_prior` is log τ, D. Indices are int64 and int32, as in the model folder, where the
    names of these parameters begin with "label_weights.".
    """

    indptr: NDArray[np.int64]
    features: NDArray[np.int32]
    mean: NDArray[Any]
    log_variance: NDArray[Any]
    log_prior: NDArray[Any]

    @classmethod
    def of(cls, parameters: Mapping[str, NDArray[Any]]) -> LabelWeights | None:
        """Return the label weights of a model, given its parameters by name; None if it has none."""
        arrays = LABEL_WEIGHTS.read(parameters)
        return cls(**arrays) if arrays else None

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by parameter name."""
        return LABEL_WEIGHTS.named(self._asdict())

    @property
    def variance(self) -> NDArray[Any]:
        """The variance v of each weight, inside the limits of `xmlgp.gp.parameters`."""
        return bounded_exp(self.log_variance)

    def block(self, first: int, last: int) -> LabelWeights:
        """Return the weights of consecutive labels, with copies of their means and variances."""
        indptr = self.indptr[first : last + 1]
        part = slice(indptr[0], indptr[-1])
        moments = self.mean[part].copy(), self.log_variance[part].copy()
        return LabelWeights(indptr - indptr[0], self.features[part], *moments, self.log_prior)

    def prior_precision(self, scales: NDArray[Any]) -> NDArray[Any]:
        """Return the precisions of the prior N(0, ρ_k τ_d) of all weights, in their order; scales are ρ, K."""
        precision: NDArray[Any] = bounded_exp(-self.log_prior)[self.features]
        precision *= np.repeat((1 / scales).astype(precision.dtype), np.diff(self.indptr))
        return precision

    def update_prior_variances(self, scales: NDArray[Any]) -> None:
        """Update log τ in place: τ_d is the mean of (m_kd² + v_kd)/ρ_k over the labels with a weight of feature d.

        Only KL[q(W) ‖ p(W)] depends on τ, and it is least there. Features without weights keep theirs.
        """
        count = sparse.column_sums(self.features, len(self.log_prior))
        total = np.zeros(len(self.log_prior))
        _add_second_moments(*self[:4], scales, total)
        used = count > 0
        self.log_prior[used] = np.log(total[used] / count[used])


def initial_label_weights(features: csr_array, labels: csr_array, bias: NDArray[Any], dtype: DTypeLike) -> LabelWeights:
    """Return initial weights: means of zero, and the variances of the Laplace approximation at f = b.

    v_kd = 1 / (1/τ_d + π_k (1 − π_k) Σ_i x_id²) with π = σ(b) and τ_d = `PRIOR_VARIANCE`; X is N×D and weighted, Y is
    N×K.
    """
    indptr, columns = label_features(features, labels)
    squares = sparse.column_sums(
        features.indices, features.shape[1], lambda part: np.square(features.data[part], dtype=np.float64)
    )
    probability = expit(bias.astype(np.float64))
    slope = probability * (1 - probability)
    log_variance = np.empty(len(columns), dtype)
    # In parts, because of the double precision.
    for start in range(0, len(bias), LABELS):
        ends = indptr[start : start + LABELS + 1]
        part = slice(ends[0], ends[-1])
        curvature = np.repeat(slope[start : start + LABELS], np.diff(ends)) * squares[columns[part]]
        log_variance[part] = -np.log(1 / PRIOR_VARIANCE + curvature)
    log_prior = np.full(features.shape[1], np.log(PRIOR_VARIANCE), dtype)
    return LabelWeights(indptr, columns, np.zeros(len(columns), dtype), log_variance, log_prior)


def prior_scales(counts: NDArray[np.int64], dtype: DTypeLike) -> NDArray[Any]:
    """Return ρ_k = 1 + `RARE_SPREAD` / n_k, K, given the number of points n with each label, at least 1."""
    return (1 + RARE_SPREAD / np.maximum(counts, 1)).astype(dtype)


@compiled
def _add_second_moments(
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    means: NDArray[Any],
    log_variances: NDArray[Any],
    scales: NDArray[Any],
    total: NDArray[np.float64],
) -> None:
    for k in range(indptr.size - 1):
        for e in range(indptr[k], indptr[k + 1]):
            total[columns[e]] += (means[e] * means[e] + np.exp(log_variances[e])) / scales[k]


@contextlib.contextmanager
def hidden_label_weights(
    parameters: Mapping[str, NDArray[Any]], features: csr_array, labels: csr_array
) -> Iterator[None]:
    """Inside the block, set the weights on features that no point of their label has to zero, without variance.

    The parameters of the model, by name, may have no label weights. X is N×D; Y, N×K, is usually that of fewer points
    than the weights were made for.
    """
    weights = LabelWeights.of(parameters)
    if weights is None:
        yield
        return
    by_label = labels.T.tocsr()
    hidden = np.ones(len(weights.features), bool)
    patterns = (
        (by_label.indptr, by_label.indices),
        (features.indptr, features.indices),
        (weights.indptr, weights.features),
    )
    width = features.shape[1]
    parallel_for(lambda start, stop: _mark_seen(start, stop, *patterns, width, hidden), labels.shape[1], LABELS)
    kept = weights.mean[hidden], weights.log_variance[hidden]
    try:
        weights.mean[hidden] = 0
        weights.log_variance[hidden] = -LIMIT
        yield
    finally:
        weights.mean[hidden], weights.log_variance[hidden] = kept


@compiled
def _mark_seen(
    start: int,
    stop: int,
    by_label: IndptrAndIndices,
    features: IndptrAndIndices,
    weights: IndptrAndIndices,
    width: int,
    hidden: NDArray[np.bool_],
) -> None:
    """Set `hidden` to False for the weights of some labels on features that a point of the label has.

    NumPy's `isin` over sorted pairs takes two to three seconds more on a set of 170,000 points.
    """
    last_label = np.full(width, -1, np.int64)
    for k in range(start, stop):
        for e in range(by_label[0][k], by_label[0][k + 1]):
            point = by_label[1][e]
            for t in range(features[0][point], features[0][point + 1]):
                last_label[features[1][t]] = k
        for e in range(weights[0][k], weights[0][k + 1]):
            if last_label[weights[1][e]] == k:
                hidden[e] = False
