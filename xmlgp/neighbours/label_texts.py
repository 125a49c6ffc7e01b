"""Label texts: the evidence for a label from the words of its name or description.

A word w of a text has the weight v_w = log((1 + N)/(1 + n_w)), where n_w of the N training points have it. The words
that are likely at a point x are its own, and those in the texts of the labels that its neighbours predict:

    q_w = max([w in x], 1 − exp(−G_w)),    G_w = Σ_k max(Σ_r α_r Y_rk, 0) [w in a text of k],

where α are the weights of the regression on the nearest training points. The evidence for a text of label k is the
weighted share of its words that are likely, s = Σ v_w q_w/Σ v_w, and s′, the same share of the words that are likely
from labels alone, q_w = 1 − exp(−G_w). For both, G_w is without the term of k itself. For the labels of the `NEAREST`
texts of largest s, the log odds of the label are

    z = c · (log(s′ + `MARGIN`), v̄, v̄², log(1 + rank by s), 1),    v̄ = the mean v_w of the words of the text,

where s′, v̄ and the rank of a label with several texts are those of its nearest text. All other labels have the log odds
z₀. The coefficients c have the highest posterior density given the labels of held-out points.

z does not use the points of the label, so it is equally valid for labels without points: there z is the utility. The
utilities of labels with n_k points get u_k (z − z₀) added, with u_k = u ρ/(n_k + ρ).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import as_csr
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, at_least, csr_pattern, indices_below
from xmlgp.linear_algebra.logistic import expit
from xmlgp.metrics.ranking import canonical
from xmlgp.neighbours.search import build_index, nearest
from xmlgp.prediction.calibration import Expansion, minimum
from xmlgp.prediction.contributions import Contributions
from xmlgp.prediction.terms import Pairs

__all__ = [
    "LABEL_TEXTS",
    "TEXT_WEIGHTS",
    "Evidence",
    "TextPrediction",
    "TextTerm",
    "TextWords",
    "default_fit",
    "fit_texts",
    "text_parameters",
]

#: The number of texts for which z is computed at each point. On the data set `deps` (docs/text.md), they include two
#: thirds of the true labels whose texts share a word with the point. With more, probabilities are worse calibrated.
NEAREST = 200

#: Added to the share s′, so that its logarithm is finite.
MARGIN = 0.01

#: ρ, the number of points of a label at which u_k = u/2. With 2 and 5, the propensity-scored precision on `deps` rises
#: by less for the same loss of precision.
RARITY = 20.0

#: The values of u to choose from on held-out points.
TEXT_WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)

#: Mean and precisions of the normal prior of c, which matters if held-out points are few. The mean is c fitted to
#: `deps`; the precisions are four times the variances of the terms of z. With Σ v and the number of words in place of
#: v̄, the highest probabilities of labels without points are twice their frequencies; s as a further term does not help.
PRIOR = np.array([1.03, -0.5, 0.1, -0.9, 0.0])
PRECISIONS = np.array([7, 4.5, 400.0, 3.6, 4])

#: A difference of sums below this share of the larger sum is a rounding error and counts as zero.
ROUNDING = 1e-4

#: Shares s that differ by less have the same rank, because rounding alone can cause such a difference.
EQUAL = 1e-6


class TextWords(NamedTuple):
    """The words of M label texts.

    `words`, M×W with W ≥ D, has a column for each feature of the model, and then for each word that no point has.
    `labels`, M, has the label of each text.
    """

    words: csr_array
    labels: NDArray[np.int32]


def default_fit(point_count: int) -> NDArray[np.float64]:
    """Return the default c, z₀ and u for a model of N = `point_count` training points, if too few are held out.

    z₀ = log(½/(N + ½)), the log odds of a label that no training point has, with half a count on either side; u is 0.
    """
    return np.array([*PRIOR, -np.log(2 * point_count + 1), 0])


#: The arrays of M texts with t words in all, W of them different. `fit` has c, z₀ and u.
LABEL_TEXTS = ArrayGroup(
    "label_texts.",
    labels=Array("M", np.int32, indices_below("K")),
    **csr_pattern("M W", "t"),
    weights=Array("W", np.float32, at_least(0)),
    fit=Array(str(len(PRIOR) + 2), np.float64, lambda values, sizes: bool(0 <= values[-1] <= 1)),
)


def text_parameters(texts: TextWords, rows: csr_array, fit: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    """Return the arrays of texts and `fit` by their names in a model, given the words of the training points, N×D."""
    N, D = rows.shape
    counts = np.zeros(texts.words.shape[1])
    counts[:D] = sparse.column_sums(rows.indices, D)
    arrays = {
        "labels": texts.labels,
        "indptr": texts.words.indptr.astype(np.int64),
        "indices": texts.words.indices.astype(np.int32),
        "weights": np.log((1 + N) / (1 + counts)).astype(np.float32),
        "fit": fit,
    }
    return LABEL_TEXTS.named(arrays)


class Evidence(NamedTuple):
    """The evidence of the nearest texts of B points for their labels, n pairs of a point and a label in all.

    `texts`, B×K, has the number of the nearest text of each label plus one, and `terms`, n×5, the terms of z.
    """

    texts: csr_array
    terms: NDArray[np.float64]


class TextPrediction(NamedTuple):
    """The evidence of texts at B points, and u_k (z − z₀) of the labels of the nearest texts, B×K."""

    evidence: Evidence
    log_odds: csr_array


class TextTerm:
    """The term of label texts in the utilities of a model; `counts`, K, are the training points of each label."""

    def __init__(self, parameters: Mapping[str, NDArray[Any]], counts: NDArray[np.integer]) -> None:
        arrays = LABEL_TEXTS.read(parameters)
        #: c, z₀ and u.
        self.fit = arrays["fit"]
        self._labels = arrays["labels"]
        values = arrays["weights"][arrays["indices"]]
        words = as_csr(values, arrays["indices"], arrays["indptr"], len(arrays["weights"]))
        self._lengths = np.diff(words.indptr)
        totals = words.sum(axis=1)
        self._means = totals / np.maximum(self._lengths, 1)
        shares = values / np.repeat(np.maximum(totals, np.finfo(np.float32).tiny), self._lengths)
        self._index = build_index(csr_array((shares, words.indices, words.indptr), words.shape))
        M = len(self._labels)
        # Some texts are of labels without points, which `counts` may not reach.
        self._counts = np.pad(counts, (0, max(0, int(self._labels.max()) + 1 - len(counts))))
        of_labels = csr_array((np.ones(M, bool), (self._labels, np.arange(M))), shape=(len(self._counts), M))
        #: The words of the texts of each label, K×W.
        self._words_of_labels = csr_array(of_labels @ words.astype(bool))
        #: Labels that have no points, K.
        self.texts_only = counts == 0

    def predict(self, features: csr_array, neighbour_labels: csr_array) -> TextPrediction:
        """Return the evidence and the log odds at points, given their words, B×D, and Σ_r α_r Y_rk, B×K."""
        evidence = self.evidence(features, neighbour_labels)
        return TextPrediction(evidence, self.log_odds(evidence))

    def evidence(self, features: csr_array, neighbour_labels: csr_array) -> Evidence:
        """Return the evidence at points; the arguments are those of `predict`."""
        B, (K, W) = features.shape[0], self._words_of_labels.shape
        positive_parts = np.maximum(neighbour_labels.data, 0)
        likely = csr_array((positive_parts, neighbour_labels.indices, neighbour_labels.indptr), shape=(B, K))
        by_labels = csr_array(likely @ self._words_of_labels)
        words = csr_array((np.ones_like(features.data), features.indices, features.indptr), features.shape)
        words.resize((B, W))
        queries = csr_array(words.maximum(-(-by_labels).expm1()), dtype=np.float32)
        for matrix in (by_labels, words, queries):
            matrix.sort_indices()
        nearest_texts, nearest_shares = nearest(self._index, queries, min(NEAREST, len(self._labels)))
        point, place = np.nonzero(nearest_texts >= 0)
        label = self._labels[nearest_texts[point, place]]
        # A label of several texts keeps only the nearest, which comes first.
        _, first = np.unique(point * K + label, return_index=True)
        point, place, label = point[first], place[first], label[first]
        text, share_with_own_label = nearest_texts[point, place], nearest_shares[point, place]
        starts = np.searchsorted(point, np.arange(B + 1))
        rows = self._index.rows[text]
        of_point = Pairs(rows.indptr[starts], rows.indices)
        total = of_point.elements(by_labels)
        others = total - np.repeat(Pairs(starts, label).elements(likely), np.diff(rows.indptr))
        by_others = -np.expm1(-np.where(others > ROUNDING * total, others, 0))
        parts = rows.data * np.stack([np.maximum(of_point.elements(words), by_others), by_others])
        share, share_of_labels = np.add.reduceat(parts, rows.indptr[:-1], axis=1, dtype=np.float64)
        # One search ranks the texts of all points: 2i − s ascends over the texts of point i, and over points.
        order = (2 * np.arange(B)[:, None] - nearest_shares.astype(np.float64)).ravel()
        rank = np.searchsorted(order, 2 * point - share - EQUAL) - point * nearest_shares.shape[1]
        kept = rank < NEAREST
        # A text is not ranked behind itself, where its own label made its share in the search larger.
        rank -= share_with_own_label > share + EQUAL
        means = self._means[text]
        terms = [np.log(share_of_labels + MARGIN), means, np.square(means), np.log1p(rank), np.ones(len(text))]
        indptr = np.searchsorted(point[kept], np.arange(B + 1))
        return Evidence(csr_array((text[kept] + 1, label[kept], indptr), shape=(B, K)), np.column_stack(terms)[kept])

    def log_odds(self, evidence: Evidence) -> csr_array:
        """Return u_k (z − z₀) of the labels of the nearest texts, B×K; u_k of labels without points is 1."""
        *coefficients, base, weight = self.fit
        labels = evidence.texts.indices
        counts = self._counts[labels]
        weights = np.where(counts == 0, 1, weight * RARITY / (counts + RARITY))
        odds = weights * (evidence.terms @ np.array(coefficients) - base)
        result = csr_array((odds.astype(np.float32), labels, evidence.texts.indptr), evidence.texts.shape)
        return csr_array(result[:, : len(self.texts_only)])

    def block(
        self,
        prediction: TextPrediction,
        labels: slice,
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | None,
    ) -> None:
        """Add u_k (z − z₀) to the moments of a block of labels, B×L; see `Term`."""
        self._add(prediction.log_odds[:, labels].toarray(), labels, mean, variance)

    def pairs(
        self,
        prediction: TextPrediction,
        pairs: Pairs,
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | None,
    ) -> None:
        """Add u_k (z − z₀) to the moments of pairs; see `Term`."""
        self._add(pairs.elements(prediction.log_odds), pairs.labels, mean, variance)

    def explain(
        self, prediction: TextPrediction, pairs: Pairs, weighted: csr_array, contributions: Contributions
    ) -> None:
        """Add the contributions of texts; see `Term`.

        Labels without points have no other contributions, except z₀ as their bias.
        """
        contributions.text = pairs.elements(prediction.evidence.texts) - 1
        contributions.rest["text"] = pairs.elements(prediction.log_odds)
        texts_only = self.texts_only[pairs.labels]
        contributions.rest["bias"][texts_only] = self.fit[-2]
        contributions.rest["neighbours"][texts_only] = 0
        contributions.features.data[np.repeat(texts_only, np.diff(weighted.indptr))] = 0

    def _add(
        self,
        log_odds: NDArray[np.float32],
        labels: slice | NDArray[np.integer],
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | None,
    ) -> None:
        """Add u_k (z − z₀) to means; labels without points have the utility z, without variance."""
        texts_only = self.texts_only[labels]
        mean[..., texts_only] = self.fit[-2]
        if variance is not None:
            variance[..., texts_only] = 0
        mean += log_odds


def fit_texts(evidence: Evidence, truth: csr_array) -> NDArray[np.float64]:
    """Return c, z₀ and u = 1, given the evidence at held-out points and their labels Y, B×K.

    c has the highest posterior density, with a normal prior (`PRIOR`, `PRECISIONS`). z₀ is the log odds of the labels
    that have no nearest text. Texts of labels beyond these K are left out.
    """
    B, K = truth.shape
    is_judged = evidence.texts.indices < K
    terms = evidence.terms[is_judged]
    truth_of_pairs = Pairs(evidence.texts.indptr, evidence.texts.indices).elements(canonical(truth))
    is_true = truth_of_pairs[is_judged].astype(bool)
    sign = np.where(is_true, 1.0, -1.0)

    def loss(coefficients: NDArray[np.float64]) -> Expansion:
        """Return the negative log posterior, its gradient and its Hessian."""
        signed = sign * (terms @ coefficients)
        wrong = expit(-signed)
        offset = coefficients - PRIOR
        value = np.logaddexp(0, -signed).sum() + PRECISIONS @ np.square(offset) / 2
        curvature = terms.T @ ((wrong * (1 - wrong))[:, None] * terms) + np.diag(PRECISIONS)
        return value, PRECISIONS * offset - (sign * wrong) @ terms, curvature

    unbounded = np.full(len(PRIOR), np.inf)
    missed = truth.nnz - is_true.sum()
    # One negative more for each point, so that z₀ stays low if few labels have no nearest text.
    others = B * K - len(terms) - missed + B
    return np.array([*minimum(loss, PRIOR, -unbounded, unbounded), np.log((missed + 0.5) / others), 1])
