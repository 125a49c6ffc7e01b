"""Reference formulas of binary GP classification on dense arrays ([I] section 1), and random problems.

Labels are y ∈ {−1, +1} and covariances are computed by scikit-learn; only the names of parameters are those of xmlgp.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_expit

from tests.gp.reference import conditional, gaussian_kl, scikit_covariances
from xmlgp.data.dataset import Features
from xmlgp.features.inputs import Inputs, Points
from xmlgp.gp.expectations import JaakkolaJordan, Taylor
from xmlgp.models.gpc.collapsed import CollapsedBound
from xmlgp.models.gpc.model import Predictive

__all__ = ["THETA", "Problem", "uncollapsed_bound", "moments", "predicted", "random_problem"]

#: Names of the hyperparameters.
THETA = ["kernel.se.log_variance", "kernel.se.log_lengthscale", "kernel.noise.log_variance"]

#: Added to the diagonal of K_Z in double precision, as a multiple of its mean.
JITTER = 1e-8


class Problem(NamedTuple):
    """Points X, N×D, whether they are positive, N, inducing inputs Z, M×D, and hyperparameters θ."""

    points: np.ndarray
    positive: np.ndarray
    inducing: np.ndarray
    theta: np.ndarray

    @property
    def signs(self):
        return np.where(self.positive, 1.0, -1.0)

    @property
    def parameters(self):
        return {"inducing": self.inducing} | {
            name: np.array(value) for name, value in zip(THETA, self.theta, strict=True)
        }

    @property
    def covariances(self):
        """Return K_XZ, K_Z with its jitter, and K_X."""
        cross, inducing, points = scikit_covariances(("se", "noise"), self.parameters, self.points, self.inducing)
        return cross, inducing + JITTER * np.trace(inducing) / len(inducing) * np.eye(len(inducing)), points

    def with_theta(self, theta):
        return self._replace(theta=np.array(theta, float))

    def inputs(self, sparse=False):
        return Inputs(Features(sp.csr_array(self.points)), None, np.float64, sparse=sparse)

    def collapsed(self, kind="jj", sparse=False):
        """Return the `CollapsedBound` with the expectations of a name."""
        return CollapsedBound(self.inputs(sparse), self.positive, {"jj": JaakkolaJordan, "taylor": Taylor}[kind]())

    def optimum(self, tangent_points, kind="jj"):
        return self.collapsed(kind).optimum(self.parameters, tangent_points)

    def optimal_posterior(self, tangent_points):
        """Return mean and covariance of the optimal q(u) for ξ ([I] (12), (13))."""
        cross, inducing, _ = self.covariances
        precision = np.tanh(tangent_points / 2) / (4 * tangent_points)
        total = inducing + cross.T @ np.diag(2 * precision) @ cross
        covariance = inducing @ np.linalg.solve(total, inducing)
        return 0.5 * covariance @ np.linalg.solve(inducing, cross.T @ self.signs), covariance


def random_problem(seed=0, N=13, M=5, D=3, scale=0.5, absent=0.0):
    """Return a random problem whose labels depend on the points."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(N, D)) * (random.random((N, D)) >= absent)
    positive = points @ random.normal(size=D) + 0.7 * random.normal(size=N) > 0
    theta = np.array([0.5, 0.4, -2.0]) + scale * random.normal(size=3)
    return Problem(points, positive, random.normal(size=(M, D)), theta)


def moments(problem, mean, covariance):
    """Return means and variances of q(f) at the training points."""
    cross, inducing, points = problem.covariances
    means, covariances = conditional(cross, inducing, points, mean, covariance)
    return means, np.diagonal(covariances)


def uncollapsed_bound(problem, kind, tangent_points, mean, covariance):
    """Return the bound for q(u) = N(mean, covariance) with a quadratic approximation of log σ(yf).

    This is the bound of Jaakkola and Jordan at ξ, or the second-order Taylor expansion around t.
    """
    m, s = moments(problem, mean, covariance)
    y = problem.signs
    t = np.asarray(tangent_points)
    if kind == "jj":
        terms = log_expit(t) + (y * m - t) / 2 - np.tanh(t / 2) / (4 * t) * (m**2 + s - t**2)
    else:
        terms = log_expit(y * t) + y * expit(-y * t) * (m - t) - 0.5 * expit(t) * expit(-t) * ((m - t) ** 2 + s)
    return terms.sum() - gaussian_kl(mean, covariance, problem.covariances[1])


def predicted(problem, posterior, points):
    """Return mean and variance of f at points by `Predictive`, given parameters of q(u)."""
    points = Points(np.asarray(points, float), np.zeros(len(points)))
    return Predictive(problem.parameters | posterior)(points)
