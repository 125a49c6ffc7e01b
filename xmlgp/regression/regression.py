"""A fitted regression: its arrays in a model, and its predictions, which are pooled with utilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logit

from xmlgp.data.features import Dense, Features
from xmlgp.gp.likelihood import Moments, pair_moments
from xmlgp.gp.parameters import Parameters
from xmlgp.gp.weight_space import DENSE, names_of
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.dense import product_by_rows
from xmlgp.regression.kernel import LENGTHSCALE, CrossCovariance, squared_norms

__all__ = [
    "DENSE_POOL_WEIGHTS",
    "PROBABILITY_MARGIN",
    "Regression",
    "RegressionPredictions",
    "are_valid",
    "scaled_features",
]

#: Distance of pooled predictions from 0 and 1, because predictions by least squares may be outside this interval. This
#: value has the least log loss from 0.001 to 0.01 on validation points of Bibtex and Delicious.
PROBABILITY_MARGIN = 0.003

#: Weight of the utilities in the logarithmic pool; the log odds of the predictions have the rest of the weight.
POOL_WEIGHT = 0.5

#: Weights for points with dense features, whose predictions can be much better than the utilities. The one that ranks
#: held-out points best is taken; without held-out points, the first.
DENSE_POOL_WEIGHTS = (0.35, 0.5, 0.2, 0.1)


class Regression(NamedTuple):
    """The fitted arrays: the prediction at a weighted point x is π + k(x, X) α Vᵀ.

    X, N×D, are weighted and scaled features; `scales`, D, are the roots of relevances, or None. Y, N×K, is None in
    models of earlier versions. α is N×P, the weights; V is K×P, the loadings, with orthonormal columns; π is K, the
    mean, the frequency of each label.

    With dense features, which are one block, `lengthscales`, 1+E, are those of the words and of each dense column
    (`scaled_features`), and `pool_weight` is that of the utilities in the pool (float64); otherwise both are None.
    """

    features: Features
    labels: sp.csr_array | None
    scales: NDArray[np.floating] | None
    lengthscales: NDArray[np.floating] | None
    weights: NDArray[np.floating]
    loadings: NDArray[np.floating]
    mean: NDArray[np.floating]
    pool_weight: NDArray[np.floating] | None = None

    @classmethod
    def of(cls, parameters: Parameters, D: int) -> Regression | None:
        """Return the regression among the parameters of a model with D features, or None."""
        arrays = _arrays_of(parameters)
        if not arrays:
            return None
        shape = (len(arrays["weights"]), len(arrays["loadings"]))
        labels = None
        X = sp.csr_array((arrays["values"], arrays["indices"], arrays["indptr"]), shape=(shape[0], D))
        features = Features(X, Dense((arrays["dense"],)) if "dense" in arrays else None)
        if "labels" in arrays:
            stored = np.ones(len(arrays["labels"]), bool), arrays["labels"], arrays["label_indptr"]
            labels = sp.csr_array(stored, shape=shape)
        return cls(
            features,
            labels,
            arrays.get("scales"),
            arrays.get("lengthscales"),
            arrays["weights"],
            arrays["loadings"],
            arrays["mean"],
            arrays.get("pool_weight"),
        )

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by their names in a model."""
        arrays = {} if self.scales is None else {"scales": self.scales}
        dense = self.features.dense
        arrays |= {
            "indptr": self.features.sparse.indptr.astype(np.int64),
            "indices": self.features.sparse.indices.astype(np.int32),
            "values": self.features.sparse.data,
        }
        if self.labels is not None:
            arrays["label_indptr"] = self.labels.indptr.astype(np.int64)
            arrays["labels"] = self.labels.indices.astype(np.int32)
        arrays |= {"weights": self.weights, "loadings": self.loadings, "mean": self.mean}
        if dense is not None:
            names = ("lengthscales", "pool_weight")
            arrays |= {"dense": dense.arrays[0]} | {name: getattr(self, name) for name in names}
        return {f"regression.{name}": value for name, value in arrays.items()}


def _arrays_of(parameters: Parameters) -> dict[str, NDArray[Any]]:
    """Return the arrays of the regression among the parameters of a model, by their names in it."""
    return {name.partition(".")[2]: value for name, value in parameters.items() if name.startswith("regression.")}


def are_valid(parameters: Parameters, D: int, K: int) -> bool:
    """Return whether the regression among the parameters of an untrusted file fits itself and the model, if it has one.

    Compiled loops do not check indices.
    """
    arrays = _arrays_of(parameters)
    if not arrays:
        return True
    scales = arrays.pop("scales", np.zeros(D, np.float32))
    pattern = [arrays.pop(name) for name in ("label_indptr", "labels") if name in arrays]
    dense = [arrays.pop(name) for name in ("dense", "lengthscales", "pool_weight") if name in arrays]
    E = len(parameters.get(names_of(DENSE)[0], ()))
    names = ("indptr", "indices", "values", "weights", "loadings", "mean")
    if arrays.keys() != set(names):
        return False
    indptr, indices, values, weights, loadings, mean = (arrays[name] for name in names)
    return bool(
        all(array.dtype in (np.float32, np.float64) for array in (values, weights, loadings, mean, scales, *dense))
        and scales.shape == (D,)
        and weights.ndim == 2
        and sparse.is_pattern(indptr, indices, len(weights), D)
        and values.shape == indices.shape
        and loadings.shape == (K, weights.shape[1])
        and mean.shape == (K,)
        and [array.shape for array in dense] == ([(len(weights), E), (1 + E,), ()] if E else [])
        and all((array > 0).all() for array in dense[1:])
        and all(weight <= 1 for weight in dense[2:])
        and (not pattern or (len(pattern) == 2 and sparse.is_pattern(pattern[0], pattern[1], len(weights), K)))
    )


def scaled_features(
    features: Features, scales: NDArray[np.floating] | None, lengthscales: NDArray[np.floating] | None = None
) -> Features:
    """Return x_id s_d, rescaled so that each point keeps its length, N×D, in single precision; x_id without scales.

    With lengthscales, 1+E, words are also divided by the first, relative to `LENGTHSCALE`, and the columns of the dense
    features by the other ones; without, dense features stay as they are.
    """
    scaled = features.sparse.astype(np.float32)
    if scales is not None:
        scaled.data *= scales[scaled.indices]
        new_lengths, lengths = (np.sqrt(squared_norms(matrix)) for matrix in (scaled, features.sparse))
        ratio = np.divide(lengths, new_lengths, out=np.ones_like(lengths), where=new_lengths > 0).astype(np.float32)
        scaled.data *= np.repeat(ratio, np.diff(scaled.indptr))
    if lengthscales is None:
        return features.with_sparse(scaled)
    scaled.data *= LENGTHSCALE / lengthscales[0]
    values = features.dense.values()
    values /= lengthscales[1:]
    return Features(scaled, Dense((values,)))


class RegressionPredictions:
    """The predictions of a `Regression`, pooled with utilities.

    The moments of utilities f become those of w f + (1 − w) logit(g), the logarithmic pool of σ(f) and g, in place. g
    are the predictions, clipped to [0, 1] and moved inwards by `PROBABILITY_MARGIN`; w is the `weight`.
    """

    def __init__(self, regression: Regression) -> None:
        self._regression = regression
        self._kernel = CrossCovariance(regression.features)
        self._weights = np.ascontiguousarray(regression.weights)
        self.weight = POOL_WEIGHT if regression.pool_weight is None else float(regression.pool_weight)

    def latent(self, features: Features) -> NDArray[np.float32]:
        """Return the latent predictions k(x, X) α, B×P, at weighted features, B×D."""
        scaled = scaled_features(features, self._regression.scales, self._regression.lengthscales)
        return self._kernel.product(scaled, self._weights)

    def pool(
        self,
        latent: NDArray[np.float32],
        labels: NDArray[np.integer] | slice,
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | None = None,
    ) -> None:
        """Pool the moments of the utilities of a block of labels, B×L, with the predictions."""
        predicted = product_by_rows(latent, self._regression.loadings[labels].T)
        predicted += self._regression.mean[labels]
        self._pool(predicted, mean, variance)

    def pool_pairs(
        self,
        latent: NDArray[np.float32],
        indptr: NDArray[np.integer],
        labels: NDArray[np.integer],
        mean: NDArray[np.floating],
        variance: NDArray[np.floating] | None = None,
    ) -> None:
        """Pool the moments of some labels of each point, `labels[indptr[i]:indptr[i + 1]]`, with the predictions."""
        moments = Moments(latent, np.zeros((len(latent), 1), latent.dtype))
        predicted, _ = pair_moments(moments, self._regression.loadings, self._regression.mean, indptr, labels)
        self._pool(predicted, mean, variance)

    def _pool(
        self, predicted: NDArray[np.floating], mean: NDArray[np.floating], variance: NDArray[np.floating] | None
    ) -> None:
        np.clip(predicted, 0, 1, out=predicted)
        predicted += PROBABILITY_MARGIN
        predicted /= 1 + 2 * PROBABILITY_MARGIN
        mean *= self.weight
        mean += (1 - self.weight) * logit(predicted)
        if variance is not None:
            variance *= self.weight**2
