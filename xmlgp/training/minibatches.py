"""The points and labels of a training step: points held out, minibatches of the others, and sampled negatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from xmlgp.features.inputs import Inputs, Selected
from xmlgp.gp.bound import Batch, LabelSample, log_absent
from xmlgp.gp.inner_products import Points
from xmlgp.gp.likelihood import SampledPairs
from xmlgp.runtime.random_streams import Stream, random_stream

__all__ = [
    "SAMPLERS",
    "LabelSampler",
    "SeededMinibatches",
    "hold_out",
    "make_batch",
    "sample_by_frequency",
    "sample_negatives",
]

#: A function that draws negatives: `(labels, count, random, dtype)` → `SampledPairs`.
Sampler: TypeAlias = "Callable[[csr_array, int, np.random.Generator, DTypeLike], SampledPairs]"

#: Share of the negatives that are sampled in proportion to label frequencies. The others are uniform, so that the
#: weights of rare labels are at most twice those of uniform sampling.
FREQUENT_SHARE = 0.5


def hold_out(count: int, share: float, random: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split N points at random into those to train on and those to validate on (row numbers in ascending order).

    round(share·N) points are held out, at least 1 and at most N − 1; none if N < 2 or the share is 0.
    """
    held_out_count = min(max(1, round(share * count)), count - 1) if share > 0 else 0
    chosen = np.zeros(count, bool)
    if held_out_count > 0:
        chosen[random.choice(count, held_out_count, replace=False)] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


class SeededMinibatches:
    """Minibatches of N points, of almost equal size, in a random order that the seed and the epoch determine."""

    def __init__(self, count: int, batch_size: int, seed: int) -> None:
        self._count = count
        self._batch_size = batch_size
        self._seed = seed
        #: The epoch of the last call, and its minibatches.
        self._cached: tuple[int, list[NDArray[np.int64]]] = -1, []

    def __len__(self) -> int:
        """Return the number of minibatches in an epoch."""
        return -(-self._count // self._batch_size)

    def rows(self, epoch: int, number: int) -> NDArray[np.int64]:
        """Return the rows of minibatch `number` of an epoch; both are counted from 0."""
        if self._cached[0] != epoch:
            order = random_stream(self._seed, Stream.MINIBATCHES, epoch).permutation(self._count)
            self._cached = epoch, np.array_split(order, len(self))
        return self._cached[1][number]


class LabelSampler:
    """Draws labels that all points of a minibatch share as negatives, beside the labels of its points, given Y, N×K.

    A minibatch has the labels of its points; `count` more are drawn with replacement, half of them in proportion to
    label frequencies and half uniformly. If a point lacks label k, its minibatch has this label with the probability
    π_k = 1 − (1 − q_k)^count C(N − 1 − n_k, B − 1) / C(N − 1, B − 1), where q_k is the probability of label k in a draw
    and n_k the number of points with the label. The negative has the weight 1/π_k, so the expectation of the bound over
    minibatches and draws is the bound over all labels. All points share the labels, so utilities are one dense product.
    All labels are used if `count` is K or more.
    """

    def __init__(self, labels: csr_array, count: int) -> None:
        self._point_count, self._label_count = labels.shape
        self._count = count
        #: How many points have each label, n, and the probability of each label in a draw, q.
        self._counts = np.bincount(labels.indices, minlength=self._label_count)
        self._probability = _label_probability(self._counts)
        self._cumulative = np.cumsum(self._probability)
        #: The weights 1/π, K, by the size B of a minibatch.
        self._weights: dict[int, NDArray[np.float64]] = {}

    def sample(self, labels: csr_array, random: np.random.Generator, dtype: DTypeLike) -> LabelSample | None:
        """Return the `LabelSample` of a minibatch, given its positives, B×K; None if all labels are used."""
        if self._count >= self._label_count:
            return None
        drawn = np.searchsorted(self._cumulative, random.random(self._count), side="right")
        used = np.union1d(np.minimum(drawn, self._label_count - 1), labels.indices)
        return LabelSample(used, self._weights_for(labels.shape[0])[used].astype(dtype))

    def _weights_for(self, size: int) -> NDArray[np.float64]:
        if size not in self._weights:
            # One point of the minibatch lacks the label; `size` − 1 are drawn from the others.
            others = self._point_count - 1
            absent = log_absent(others, np.minimum(self._counts, others), size - 1)
            self._weights[size] = 1 / -np.expm1(absent + self._count * np.log1p(-self._probability))
        return self._weights[size]


def make_batch(
    inputs: Inputs | Selected,
    labels: csr_array,
    rows: NDArray[np.int64],
    random: np.random.Generator | None = None,
    *,
    negatives: int | None = None,
    sampler: Sampler | None = None,
    label_sampler: LabelSampler | None = None,
) -> Batch:
    """Return the `Batch` of some rows of the inputs (`Inputs`) and of Y, N×K.

    Each point has all its negatives; or only `negatives` of them, drawn by `sampler` (see `SAMPLERS`); or those that
    `label_sampler` (`LabelSampler`) draws for the whole batch. What is drawn needs `random`.
    """
    batch_labels = labels[rows]
    pairs = None
    sample = None
    if random is None and (negatives is not None or label_sampler is not None):
        raise TypeError("drawing negatives needs random numbers")
    if label_sampler is not None and random is not None:
        sample = label_sampler.sample(batch_labels, random, inputs.dtype)
    if negatives is not None and random is not None:
        pairs = (sampler or sample_negatives)(batch_labels, negatives, random, inputs.dtype)
    return Batch(Points(*inputs.rows(rows)), batch_labels, pairs, labels.shape[0] / len(rows), sample)


def sample_negatives(labels: csr_array, count: int, random: np.random.Generator, dtype: DTypeLike) -> SampledPairs:
    """Return the positives, B×K, and a uniform sample without replacement of the negatives of each point.

    Candidates are drawn with replacement; positives and repetitions are rejected and drawn again. All remaining
    negatives are equally likely at every stage, so the sample is uniform. Time and memory grow with the sample and the
    positives, not with K. Returns `SampledPairs` with weights of type `dtype`.
    """
    batch, label_count = labels.shape
    positive_counts = np.diff(labels.indptr).astype(np.int64)
    available = label_count - positive_counts
    sizes = np.minimum(count, available)
    rows = np.arange(batch)
    base = rows * label_count
    taken = np.sort(_keys(labels))
    chosen = np.empty(0, np.int64)
    # Rejection would be slow if more than half of the negatives are sampled.
    dense = np.flatnonzero(2 * sizes > available)
    if len(dense):
        keys = random.random((len(dense), label_count))
        local = np.repeat(np.arange(len(dense)), positive_counts[dense])
        keys[local, labels[dense].indices] = 2  # after every negative
        order = np.argsort(keys, axis=1)
        kept = np.arange(label_count) < sizes[dense][:, None]
        chosen = (order + base[dense][:, None])[kept]
    missing = np.where(2 * sizes > available, 0, sizes)
    while missing.any():
        owner = np.repeat(rows, missing)
        drawn = np.unique(owner * label_count + random.integers(0, label_count, len(owner)))
        fresh = drawn[~_is_in(drawn, taken)]
        taken = np.sort(np.concatenate([taken, fresh]))
        chosen = np.concatenate([chosen, fresh])
        missing -= np.bincount(fresh // label_count, minlength=batch)
    weights = np.divide(available, sizes, out=np.zeros(batch), where=sizes > 0)
    return _pairs(labels, chosen, weights[chosen // label_count], dtype)


def sample_by_frequency(labels: csr_array) -> Sampler:
    """Return a sampler, like `sample_negatives`, that prefers the labels that are frequent in `labels`, N×K.

    It draws labels with replacement, half of them in proportion to their frequencies and half uniformly, and drops
    positives of the point. Each of the n draws has label k with probability q_k; a negative has the
    weight 1/(n q_k) for each time it is drawn, so the expectation is the sum over all negatives. The variance is
    smaller than that of a uniform sample once predictions are useful, because frequent labels have higher
    probabilities.
    """
    label_count = labels.shape[1]
    probability = _label_probability(np.bincount(labels.indices, minlength=label_count))
    cumulative = np.cumsum(probability)
    cumulative[-1:] = 1

    def sampler(labels: csr_array, count: int, random: np.random.Generator, dtype: DTypeLike) -> SampledPairs:
        if 2 * count > label_count:  # cheaper and exact without replacement
            return sample_negatives(labels, count, random, dtype)
        owner = np.repeat(np.arange(labels.shape[0]), count)
        drawn = np.searchsorted(cumulative, random.random(len(owner)), side="right")
        keys, times = np.unique(owner * label_count + drawn, return_counts=True)
        negative = ~_is_in(keys, np.sort(_keys(labels)))
        keys = keys[negative]
        times = times[negative]
        return _pairs(labels, keys, times / (count * probability[keys % label_count]), dtype)

    return sampler


def _label_probability(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the probability of each label in a draw, K, given how many points have it."""
    probability = FREQUENT_SHARE * counts / max(1, counts.sum()) + (1 - FREQUENT_SHARE) / max(1, len(counts))
    return np.asarray(probability / probability.sum())


#: For each value of the setting `sampling`, a function that returns a sampler for the labels of all training points.
SAMPLERS: dict[str, Callable[[csr_array], Sampler]] = {
    "uniform": lambda labels: sample_negatives,
    "frequency": sample_by_frequency,
}


def _keys(labels: csr_array) -> NDArray[np.int64]:
    """Return the positives as integers, point·K + label."""
    return np.asarray(np.repeat(np.arange(labels.shape[0]) * labels.shape[1], np.diff(labels.indptr)) + labels.indices)


def _pairs(
    labels: csr_array, negatives: NDArray[np.int64], weights: NDArray[np.float64], dtype: DTypeLike
) -> SampledPairs:
    """Return `SampledPairs` of the positives and of weighted negatives, which are integers as in `_keys`."""
    label_count = labels.shape[1]
    keys = np.concatenate([_keys(labels), negatives])
    order = np.argsort(keys, kind="stable")
    positive = np.arange(len(keys)) < labels.nnz
    weight = np.concatenate([np.ones(labels.nnz), weights])
    per_point = np.bincount(keys // label_count, minlength=labels.shape[0])
    indptr = np.concatenate([[0], np.cumsum(per_point)])
    return SampledPairs(indptr, (keys % label_count)[order], positive[order], weight[order].astype(dtype))


def _is_in(values: NDArray[np.int64], sorted_values: NDArray[np.int64]) -> NDArray[np.bool_]:
    index = np.searchsorted(sorted_values, values)
    index[index == len(sorted_values)] = 0
    return sorted_values[index] == values if len(sorted_values) else np.zeros(len(values), bool)
