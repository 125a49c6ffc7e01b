"""The parameters of BMLPL: initial values, updates of the shapes r and precisions τ, and the check of stored ones."""

import numpy as np

from xmlgp.bmlpl.counts import Positives
from xmlgp.bmlpl.least_squares import INTERCEPT_PRECISION
from xmlgp.bmlpl.topics import initial_topics

__all__ = ["SHAPE_RATE", "are_valid_parameters", "initial_values", "update_precisions", "update_shapes"]

#: Default number of topics.
DEFAULT_TOPICS = 200

#: Initial shape r of the prior of activations, and the rate of the prior of r, Gamma(1, 1).
INITIAL_SHAPE, SHAPE_RATE = 0.1, 1.0

#: Bounds of r and τ, so that their powers are finite; a gamma distribution of a larger shape is nearly constant.
LEAST_SHAPE, LARGEST_SHAPE = 1e-6, 1e4
LEAST_PRECISION, LARGEST_PRECISION = 1e-6, 1e6

#: Largest rounding error of sums that should be one.
SUM_TOLERANCE = 1e-2


def initial_values(feature_count, labels, settings, random):
    """Return V, K×T; W with the intercepts last, (D+1)×T; r, T; and τ with that of the intercepts last, D+1.

    W is zero, with intercepts that give the right mean number of labels. T is at most K, because each topic is
    initialised from one label.
    """
    dtype, (N, K) = np.dtype(settings.dtype), labels.shape
    T = min(settings.topics or DEFAULT_TOPICS, K)
    topics = initial_topics(Positives(labels).frequencies() / max(1, N), T, random, dtype)
    weights, shapes = np.zeros((feature_count + 1, T), dtype), np.full(T, INITIAL_SHAPE, dtype)
    weights[-1] = np.log(max(labels.nnz / max(1, N), np.finfo(np.float32).tiny) / T / INITIAL_SHAPE)
    precisions = np.full(feature_count + 1, settings.precision, dtype)
    precisions[-1] = INTERCEPT_PRECISION
    return topics, weights, shapes, precisions


def update_shapes(shapes, sums, tables=0, rate=SHAPE_RATE):
    """Return r, T, after an EM step, which never lowers Σ_n log NegBin(m_nt; r_t, σ(ψ_nt)) + log Gamma(r_t; 1, 1).

    r ← r Σ_n [Ψ(m_nt + r) − Ψ(r)] / (1 + Σ_n log(1 + e^ψ_nt)). The latent variables are the table counts l ~ CRT(m, r)
    of the Chinese restaurant process, whose mean is r [Ψ(m + r) − Ψ(r)]; given them r has a gamma density. Source: M.
    Zhou, L. Carin, Negative binomial process count and mixture modeling, IEEE TPAMI 37, 2015.

    With another prior, Gamma(1 + a, b), r ← (a + r Σ…) / (b + Σ…). For points that are added to earlier ones, a are the
    table counts (`tables`) and b (`rate`) is 1 + Σ_n log(1 + e^ψ_nt) of the earlier ones.
    """
    updated = (tables + shapes * sums.digamma) / (rate + sums.softplus)
    return np.clip(updated, LEAST_SHAPE, LARGEST_SHAPE).astype(shapes.dtype)


def update_precisions(second_moments, dtype):
    """Return τ_d = T / Σ_t E w_dt², D, which maximises the expected log prior of W (type-II maximum likelihood).

    The second moments, D×T, are E w_dt², or w_dt² of a posterior sample.
    """
    total = second_moments.sum(axis=1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        precisions = second_moments.shape[1] / total
    return np.clip(precisions, LEAST_PRECISION, LARGEST_PRECISION).astype(dtype)


def are_valid_parameters(parameters, D, K, T):
    """Return whether the names, shapes and values of arrays, perhaps of an untrusted file, are those of a model."""
    shapes = {"topics": (K, T), "weights": (D, T), "intercepts": (T,), "shapes": (T,), "precisions": (D,)}
    shapes["shares"] = (T,)
    return bool(
        parameters.keys() == shapes.keys()
        and all(parameters[name].shape == shape for name, shape in shapes.items())
        and all(value.dtype.kind == "f" and np.isfinite(value).all() for value in parameters.values())
        and (parameters["topics"] >= 0).all()
        and (abs(parameters["topics"].sum(axis=0, dtype=np.float64) - 1) < SUM_TOLERANCE).all()
        and (parameters["shapes"] > 0).all()
        and (parameters["precisions"] > 0).all()
        and (parameters["shares"] >= 0).all()
        and abs(parameters["shares"].sum(dtype=np.float64) - 1) < SUM_TOLERANCE
    )
