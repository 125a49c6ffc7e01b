"""Labels from their texts: how probable a label is by the words of its name or description alone.

A word w of a text has the weight v_w = log((1 + N)/(1 + n_w)), where n_w of the N training points have it. The words
that a point x makes likely are its own, and those of the texts of the labels that its neighbours predict:

    q_w = max([w in x], 1 − exp(−G_w)),    G_w = Σ_k max(Σ_r α_r Y_rk, 0) [w in a text of k],

α being the weights of the regression on the nearest training points. The evidence for a text of label k is its share of
words that are likely, s = Σ v_w q_w/Σ v_w, and the same of those that labels alone make likely, s′; where the points of
k itself do not count in G. For the `NEAREST` texts of largest s, the logarithm of the odds of the label is

    z = c · (s, log(s′ + `MARGIN`), number of words, Σ v_w, log(1 + rank by s)) + c₀,

and for all others it is z₀. The coefficients maximise the likelihood of the labels of held-out points. What z uses are
no points of the label, so it is as good for labels that have none: z is their utility. Those of n_k points have
u_k (z − z₀) added to theirs, with u_k = u r/(n_k + r).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, at_least, csr_pattern, numbers
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.linear_algebra.elementary import exponential
from xmlgp.linear_algebra.sparse import first_not_below
from xmlgp.linear_algebra.special import expit
from xmlgp.neighbours.search import build_index, nearest
from xmlgp.prediction.calibration import Expansion, minimum

__all__ = [
    "LABEL_TEXTS",
    "TEXT_WEIGHTS",
    "Evidence",
    "LabelTexts",
    "TextEvidence",
    "TextFit",
    "TextWords",
    "elements_of_pairs",
    "fit_texts",
]

#: Texts of each point that are judged. Of the true labels of `deps` whose texts share a word with the point, two thirds
#: are among them; with more, the ranks are worse calibrated.
NEAREST = 200

#: Least share of the words of a text that labels make likely, in its logarithm.
MARGIN = 0.01

#: r. With 2 and 5, PSP on `deps` rises by less at the same loss of precision.
RARITY = 20.0

#: u to choose from.
TEXT_WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)

#: Coefficients of `deps`, the mean of their prior, and its precision: they matter where held-out points are few.
PRIOR = np.array([2.8, 0.74, -1.1, 0.2, -0.54, -2.5])
PRECISION = 4.0

#: Bounds of the coefficients, beyond which float32 would not tell probabilities from 0 and 1.
BOUND = 50.0


class TextWords(NamedTuple):
    """The words of M texts, M×(D and more): first the features of the model, then words that no point has.

    `labels`, M, has the label of each text.
    """

    words: csr_array
    labels: NDArray[np.int32]


class TextFit(NamedTuple):
    """What held-out points choose: the coefficients c and c₀, z₀, and u."""

    coefficients: NDArray[np.float64]
    base: float
    weight: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> TextFit:
        """Return the choices of `values`."""
        return cls(values[:-2], float(values[-2]), float(values[-1]))

    @classmethod
    def default(cls, point_count: int) -> TextFit:
        """Return what a model has whose held-out points, of N in all, are too few to choose."""
        return cls(PRIOR, -float(np.log(2 * point_count + 1)), 0.0)

    def values(self) -> NDArray[np.float64]:
        """Return the numbers."""
        return np.array([*self.coefficients, self.base, self.weight])

    def weights_of(self, counts: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return u_k of labels, given how many training points have each, K; 1 for those without points."""
        weights = self.weight * RARITY / (counts + RARITY)
        return np.where(counts == 0, 1, weights).astype(np.float32)


#: The numbers of `TextFit`.
NUMBERS = len(PRIOR) + 2

#: The arrays of `LabelTexts`: M texts with t words, of W in all.
LABEL_TEXTS = ArrayGroup(
    "label_texts.",
    labels=Array("M", np.int32, numbers("K")),
    **csr_pattern("M W", "t"),
    feature_of=Array("W", np.int32, numbers("D", -1)),
    weights=Array("W", np.float32, at_least(0)),
    fit=Array(str(NUMBERS), np.float64, lambda values, sizes: bool(0 <= values[-1] <= 1)),
)


class LabelTexts(NamedTuple):
    """The texts of labels: which of their W words each has, M×W, and the label of each.

    `feature_of`, W, is the feature that a word is, or −1, and `weights`, W, are v.
    """

    labels: NDArray[np.int32]
    words: csr_array
    feature_of: NDArray[np.int32]
    weights: NDArray[np.float32]
    fit: TextFit

    @classmethod
    def build(cls, texts: TextWords, rows: csr_array, fit: TextFit) -> LabelTexts:
        """Return the texts of labels, given the words of the training points, N×D."""
        N, D = rows.shape
        used, indices = np.unique(texts.words.indices, return_inverse=True)
        counts = np.append(sparse.column_sums(rows.indices, D), 0)
        feature_of = np.where(used < D, used, -1).astype(np.int32)
        weights = np.log((1 + N) / (1 + counts[feature_of])).astype(np.float32)
        indptr = texts.words.indptr.astype(np.int64)
        words = _pattern(indices.astype(np.int32), indptr, len(used))
        return cls(texts.labels, words, feature_of, weights, fit)

    @classmethod
    def of(cls, parameters: Mapping[str, NDArray[Any]]) -> LabelTexts | None:
        """Return the texts among the parameters of a model, or None."""
        if not LABEL_TEXTS.is_in(parameters):
            return None
        arrays = LABEL_TEXTS.read(parameters)
        words = _pattern(arrays["indices"], arrays["indptr"], len(arrays["feature_of"]))
        return cls(arrays["labels"], words, arrays["feature_of"], arrays["weights"], TextFit.of(arrays["fit"]))

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by their names in a model."""
        pattern = {
            "indptr": self.words.indptr.astype(np.int64, copy=False),
            "indices": self.words.indices.astype(np.int32, copy=False),
        }
        others = {"labels": self.labels, "feature_of": self.feature_of, "weights": self.weights}
        return LABEL_TEXTS.named({**pattern, **others, "fit": self.fit.values()})


class Evidence(NamedTuple):
    """The nearest texts of B points, B×n, and the terms of z for them, B×n×5; −1 is none."""

    texts: NDArray[np.int32]
    terms: NDArray[np.float64]


class TextEvidence:
    """What texts say of labels at points, given how many training points have each label, K."""

    def __init__(self, texts: LabelTexts, counts: NDArray[np.integer], feature_count: int) -> None:
        self._labels, words, feature_of, weights, self.fit = texts
        K = len(counts)
        self._label_count = K
        self._word_of = np.full(feature_count, -1, np.int32)
        known = np.flatnonzero(feature_of >= 0)
        self._word_of[feature_of[known]] = known
        values = weights[words.indices]
        self._lengths = np.diff(words.indptr).astype(np.float64)
        self._totals = np.asarray(csr_array((values, words.indices, words.indptr), shape=words.shape).sum(axis=1))
        shares = values / np.repeat(np.maximum(self._totals, np.finfo(np.float32).tiny), np.diff(words.indptr))
        rows = csr_array((shares.astype(np.float32), words.indices, words.indptr), shape=words.shape)
        rows.sort_indices()
        self._rows = rows
        self._index = build_index(rows)
        #: The words of the texts of each label, K×W.
        is_known = self._labels < K
        texts_of = csr_array(
            (np.ones(is_known.sum(), np.float32), (self._labels[is_known], np.flatnonzero(is_known))),
            shape=(K, len(self._labels)),
        )
        self._words_of_labels = csr_array(texts_of @ words.astype(np.float32))
        self._words_of_labels.data[:] = 1
        self._counts = counts
        self._weights = self.fit.weights_of(counts)
        has_text = np.zeros(K, bool)
        has_text[self._labels[is_known]] = True
        #: Labels that have texts and no points, K.
        self.texts_only = has_text & (counts == 0)

    def with_fit(self, fit: TextFit) -> TextEvidence:
        """Return the same with other choices."""
        result = copy.copy(self)
        result.fit = fit
        result._weights = fit.weights_of(self._counts)
        return result

    @property
    def numbers_per_point(self) -> int:
        """About how many numbers the evidence at a point takes."""
        return 20 * NEAREST

    def evidence(self, features: csr_array, shares: csr_array) -> Evidence:
        """Return the evidence at points, given their features, B×D, and Σ_r α_r Y_rk, B×K."""
        likely = csr_array((np.maximum(shares.data, 0), shares.indices, shares.indptr), shape=shares.shape)
        expected = csr_array(likely @ self._words_of_labels)
        expected.sort_indices()
        words = self._words(features)
        of_labels = csr_array((-np.expm1(-expected.data), expected.indices, expected.indptr), shape=expected.shape)
        queries = csr_array(words.maximum(of_labels), dtype=np.float32)
        queries.sort_indices()
        found, _ = nearest(self._index, queries, min(NEAREST, len(self._labels)))
        sums = np.zeros((*found.shape, 3))
        W = self._rows.shape[1]
        _judge(
            (self._rows.indptr, self._rows.indices, self._rows.data),
            (words.indptr, words.indices),
            (expected.indptr, expected.indices, expected.data),
            (likely.indptr, likely.indices, likely.data),
            self._labels,
            found,
            (np.zeros(W, np.bool_), np.zeros(W, np.float32)),
            sums,
        )
        all_likely, by_labels, ranks = np.moveaxis(sums, -1, 0)
        of_texts = self._lengths[found], self._totals[found]
        terms = np.stack([all_likely, np.log(by_labels + MARGIN), *of_texts, np.log1p(ranks)], axis=-1)
        found[ranks >= NEAREST] = -1
        return Evidence(found, terms)

    def _words(self, features: csr_array) -> csr_array:
        """Return which words of texts points have, B×W."""
        words = self._word_of[features.indices]
        is_word = words >= 0
        ends = np.concatenate([[0], np.cumsum(is_word)])[features.indptr]
        ones = np.ones(ends[-1], np.float32)
        result = csr_array((ones, words[is_word], ends), shape=(features.shape[0], self._rows.shape[1]))
        result.sort_indices()
        return result

    def log_odds(self, evidence: Evidence) -> csr_array:
        """Return z − z₀ of the labels of the nearest texts, B×K; of several texts of a label, of the best."""
        *coefficients, constant = self.fit.coefficients
        odds = evidence.terms @ np.array(coefficients) + (constant - self.fit.base)
        row, column = np.nonzero(evidence.texts >= 0)
        label = self._labels[evidence.texts[row, column]]
        is_known = label < self._label_count
        row, column, label = row[is_known], column[is_known], label[is_known]
        value = odds[row, column].astype(np.float32)
        order = np.lexsort((-value, label, row))
        row, label, value = row[order], label[order], value[order]
        is_best = np.ones(len(row), bool)
        is_best[1:] = (np.diff(row) > 0) | (np.diff(label) > 0)
        B = len(evidence.texts)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row[is_best], minlength=B))])
        return csr_array((value[is_best], label[is_best], indptr), shape=(B, self._label_count))

    def best_texts(
        self, evidence: Evidence, indptr: NDArray[np.integer], labels: NDArray[np.integer]
    ) -> NDArray[np.int32]:
        """Return the number of the nearest text of some labels of each point, or −1."""
        of_points = np.repeat(evidence.texts, np.diff(indptr), axis=0)
        is_of_label = (of_points >= 0) & (self._labels[of_points] == labels[:, None])
        first = is_of_label.argmax(axis=1)[:, None]
        found = np.take_along_axis(of_points, first, axis=1)[:, 0]
        return np.where(is_of_label.any(axis=1), found, -1).astype(np.int32)

    def add(
        self,
        log_odds: csr_array,
        labels: slice,
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | None = None,
    ) -> None:
        """Add what texts say to the moments of the utilities of a block of labels, B×L, in place."""
        first, last, _ = labels.indices(self._label_count)
        replaced = np.flatnonzero(self.texts_only[first:last])
        mean[:, replaced] = self.fit.base
        if variance is not None:
            variance[:, replaced] = 0
        _add_block((log_odds.indptr, log_odds.indices, log_odds.data), self._weights, first, mean)

    def add_pairs(
        self,
        log_odds: csr_array,
        indptr: NDArray[np.integer],
        labels: NDArray[np.integer],
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | None = None,
    ) -> None:
        """Add what texts say of some labels of each point, `labels[indptr[i]:indptr[i + 1]]`, in place."""
        replaced = self.texts_only[labels]
        mean[replaced] = self.fit.base
        if variance is not None:
            variance[replaced] = 0
        mean += self.terms_of_pairs(log_odds, indptr, labels)

    def terms_of_pairs(
        self, log_odds: csr_array, indptr: NDArray[np.integer], labels: NDArray[np.integer]
    ) -> NDArray[np.float32]:
        """Return u_k (z − z₀) of some labels of each point."""
        terms: NDArray[np.float32] = elements_of_pairs(log_odds, indptr, labels) * self._weights[labels]
        return terms


def elements_of_pairs(
    matrix: csr_array, indptr: NDArray[np.integer], labels: NDArray[np.integer]
) -> NDArray[np.float32]:
    """Return elements of a matrix B×K, `labels[indptr[i]:indptr[i + 1]]` of row i; 0 where there is none."""
    elements = np.zeros(len(labels), np.float32)
    _look_up((matrix.indptr, matrix.indices, matrix.data), indptr, labels, elements)
    return elements


def fit_texts(evidence: Evidence, labels: NDArray[np.int32], truth: csr_array) -> TextFit:
    """Return the coefficients of highest likelihood on held-out points, and z₀, with u = 0.

    `labels`, M, has the label of each text, and `truth`, B×K, the labels of the points; those of other texts are not
    judged. The prior around `PRIOR` is normal, on coefficients of terms divided by their standard deviations.
    """
    B, K = truth.shape
    row, column = np.nonzero(evidence.texts >= 0)
    label = labels[evidence.texts[row, column]]
    row, column, label = (array[label < K] for array in (row, column, label))
    order = np.lexsort((column, label, row))
    row, column, label = row[order], column[order], label[order]
    is_first = np.ones(len(row), bool)
    is_first[1:] = (np.diff(row) > 0) | (np.diff(label) > 0)
    row, column, label = row[is_first], column[is_first], label[is_first]
    is_true = np.isin(row.astype(np.int64) * K + label, _pairs_of(truth))
    terms = np.column_stack([evidence.terms[row, column], np.ones(len(row))])
    scale = np.append(terms[:, :-1].std(axis=0), 1) if len(row) else np.ones(len(PRIOR))
    scale[scale == 0] = 1
    terms /= scale
    start = PRIOR * scale
    sign = np.where(is_true, 1.0, -1.0)

    def loss(coefficients: NDArray[np.float64]) -> Expansion:
        margin = sign * (terms @ coefficients)
        wrong = expit(-margin)
        offset = coefficients - start
        value = np.logaddexp(0, -margin).sum() + PRECISION * offset @ offset / 2
        curvature = terms.T @ ((wrong * (1 - wrong))[:, None] * terms) + PRECISION * np.eye(len(start))
        return value, PRECISION * offset - (sign * wrong) @ terms, curvature

    coefficients = minimum(loss, start, np.full(len(start), -BOUND), np.full(len(start), BOUND)) / scale
    has_text = np.zeros(K, bool)
    has_text[labels[labels < K]] = True
    missed = np.count_nonzero(has_text[truth.indices]) - np.count_nonzero(is_true)
    others = B * np.count_nonzero(has_text) - len(row)
    return TextFit(coefficients, float(np.log((missed + 0.5) / max(others - missed + 0.5, 1))), 0.0)


def _pairs_of(labels: csr_array) -> NDArray[np.int64]:
    """Return a number for each pair of a point and a label."""
    rows = np.repeat(np.arange(labels.shape[0], dtype=np.int64), np.diff(labels.indptr))
    pairs: NDArray[np.int64] = rows * labels.shape[1] + labels.indices
    return pairs


def _pattern(indices: NDArray[np.int32], indptr: NDArray[np.int64], columns: int) -> csr_array:
    shape = (len(indptr) - 1, columns)
    return csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=shape)


@compiled
def _judge(  # noqa: C901, since compiled code cannot be divided without a cost
    texts: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float32]],
    words: tuple[NDArray[np.integer], NDArray[np.integer]],
    expected: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float32]],
    shares: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float32]],
    labels: NDArray[np.int32],
    found: NDArray[np.int32],
    scratch: tuple[NDArray[np.bool_], NDArray[np.float32]],
    sums: NDArray[np.float64],
) -> None:
    """Write s, s′ and the rank of each text that was found for each point, without the points of its own label.

    `texts` are v_w/Σ v_w, M×W, `words` those of points, B×W, `expected` is G, B×W, and `shares` B×K. The arrays of
    `scratch`, both W, are zero before and after.
    """
    text_indptr, text_words, text_shares = texts
    of_point, of_labels = scratch
    before = np.empty(found.shape[1], np.float64)
    for b in range(len(found)):
        for e in range(words[0][b], words[0][b + 1]):
            of_point[words[1][e]] = True
        for e in range(expected[0][b], expected[0][b + 1]):
            of_labels[expected[1][e]] = expected[2][e]
        for j in range(found.shape[1]):
            m = found[b, j]
            before[j] = 0
            if m < 0:
                continue
            own = np.float32(0)
            e = first_not_below(shares[1], labels[m], shares[0][b], shares[0][b + 1])
            if e < shares[0][b + 1] and shares[1][e] == labels[m]:
                own = shares[2][e]
            all_likely, by_labels, with_own = 0.0, 0.0, 0.0
            for e in range(text_indptr[m], text_indptr[m + 1]):
                w = text_words[e]
                total = of_labels[w]
                rest = total - own
                # What is left of rounding is nothing.
                if rest < np.float32(1e-4) * total:
                    rest = np.float32(0)
                likely = 1 - exponential(-rest)
                by_labels += text_shares[e] * likely
                all_likely += text_shares[e] * (1 if of_point[w] else likely)
                with_own += text_shares[e] * (1 if of_point[w] else 1 - exponential(-total))
            before[j] = with_own
            sums[b, j, 0] = all_likely
            sums[b, j, 1] = by_labels
        for j in range(found.shape[1]):
            if found[b, j] < 0:
                continue
            # The best are first. Numbers that differ by rounding alone are equal.
            rank = 0
            while rank < found.shape[1] and before[rank] > sums[b, j, 0] + 1e-6:
                rank += 1
            sums[b, j, 2] = rank
        for e in range(words[0][b], words[0][b + 1]):
            of_point[words[1][e]] = False
        for e in range(expected[0][b], expected[0][b + 1]):
            of_labels[expected[1][e]] = 0


@compiled
def _add_block(
    log_odds: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float32]],
    weights: NDArray[np.float32],
    first: int,
    mean: NDArray[np.floating],
) -> None:
    """Add weighted log odds to a block of labels from `first` on."""
    indptr, labels, data = log_odds
    for i in range(len(mean)):
        e = first_not_below(labels, first, indptr[i], indptr[i + 1])
        while e < indptr[i + 1] and labels[e] < first + mean.shape[1]:
            mean[i, labels[e] - first] += weights[labels[e]] * data[e]
            e += 1


@compiled
def _look_up(
    matrix: tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float32]],
    pair_indptr: NDArray[np.integer],
    pair_labels: NDArray[np.integer],
    values: NDArray[np.float32],
) -> None:
    """Write the elements of pairs, which are zero where there is none."""
    indptr, labels, data = matrix
    for i in range(len(pair_indptr) - 1):
        for p in range(pair_indptr[i], pair_indptr[i + 1]):
            e = first_not_below(labels, pair_labels[p], indptr[i], indptr[i + 1])
            if e < indptr[i + 1] and labels[e] == pair_labels[p]:
                values[p] = data[e]
