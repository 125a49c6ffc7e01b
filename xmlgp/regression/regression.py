"""A fitted regression: its arrays in a model, and its predictions, which are pooled with utilities."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import logit

from xmlgp.data.blocks import Blocks, Dense, dense_of, sparse_of, with_sparse
from xmlgp.gp.likelihood import Moments, pair_moments
from xmlgp.gp.weight_space import DENSE, names_of
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.dense import product_by_rows
from xmlgp.regression.kernel import LENGTHSCALE, Kernel, squared_norms

__all__ = [
    "DENSE_POOL_WEIGHTS",
    "PROBABILITY_MARGIN",
    "Regression",
    "RegressionPredictions",
    "are_valid",
    "scaled_features",
]

#: Distance of pooled predictions from 0 and 1, which least squares exceed. From 0.001 to 0.01 this value has the least
#: log loss on validation points of Bibtex and Delicious.
PROBABILITY_MARGIN = 0.003

#: Weight of the utilities in the logarithmic pool; that of the log odds of the predictions is the rest. With dense
#: features, the predictions can be much better than the utilities: then it is one of these, that which ranks held-out
#: points best, and without such points the first.
POOL_WEIGHT = 0.5
DENSE_POOL_WEIGHTS = (0.35, 0.5, 0.2, 0.1)


class Regression(NamedTuple):
    """The fitted arrays: the prediction at a weighted point x is π + k(x, X) α Vᵀ.

    X, N×D, are weighted and scaled features; `scales`, D, are the roots of relevances, or None. Y, N×K, is None in
    models of earlier versions. α is N×P, the weights; V is K×P, the loadings, with orthonormal columns; π is K, the
    mean, the frequency of each label.

    Points with dense features have them beside X in one block (`Blocks`). Then `lengthscales`, 1+E, are those of the
    words and of each dense column, by which all are divided (`scaled_features`), and `pool_weight` is that of the
    utilities in the pool (float64); otherwise they are None.
    """

    features: sp.csr_array | Blocks
    labels: sp.csr_array | None
    scales: np.ndarray | None
    lengthscales: np.ndarray | None
    weights: np.ndarray
    loadings: np.ndarray
    mean: np.ndarray
    pool_weight: np.ndarray | None = None

    @classmethod
    def of(cls, parameters, D):
        """Return the regression among the parameters of a model with D features, or None."""
        arrays = _arrays_of(parameters)
        if not arrays:
            return None
        shape = (len(arrays["weights"]), len(arrays["loadings"]))
        labels = None
        features = sp.csr_array((arrays["values"], arrays["indices"], arrays["indptr"]), shape=(shape[0], D))
        if "dense" in arrays:
            features = Blocks(features, Dense((arrays["dense"],)))
        if "labels" in arrays:
            stored = np.ones(len(arrays["labels"]), bool), arrays["labels"], arrays["label_indptr"]
            labels = sp.csr_array(stored, shape=shape)
        names = ("scales", "lengthscales", "weights", "loadings", "mean", "pool_weight")
        return cls(features, labels, *map(arrays.get, names))

    def parameters(self):
        """Return the arrays by name, as a model has them."""
        arrays = {} if self.scales is None else {"scales": self.scales}
        dense = dense_of(self.features)
        arrays |= {
            "indptr": self.features.indptr.astype(np.int64),
            "indices": self.features.indices.astype(np.int32),
            "values": self.features.data,
            "label_indptr": self.labels.indptr.astype(np.int64),
            "labels": self.labels.indices.astype(np.int32),
            "weights": self.weights,
            "loadings": self.loadings,
            "mean": self.mean,
        }
        if dense is not None:
            names = ("lengthscales", "pool_weight")
            arrays |= {"dense": dense.arrays[0]} | {name: getattr(self, name) for name in names}
        return {f"regression.{name}": value for name, value in arrays.items()}


def _arrays_of(parameters):
    """Return the arrays of the regression among the parameters of a model, by their names in it."""
    return {name.partition(".")[2]: value for name, value in parameters.items() if name.startswith("regression.")}


def are_valid(parameters, D, K):
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
        and (not pattern or (len(pattern) == 2 and sparse.is_pattern(*pattern, len(weights), K)))
    )


def scaled_features(features, scales, lengthscales=None):
    """Return x_id s_d with every point as long as before, N×D, in single precision; x_id if the scales are None.

    With lengthscales, 1+E, these are divided by the first of them, relative to `LENGTHSCALE`, and the columns of the
    dense features by the others. The dense features stay without.
    """
    scaled = sparse_of(features).astype(np.float32)
    if scales is not None:
        scaled.data *= scales[scaled.indices]
        lengths, before = (np.sqrt(squared_norms(matrix)) for matrix in (scaled, sparse_of(features)))
        ratio = np.divide(before, lengths, out=np.ones_like(lengths), where=lengths > 0).astype(np.float32)
        scaled.data *= np.repeat(ratio, np.diff(scaled.indptr))
    if lengthscales is None:
        return with_sparse(features, scaled)
    scaled.data *= LENGTHSCALE / lengthscales[0]
    values = dense_of(features).values()
    values /= lengthscales[1:]
    return Blocks(scaled, Dense((values,)))


class RegressionPredictions:
    """The predictions of a `Regression`, pooled with utilities.

    The moments of utilities f become those of w f + (1 − w) logit(g), the logarithmic pool of σ(f) and g, in place; g
    are the predictions, clipped to [0, 1] and moved inwards by `PROBABILITY_MARGIN`, w is the `weight`.
    """

    def __init__(self, regression):
        self._kernel = Kernel(regression.features)
        self.weight = POOL_WEIGHT if regression.pool_weight is None else float(regression.pool_weight)
        self._scales = regression.scales, regression.lengthscales
        self._weights = np.ascontiguousarray(regression.weights)
        self._loadings = regression.loadings
        self._mean = regression.mean

    def latent(self, features):
        """Return the latent predictions k(x, X) α, B×P, at weighted features, B×D."""
        return self._kernel.product(scaled_features(features, *self._scales), self._weights)

    def pool(self, latent, labels, mean, variance=None):
        """Pool the moments of the utilities of a block of labels, B×L, with the predictions."""
        predicted = product_by_rows(latent, self._loadings[labels].T)
        predicted += self._mean[labels]
        self._pool(predicted, mean, variance)

    def pool_pairs(self, latent, indptr, labels, mean, variance=None):
        """Do what `pool` does for some labels of each point, those of point i from `indptr[i]` on."""
        moments = Moments(latent, np.zeros((len(latent), 1), latent.dtype))
        predicted, _ = pair_moments(moments, self._loadings, self._mean, indptr, labels)
        self._pool(predicted, mean, variance)

    def _pool(self, predicted, mean, variance):
        np.clip(predicted, 0, 1, out=predicted)
        predicted += PROBABILITY_MARGIN
        predicted /= 1 + 2 * PROBABILITY_MARGIN
        mean *= self.weight
        mean += (1 - self.weight) * logit(predicted)
        if variance is not None:
            variance *= self.weight**2
