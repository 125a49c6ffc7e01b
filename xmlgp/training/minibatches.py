"""The points and labels of a training step: the split into training and held-out points, minibatches, and negatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.features.inputs import Inputs
from xmlgp.gp.bound import Batch
from xmlgp.gp.likelihood import AllPairs, Likelihood, SampledPairs, SharedLabels
from xmlgp.gp.weight_space import log_absent
from xmlgp.runtime.random_streams import Stream, random_stream

__all__ = ["PairSampler", "LabelSampler", "SeededMinibatches", "hold_out", "make_batch", "sample_negatives"]

#: A function of the positives of a minibatch, B×K, and a random generator, which returns the pairs that a step uses.
PairSampler: TypeAlias = Callable[[csr_array, np.random.Generator], Likelihood]

#: The share of draws in proportion to label frequencies. The other draws are uniform, so the weights of rare labels are
#: at most twice those of uniform sampling.
FREQUENT_SHARE = 0.5


def hold_out(count: int, share: float, random: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split `count` points at random; return the rows to train on and the held-out rows, both in ascending order.

    round(share·count) points are held out, at least 1 and at most count − 1; none if count < 2 or the share is 0.
    """
    held_out_count = min(max(1, round(share * count)), count - 1) if share > 0 else 0
    chosen = np.zeros(count, bool)
    if held_out_count > 0:
        chosen[random.choice(count, held_out_count, replace=False)] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


class SeededMinibatches:
    """Splits of `count` points into minibatches of almost equal size, at most `batch_size`, in random order.

    The seed and the epoch determine the order.
    """

    def __init__(self, count: int, batch_size: int, seed: int) -> None:
        self._count = count
        self._batch_size = batch_size
        self._seed = seed
        #: The epoch of the last call, −1 before the first, and its minibatches.
        self._cached: tuple[int, list[NDArray[np.int64]]] = -1, []

    def __len__(self) -> int:
        """Return the number of minibatches in an epoch."""
        return -(-self._count // self._batch_size)

    def rows(self, epoch: int, number: int) -> NDArray[np.int64]:
        """Return the rows of minibatch `number` of an epoch; both count from 0."""
        if self._cached[0] != epoch:
            order = random_stream(self._seed, Stream.MINIBATCHES, epoch).permutation(self._count)
            self._cached = epoch, np.array_split(order, len(self))
        return self._cached[1][number]


class LabelSampler:
    """A `PairSampler` that samples labels for a whole minibatch, given Y, N×K.

    A minibatch uses the labels of its points and `count` others, which are drawn with replacement, half in proportion
    to label frequencies and half uniformly. If a point lacks label k, its minibatch has this label with the probability
    π_k = 1 − (1 − q_k)^count C(N − 1 − n_k, B − 1) / C(N − 1, B − 1), where q_k is the probability of label k in a draw
    and n_k the number of points with the label. The negative has the weight 1/π_k, so the expectation of the bound over
    minibatches and draws is the bound over all labels. All points share the labels, so utilities are one dense product.
    All labels are used if `count` is K or more.
    """

    def __init__(self, labels: csr_array, count: int) -> None:
        self._point_count, self._label_count = labels.shape
        self._draw_count = count
        #: n_k of each label.
        self._points_of_labels = np.bincount(labels.indices, minlength=self._label_count)
        shares = self._points_of_labels / max(1, self._points_of_labels.sum())
        probability = FREQUENT_SHARE * shares + (1 - FREQUENT_SHARE) / max(1, self._label_count)
        #: q_k of each label.
        self._probability = probability / probability.sum()
        self._cumulative = np.cumsum(self._probability)
        #: For each minibatch size B, the weights 1/π_k of all labels.
        self._weights: dict[int, NDArray[np.float64]] = {}

    def __call__(self, positives: csr_array, random: np.random.Generator) -> Likelihood:
        """Return the pairs of all points of a minibatch and the sampled labels, given its positives, B×K."""
        if self._draw_count >= self._label_count:
            return AllPairs(positives)
        drawn = np.searchsorted(self._cumulative, random.random(self._draw_count), side="right")
        used = np.union1d(np.minimum(drawn, self._label_count - 1), positives.indices)
        return SharedLabels.among(used, positives, self._weights_for(positives.shape[0])[used])

    def _weights_for(self, size: int) -> NDArray[np.float64]:
        """Return the weights 1/π_k of all labels, K elements, for minibatches of `size` points."""
        if size not in self._weights:
            # One point of the minibatch lacks the label; `size` − 1 are drawn from the others.
            others = self._point_count - 1
            absent = log_absent(others, np.minimum(self._points_of_labels, others), size - 1)
            self._weights[size] = 1 / -np.expm1(absent + self._draw_count * np.log1p(-self._probability))
        return self._weights[size]


def make_batch(
    inputs: Inputs,
    labels: csr_array,
    rows: NDArray[np.int64],
    choose_pairs: Callable[[csr_array], Likelihood] = AllPairs,
) -> Batch:
    """Return the `Batch` of some rows of the inputs and of Y, N×K; `choose_pairs` gets its positives, B×K."""
    return Batch(inputs.rows(rows), choose_pairs(labels[rows]), labels.shape[0] / len(rows))


def sample_negatives(labels: csr_array, random: np.random.Generator, count: int) -> SampledPairs:
    """Return the positives, B×K, and a uniform sample without replacement of the negatives of each point.

    Candidates are drawn with replacement; positives and repetitions are rejected and drawn again. All remaining
    negatives are equally likely at every stage, so the sample is uniform. Time and memory grow with the sample and the
    positives, not with K.
    """
    B, K = labels.shape
    positive_counts = np.diff(labels.indptr).astype(np.int64)
    sizes = np.minimum(count, K - positive_counts)
    # A pair is the integer point·K + label; `pairs` has those that may not be drawn again.
    pairs = np.repeat(np.arange(B) * K, positive_counts) + labels.indices
    missing = sizes
    while missing.any():
        owner = np.repeat(np.arange(B), missing)
        drawn = np.setdiff1d(owner * K + random.integers(0, K, len(owner)), pairs)
        pairs = np.concatenate([pairs, drawn])
        missing = missing - np.bincount(drawn // K, minlength=B)
    order = np.argsort(pairs)
    # The positives are the first elements of `pairs`.
    positive = order < labels.nnz
    owner, label = np.divmod(pairs[order], K)
    indptr = np.concatenate([[0], np.cumsum(positive_counts + sizes)])
    weight = (K - positive_counts) / np.maximum(sizes, 1)
    return SampledPairs(indptr, label, positive, np.where(positive, 1, weight[owner]))
