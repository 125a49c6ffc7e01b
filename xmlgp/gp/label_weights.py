"""Label weights: sparse weights W of each label on the features of its points, f = Φ h + b + W x.

Φ h has rank P, and rare labels have little influence on it. W lets each label depend on single features, those that its
training points have. The posterior is fully factorised, q(w_kd) = N(m_kd, v_kd). The prior is N(0, ρ_k τ_d) with a
given ρ_k; the bound is maximised over τ_d of each feature, which shrinks the weights of uninformative features.
`xmlgp.gp.label_weight_updates` has the updates.
"""

import contextlib
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from xmlgp.gp.log_parameters import LIMIT, bounded_exp
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for

__all__ = [
    "PRIOR_VARIANCE",
    "WEIGHTS_LIMIT",
    "LabelWeights",
    "WeightsPrior",
    "are_valid",
    "has_label_weights",
    "hidden_label_weights",
    "initial_label_weights",
    "label_features",
    "label_weight_count",
    "put_labels",
    "take_labels",
    "used_by_default",
]

#: Features per latent function from which on label weights are used by default. With fewer, Φ h spans all directions
#: that matter, and label weights lower the precision on validation points of Delicious (D=500, P=100).
FEATURES_PER_FACTOR = 10

#: Most weights of a model. Beyond, each label keeps the features with the largest total value over its points.
WEIGHTS_LIMIT = 30_000_000

#: Initial prior variance τ.
PRIOR_VARIANCE = 4.0

#: Stored elements of points per block of labels, when the features of labels are collected.
BLOCK = 1 << 22

#: Labels whose initial variances are computed at a time in double precision; least number of labels per thread whose
#: features are counted.
LABELS = 1 << 12


def has_label_weights(parameters):
    """Return whether a model has label weights, given its parameters by name."""
    return "label_weights.mean" in parameters


def used_by_default(feature_count, factor_count):
    """Return whether label weights are used unless the settings say otherwise, given D and P."""
    return feature_count >= FEATURES_PER_FACTOR * factor_count


def label_features(features, labels, limit=WEIGHTS_LIMIT):
    """Return the sparsity pattern of W: the features that the points of each label have.

    Parameters
    ----------
    features : csr_array, N×D
        X, weighted.
    labels : csr_array, N×K
        Y.
    limit : int
        Most weights of all labels together; every label keeps at least one. The labels with the most features lose
        features first, those with the smallest total value over their points.

    Returns
    -------
    indptr : ndarray of int64, K+1
        Features of label k are `features[indptr[k]:indptr[k + 1]]`.
    features : ndarray of int32
        Ascending within each label.
    """
    by_label = labels.T.tocsr().astype(np.float32)
    magnitudes = sp.csr_array((np.abs(features.data), features.indices, features.indptr), shape=features.shape)

    most = _most_each(_lengths(features, by_label), limit)
    # Blocks of labels whose points have about `BLOCK` stored elements.
    ends = np.cumsum(by_label.astype(bool) @ np.diff(features.indptr).astype(np.float64))
    cuts = np.searchsorted(ends, np.arange(1, ends[-1] // BLOCK + 1) * BLOCK) if len(ends) else []
    bounds = np.unique([0, *cuts, len(ends)])

    lengths, columns = [np.zeros(1, np.int64)], [np.zeros(0, np.int32)]
    for start, stop in pairwise(bounds):
        block = by_label[start:stop] @ magnitudes
        lengths.append(np.minimum(np.diff(block.indptr), most))
        columns.append(_strongest(block, most))
    return np.cumsum(np.concatenate(lengths), dtype=np.int64), np.concatenate(columns)


def label_weight_count(features, labels, limit=WEIGHTS_LIMIT):
    """Return the number of weights that `label_features` chooses, without choosing them."""
    lengths = _lengths(features, labels.T.tocsr())
    return int(np.minimum(lengths, _most_each(lengths, limit)).sum())


def _lengths(features, by_label):
    """Return the number of features that the points of each label have, K.

    Parameters
    ----------
    features : csr_array, N×D
    by_label : csr_array, K×N
        Yᵀ.
    """
    lengths = np.zeros(by_label.shape[0], np.int64)
    arrays = by_label.indptr, by_label.indices, features.indptr, features.indices, features.shape[1], lengths
    parallel_for(lambda start, stop: _count_features(start, stop, *arrays), len(lengths), LABELS)
    return lengths


@compiled
def _count_features(start, stop, indptr, points, x_indptr, x_indices, feature_count, lengths):
    seen = np.full(feature_count, -1, np.int32)
    for k in range(start, stop):
        for e in range(indptr[k], indptr[k + 1]):
            for t in range(x_indptr[points[e]], x_indptr[points[e] + 1]):
                if seen[x_indices[t]] != k:
                    seen[x_indices[t]] = k
                    lengths[k] += 1


def _most_each(lengths, limit):
    """Return the greatest m with Σ_k min(length_k, m) ≤ limit, at least 1."""
    if lengths.sum() <= limit:
        return int(lengths.max(initial=1))
    low, high = 1, int(lengths.max())
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(lengths, middle).sum() <= limit else (low, middle - 1)
    return low


def _strongest(totals, most):
    """Return the features of largest value in each row, at most `most`, in ascending order."""
    if np.diff(totals.indptr).max(initial=0) <= most:
        totals.sort_indices()
        return totals.indices.astype(np.int32)
    rows = np.repeat(np.arange(totals.shape[0]), np.diff(totals.indptr))
    order = np.lexsort((totals.indices, -totals.data, rows))
    kept = order[np.arange(len(rows)) - totals.indptr[rows] < most]
    rows, columns = rows[kept], totals.indices[kept]
    return columns[np.lexsort((columns, rows))].astype(np.int32)


@contextlib.contextmanager
def hidden_label_weights(parameters, features, labels):
    """Set the weights on features that no point of their label has to zero, without variance, inside the block.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        Those named `label_weights.*`; there may be none.
    features : csr_array, N×D
        X.
    labels : csr_array, N×K
        Y; usually that of fewer points than the weights were made for.
    """
    if not has_label_weights(parameters):
        yield
        return
    indptr, columns = parameters["label_weights.indptr"], parameters["label_weights.features"]
    by_label, hidden = labels.T.tocsr(), np.ones(len(columns), bool)
    arrays = by_label.indptr, by_label.indices, features.indptr, features.indices, features.shape[1]
    parallel_for(lambda start, stop: _unmark(start, stop, *arrays, indptr, columns, hidden), len(indptr) - 1, LABELS)
    mean, log_variance = parameters["label_weights.mean"], parameters["label_weights.log_variance"]
    kept = mean[hidden], log_variance[hidden]
    try:
        mean[hidden], log_variance[hidden] = 0, -LIMIT
        yield
    finally:
        mean[hidden], log_variance[hidden] = kept


@compiled
def _unmark(start, stop, indptr, points, x_indptr, x_indices, feature_count, starts, columns, hidden):
    """Set `hidden` to False for the weights of some labels on features that a point of the label has."""
    seen = np.full(feature_count, -1, np.int32)
    for k in range(start, stop):
        for e in range(indptr[k], indptr[k + 1]):
            for t in range(x_indptr[points[e]], x_indptr[points[e] + 1]):
                seen[x_indices[t]] = k
        for e in range(starts[k], starts[k + 1]):
            if seen[columns[e]] == k:
                hidden[e] = False


def are_valid(parameters, feature_count, label_count):
    """Return whether the label weights of an untrusted file are consistent with each other and with the model.

    Compiled loops do not check indices.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        Those named `label_weights.*` are checked; a model may have none.
    feature_count, label_count : int
        D and K.
    """
    arrays = {name.partition(".")[2]: value for name, value in parameters.items() if name.startswith("label_weights.")}
    if not arrays:
        return True
    if arrays.keys() != {"indptr", "features", "mean", "log_variance", "log_prior"}:
        return False
    indptr, features, *values = (arrays[name] for name in ("indptr", "features", "mean", "log_variance", "log_prior"))
    return bool(
        sparse.is_pattern(indptr, features, label_count, feature_count)
        and values[0].dtype in (np.float32, np.float64)
        and all(array.dtype == values[0].dtype for array in values)
        and [array.shape for array in values] == [features.shape, features.shape, (feature_count,)]
    )


def initial_label_weights(features, labels, bias, dtype):
    """Return initial parameters: means of zero, and the variances of the Laplace approximation at f = b.

    v_kd = 1 / (1/τ_d + π_k (1 − π_k) Σ_i x_id²) with π = σ(b) and τ_d = `PRIOR_VARIANCE`.

    Parameters
    ----------
    features : csr_array, N×D
        X, weighted.
    labels : csr_array, N×K
        Y.
    bias : ndarray, K
        b.
    dtype : dtype

    Returns
    -------
    dict of str to ndarray
        `label_weights.indptr` and `label_weights.features`, the sparsity pattern (see `label_features`);
        `label_weights.mean` and `label_weights.log_variance`, m and log v of each weight; `label_weights.log_prior`,
        log τ, D.
    """
    indptr, columns = label_features(features, labels)
    squares = sparse.column_sums(
        features.indices, features.shape[1], lambda part: np.square(features.data[part], dtype=np.float64)
    )
    probability = expit(bias.astype(np.float64))
    slope, log_variance = probability * (1 - probability), np.empty(len(columns), dtype)
    for start in range(0, len(bias), LABELS):
        ends = indptr[start : start + LABELS + 1]
        part = slice(ends[0], ends[-1])
        curvature = np.repeat(slope[start : start + LABELS], np.diff(ends)) * squares[columns[part]]
        log_variance[part] = -np.log(1 / PRIOR_VARIANCE + curvature)
    return {
        "label_weights.indptr": indptr,
        "label_weights.features": columns,
        "label_weights.mean": np.zeros(len(columns), dtype),
        "label_weights.log_variance": log_variance,
        "label_weights.log_prior": np.full(features.shape[1], np.log(PRIOR_VARIANCE), dtype),
    }


class LabelWeights:
    """q(W) with mean m and variance v of each weight; v is inside the limits of `xmlgp.gp.log_parameters`.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        See `initial_label_weights`.

    Attributes
    ----------
    indptr : ndarray of int64, K+1
        Weights of label k are `indptr[k]:indptr[k + 1]`.
    features, mean, variance : ndarray
        Feature d, m_kd and v_kd of each weight.
    feature_count : int
        D.
    """

    def __init__(self, parameters):
        self.indptr, self.features, self.mean = (
            parameters[f"label_weights.{name}"] for name in ("indptr", "features", "mean")
        )
        self.variance = bounded_exp(parameters["label_weights.log_variance"])
        self.feature_count = len(parameters["label_weights.log_prior"])


class WeightsPrior(NamedTuple):
    """The prior of the weights of consecutive labels.

    Attributes
    ----------
    mean, precision : ndarray
        a and π of each weight.
    """

    mean: np.ndarray
    precision: np.ndarray

    def of(self, weights, first, last):
        """Return the prior of the weights of some consecutive labels.

        Parameters
        ----------
        weights : mapping of str to ndarray
            See `initial_label_weights`.
        first, last : int
            The first of the labels, and the one after the last.
        """
        ends = weights["label_weights.indptr"]
        part = slice(ends[first], ends[last])
        return WeightsPrior(self.mean[part], self.precision[part])

    @classmethod
    def of_training(cls, parameters, first, scales):
        """Return the prior N(0, ρ_k τ_d) of the weights of L consecutive labels.

        Parameters
        ----------
        parameters : mapping of str to ndarray
            See `initial_label_weights`.
        first : int
            The first of the labels.
        scales : ndarray, L
            ρ: the prior variances of each label, relative to τ.
        """
        ends = parameters["label_weights.indptr"][first : first + len(scales) + 1]
        columns = parameters["label_weights.features"][ends[0] : ends[-1]]
        precision = bounded_exp(-parameters["label_weights.log_prior"])[columns]
        precision *= np.repeat((1 / scales).astype(precision.dtype), np.diff(ends))
        return cls(np.zeros_like(precision), precision)


def take_labels(parameters, labels, pattern, scales):
    """Return the weights of L labels, and their prior: the posterior of those that there are.

    A weight on a feature that is new to a label is N(0, ρ_k τ_d), as it is before training.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        See `initial_label_weights`.
    labels : ndarray of int, L
        In ascending order.
    pattern : tuple of ndarray
        For each of the labels features that it shall have a weight on, as `label_features` returns them.
    scales : ndarray, L
        ρ.

    Returns
    -------
    part : dict of str to ndarray
        As the parameters, for L labels.
    prior : WeightsPrior
        Of these weights.
    """
    indptr, columns, means, log_variances, log_prior = (
        parameters[f"label_weights.{name}"] for name in ("indptr", "features", "mean", "log_variance", "log_prior")
    )
    D, count = len(log_prior), len(labels)
    lengths = np.diff(indptr)[labels]
    old = np.repeat(indptr[labels] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    keys = np.repeat(np.arange(count), lengths) * D + columns[old]
    new_keys = np.repeat(np.arange(count), np.diff(pattern[0])) * D + pattern[1]
    all_keys = np.union1d(keys, new_keys)
    rows, features = np.divmod(all_keys, D)
    place = np.searchsorted(all_keys, keys)
    mean = np.zeros(len(all_keys), means.dtype)
    variance = bounded_exp(log_prior)[features] * scales[rows].astype(means.dtype)
    mean[place], variance[place] = means[old], bounded_exp(log_variances[old])
    part = {
        "label_weights.indptr": np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int64),
        "label_weights.features": features.astype(np.int32),
        "label_weights.mean": mean.copy(),
        "label_weights.log_variance": np.log(variance),
        "label_weights.log_prior": log_prior,
    }
    return part, WeightsPrior(mean, 1 / variance)


def put_labels(parameters, labels, part):
    """Return W with the weights of some labels replaced, by parameter name.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        See `initial_label_weights`.
    labels : ndarray of int, L
        In ascending order.
    part : mapping of str to ndarray
        The weights of these labels, as from `take_labels`.
    """
    indptr = parameters["label_weights.indptr"]
    before = np.diff(indptr)
    lengths, replaced = before.copy(), np.zeros(len(before), bool)
    lengths[labels], replaced[labels] = np.diff(part["label_weights.indptr"]), True
    # Where the weights of the other labels were and will be.
    kept, new = np.repeat(~replaced, before), np.repeat(replaced, lengths)
    found = dict(parameters) | {"label_weights.indptr": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)}
    for name in ("features", "mean", "log_variance"):
        name = f"label_weights.{name}"
        values = np.empty(len(new), parameters[name].dtype)
        values[~new], values[new] = parameters[name][kept], part[name]
        found[name] = values
    return found
