"""A fitted regression: its arrays in a model, and its predictions, which are pooled with utilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from xmlgp.data.features import Dense, Features
from xmlgp.gp.likelihood import Moments, pair_moments
from xmlgp.gp.parameters import Parameters
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, csr_pattern, is_positive
from xmlgp.linear_algebra.dense import product_by_rows
from xmlgp.linear_algebra.special import logit
from xmlgp.regression.kernel import LENGTHSCALE, CrossCovariance, squared_norms

__all__ = [
    "REGRESSION",
    "REGRESSION_DENSE",
    "REGRESSION_SCALES",
    "DENSE_POOL_WEIGHTS",
    "POOL_WEIGHT",
    "PROBABILITY_MARGIN",
    "Regression",
    "RegressionPredictions",
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


#: The arrays of a `Regression`: always, with relevances, in models of this version, and with dense features.
REGRESSION = ArrayGroup(
    "regression.",
    **csr_pattern("N D", "a"),
    values=Array("a"),
    weights=Array("N Q"),
    loadings=Array("K Q"),
    mean=Array("K"),
)
REGRESSION_SCALES = ArrayGroup("regression.", scales=Array("D"))
REGRESSION_DENSE = ArrayGroup(
    "regression.",
    dense=Array("N E"),
    lengthscales=Array("1+E", check=is_positive),
    pool_weight=Array("", check=lambda weight, sizes: bool(0 < weight <= 1)),
)


class Regression(NamedTuple):
    """The fitted arrays: the prediction at a weighted point x is π + k(x, X) α Vᵀ.

    X, N×D, are weighted and scaled features; `scales`, D, are the roots of relevances, or None. α is N×P, the
    weights; V is K×P, the loadings, with orthonormal columns; π is K, the mean, the frequency of each label.

    With dense features, which are one block, `lengthscales`, 1+E, are those of the words and of each dense column
    (`scaled_features`), and `pool_weight` is that of the utilities in the pool (float64); otherwise both are None.
    """

    features: Features
    scales: NDArray[np.floating] | None
    lengthscales: NDArray[np.floating] | None
    weights: NDArray[np.floating]
    loadings: NDArray[np.floating]
    mean: NDArray[np.floating]
    pool_weight: NDArray[np.floating] | None = None

    @classmethod
    def of(cls, parameters: Parameters, D: int) -> Regression | None:
        """Return the regression among the parameters of a model with D features, or None."""
        if not REGRESSION.is_in(parameters):
            return None
        groups = (REGRESSION, REGRESSION_SCALES, REGRESSION_DENSE)
        arrays = {name: array for group in groups for name, array in group.read(parameters).items()}
        X = sp.csr_array((arrays["values"], arrays["indices"], arrays["indptr"]), shape=(len(arrays["weights"]), D))
        features = Features(X, Dense((arrays["dense"],)) if "dense" in arrays else None)
        return cls(
            features,
            arrays.get("scales"),
            arrays.get("lengthscales"),
            arrays["weights"],
            arrays["loadings"],
            arrays["mean"],
            arrays.get("pool_weight"),
        )

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by their names in a model."""
        X = self.features.sparse
        dense = self.features.dense
        arrays: dict[str, NDArray[Any] | None] = {
            "indptr": X.indptr.astype(np.int64),
            "indices": X.indices.astype(np.int32),
            "values": X.data,
            "dense": None if dense is None else dense.arrays[0],
        }
        names = ("scales", "lengthscales", "weights", "loadings", "mean", "pool_weight")
        return REGRESSION.named(arrays | {name: getattr(self, name) for name in names})


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
    if lengthscales is None or features.dense is None:
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
