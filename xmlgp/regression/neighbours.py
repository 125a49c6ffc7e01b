"""GP regression on the nearest training points of each point, for points with dense features.

The prediction at a point x is g = k(x, R) (K_RR + noise I)⁻¹ Y_R, where R are the `NEAREST` training points of largest
covariance. Nothing but lengthscales is learned. The kernel is the squared exponential one of words x and of dense
features e, exp(−‖x − x′‖² / 2ℓ² − ‖e − e′‖² / 2), where e are divided by their lengthscales beforehand.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.features import Features, row_blocks, stack_rows
from xmlgp.errors import NumericalError
from xmlgp.gp.parameters import Parameters
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, csr_pattern, is_positive
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.dense import product_by_rows
from xmlgp.linear_algebra.elementary import exponential, logarithm
from xmlgp.linear_algebra.sparse import first_not_below
from xmlgp.linear_algebra.special import logit
from xmlgp.runtime.threads import one_blas_thread, parallel_for, run_parallel

__all__ = ["NEIGHBOURS", "NeighbourPredictions", "NeighbourRegression", "fit_neighbours"]

#: ℓ, for points of unit length.
LENGTHSCALE = 0.7

#: Variance of the noise; that of the kernel is one. From 0.05 to 0.2, held-out documents are ranked about equally well,
#: and better than with 0.5.
DENSE_NOISE = 0.1

#: Training points in each regression. With words, 100 to 300 rank test points of three sets equally well; without, 200
#: have a P@1 that is 0.6 and 1.0 higher than with 100.
NEAREST = 200

#: Most training points that are kept.
MOST = 200_000

#: The weight of the predictions in the pool where none is chosen on held-out points: on data sets with 159, 592 and
#: 15,052 labels, held-out points are ranked better with it than without the predictions.
POOL_WEIGHT = 0.3

#: Distance of pooled predictions from 0 and 1. From 0.0003 to 0.003, test points of 15,052 labels are ranked equally
#: well.
MARGIN = 0.001

#: Words that most training points have, whose products are computed as those of dense features. So many words have nine
#: tenths of all products, and predictions take three quarters of the time.
FREQUENT = 64

#: The lengthscale of columns without effect on covariances.
FAR = 1e30

#: Covariances with all training points that a core has in memory at a time, and most points of such a block.
BLOCK = 1 << 22
ROWS = 128

#: Least number of utilities per thread.
GRAIN = 1 << 16

#: Variance of a block above which its points differ.
SMALLEST = 1e-10

#: The arrays of a `NeighbourRegression`.
NEIGHBOURS = ArrayGroup(
    "neighbours.",
    **csr_pattern("U D", "c"),
    values=Array("c"),
    scales=Array("D"),
    dense=Array("U E", np.floating),
    center=Array("E"),
    lengthscales=Array("1+E", check=is_positive),
    **csr_pattern("U K", "d", "label_indptr", "labels"),
    weight=Array("", check=lambda weight, sizes: bool(0 < weight < 1)),
)


class NeighbourRegression(NamedTuple):
    """What predictions need: the training points, U×D with E dense features, and their labels Y, U×K.

    `features` are weighted, scaled and divided by lengthscales, the dense ones less their `center`, E. `scales`, D, are
    the roots of relevances, and `lengthscales`, 1+E, those of the words and of each dense column. `weight` is that of
    the predictions in the pool with utilities (float64).
    """

    features: Features
    targets: csr_array
    center: NDArray[np.floating]
    scales: NDArray[np.floating]
    lengthscales: NDArray[np.floating]
    weight: NDArray[np.floating]

    @classmethod
    def of(cls, parameters: Parameters, D: int, K: int) -> NeighbourRegression | None:
        """Return the regression among the parameters of a model with D features and K labels, or None."""
        if not NEIGHBOURS.is_in(parameters):
            return None
        arrays = NEIGHBOURS.read(parameters)
        U = len(arrays["dense"])
        X = csr_array((arrays["values"], arrays["indices"], arrays["indptr"]), shape=(U, D))
        values = np.ones(len(arrays["labels"]), np.float32)
        Y = csr_array((values, arrays["labels"], arrays["label_indptr"]), shape=(U, K))
        scaling = arrays["center"], arrays["scales"], arrays["lengthscales"]
        return cls(Features(X, arrays["dense"]), Y, *scaling, arrays["weight"])

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by their names in a model."""
        X = self.features.sparse
        arrays = {
            "indptr": X.indptr.astype(np.int64),
            "indices": X.indices.astype(np.int32),
            "values": X.data,
            "dense": dense_array(self.features),
            "label_indptr": self.targets.indptr.astype(np.int64),
            "labels": self.targets.indices.astype(np.int32),
        }
        names = ("center", "scales", "lengthscales", "weight")
        return NEIGHBOURS.named(arrays | {name: getattr(self, name) for name in names})


def fit_neighbours(features: Features, labels: csr_array, scales: NDArray[np.floating]) -> NeighbourRegression:
    """Return the regression on points, given their weighted features, N×D with dense ones, and labels, N×K.

    Of more than `MOST` points, as many are drawn at random. `scales`, D, are the roots of relevances.
    """
    rows = _drawn(features.N)
    features = features[rows]
    center, lengthscales = _lengthscales(scaled(features.sparse, scales), dense_array(features))
    points = _scaled(features, center, scales, lengthscales, np.float16)
    return NeighbourRegression(
        points, labels[rows].astype(np.float32), center, scales, lengthscales, np.array(POOL_WEIGHT)
    )


class CrossCovariance:
    """The covariances of any points with the N points of X, N×D.

    Dense features, if there are any, are one array, N×E, in single precision. NumericalError is raised if squares of
    features overflow single precision.
    """

    def __init__(self, features: Features) -> None:
        # The entries of a feature are sorted by point.
        columns = features.sparse.T.tocsr().astype(np.float32, copy=False)
        columns.indptr = columns.indptr.astype(np.int64, copy=False)
        columns.indices = columns.indices.astype(np.int32, copy=False)
        self._by_feature = columns
        self._dense = dense_array(features)
        with np.errstate(over="ignore"):
            self._half_norms = 0.5 * squared_norms(features.sparse).astype(np.float32)
            self._dense_half_norms = _half_norms(self._dense)
        if np.isinf(self._half_norms).any() or np.isinf(self._dense_half_norms).any():
            raise NumericalError(
                "regression needs features whose squares are within single precision; try another weighting"
            )

    def fill_exponents(self, points: Features, start: int, stop: int, out: NDArray[np.float32]) -> None:
        """Fill `out` with the logarithms of the covariances, which order points that are far away as well."""
        rows = points.sparse
        columns = self._by_feature
        # The same types of indices each time, as each choice of types would be compiled by itself.
        _fill_half_distances(
            rows.indptr[start : stop + 1].astype(np.int64),
            rows.indices,
            rows.data,
            columns.indptr,
            columns.indices,
            columns.data,
            self._half_norms,
            out,
        )
        out *= np.float32(1 / LENGTHSCALE**2)
        if self._dense.shape[1]:
            dense = dense_array(points)[start:stop]
            width = out.shape[1]
            exponents = product_by_rows(dense, self._dense[:width].T)
            exponents -= _half_norms(dense)[:, None]
            exponents -= self._dense_half_norms[:width]
            # A squared distance below zero is a rounding error.
            out += np.minimum(exponents, 0, out=exponents)


class NeighbourPredictions:
    """The predictions of a `NeighbourRegression`, pooled with utilities.

    The moments of utilities f become those of (1 − w) f + w logit(g), the logarithmic pool of σ(f) and g, in place. g
    are the predictions, clipped to [0, 1] and moved inwards by `MARGIN`; w is the `weight`.
    """

    def __init__(self, regression: NeighbourRegression) -> None:
        self._scaling = regression.center, regression.scales, regression.lengthscales
        self._targets = regression.targets
        #: E.
        self.width = regression.features.width
        words = regression.features.sparse
        counts = sparse.column_sums(words.indices, words.shape[1])
        self._frequent = np.argsort(-counts, kind="stable")[:FREQUENT]
        points = self._with_dense_words(regression.features)
        self._kernel = CrossCovariance(points)
        self._dense = dense_array(points)
        self._words = points.sparse / np.float32(LENGTHSCALE)
        squares = squared_norms(self._words) + np.square(self._dense).sum(axis=1, dtype=np.float64)
        self._half_norms = (0.5 * squares).astype(np.float32)
        self.weight = float(regression.weight)

    @property
    def numbers_per_point(self) -> int:
        """About how many numbers the predictions of a point take."""
        U, K = self._targets.shape
        return int(min(2 * NEAREST * self._targets.nnz // max(1, U), 2 * K)) + 2 * self.width

    def predict(self, features: Features) -> csr_array:
        """Return the predictions g of weighted points, B×K, of the labels that neighbours have; others have 0."""
        # Only models with neighbours need SciPy's BLAS, and it is limited to one thread if it is loaded before.
        from xmlgp.linear_algebra import cholesky  # noqa: F401

        points = self._with_dense_words(_scaled(features, *self._scaling))
        U = len(self._dense)
        step = max(1, min(ROWS, BLOCK // max(1, U)))
        # The size of blocks, and so the result, does not depend on the number of cores.
        with one_blas_thread():
            blocks = run_parallel(
                functools.partial(self._predict, points, start, min(start + step, points.N))
                for start in range(0, points.N, step)
            )
        return stack_rows([csr_array((0, self._targets.shape[1]), dtype=np.float32), *blocks])

    def _predict(self, points: Features, start: int, stop: int) -> csr_array:
        """Return the predictions of points[start:stop], scaled."""
        U = len(self._dense)
        size = min(NEAREST, U)
        exponents = np.empty((stop - start, U), np.float32)
        self._kernel.fill_exponents(points, start, stop, exponents)
        nearest = np.argpartition(exponents, U - size, axis=1)[:, U - size :].astype(np.int32)
        nearest.sort(axis=1)
        covariances = np.exp(np.take_along_axis(exponents, nearest, axis=1))
        weights = np.empty_like(covariances)
        places = np.zeros(points.D, np.int32)
        for i in range(stop - start):
            weights[i] = self._weights(nearest[i], covariances[i], places)
        indptr = np.arange(0, weights.size + 1, size, dtype=np.int32)
        predicted = csr_array((weights.ravel(), nearest.ravel(), indptr), shape=(stop - start, U)) @ self._targets
        np.clip(predicted.data, 0, 1, out=predicted.data)
        predicted.eliminate_zeros()
        predicted.sort_indices()
        return predicted

    def _weights(
        self, nearest: NDArray[np.integer], covariances: NDArray[np.float32], places: NDArray[np.int32]
    ) -> NDArray[np.floating]:
        """Return (K_RR + noise I)⁻¹ k(R, x), given R and k(R, x)."""
        from xmlgp.linear_algebra.cholesky import factorise_lower, solve_factorised

        dense = self._dense[nearest]
        system = dense @ dense.T
        words = self._words
        _fill_covariances(system, nearest, self._half_norms, words.indptr, words.indices, words.data, places)
        system.flat[:: len(system) + 1] += np.float32(DENSE_NOISE)
        if not factorise_lower(system):
            raise NumericalError("the regression on neighbours cannot be solved: features are not finite")
        return solve_factorised(system, covariances)

    def _with_dense_words(self, scaled: Features) -> Features:
        """Return points with the frequent words among the dense features, in single precision."""
        words = scaled.sparse.copy()
        values = dense_array(scaled)
        dense = np.empty((scaled.N, values.shape[1] + len(self._frequent)), np.float32)
        dense[:, : values.shape[1]] = values
        dense[:, values.shape[1] :] = words[:, self._frequent].toarray() / LENGTHSCALE
        is_frequent = np.zeros(scaled.D, bool)
        is_frequent[self._frequent] = True
        words.data[is_frequent[words.indices]] = 0
        words.eliminate_zeros()
        return Features(words, dense)

    def pool(
        self,
        predicted: csr_array,
        labels: slice,
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | None = None,
    ) -> None:
        """Pool the moments of the utilities of a block of labels, B×L, with the predictions of all labels, B×K."""
        first, _, _ = labels.indices(predicted.shape[1])
        self.weaken(mean, variance)

        def add(start: int, stop: int) -> None:
            indptr = predicted.indptr[start : stop + 1]
            _add_to_block(indptr, predicted.indices, predicted.data, first, self.weight, MARGIN, mean[start:stop])

        parallel_for(add, len(mean), GRAIN // max(1, mean.shape[1]))

    def pool_pairs(
        self,
        predicted: csr_array,
        indptr: NDArray[np.integer],
        labels: NDArray[np.integer],
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | None = None,
    ) -> None:
        """Pool the moments of some labels of each point, `labels[indptr[i]:indptr[i + 1]]`, with the predictions."""
        self.weaken(mean, variance)
        _add_to_pairs(predicted.indptr, predicted.indices, predicted.data, indptr, labels, self.weight, MARGIN, mean)

    def weaken(self, mean: NDArray[np.floating], variance: NDArray[np.floating] | None = None) -> None:
        """Give the moments their weight in the pool, and add the part of a prediction of 0."""
        mean *= 1 - self.weight
        mean += self.weight * logit(np.float64(MARGIN / (1 + 2 * MARGIN)))
        if variance is not None:
            variance *= (1 - self.weight) ** 2


def scaled(features: csr_array, scales: NDArray[np.floating]) -> csr_array:
    """Return x_id s_d, rescaled so that each point keeps its length, N×D, in single precision."""
    result = features.astype(np.float32)
    result.data *= scales[result.indices]
    new_lengths, lengths = (np.sqrt(squared_norms(matrix)) for matrix in (result, features))
    ratio = np.divide(lengths, new_lengths, out=np.ones_like(lengths), where=new_lengths > 0).astype(np.float32)
    result.data *= np.repeat(ratio, np.diff(result.indptr))
    return result


def dense_array(features: Features) -> NDArray[np.floating]:
    """Return the dense features of scaled points, N×E; E is 0 if there are none."""
    return np.empty((features.N, 0), np.float32) if features.dense is None else features.dense


def _half_norms(array: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return ½‖e‖² of the rows."""
    half_norms: NDArray[np.floating] = 0.5 * np.einsum("ne,ne->n", array, array)
    return half_norms


def squared_norms(features: csr_array) -> NDArray[np.float64]:
    """Return ‖x‖², N, in double precision, of squares in the precision of the features, N×D."""
    with np.errstate(over="ignore"):
        squares = np.square(features.data)
    squares = csr_array((squares, features.indices, features.indptr), features.shape)
    norms: NDArray[np.float64] = squares.sum(axis=1, dtype=np.float64)
    return norms


def _drawn(count: int) -> slice | NDArray[np.integer]:
    """Return the points that are kept of so many."""
    if count <= MOST:
        return slice(None)
    return np.sort(np.random.default_rng(0).choice(count, MOST, replace=False))


def _lengthscales(words: csr_array, dense: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Return the means of dense columns, E, and the lengthscales of words and of each dense column, 1+E.

    Each dense column is divided by its standard deviation. The mean logarithm of the covariance of two points is −1,
    the same share of it for words and for dense columns, where these differ; otherwise the lengthscale is 1, and that
    of equal columns `FAR`. From half to twice these squares, test points of four sets are ranked equally well;
    lengthscales of least leave-one-out error are no better, and depend on which points are drawn.
    """
    N, E = dense.shape
    means = sparse.column_sums(words.indices, words.shape[1], lambda chunk: words.data[chunk]) / N
    of_words = squared_norms(words).sum() / N - np.square(means).sum()
    mean, variance = _moments(dense)
    shares = np.array([of_words, np.count_nonzero(variance) / E])
    differs = shares > SMALLEST
    of_words, of_dense = np.sqrt(np.where(differs, differs.sum() * shares, 1))
    columns = np.where(variance > 0, of_dense * np.sqrt(variance * E), FAR)
    return mean, np.array([of_words, *columns], np.float32)


def _moments(dense: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the variance of each column of an array N×E."""
    # Of deviations from a point, so that features like 1.6e9 ± 1 keep their precision.
    start = dense[0].astype(np.float64)
    mean = np.zeros_like(start)
    squares = np.zeros_like(start)
    for rows in row_blocks(dense):
        mean += (dense[rows] - start).sum(axis=0)
    mean /= len(dense)
    for rows in row_blocks(dense):
        squares += np.square(dense[rows] - start - mean).sum(axis=0)
    return start + mean, squares / len(dense)


def _scaled(
    features: Features,
    center: NDArray[np.floating],
    scales: NDArray[np.floating],
    lengthscales: NDArray[np.floating],
    dtype: type[np.floating] = np.float32,
) -> Features:
    """Return weighted features, scaled and divided by lengthscales, those of words relative to `LENGTHSCALE`.

    Dense features of another type than single precision move to the ends of its range. In half precision, on 12,000 and
    22,338 documents, the precisions of test points at 1, 3 and 5 do not change by 0.01 percent.
    """
    words = scaled(features.sparse, scales)
    words.data *= LENGTHSCALE / lengthscales[0]
    dense = dense_array(features)
    result = np.empty(dense.shape, dtype)
    limit = np.finfo(dtype).max
    for rows in row_blocks(dense):
        values = dense[rows].astype(np.result_type(dense, np.float32))
        values -= center.astype(values.dtype)
        values /= lengthscales[1:]
        result[rows] = np.clip(values, -limit, limit)
    return Features(words, result)


@compiled
def _fill_half_distances(
    indptr: NDArray[np.integer],
    features: NDArray[np.integer],
    values: NDArray[np.floating],
    feature_indptr: NDArray[np.integer],
    training_points: NDArray[np.integer],
    training_values: NDArray[np.float32],
    half_norms: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Fill in −½‖x − x′‖² by inner products.

    The first three arrays have points x by row, the next three have X by feature; `half_norms` are ½‖x′‖² of X.
    """
    real = out.dtype.type
    width = out.shape[1]
    for i in range(len(out)):
        row = out[i]
        half = real(0)
        row[:] = 0
        for e in range(indptr[i], indptr[i + 1]):
            feature = features[e]
            value = real(values[e])
            half += real(0.5) * value * value
            for h in range(feature_indptr[feature], feature_indptr[feature + 1]):
                if training_points[h] >= width:
                    break
                row[training_points[h]] += value * training_values[h]
        for j in range(width):
            value = row[j] - half - half_norms[j]
            # A squared distance below zero is a rounding error.
            row[j] = real(0) if value > real(0) else value


@compiled
def _fill_covariances(
    products: NDArray[np.float32],
    rows: NDArray[np.integer],
    half_norms: NDArray[np.float32],
    indptr: NDArray[np.integer],
    features: NDArray[np.integer],
    values: NDArray[np.float32],
    places: NDArray[np.int32],
) -> None:
    """Replace the inner products of the dense features of some points by their covariances, in the lower triangle.

    `half_norms` are ½‖x‖² of all points, with words and dense features. The next three arrays have the words of all
    points, divided by `LENGTHSCALE`. `places` has 0 for each word, and again in the end.
    """
    real = products.dtype.type
    # A list of the points so far for each word, one list after the other.
    ends = _list_starts(rows, indptr, features, places)
    points = np.empty(ends[-1], np.int32)
    listed = np.empty(ends[-1], products.dtype)
    starts = ends.copy()
    for i in range(len(rows)):
        row = products[i]
        for e in range(indptr[rows[i]], indptr[rows[i] + 1]):
            word = places[features[e]] - 1
            for c in range(starts[word], ends[word]):
                row[points[c]] += values[e] * listed[c]
            points[ends[word]] = i
            listed[ends[word]] = values[e]
            ends[word] += 1
        half = half_norms[rows[i]]
        for j in range(i):
            exponent = row[j] - half - half_norms[rows[j]]
            # A squared distance below zero is a rounding error.
            row[j] = exponential(min(exponent, real(0)))
        row[i] = real(1)
    for i in range(len(rows)):
        for e in range(indptr[rows[i]], indptr[rows[i] + 1]):
            places[features[e]] = 0


@compiled
def _list_starts(
    rows: NDArray[np.integer], indptr: NDArray[np.integer], features: NDArray[np.integer], places: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Return where the list of points of each word of some points starts, and the length of all lists.

    The words are numbered in `places`, from 1 on.
    """
    count = 0
    for i in range(len(rows)):
        count += indptr[rows[i] + 1] - indptr[rows[i]]
    sizes = np.zeros(count, np.int64)
    words = 0
    for i in range(len(rows)):
        for e in range(indptr[rows[i]], indptr[rows[i] + 1]):
            if places[features[e]] == 0:
                words += 1
                places[features[e]] = words
            sizes[places[features[e]] - 1] += 1
    starts = np.zeros(words + 1, np.int64)
    for word in range(words):
        starts[word + 1] = starts[word] + sizes[word]
    return starts


@compiled
def _odds_above_absent(predicted: float, margin: float) -> float:
    """Return logit(g) of a prediction less that of 0, both moved inwards by the margin."""
    return logarithm((predicted + margin) / (1 + margin - predicted)) - logarithm(margin / (1 + margin))


@compiled
def _add_to_block(
    indptr: NDArray[np.integer],
    labels: NDArray[np.integer],
    predicted: NDArray[np.floating],
    first: int,
    weight: float,
    margin: float,
    mean: NDArray[np.floating],
) -> None:
    """Add the weighted log odds of predictions above those of 0 to a block of labels from `first` on."""
    end = first + mean.shape[1]
    for i in range(len(mean)):
        e = first_not_below(labels, first, indptr[i], indptr[i + 1])
        while e < indptr[i + 1] and labels[e] < end:
            mean[i, labels[e] - first] += weight * _odds_above_absent(predicted[e], margin)
            e += 1


@compiled
def _add_to_pairs(
    indptr: NDArray[np.integer],
    labels: NDArray[np.integer],
    predicted: NDArray[np.floating],
    pair_indptr: NDArray[np.integer],
    pair_labels: NDArray[np.integer],
    weight: float,
    margin: float,
    mean: NDArray[np.floating],
) -> None:
    """Add the weighted log odds of predictions above those of 0 to some labels of each point."""
    for i in range(len(pair_indptr) - 1):
        for p in range(pair_indptr[i], pair_indptr[i + 1]):
            e = first_not_below(labels, pair_labels[p], indptr[i], indptr[i + 1])
            if e < indptr[i + 1] and labels[e] == pair_labels[p]:
                mean[p] += weight * _odds_above_absent(predicted[e], margin)
