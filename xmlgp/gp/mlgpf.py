"""The whole model: which kernel and posterior its settings name, its parameters, its predictive moments."""

import numpy as np

from xmlgp.gp.bound import Bound
from xmlgp.gp.factors import utility_moments
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.posteriors import POSTERIORS, Cholesky, SharedDiagonal
from xmlgp.linear_algebra import dense

__all__ = ["MLGPF", "Predictive"]

#: Labels whose loadings are drawn at a time, in double precision.
LABELS_DRAWN = 1 << 14


class MLGPF:
    """The multi-label Gaussian-process factor model ([S] section 3, [L] section 3).

    Parameters
    ----------
    settings : Settings
    """

    def __init__(self, settings):
        self.settings = settings
        self.kernel = Kernel(settings.kernel.split("+"), settings.ard)
        self.posterior = POSTERIORS[settings.posterior]
        self.bound = Bound(self.kernel, self.posterior, {"inducing"} if settings.inducing_fixed else (), settings.nodes)

    def initial(self, inducing, labels, random):
        """Return parameters to start from.

        b starts at the log odds of each label's frequency, Φ ~ N(0, 1/P), means of q(u_p) small.

        Parameters
        ----------
        inducing : ndarray, M×R or M×D
            Start of A or Z.
        labels : csr_array, N×K
            Y.
        random : numpy.random.Generator
        """
        settings, dtype = self.settings, np.dtype(self.settings.dtype)
        point_count, label_count = labels.shape
        if "se" in settings.kernel:
            # Centroids of unit rows are short, so all points are equally far from all of them: SE would stall.
            norms = np.linalg.norm(inducing, axis=1, keepdims=True)
            inducing = inducing / np.where(norms > 0, norms, 1)
        # In Fortran's order, in which products want them (see `products`).
        parameters = {"inducing": np.array(inducing, dtype, order="F")}
        parameters |= self.kernel.initial(inducing.shape[1], settings.lengthscale, dtype)
        parameters |= self.posterior.initial(len(inducing), settings.factors, settings.diagonal, random, dtype)
        if isinstance(self.posterior, Cholesky):
            # A diagonal covariance of q(u_p) would be far from a prior of lower rank than M.
            start = SharedDiagonal().initial(len(inducing), settings.factors, settings.diagonal, random, dtype)
            parameters |= self.posterior.equal_to_diagonal(start, self.kernel.between_inducing(parameters)[0])
        # Half a count on either side keeps labels that never or always occur finite.
        counts = np.bincount(labels.indices, minlength=label_count) + 0.5
        parameters["loadings"] = loadings = np.empty((label_count, settings.factors), dtype)
        for start in range(0, label_count, LABELS_DRAWN):
            block = loadings[start : start + LABELS_DRAWN]
            block[:] = random.normal(0, settings.factors**-0.5, block.shape)
        parameters["bias"] = np.log(counts / (point_count + 1 - counts)).astype(dtype)
        return parameters

    def predictive(self, parameters):
        """Return what gives the mean and variance of q(f_ik) at any points (`Predictive`).

        Parameters
        ----------
        parameters : mapping of str to ndarray
        """
        return Predictive(self, parameters)


class Predictive:
    """The predictive distribution q(f*) of a trained model; what does not depend on the points is computed once.

    Parameters
    ----------
    model : MLGPF
    parameters : mapping of str to ndarray
    """

    def __init__(self, model, parameters):
        self._model = model
        self._parameters = parameters
        prior, self._between = model.kernel.between_inducing(parameters)
        self._prepared = model.posterior.prepare(parameters, prior)
        self._weights = model.posterior.weights(self._prepared)

    def latent(self, points):
        """Return the moments of the latent functions (`Moments`, B×P) at points (`Points`)."""
        cross, variances, _ = self._model.kernel.with_points(points, self._between)
        moments, _ = self._model.posterior.moments(self._prepared, cross, variances)
        return moments

    def latent_mean(self, points):
        """Return the means alone, B×P: K_BZ times weights."""
        cross, _, _ = self._model.kernel.with_points(points, self._between)
        return dense.product(cross, self._weights)

    def mean_map(self):
        """Return T, R×P or D×P, with which means are C T for points of coordinates C; None without a linear kernel."""
        return self._model.kernel.linear_map(self._parameters, self._weights)

    def __call__(self, points):
        """Return mean and variance of q(f_ik), both B×K, at points (`Points`) ([S] A.3)."""
        return utility_moments(self.latent(points), self._parameters["loadings"], self._parameters["bias"])
