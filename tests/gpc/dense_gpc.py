"""Binary GP classification as SPEC section 2 has it, written out on dense arrays, and random problems of it.

Only the names of parameters are xmlgp's: labels are y ∈ {−1, +1}, and covariances scikit-learn's.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_expit

from tests.gp.reference import conditional, gaussian_kl, scikit_covariances
from xmlgp.gp.expectations import EXPECTATIONS
from xmlgp.gp.inner_products import Points
from xmlgp.gpc.collapsed import Collapsed
from xmlgp.gpc.model import GPC
from xmlgp.preprocess.coordinates import Coordinates

__all__ = ["THETA", "Problem", "expanded", "moments", "predicted", "random_problem"]

#: Names of the hyperparameters.
THETA = ["kernel.se.log_variance", "kernel.se.log_lengthscale", "kernel.noise.log_variance"]

#: Of the mean diagonal of K_Z, added to it in double precision.
JITTER = 1e-8


class Problem(NamedTuple):
    """Points X, N×D, whether they are of the second class, N, inducing inputs Z, M×D, and θ."""

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
        """K_XZ, K_Z with its jitter, and K_X."""
        cross, inducing, points = scikit_covariances(("se", "noise"), self.parameters, self.points, self.inducing)
        return cross, inducing + JITTER * np.trace(inducing) / len(inducing) * np.eye(len(inducing)), points

    def with_theta(self, theta):
        return self._replace(theta=np.array(theta, float))

    def coordinates(self, sparse=False):
        return Coordinates(sp.csr_array(self.points), None, np.float64, sparse=sparse)

    def collapsed(self, kind="jj", sparse=False):
        """What is tested, with expectations of a name."""
        return Collapsed(GPC(), self.coordinates(sparse), self.positive, EXPECTATIONS[kind]())

    def at(self, touching, kind="jj"):
        return self.collapsed(kind).at(self.parameters, touching)

    def best(self, touching):
        """Mean and covariance of the best q(u) at ξ, as SPEC section 2 has them."""
        cross, inducing, _ = self.covariances
        precision = np.tanh(touching / 2) / (4 * touching)
        total = inducing + cross.T @ np.diag(2 * precision) @ cross
        covariance = inducing @ np.linalg.solve(total, inducing)
        return 0.5 * covariance @ np.linalg.solve(inducing, cross.T @ self.signs), covariance


def random_problem(seed=0, N=13, M=5, D=3, scale=0.5, absent=0.0):
    """Labels have to do with points, and inducing inputs are neither of these nor far from them."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(N, D)) * (random.random((N, D)) >= absent)
    positive = points @ random.normal(size=D) + 0.7 * random.normal(size=N) > 0
    theta = np.array([0.5, 0.4, -2.0]) + scale * random.normal(size=3)
    return Problem(points, positive, random.normal(size=(M, D)), theta)


def moments(problem, mean, covariance):
    """Means and variances of q(f) at the training points."""
    cross, inducing, points = problem.covariances
    means, covariances = conditional(cross, inducing, points, mean, covariance)
    return means, np.diagonal(covariances)


def expanded(problem, kind, touching, mean, covariance):
    """What F is for q(u) = N(mean, covariance), not collapsed: the bound of SPEC section 1 with quadratic functions.

    In place of log σ(yf) the bound of Jaakkola and Jordan at ξ, or the Taylor series of second order around t.
    """
    m, s = moments(problem, mean, covariance)
    y, t = problem.signs, np.asarray(touching)
    if kind == "jj":
        terms = log_expit(t) + (y * m - t) / 2 - np.tanh(t / 2) / (4 * t) * (m**2 + s - t**2)
    else:
        terms = log_expit(y * t) + y * expit(-y * t) * (m - t) - 0.5 * expit(t) * expit(-t) * ((m - t) ** 2 + s)
    return terms.sum() - gaussian_kl(mean, covariance, problem.covariances[1])


def predicted(problem, posterior, points):
    """What `GPC.predictive` says of f at points, given parameters of q(u)."""
    points = Points(np.asarray(points, float), np.zeros(len(points)))
    return GPC().predictive(problem.parameters | posterior)(points)
