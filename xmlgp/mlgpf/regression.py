"""Exact GP regression on all points, whose predictions are pooled with the utilities."""

import numpy as np
import scipy.sparse as sp

from xmlgp.errors import NumericalError
from xmlgp.gp.exact_gp import add_points, fit_exact_gp, scaled_features
from xmlgp.gp.log_parameters import bounded_exp
from xmlgp.gp.weight_space import PRIOR

__all__ = ["fit_regression", "learn_regression", "may_pool", "regression_parameters", "regression_points"]

#: Latent functions of the regression: 100 to 400 rank the validation points of Delicious equally well.
RANK = 300

#: Most labels for which regression is tried: with more, the few functions say little about most labels; with 10,405 and
#: with 20,765 labels held-out points were ranked worse with it.
MOST_LABELS = 5000


def may_pool(settings, N, K):
    """Return whether regression on N points with K labels may be added."""
    return 0 < N <= settings.regression_points and K <= MOST_LABELS


def fit_regression(problem, parameters, trained, held):
    """Return the parameters of the regression on all points, and of one on those that are not held out.

    Both have the same π and V. Features are scaled by the roots of the relevances that the latent functions have
    learned. If they are too large there is no regression ({}), since the model is trained without it.
    """
    order = np.concatenate([trained, held])
    scales = bounded_exp(parameters[PRIOR], 0.5).astype(np.float32)
    features = scaled_features(problem.coordinates.weighted(order), scales)
    labels, count = problem.labels[order], len(trained)
    leading = count if len(held) else None
    try:
        found = fit_exact_gp(features, labels, RANK, progress=problem.progress, leading=leading)
    except NumericalError:
        return {}, {}
    whole, part = found if leading else (found, found)
    scales = {"regression.scales": scales}
    return (
        scales | regression_parameters(features, labels, whole),
        scales | regression_parameters(features[:count], labels[:count], part),
    )


def regression_parameters(features, labels, fitted):
    """Return the parameters of a regression (`ExactGPFit`) on weighted and scaled features, by name."""
    return {
        "regression.indptr": features.indptr.astype(np.int64),
        "regression.indices": features.indices.astype(np.int32),
        "regression.values": features.data,
        "regression.label_indptr": labels.indptr.astype(np.int64),
        "regression.labels": labels.indices.astype(np.int32),
    } | {f"regression.{name}": value for name, value in fitted._asdict().items()}


def regression_points(parameters, D):
    """Return the points of the regression of a model, with D weighted and scaled features."""
    arrays = (parameters[f"regression.{name}"] for name in ("values", "indices", "indptr"))
    return sp.csr_array(tuple(arrays), shape=(len(parameters["regression.weights"]), D))


def learn_regression(parameters, earlier, features, labels, weighting):
    """Return the parameters of the regression with the points of a batch (`xmlgp.gp.exact_gp.add_points`).

    `parameters` have rows for new labels and features. The `weighting` of all points has weighted `features`, n×D.
    """
    arrays = {name.partition(".")[2]: value for name, value in parameters.items() if name.startswith("regression.")}
    (D, K), count = (features.shape[1], labels.shape[1]), len(arrays["weights"])
    old = regression_points(parameters, D)
    if weighting.idf is not None:
        ratio = np.ones(D, np.float32)
        ratio[: earlier.D] = weighting.idf[: earlier.D] / earlier.preprocessed.weighting.idf
        # Points keep their length, so this is the weighting of today.
        old = scaled_features(old, ratio)
    new = scaled_features(features, arrays["scales"]) if "scales" in arrays else features.astype(np.float32)
    known = sp.csr_array(
        (np.ones(len(arrays["labels"]), bool), arrays["labels"], arrays["label_indptr"]), shape=(count, K)
    )
    points, all_labels = (sp.csr_array(sp.vstack(parts, "csr")) for parts in ((old, new), (known, labels)))
    seed = [earlier.settings.seed, 6, earlier.N]
    fitted = add_points(points, all_labels, arrays["weights"], arrays["loadings"], count, RANK, seed)
    return regression_parameters(points, all_labels, fitted)
