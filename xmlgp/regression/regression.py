"""A fitted regression: its arrays in a model, and its predictions, which are pooled with utilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from xmlgp.data.features import Features
from xmlgp.gp.likelihood import Moments, pair_moments
from xmlgp.gp.parameters import Parameters
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, csr_pattern
from xmlgp.linear_algebra.dense import product_by_rows
from xmlgp.linear_algebra.special import logit
from xmlgp.regression.kernel import CrossCovariance, squared_norms

__all__ = [
    "REGRESSION",
    "REGRESSION_SCALES",
    "POOL_WEIGHT",
    "PROBABILITY_MARGIN",
    "Regression",
    "RegressionPredictions",
    "scaled",
]

#: Distance of pooled predictions from 0 and 1, because predictions by least squares may be outside this interval. This
#: value has the least log loss from 0.001 to 0.01 on validation points of Bibtex and Delicious.
PROBABILITY_MARGIN = 0.003

#: Weight of the utilities in the logarithmic pool; the log odds of the predictions have the rest of the weight.
POOL_WEIGHT = 0.5


#: The arrays of a `Regression`: always, and with relevances.
REGRESSION = ArrayGroup(
    "regression.",
    **csr_pattern("N D", "a"),
    values=Array("a"),
    weights=Array("N Q"),
    loadings=Array("K Q"),
    mean=Array("K"),
)
REGRESSION_SCALES = ArrayGroup("regression.", scales=Array("D"))


class Regression(NamedTuple):
    """The fitted arrays: the prediction at a weighted point x is π + k(x, X) α Vᵀ.

    X, N×D, are weighted and scaled features; `scales`, D, are the roots of relevances, or None. α is N×P, the
    weights; V is K×P, the loadings, with orthonormal columns; π is K, the mean, the frequency of each label.
    """

    features: Features
    scales: NDArray[np.floating] | None
    weights: NDArray[np.floating]
    loadings: NDArray[np.floating]
    mean: NDArray[np.floating]

    @classmethod
    def of(cls, parameters: Parameters, D: int) -> Regression | None:
        """Return the regression among the parameters of a model with D features, or None."""
        if not REGRESSION.is_in(parameters):
            return None
        groups = (REGRESSION, REGRESSION_SCALES)
        arrays = {name: array for group in groups for name, array in group.read(parameters).items()}
        X = sp.csr_array((arrays["values"], arrays["indices"], arrays["indptr"]), shape=(len(arrays["weights"]), D))
        return cls(Features(X), arrays.get("scales"), arrays["weights"], arrays["loadings"], arrays["mean"])

    def parameters(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by their names in a model."""
        X = self.features.sparse
        arrays: dict[str, NDArray[Any] | None] = {
            "indptr": X.indptr.astype(np.int64),
            "indices": X.indices.astype(np.int32),
            "values": X.data,
        }
        names = ("scales", "weights", "loadings", "mean")
        return REGRESSION.named(arrays | {name: getattr(self, name) for name in names})


def scaled(features: sp.csr_array, scales: NDArray[np.floating] | None) -> sp.csr_array:
    """Return x_id s_d, rescaled so that each point keeps its length, N×D, in single precision; x_id without scales."""
    result = features.astype(np.float32)
    if scales is not None:
        result.data *= scales[result.indices]
        new_lengths, lengths = (np.sqrt(squared_norms(matrix)) for matrix in (result, features))
        ratio = np.divide(lengths, new_lengths, out=np.ones_like(lengths), where=new_lengths > 0).astype(np.float32)
        result.data *= np.repeat(ratio, np.diff(result.indptr))
    return result


class RegressionPredictions:
    """The predictions of a `Regression`, pooled with utilities.

    The moments of utilities f become those of w f + (1 − w) logit(g), the logarithmic pool of σ(f) and g, in place. g
    are the predictions, clipped to [0, 1] and moved inwards by `PROBABILITY_MARGIN`; w is the `weight`.
    """

    def __init__(self, regression: Regression) -> None:
        self._regression = regression
        self._kernel = CrossCovariance(regression.features)
        self._weights = np.ascontiguousarray(regression.weights)
        self.weight = POOL_WEIGHT

    def latent(self, features: Features) -> NDArray[np.float32]:
        """Return the latent predictions k(x, X) α, B×P, at weighted features, B×D."""
        return self._kernel.product(Features(scaled(features.sparse, self._regression.scales)), self._weights)

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
