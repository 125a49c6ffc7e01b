"""Dense reference formulas of BMLPL over all N×K labels, and random problems."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy import stats

from xmlgp.models.bmlpl.counts import Positives
from xmlgp.models.bmlpl.least_squares import Design, LeastSquares

__all__ = ["Problem", "Quadratic", "log_likelihood", "log_posterior", "random_problem", "random_quadratic", "z_score"]


class Problem(NamedTuple):
    """Labels Y, N×K, topics V, K×T, and activations U, N×T."""

    labels: np.ndarray
    topics: np.ndarray
    activations: np.ndarray

    @property
    def positives(self):
        return Positives(sp.csr_array(self.labels))


def random_problem(N=9, K=6, T=3, seed=0, dtype=np.float64):
    """Return a random problem with a point without labels, a label without points, and rates from 1e-6 to 10."""
    random = np.random.default_rng(seed)
    labels = random.random((N, K)) < 0.4
    labels[0] = labels[:, -1] = False
    topics = random.dirichlet(np.full(K, 0.5), T).T
    activations = random.gamma(0.7, 3.0, (N, T)) * 10.0 ** random.integers(-6, 1, (N, 1))
    return Problem(labels, topics.astype(dtype), activations.astype(dtype))


def log_likelihood(labels, topics, activations):
    """Return Σ_nk log p(y_nk) over positives and negatives."""
    rates = activations @ topics.T
    return stats.bernoulli.logpmf(labels, -np.expm1(-rates)).sum()


def log_posterior(labels, features, topics, weights, activations, shapes, precisions, concentration):
    """Return log p(logit V, W, log U, Y | r, τ, η); the features, N×(D+1), include the intercept.

    The density of the logits is that of the topics times Π_kt v_kt.
    """
    scales = np.exp(features @ weights)
    value = log_likelihood(labels, topics, activations)
    value += (stats.gamma.logpdf(activations, shapes, scale=scales) + np.log(activations)).sum()
    value += stats.norm.logpdf(weights, 0, precisions[:, None] ** -0.5).sum()
    K = len(topics)
    value += sum(stats.dirichlet.logpdf(topic, np.full(K, concentration)) for topic in topics.T) if K > 1 else 0
    return value + np.log(topics).sum()


class Quadratic(NamedTuple):
    """Random X with an intercept, N×(D+1), m, r, τ and W, and their `LeastSquares`."""

    features: np.ndarray
    counts: np.ndarray
    shapes: np.ndarray
    precisions: np.ndarray
    weights: np.ndarray
    system: LeastSquares

    @property
    def log_odds(self):
        return self.features @ self.weights

    @property
    def omega(self):
        return (self.counts + self.shapes) / (2 * self.log_odds) * np.tanh(self.log_odds / 2)

    def matrix(self, t):
        """Return S_t = Xᵀ Ω_t X + Γ⁻¹."""
        return (self.features.T * self.omega[:, t]) @ self.features + np.diag(self.precisions)

    def value(self, weights):
        """Return Σ_n κ ψ − ½ ω ψ² − ½ Σ_d τ w² of each topic, T."""
        psi = self.features @ weights
        likelihood = (self.counts - self.shapes) / 2 * psi - self.omega * psi**2 / 2
        return likelihood.sum(axis=0) - (self.precisions[:, None] * weights**2).sum(axis=0) / 2

    @property
    def solution(self):
        right = self.features.T @ (self.counts - self.shapes) / 2
        return np.stack([np.linalg.solve(self.matrix(t), right[:, t]) for t in range(len(self.shapes))], axis=1)


def random_quadratic(N=12, D=5, T=3, seed=0, dtype=np.float64, exact=False):
    """Return a random quadratic function, with one point without features and one feature without points.

    With `exact` ω and the residuals are computed by NumPy in double precision.
    """
    random = np.random.default_rng(seed)
    features = random.normal(size=(N, D)) * (random.random((N, D)) < 0.5)
    features[0] = features[:, D - 1 :] = 0
    counts = random.poisson(1.0, (N, T))
    shapes = random.gamma(1.0, size=T)
    precisions = 10.0 ** random.uniform(-2, 1, D + 1)
    weights = random.normal(size=(D + 1, T))
    features, counts, shapes, precisions, weights = (
        array.astype(dtype) for array in (features, counts, shapes, precisions, weights)
    )
    system = LeastSquares(Design(sp.csr_array(features)), T, dtype)
    system.set_tangent(weights, counts, shapes, precisions)
    features = np.hstack([features, np.ones((N, 1))])
    doubles = (array.astype(np.float64) for array in (features, counts, shapes, precisions, weights))
    problem = Quadratic(*doubles, system)
    if exact:
        system.omega[:] = problem.omega
        system.residuals[:] = (problem.counts - problem.shapes) / 2 - problem.omega * problem.log_odds
    return problem


def z_score(samples, mean):
    """Return the distance of the mean of independent samples, along the first axis, from `mean` in standard errors."""
    samples = np.asarray(samples, np.float64)
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    return np.abs(samples.mean(axis=0) - mean) / np.maximum(error, 1e-300)
