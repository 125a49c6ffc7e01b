"""MLGPF with latent functions in weight space, for a linear kernel: f = Φ Tᵀx + b + W x."""

import numpy as np

from xmlgp.gp.bound import WeightSpaceBound
from xmlgp.gp.expectations import make_expectations
from xmlgp.gp.log_parameters import bounded_exp
from xmlgp.gp.posteriors import Moments
from xmlgp.gp.weight_space import POSTERIOR, PRIOR, FeatureShares, WeightSpace
from xmlgp.linear_algebra import sparse
from xmlgp.mlgpf.model import MLGPF, Predictive, initial_bias, random_rows

__all__ = ["WeightSpaceMLGPF", "make_model"]

#: Initial variance of q(u); that of the prior is one. On Bibtex, 0.3 and 1 rank held-out points about equally well;
#: with 0.01 these have a larger log loss.
VARIANCE_START = 0.3

#: Root mean square length of the initial loadings of a label; those of the means of q(u) have length one.
LOADINGS_LENGTH = 0.1


class WeightSpaceMLGPF(MLGPF):
    """MLGPF whose inducing inputs are the unit vectors of all features; see `xmlgp.gp.weight_space`.

    Parameters
    ----------
    settings : MLGPFSettings
        In weight space.
    """

    def __init__(self, settings):
        self.settings = settings
        self._expectations = make_expectations(settings.expectations, settings.nodes)

    def make_bound(self, coordinates):
        """Return the bound; see `MLGPF.make_bound`."""
        shares = FeatureShares(coordinates.weighted(slice(None)))
        return WeightSpaceBound(WeightSpace(shares), self._expectations)

    def learning_bound(self, coordinates, parameters):
        """Return the bound of a batch; see `MLGPF.learning_bound`. The prior is N(r, a), both in the parameters."""
        shares = FeatureShares(coordinates.weighted(slice(None)))
        latent = WeightSpace(shares, parameters["latent_weights.mean"].copy())
        return WeightSpaceBound(latent, self._expectations, {PRIOR, "bias"})

    def posterior_of(self, parameters):
        """Return None, because q(t) has one form only."""
        return

    def parameter_names(self, parameters=()):
        """Return the names of the parameters of a trained model."""
        return [*POSTERIOR, PRIOR, "loadings", "bias"]

    def trained(self, parameters):
        """Return the parameters of a trained model, with q(t) in place of q(u); see `MLGPF.trained`."""
        others = {name: value for name, value in parameters.items() if name not in WeightSpace.parameter_names}
        return WeightSpace(None).posterior(parameters) | others

    def initial(self, feature_count, labels, random):
        """Return initial parameters: means of q(u) ~ N(0, 1/P), small Φ, and b at the log odds of label frequencies.

        Parameters
        ----------
        feature_count : int
            D.
        labels : csr_array, N×K
            Y.
        random : numpy.random.Generator
        """
        settings, dtype = self.settings, np.dtype(self.settings.dtype)
        P = settings.factor_count
        whitened = random_rows(feature_count, P, random, dtype)
        loadings = random_rows(labels.shape[1], P, random, dtype)
        loadings *= LOADINGS_LENGTH
        variance = np.full(feature_count, np.log(VARIANCE_START), dtype)
        latent = zip(WeightSpace.parameter_names, (whitened, variance, np.zeros(feature_count, dtype)), strict=True)
        return dict(latent) | {"loadings": loadings, "bias": initial_bias(labels, dtype)}

    def predictive(self, parameters, feature_count=None):
        """Return the predictive distribution of trained parameters; see `MLGPF.predictive`."""
        return _WeightSpacePredictive(self, parameters, feature_count)


class _WeightSpacePredictive(Predictive):
    """The predictive distribution; points are weighted features."""

    def _prepare_latent(self):
        self._variance = bounded_exp(self._parameters["latent_weights.log_variance"])

    def latent_moments(self, points):
        features = points.coordinates
        squares = features.multiply(features)
        return Moments(self.latent_mean(points), np.asarray(squares @ self._variance)[:, None])

    def latent_mean(self, points):
        return sparse.product(points.coordinates, self._parameters["latent_weights.mean"])

    def primal_weights(self):
        return self._parameters["latent_weights.mean"]


def make_model(settings):
    """Return the model of settings (`MLGPFSettings`)."""
    return WeightSpaceMLGPF(settings) if settings.in_weight_space else MLGPF(settings)
