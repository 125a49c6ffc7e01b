"""The parameters of BMLPL: initial values, updates, priors, the check of stored ones, and lists of topics for users."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, is_positive
from xmlgp.models.bmlpl.activations import ActivationSums
from xmlgp.models.bmlpl.blocks import map_blocks
from xmlgp.models.bmlpl.counts import Positives
from xmlgp.models.bmlpl.least_squares import INTERCEPT_PRECISION
from xmlgp.models.bmlpl.settings import DEFAULT_TOPICS, BMLPLSettings
from xmlgp.models.model import Topic

__all__ = [
    "ARRAYS",
    "SHAPE_RATE",
    "TINY",
    "groups_of_topics",
    "initial_topics",
    "initial_values",
    "list_topics",
    "log_prior_of_topics",
    "topic_shares",
    "update_precisions",
    "update_shapes",
    "update_topics",
]

#: Initial shape r of the prior of activations.
INITIAL_SHAPE = 0.1

#: Rate of the prior of r, Gamma(1, 1).
SHAPE_RATE = 1.0

#: Least r, so that its powers are finite.
LEAST_SHAPE = 1e-6

#: Largest r; a gamma distribution of a larger shape is nearly constant.
LARGEST_SHAPE = 1e4

#: Limits of τ, so that its powers are finite.
PRECISION_LIMITS = 1e-6, 1e6

#: Largest rounding error of sums that should be one.
SUM_TOLERANCE = 1e-2


def _sum_to_one(values: NDArray[np.floating], sizes: dict[str, int]) -> bool:
    """Return whether the numbers of each column are shares of one."""
    sums = values.sum(axis=0, dtype=np.float64)
    return bool((values >= 0).all() and (abs(sums - 1) < SUM_TOLERANCE).all())


#: The arrays of a model.
ARRAYS = ArrayGroup(
    topics=Array("K T", check=_sum_to_one),
    weights=Array("D T"),
    intercepts=Array("T"),
    shapes=Array("T", check=is_positive),
    precisions=Array("D", check=is_positive),
    shares=Array("T", check=_sum_to_one),
)

#: Weight that all labels together have in each initial topic.
BACKGROUND = 1e-3

#: Scale of the random weights of labels that start no topic.
RANDOM_SCALE = 0.1

#: Least number of elements per thread.
GRAIN = 1 << 15

#: Least weight of a label in a logarithm.
TINY = 1e-37


class InitialValues(NamedTuple):
    """V, K×T; W with the intercepts last, (D+1)×T; r, T; and τ with that of the intercepts last, D+1."""

    topics: NDArray[np.floating]
    weights: NDArray[np.floating]
    shapes: NDArray[np.floating]
    precisions: NDArray[np.floating]


def initial_values(
    feature_count: int, labels: csr_array, settings: BMLPLSettings, random: np.random.Generator
) -> InitialValues:
    """Return the parameters before the first step.

    W is zero, with intercepts that give the right mean number of labels. T is at most K, because each topic is
    initialised from one label.
    """
    dtype = np.dtype(settings.dtype)
    N, K = labels.shape
    T = min(settings.topics or DEFAULT_TOPICS, K)
    frequencies = Positives(labels).frequencies() / max(1, N)
    mean_count = labels.nnz / max(1, N)
    topics = initial_topics(frequencies, T, random, dtype)
    weights = np.zeros((feature_count + 1, T), dtype)
    shapes = np.full(T, INITIAL_SHAPE, dtype)
    weights[-1] = np.log(max(mean_count, np.finfo(np.float32).tiny) / T / INITIAL_SHAPE)
    precisions = np.full(feature_count + 1, settings.precision, dtype)
    precisions[-1] = INTERCEPT_PRECISION
    return InitialValues(topics, weights, shapes, precisions)


def initial_topics(
    frequencies: NDArray[np.floating], count: int, random: np.random.Generator, dtype: np.dtype[np.floating]
) -> NDArray[np.floating]:
    """Return V, K×T: each of the T most frequent labels dominates one topic.

    The other labels have small random weights in all topics, because labels with equal weights would keep them equal.
    """
    K = len(frequencies)
    order = np.argsort(-frequencies, kind="stable")
    topics = np.full((K, count), BACKGROUND / K, dtype)
    topics[order[:count], np.arange(count)] = 1
    rest = order[count:]
    topics[rest] += RANDOM_SCALE * frequencies[rest, None] * random.standard_gamma(1, (len(rest), count))
    topics /= topics.sum(axis=0)
    return topics


def update_topics(counts: NDArray[np.floating], concentration: float) -> NDArray[np.floating]:
    """Return V, K×T, with v_kt = (η + m_kt) / Σ_k (η + m_kt) ([B] (12)); V overwrites the counts m_kt.

    This is the posterior mean of topics and the posterior mode of their logits. It exists for every η, whereas the mode
    of the topics themselves exists for η ≥ 1 only.
    """
    counts += concentration
    counts /= counts.sum(axis=0, dtype=np.float64)
    return counts


def log_prior_of_topics(topics: NDArray[np.floating], concentration: float, added: float = 0) -> float:
    """Return η Σ_kt log(v_kt + added), the Dirichlet log density of the logits of topics up to a constant."""

    def sum_of_logarithms(rows: slice) -> float:
        return float(np.log(np.maximum(topics[rows] + added, TINY)).sum(dtype=np.float64))

    sums = map_blocks(sum_of_logarithms, len(topics), GRAIN // max(1, topics.shape[1]))
    return float(concentration * np.sum(sums))


def topic_shares(counts: NDArray[np.floating], frequencies: NDArray[np.integer]) -> NDArray[np.floating]:
    """Return the share of each topic in the positive labels, T, given m_kt, K×T, and N_k, K, the points of each label.

    It is proportional to Σ_k N_k m_kt / Σ_s m_ks: each positive label counts once and is divided among topics in
    proportion to its latent counts.
    """
    totals = counts.sum(axis=1, dtype=np.float64)
    weights = np.divide(frequencies, totals, out=np.zeros(len(totals)), where=totals > 0)
    shares: NDArray[np.floating] = weights.astype(counts.dtype) @ counts
    if not shares.any():
        # Without positive labels all topics have the same share.
        shares = np.ones_like(shares)
    shares /= shares.sum()
    return shares


def update_shapes(shapes: NDArray[np.floating], sums: ActivationSums) -> NDArray[np.floating]:
    """Return r, T, after an EM step, which never lowers Σ_n log NegBin(m_nt; r_t, σ(ψ_nt)) + log Gamma(r_t; 1, 1).

    r ← r Σ_n [Ψ(m_nt + r) − Ψ(r)] / (1 + Σ_n log(1 + e^ψ_nt)). The latent variables are the table counts l ~ CRT(m, r)
    of the Chinese restaurant process, whose mean is r [Ψ(m + r) − Ψ(r)]; given them r has a gamma density. Source: M.
    Zhou, L. Carin, Negative binomial process count and mixture modeling, IEEE TPAMI 37, 2015.
    """
    updated: NDArray[np.float64] = shapes * sums.digamma / (SHAPE_RATE + sums.softplus)
    return updated.clip(LEAST_SHAPE, LARGEST_SHAPE).astype(shapes.dtype)


def update_precisions(second_moments: NDArray[np.floating], dtype: np.dtype[np.floating]) -> NDArray[np.floating]:
    """Return τ_d = T / Σ_t E w_dt², D, which maximises the expected log prior of W (type-II maximum likelihood).

    The second moments, D×T, are E w_dt², or w_dt² of a posterior sample.
    """
    total = second_moments.sum(axis=1, dtype=np.float64)
    precisions: NDArray[np.float64] = second_moments.shape[1] / np.maximum(total, TINY)
    return precisions.clip(*PRECISION_LIMITS).astype(dtype)


def list_topics(parameters: Mapping[str, NDArray[np.floating]], top: int = 5, most: int | None = None) -> list[Topic]:
    """Return the topics of a trained model (list of `Topic`) with at most `top` labels, highest share first.

    Topics of equal shares are in the order of their numbers. If there are more than `most`, those that are most alike
    are joined, see `groups_of_topics`; the weights of a group are the means of those of its topics, weighted by shares.
    """
    shares = parameters["shares"].astype(np.float64)
    T = len(shares)
    groups = np.arange(T) if most is None or most >= T else groups_of_topics(parameters["weights"], most)
    topics = []
    for group in range(groups.max() + 1):
        numbers = np.flatnonzero(groups == group)
        numbers = numbers[np.argsort(-shares[numbers], kind="stable")]
        share = shares[numbers].sum()
        parts = shares[numbers] / share if share > 0 else np.full(len(numbers), 1 / len(numbers))
        weights = parameters["topics"][:, numbers].astype(np.float64) @ parts
        labels = _top_labels(weights, top)
        topics.append(Topic(int(numbers[0]), float(share), labels.tolist(), weights[labels].tolist(), numbers.tolist()))
    return sorted(topics, key=lambda topic: (-topic.share, topic.number))


def groups_of_topics(weights: NDArray[np.floating], count: int) -> NDArray[np.intp]:
    """Return the group of each topic, T, given W, D×T: at most `count` groups of topics of similar points.

    A topic is active where features of a point have high weights, so topics whose weights have the same direction
    describe similar points, though each may have one label only. Groups are those of Ward's method on the columns of W,
    scaled to unit length. Source: J. Ward, Hierarchical grouping to optimize an objective function, JASA 58, 1963.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    products = (weights.T @ weights).astype(np.float64)
    lengths = np.sqrt(np.diagonal(products)).clip(min=TINY)
    squares = 2 - 2 * products / np.outer(lengths, lengths)
    distances = np.sqrt(np.maximum(squares, 0))
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances, checks=False), "ward")
    return np.unique(fcluster(tree, count, "maxclust"), return_inverse=True)[1]


def _top_labels(weights: NDArray[np.floating], count: int) -> NDArray[np.intp]:
    """Return the min(count, K) labels of highest weight in descending order of weight, ties by label."""
    first = max(0, len(weights) - count)
    labels = np.flatnonzero(weights >= np.partition(weights, first)[first])
    return labels[np.argsort(-weights[labels], kind="stable")[:count]]
