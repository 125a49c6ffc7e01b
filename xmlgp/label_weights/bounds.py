"""The labels of highest score of each point, found exactly from upper bounds of the scores of all labels.

Φ, W and the points are rounded to integers of eight bits, whose products take a fraction of the time of others. The
rounding errors are known, so the integers bound the utility: with φ = s φ̂ + e and h = s' ĥ + e', the mean φ·h differs
from s s' φ̂·ĥ by at most ‖e‖ ‖h‖ + ‖s φ̂‖ ‖e'‖, and w·x from its integers by at most max_d |w_d| times what the rounding
of both adds up to over the features of the point. The variance is at most σ² ‖φ‖² + max_d v_d ‖x‖².

A label is visited, which means that its moments and its score are computed from the numbers of the model, unless its
bound is below the score of the k-th best label of the point so far. Of 18,000 labels of a trained model 20 remain at
the end. No other label can be among the best, so the result is exact.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.gp.expectations.closed_form import MARGIN
from xmlgp.gp.expectations.quadrature import EXACT_TAIL, LARGEST_VARIANCE, nodes_and_weights
from xmlgp.gp.likelihood import Moments
from xmlgp.gp.log_parameters import LIMIT
from xmlgp.label_weights.posterior import LabelWeights
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.byte_products import (
    GROUP,
    HIGHEST,
    OFFSET,
    POINTS,
    QUAD,
    add_byte_rows,
    add_byte_tile,
    place_in_row,
)
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.dense import all_finite
from xmlgp.linear_algebra.sparse import first_not_below
from xmlgp.runtime.threads import parallel_for

__all__ = ["UtilityBounds"]

#: Labels of a block: their sums for all points of a part stay in a core's cache.
BLOCK = 512

#: Features have a row of bytes for all labels where more than this share of the labels has a weight.
ROW_SHARE = 0.04

#: Labels per thread whose loadings are rounded.
GRAIN = 1 << 12

#: Labels that are kept beside the best: their order may differ in the last digits of other ways to compute scores.
SPARE = 4

#: Labels of a point that wait to be visited.
WAITING = 64

#: By how much the log odds of a probability are below the shrunk mean of the utility, at most nearly always, and
#: `MARGIN`: what is guessed must hardly ever be too high.
GUESS_MARGIN = 0.35

#: π/8: E σ(f) is about σ(m / √(1 + π v / 8)).
SHRINKAGE = math.pi / 8

#: A label with this many times as many weights as a point has features is searched for these features.
SEARCH_RATIO = 8

#: What bounds allow for rounding in single precision, relative to the lengths of the vectors.
SLACK = 1e-5


class _Labels(NamedTuple):
    """Of K labels, and labels that are never visited up to a multiple of `BLOCK`: integers of Φ, and numbers.

    The numbers are, for each label, s, ‖e‖, ‖s φ̂‖, b and ‖φ‖², and max |w| and max v of its weights.
    """

    tiles: NDArray[np.uint8]
    scale: NDArray[np.float32]
    error: NDArray[np.float32]
    length: NDArray[np.float32]
    bias: NDArray[np.float32]
    spread: NDArray[np.float32]
    largest: NDArray[np.float32]
    widest: NDArray[np.float32]


class _Weights(NamedTuple):
    """Integers of W in units of max |w| / 127 of each label.

    Feature d has the row `slots[d]` of each block, or, where that is −1, the weights from `starts[d]` on.
    """

    slots: NDArray[np.int32]
    rows: NDArray[np.uint8]
    starts: NDArray[np.int64]
    labels: NDArray[np.int32]
    values: NDArray[np.int8]


class _Model(NamedTuple):
    """Φ and b, and W by label, which may be empty, and the order in which labels are searched."""

    order: NDArray[np.int32]
    loadings: NDArray[Any]
    bias: NDArray[Any]
    starts: NDArray[np.int64]
    features: NDArray[np.int32]
    means: NDArray[Any]
    log_variances: NDArray[Any]


class _Points(NamedTuple):
    """B points: the moments of their latent functions, B×P and B×1 or B×P, and their weighted features."""

    latent: NDArray[Any]
    variance: NDArray[Any]
    indptr: NDArray[Any]
    indices: NDArray[Any]
    values: NDArray[Any]


class _Rounded(NamedTuple):
    """Integers of B points, and of empty ones up to a multiple of `POINTS`, and numbers.

    Those of the features with rows are `values[starts[i]:starts[i + 1]]`, with rows from `slots`; a multiple of four.
    """

    latent: NDArray[np.int8]
    #: What the offset of the other operand adds to sums of products, with the other sign.
    initial: NDArray[np.int32]
    #: s', ‖h‖ and ‖e'‖.
    scale: NDArray[np.float32]
    norm: NDArray[np.float32]
    error: NDArray[np.float32]
    #: Of the features: the unit of their integers relative to that of the weights, and the error relative to max |w|.
    feature_scale: NDArray[np.float32]
    feature_error: NDArray[np.float32]
    #: Σ_d x_d².
    square: NDArray[np.float32]
    #: The largest of the latent functions, which bounds that of each, and the least.
    variance: NDArray[np.float32]
    low_variance: NDArray[np.float32]
    starts: NDArray[np.int64]
    slots: NDArray[np.int32]
    values: NDArray[np.int8]
    #: Of all features.
    integers: NDArray[np.int8]


class _OtherFeatures(NamedTuple):
    """The features of B points that have no row: feature u is of `points[begins[u]:begins[u + 1]]`, with integers.

    `cursors` are the first weight on each that has not been visited.
    """

    features: NDArray[Any]
    begins: NDArray[Any]
    points: NDArray[Any]
    values: NDArray[np.int8]
    cursors: NDArray[np.int64]


class _Search(NamedTuple):
    """The best labels of B points so far, best first, their scores and numbers, and what another label needs.

    With the bounds u of its mean and v of its variance, u |u| − `of_variance` v must be at least `least`. Both follow
    from `level`. A `certain` level follows from the scores of visited labels. A higher one is guessed from rounded
    numbers, and must turn out to be below the certain one in the end.

    Labels wait to be visited until there are `WAITING` of them, as most of the first ones turn out to be too low. Their
    bounds are u and v. `nodes` and `weights` are those of the quadrature; without, scores are means.
    """

    labels: NDArray[np.int32]
    scores: NDArray[np.float64]
    counts: NDArray[np.int64]
    least: NDArray[np.float32]
    of_variance: NDArray[np.float32]
    level: NDArray[np.float64]
    certain: NDArray[np.float64]
    guesses: NDArray[np.float64]
    waiting: NDArray[np.int64]
    waiting_labels: NDArray[np.int32]
    waiting_bounds: NDArray[np.float32]
    nodes: NDArray[np.float64]
    weights: NDArray[np.float64]
    rank: int
    guessing: bool

    @classmethod
    def start(cls, B: int, rank: int, nodes: int | None, levels: NDArray[np.float64] | None) -> _Search:
        """Return the state before the first label; with certain levels to start from, none is guessed."""
        rule: tuple[NDArray[Any], NDArray[Any]] = (np.empty(0), np.empty(0))
        if nodes is not None:
            rule = nodes_and_weights(nodes, np.dtype(np.float64))
        best = np.full((B, rank + SPARE), -1, np.int32), np.empty((B, rank + SPARE)), np.zeros(B, np.int64)
        search = cls(
            best[0],
            best[1],
            best[2],
            np.full(B, -np.inf, np.float32),
            np.zeros(B, np.float32),
            np.full(B, -np.inf),
            np.full(B, -np.inf),
            np.full((B, rank), -np.inf),
            np.zeros(B, np.int64),
            np.empty((B, WAITING), np.int32),
            np.empty((B, WAITING, 3), np.float32),
            rule[0],
            rule[1],
            rank,
            levels is None,
        )
        for i, level in enumerate([] if levels is None else levels):
            _raise(i, level, search)
        return search


class UtilityBounds:
    """Bounds of the utilities f = Φ h + b + W x, given Φ, K×P, b and the `LabelWeights`, or None for W = 0."""

    def __init__(self, loadings: NDArray[Any], bias: NDArray[Any], weights: LabelWeights | None) -> None:
        K = len(bias)
        if weights is None:
            nothing = np.empty(0, loadings.dtype)
            weights = LabelWeights(np.zeros(K + 1, np.int64), np.empty(0, np.int32), nothing, nothing, nothing)
        # Labels of high bias come first, so that most of the others need no visit.
        order = np.argsort(-bias, kind="stable").astype(np.int32)
        self._model = _Model(order, loadings, bias, *weights[:4])
        self._labels = _rounded_labels(self._model)
        self._weights = _rounded_weights(self._model, self._labels.largest, len(weights.log_prior))
        #: Whether no number of a label is too large for its bound.
        self.valid = all(all_finite(numbers[:K]) for numbers in self._labels[1:])

    def best(
        self, latent: Moments, features: csr_array | None, count: int, nodes: int | None
    ) -> NDArray[np.int32] | None:
        """Return labels of each of B points, B×(count + 4), among them the `count` of highest score; −1 is none.

        Scores are means, or with a number of `nodes` probabilities by quadrature. Return None where numbers are too
        large for their bounds.
        """
        if features is None or not self._model.features.size:
            features = csr_array((len(latent.mean), len(self._weights.slots)), dtype=latent.mean.dtype)
        search = self._searched(latent, features, (count, nodes))
        if search is None:
            return None
        unsure = np.flatnonzero(~(search.level <= search.certain))
        if len(unsure):
            variance = None if nodes is None else latent.variance[unsure]
            again = Moments(latent.mean[unsure], variance)  # type: ignore[arg-type]  # means need no variance
            longer = self._searched(again, features[unsure], (count, nodes), search.certain[unsure])
            if longer is None:
                return None
            search.labels[unsure] = longer.labels
        return None if (search.labels[:, count - 1] < 0).any() else search.labels

    def _searched(
        self,
        latent: Moments,
        features: csr_array,
        sought: tuple[int, int | None],
        levels: NDArray[np.float64] | None = None,
    ) -> _Search | None:
        """Return the result of a search for a number of labels, with a number of nodes or None."""
        B = len(latent.mean)
        variance = np.zeros((B, 1), latent.mean.dtype) if sought[1] is None else latent.variance
        points = _Points(latent.mean, variance, features.indptr, features.indices, features.data)
        if not (self.valid and all(all_finite(array) for array in (points.latent, points.variance, points.values))):
            return None
        rounded = _rounded_points(points, self._weights.slots, B + -B % POINTS)
        rest = _other_features(features, rounded, self._weights)
        search = _Search.start(B, *sought, levels)
        _select(self._labels, self._weights, self._model, points, rounded, rest, search)
        return search


def _rounded_labels(model: _Model) -> _Labels:
    K, P = model.loadings.shape
    size = K + -K % BLOCK
    tiles = np.full((size // GROUP, -(-P // QUAD), GROUP, QUAD), OFFSET, np.uint8)
    labels = _Labels(tiles, *(np.zeros(size, np.float32) for _ in range(7)))
    # No label after the last is visited.
    labels.bias[K:] = -np.inf
    # Parts begin with a tile, which no two threads write.
    parallel_for(
        lambda start, stop: _round_labels(model, labels, start * GROUP, min(stop * GROUP, K)),
        -(-K // GROUP),
        GRAIN // GROUP,
    )
    return labels


def _rounded_weights(model: _Model, largest: NDArray[np.float32], D: int) -> _Weights:
    K = len(model.bias)
    counts = sparse.column_sums(model.features, D)
    with_row = np.flatnonzero(counts > ROW_SHARE * K)
    slots = np.full(D, -1, np.int32)
    slots[with_row] = np.arange(len(with_row))
    counts[with_row] = 0
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    rows = np.full((-(-K // BLOCK), max(1, len(with_row)), BLOCK), OFFSET, np.uint8)
    weights = _Weights(slots, rows, starts, np.empty(starts[-1], np.int32), np.empty(starts[-1], np.int8))
    _round_weights(model, largest, weights, starts[:-1].copy())
    return weights


def _rounded_points(points: _Points, slots: NDArray[np.int32], size: int) -> _Rounded:
    B, P = points.latent.shape
    with_row = slots[points.indices] >= 0
    ends = np.concatenate([[0], np.cumsum(with_row)])[points.indptr]
    starts = np.zeros(size + 1, np.int64)
    starts[1 : B + 1] = np.cumsum(-(-np.diff(ends) // QUAD) * QUAD)
    starts[B + 1 :] = starts[B]
    latent = np.zeros((size, P + -P % QUAD), np.int8)
    integers = np.zeros(len(points.values), np.int8)
    scale, norm, error, feature_scale, feature_error, square, variance, low_variance = np.zeros((8, size), np.float32)
    rounded = _Rounded(
        latent,
        np.zeros(size, np.int32),
        scale,
        norm,
        error,
        feature_scale,
        feature_error,
        square,
        variance,
        low_variance,
        starts,
        np.zeros(starts[-1], np.int32),
        np.zeros(starts[-1], np.int8),
        integers,
    )
    _round_points(points, slots, rounded)
    return rounded


def _other_features(features: csr_array, rounded: _Rounded, weights: _Weights) -> _OtherFeatures:
    indices = features.indices
    kept = weights.starts[indices + 1] > weights.starts[indices]
    points = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))[kept]
    indices = indices[kept]
    order = np.argsort(indices, kind="stable")
    used, begins = np.unique(indices[order], return_index=True)
    values = rounded.integers[kept][order]
    return _OtherFeatures(used, np.append(begins, len(order)), points[order], values, weights.starts[used])


@compiled
def _round_labels(model: _Model, labels: _Labels, first: int, last: int) -> None:
    order, loadings, bias, starts, _, means, log_variances = model
    tiles, scale, error, length, biases, spread, largest, widest = labels
    for k in range(first, last):
        label = order[k]
        most = np.float32(0)
        for value in loadings[label]:
            most = max(most, np.float32(abs(value)))
        scale[k] = most / np.float32(HIGHEST)
        inverse = np.float32(1) / scale[k] if most > 0 else np.float32(0)
        lost = np.float32(0)
        rounded = np.float32(0)
        total = np.float32(0)
        tile = tiles[k // GROUP]
        for p in range(loadings.shape[1]):
            value = np.float32(loadings[label, p])
            integer = np.rint(value * inverse)
            tile[p // QUAD, k % GROUP, p % QUAD] = np.uint8(np.int32(integer) + OFFSET)
            rest = value - integer * scale[k]
            lost += rest * rest
            rounded += integer * integer
            total += value * value
        length[k] = math.sqrt(rounded) * scale[k] * (1 + SLACK)
        error[k] = math.sqrt(lost) * (1 + SLACK) + SLACK * length[k]
        biases[k] = bias[label] + SLACK * abs(bias[label])
        spread[k] = total * (1 + SLACK)
        weight = np.float32(0)
        log_variance = np.float32(-np.inf)
        for e in range(starts[label], starts[label + 1]):
            weight = max(weight, np.float32(abs(means[e])))
            log_variance = max(log_variance, np.float32(log_variances[e]))
        largest[k] = weight
        widest[k] = math.exp(min(log_variance, LIMIT)) * (1 + SLACK)


@compiled
def _round_weights(model: _Model, largest: NDArray[np.float32], weights: _Weights, ends: NDArray[np.int64]) -> None:
    slots, rows, _, labels, values = weights
    for k in range(model.bias.size):
        inverse = np.float32(HIGHEST) / largest[k] if largest[k] > 0 else np.float32(0)
        position = k % BLOCK // GROUP * GROUP + place_in_row(k % GROUP)
        label = model.order[k]
        for e in range(model.starts[label], model.starts[label + 1]):
            d = model.features[e]
            integer = np.int32(np.rint(np.float32(model.means[e]) * inverse))
            if slots[d] >= 0:
                rows[k // BLOCK, slots[d], position] = np.uint8(integer + OFFSET)
            else:
                labels[ends[d]] = k
                values[ends[d]] = integer
                ends[d] += 1


@compiled
def _round_points(points: _Points, slots: NDArray[np.int32], rounded: _Rounded) -> None:
    for i in range(points.latent.shape[0]):
        most = np.float32(0)
        for value in points.latent[i]:
            most = max(most, np.float32(abs(value)))
        scale = most / np.float32(HIGHEST)
        inverse = np.float32(1) / scale if most > 0 else np.float32(0)
        total = np.float32(0)
        lost = np.float32(0)
        rounded.variance[i] = points.variance[i, 0]
        rounded.low_variance[i] = points.variance[i, 0]
        for value in points.variance[i]:
            rounded.variance[i] = max(rounded.variance[i], value)
            rounded.low_variance[i] = min(rounded.low_variance[i], value)
        for p in range(points.latent.shape[1]):
            value = np.float32(points.latent[i, p])
            integer = np.rint(value * inverse)
            rounded.latent[i, p] = np.int8(integer)
            rounded.initial[i] -= np.int32(OFFSET) * np.int32(integer)
            total += value * value
            rest = value - integer * scale
            lost += rest * rest
        rounded.scale[i] = scale
        rounded.norm[i] = math.sqrt(total) * (1 + SLACK)
        rounded.error[i] = math.sqrt(lost) * (1 + SLACK)
        most = np.float32(0)
        for e in range(points.indptr[i], points.indptr[i + 1]):
            most = max(most, np.float32(abs(points.values[e])))
        scale = most / np.float32(HIGHEST)
        inverse = np.float32(1) / scale if most > 0 else np.float32(0)
        end = rounded.starts[i]
        square = np.float32(0)
        lost = np.float32(0)
        for e in range(points.indptr[i], points.indptr[i + 1]):
            value = np.float32(points.values[e])
            integer = np.rint(value * inverse)
            rounded.integers[e] = np.int8(integer)
            square += value * value
            # |w x − ŵ x̂| ≤ |w − ŵ| |x| + |ŵ| |x − x̂|, and weights are rounded by at most half a unit.
            lost += abs(value) / np.float32(2 * HIGHEST) + abs(value - integer * scale) + np.float32(SLACK) * abs(value)
            slot = slots[points.indices[e]]
            if slot >= 0:
                rounded.slots[end] = slot
                rounded.values[end] = np.int8(integer)
                end += 1
        rounded.feature_scale[i] = scale / np.float32(HIGHEST)
        rounded.feature_error[i] = lost * (1 + SLACK)
        rounded.square[i] = square * (1 + SLACK)


@compiled
def _select(
    labels: _Labels,
    weights: _Weights,
    model: _Model,
    points: _Points,
    rounded: _Rounded,
    rest: _OtherFeatures,
    search: _Search,
) -> None:
    """Search all labels, a block after the other."""
    size = rounded.scale.size
    of_weights = np.empty((size, BLOCK), np.int32)
    row = np.zeros(weights.slots.size, points.latent.dtype)
    work = (of_weights, row)
    for block in range(weights.rows.shape[0]):
        first = block * BLOCK
        _fill_weights(block, weights, rounded, rest, of_weights)
        if block == 0 and search.guessing:
            for start in range(first, first + BLOCK, GROUP):
                _search_group(start, labels, model, points, rounded, search, work, True)
        for start in range(first, first + BLOCK, GROUP):
            _search_group(start, labels, model, points, rounded, search, work, False)
    for i in range(points.latent.shape[0]):
        _visit_waiting(i, model, points, search, row)


@compiled
def _search_group(
    first: int,
    labels: _Labels,
    model: _Model,
    points: _Points,
    rounded: _Rounded,
    search: _Search,
    work: tuple[NDArray[np.int32], NDArray[Any]],
    guess: bool,
) -> None:
    """Search 64 labels from `first` on."""
    of_weights, row = work
    sums = np.empty((POINTS, GROUP), np.int32)
    bounds = np.empty(GROUP, np.float32)
    tile = labels.tiles[first // GROUP]
    scales = labels.scale[first : first + GROUP]
    errors = labels.error[first : first + GROUP]
    lengths = labels.length[first : first + GROUP]
    biases = labels.bias[first : first + GROUP]
    spreads = labels.spread[first : first + GROUP]
    largest = labels.largest[first : first + GROUP]
    widest = labels.widest[first : first + GROUP]
    offset = first % BLOCK
    B = points.latent.shape[0]
    probabilities = search.nodes.size > 0
    for start in range(0, B, POINTS):
        for i in range(POINTS):
            sums[i] = rounded.initial[start + i]
        add_byte_tile(tile, rounded.latent[start : start + POINTS], sums)
        for i in range(start, min(start + POINTS, B)):
            scale = rounded.scale[i]
            norm = rounded.norm[i]
            error = rounded.error[i]
            feature_scale = rounded.feature_scale[i]
            feature_error = rounded.feature_error[i]
            of_spread = search.of_variance[i] * rounded.variance[i]
            of_widest = search.of_variance[i] * rounded.square[i]
            least = search.least[i]
            of_latent = sums[i - start]
            of_features = of_weights[i, offset : offset + GROUP]
            # In single precision, so that the sum uses vector instructions.
            above = np.float32(0)
            for j in range(GROUP):
                mean = np.float32(of_latent[j]) * scale * scales[j] + biases[j]
                mean += errors[j] * norm + lengths[j] * error
                mean += (np.float32(of_features[j]) * feature_scale + feature_error) * largest[j]
                bound = mean * abs(mean) - (of_spread * spreads[j] + of_widest * widest[j])
                bounds[j] = bound
                above += np.float32(bound >= least)
            # Most groups have none.
            for j in range(GROUP if above > 0 else 0):
                # `search.least` may have risen since, but that is for other bounds.
                if bounds[j] < least:
                    continue
                doubt = errors[j] * norm + lengths[j] * error + feature_error * largest[j]
                mean = np.float32(of_latent[j]) * scale * scales[j] + biases[j]
                mean += np.float32(of_features[j]) * feature_scale * largest[j]
                of_functions = rounded.variance[i] * spreads[j]
                high = of_functions + rounded.square[i] * widest[j]
                if guess:
                    value = _guessed(
                        mean - np.float32(0.25) * doubt, rounded.low_variance[i] * spreads[j], high, probabilities
                    )
                    if value > search.guesses[i, search.rank - 1]:
                        _guess(i, value, search)
                    continue
                if search.waiting[i] == WAITING:
                    _visit_waiting(i, model, points, search, row)
                position = search.waiting[i]
                search.waiting[i] += 1
                search.waiting_labels[i, position] = model.order[first + j]
                search.waiting_bounds[i, position, 0] = mean + doubt
                search.waiting_bounds[i, position, 1] = high
                search.waiting_bounds[i, position, 2] = of_functions


@compiled
def _fill_weights(
    block: int, weights: _Weights, rounded: _Rounded, rest: _OtherFeatures, sums: NDArray[np.int32]
) -> None:
    """Write the products of integers of W x for a block of labels."""
    for i in range(sums.shape[0]):
        chosen = slice(rounded.starts[i], rounded.starts[i + 1])
        values = rounded.values[chosen]
        total = np.int32(0)
        for value in values:
            total += np.int32(value)
        sums[i] = -OFFSET * total
        if values.size:
            for g in range(BLOCK // GROUP):
                position = g * GROUP
                add_byte_rows(
                    weights.rows[block], position, rounded.slots[chosen], values, sums[i, position : position + GROUP]
                )
    first = block * BLOCK
    stop = first + BLOCK
    for u in range(rest.features.size):
        begin = rest.cursors[u]
        end = weights.starts[rest.features[u] + 1]
        t = begin
        while t < end and weights.labels[t] < stop:
            t += 1
        rest.cursors[u] = t
        if t > begin:
            for e in range(rest.begins[u], rest.begins[u + 1]):
                row = sums[rest.points[e]]
                value = np.int32(rest.values[e])
                for s in range(begin, t):
                    # An index without sign needs no check for one that counts from the end.
                    row[np.uint32(weights.labels[s] - first)] += value * np.int32(weights.values[s])


@compiled
def _shrunk(mean: float, variance: float) -> float:
    return mean / math.sqrt(1 + SHRINKAGE * variance)


@compiled
def _guessed(mean: float, low: float, high: float, probabilities: bool) -> float:
    """Return the mean, or for probabilities the shrunk mean with the variance that makes it lower."""
    if not probabilities:
        return mean
    return _shrunk(mean, low) if mean < 0 else _shrunk(mean, high)


@compiled
def _guess(i: int, value: float, search: _Search) -> None:
    """Raise what a label needs by a number that will hardly exceed what the best labels will need of it."""
    position = search.rank - 1
    while position > 0 and value > search.guesses[i, position - 1]:
        search.guesses[i, position] = search.guesses[i, position - 1]
        position -= 1
    search.guesses[i, position] = value
    _raise(i, search.guesses[i, search.rank - 1] - GUESS_MARGIN, search)


@compiled
def _raise(i: int, value: float, search: _Search) -> None:
    """Raise what a label needs to a value on the scale of log odds, or of means."""
    if value <= search.level[i]:
        return
    search.level[i] = value
    search.of_variance[i] = -SHRINKAGE * value * value if search.nodes.size and value < 0 else 0
    search.least[i] = value * abs(value)


@compiled
def _visit_waiting(i: int, model: _Model, points: _Points, search: _Search, row: NDArray[Any]) -> None:
    """Visit the waiting labels of a point, but for those that now need more than their bounds, and forget all.

    `row` has a zero for each feature.
    """
    probabilities = search.nodes.size > 0
    for e in range(points.indptr[i], points.indptr[i + 1]):
        row[points.indices[e]] = points.values[e]
    waiting = search.waiting_bounds[i]
    promise = np.empty(WAITING, np.float32)
    for position in range(search.waiting[i]):
        promise[position] = waiting[position, 0] / math.sqrt(1 + SHRINKAGE * waiting[position, 1])
    # The most promising first: they raise what the others need.
    for _ in range(search.waiting[i]):
        position = 0
        for other in range(search.waiting[i]):
            if promise[other] > promise[position]:
                position = other
        promise[position] = -np.inf
        mean = waiting[position, 0]
        bound = mean * abs(mean)
        of_variance = search.of_variance[i]
        if bound - of_variance * waiting[position, 1] < search.least[i]:
            continue
        k = search.waiting_labels[i, position]
        of_weights = _weight_moments(i, k, model, points, row)
        if bound - of_variance * (waiting[position, 2] + of_weights[1] * (1 + SLACK)) < search.least[i]:
            continue
        mean, variance = _moments(i, k, model, points)
        mean += of_weights[0]
        variance += of_weights[1]
        level = search.level[i]
        # NaN does not reach a level.
        if (mean if level >= 0 or not probabilities else _shrunk(mean, variance)) >= level:
            _insert(i, k, _score(mean, variance, search.nodes, search.weights), search)
    search.waiting[i] = 0
    for e in range(points.indptr[i], points.indptr[i + 1]):
        row[points.indices[e]] = 0


@compiled
def _moments(i: int, k: int, model: _Model, points: _Points) -> tuple[float, float]:
    """Return mean and variance of φ·h + b."""
    total = points.latent.dtype.type(0)
    square = points.latent.dtype.type(0)
    shared = points.variance.shape[1] == 1
    for p in range(model.loadings.shape[1]):
        value = model.loadings[k, p]
        total += value * points.latent[i, p]
        square += value * value * (points.variance[i, 0] if shared else points.variance[i, p])
    return np.float64(total) + model.bias[k], np.float64(square)


@compiled
def _weight_moments(i: int, k: int, model: _Model, points: _Points, row: NDArray[Any]) -> tuple[float, float]:
    """Return mean and variance of w·x."""
    mean = 0.0
    variance = 0.0
    start = model.starts[k]
    stop = model.starts[k + 1]
    begin = points.indptr[i]
    end = points.indptr[i + 1]
    if stop - start > SEARCH_RATIO * (end - begin):
        for e in range(begin, end):
            s = first_not_below(model.features, points.indices[e], start, stop)
            if s < stop and model.features[s] == points.indices[e]:
                value = points.values[e]
                mean += value * model.means[s]
                variance += value * value * _exponential(model.log_variances[s])
    else:
        for s in range(start, stop):
            value = row[model.features[s]]
            if value != 0:
                mean += value * model.means[s]
                variance += value * value * _exponential(model.log_variances[s])
    return mean, variance


@compiled
def _exponential(value: float) -> float:
    return math.exp(min(max(value, -LIMIT), LIMIT))


@compiled
def _score(mean: float, variance: float, nodes: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Return what `expected_sigmoid` returns, or without nodes the mean."""
    if nodes.size == 0:
        return mean
    # For very negative utilities quadrature is less exact than the series.
    if mean + variance / 2 < 0 and variance < LARGEST_VARIANCE:
        start = math.exp(mean + variance / 2)
        growth = math.exp(variance)
        first = start * growth
        second = first * growth
        if first * second <= EXACT_TAIL:
            return start * (1 - first * (1 - second))
    deviation = math.sqrt(variance)
    score = 0.0
    for j in range(nodes.size):
        score += weights[j] / (1 + math.exp(-(mean + deviation * nodes[j])))
    return min(score, 1.0)


@compiled
def _insert(i: int, k: int, score: float, search: _Search) -> None:
    """Add a label to the best of a point if it belongs there."""
    most = search.labels.shape[1]
    if search.counts[i] < most:
        search.counts[i] += 1
    elif score <= search.scores[i, most - 1]:
        return
    position = search.counts[i] - 1
    while position > 0 and score > search.scores[i, position - 1]:
        search.scores[i, position] = search.scores[i, position - 1]
        search.labels[i, position] = search.labels[i, position - 1]
        position -= 1
    search.scores[i, position] = score
    search.labels[i, position] = k
    if search.counts[i] >= search.rank:
        search.certain[i] = _needed(search.scores[i, search.rank - 1], search)
        _raise(i, search.certain[i], search)


@compiled
def _needed(score: float, search: _Search) -> float:
    """Return what the bounds of a label must reach if its score is to reach this one, as for `_raise`."""
    if search.nodes.size == 0:
        return score
    if score <= 0:
        return -np.inf
    if score >= 1:
        return np.inf
    # The mean is at least the log odds where these are positive, and the shrunk mean at least `MARGIN` below otherwise.
    log_odds = math.log(score / (1 - score))
    return log_odds if log_odds >= 0 else log_odds - MARGIN
