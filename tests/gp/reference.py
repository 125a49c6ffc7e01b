"""Reference formulas on dense arrays, independent of xmlgp, and random problems."""

import numpy as np
import scipy.sparse as sp
from hypothesis import settings
from scipy.special import log_expit, roots_hermitenorm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.kernels import Kernel
from xmlgp.gp.likelihood import SampledPairs
from xmlgp.gp.posteriors import POSTERIORS

KERNELS = [("linear",), ("se",), ("se", "linear")]

#: Parameters that are lower triangles with logarithms on the diagonal.
FACTORS = {"posterior.whitened_factor"}

#: The same examples in every run, so that tolerances do not depend on chance.
DETERMINISTIC = settings(max_examples=30, deadline=None, derandomize=True, database=None)

#: Added to diag Σ ([S] section 2.3).
FLOOR = 1e-6


def scikit_kernel(term, parameters):
    """Return the kernel of scikit-learn for a term, and the factor by which the points are scaled first.

    The anisotropic RBF includes ARD in its lengthscales. DotProduct has no ARD, so its points are scaled.
    """
    variance = ConstantKernel(np.exp(parameters[f"kernel.{term}.log_variance"]))
    relevance = np.exp(parameters.get(f"kernel.{term}.log_relevance", np.zeros(parameters["inducing"].shape[1])))
    if term == "linear":
        return variance * DotProduct(0.0, "fixed"), np.sqrt(relevance)
    return variance * RBF(np.exp(parameters["kernel.se.log_lengthscale"]) / np.sqrt(relevance)), 1.0


def scikit_covariances(terms, parameters, points, inducing):
    """Return K_BZ, K_Z and the full K_B."""
    total = [0, 0, 0]
    for term in terms:
        if term == "noise":
            # WhiteKernel adds noise only if it is called with one array.
            white = WhiteKernel(np.exp(parameters["kernel.noise.log_variance"]))
            total = np.add(total[0], white(points, inducing)), total[1] + white(inducing), total[2] + white(points)
            continue
        kernel, scale = scikit_kernel(term, parameters)
        pairs = [(points, inducing), (inducing, inducing), (points, points)]
        total = [sum_ + kernel(left * scale, right * scale) for sum_, (left, right) in zip(total, pairs, strict=True)]
    return total


def covariances_of(kernel, parameters, points):
    """Return the `Covariances` of `Points`, and the tape."""
    K_Z, tape = kernel.forward_inducing(parameters)
    K_BZ, K_diag, tape = kernel.forward_points(points, tape)
    return Covariances(K_BZ, K_Z, K_diag), tape


def inducing_posterior(name, parameters, covariance, p):
    """Return mean and covariance of q(u_p) as the papers define them, with explicit inverses."""
    if name == "cholesky":
        lower = np.linalg.cholesky(covariance)
        factor = lower @ _factor(parameters["posterior.whitened_factor"][p])
        return lower @ parameters["posterior.whitened_mean"][:, p], factor @ factor.T
    mean = parameters["posterior.mean"][:, p]
    log_diagonal = parameters["posterior.log_diagonal"]
    diagonal = np.exp(log_diagonal if log_diagonal.ndim == 1 else log_diagonal[p]) + FLOOR
    return covariance @ mean, np.linalg.inv(np.linalg.inv(covariance) + np.diag(1 / diagonal))


def _factor(raw):
    return np.tril(raw, -1) + np.diag(np.exp(np.diagonal(raw)))


def conditional(cross, inducing, points, mean, covariance):
    """Return mean and covariance of q(h) = ∫ p(h | u) q(u) du for q(u) = N(mean, covariance)."""
    weights = np.linalg.solve(inducing, cross.T).T
    return weights @ mean, points - weights @ cross.T + weights @ covariance @ weights.T


def gaussian_kl(mean, covariance, prior):
    """Return KL[N(mean, covariance) ‖ N(0, prior)]."""
    trace = np.trace(np.linalg.solve(prior, covariance))
    mahalanobis = mean @ np.linalg.solve(prior, mean)
    log_ratio = np.linalg.slogdet(prior)[1] - np.linalg.slogdet(covariance)[1]
    return 0.5 * (trace + mahalanobis - len(mean) + log_ratio)


def log_likelihood(mean, variance, loadings, bias, positives, weights=None):
    """Return Σ_ik w_ik E log σ(y_ik f_ik) for independent h_ip ~ N(mean_ip, variance_ip), by a double loop."""
    z, w = roots_hermitenorm(80)
    w = w / w.sum()
    variance = np.broadcast_to(variance, mean.shape)
    total = 0.0
    for i, k in np.ndindex(len(mean), len(bias)):
        utility = sum(loadings[k, p] * mean[i, p] for p in range(mean.shape[1])) + bias[k]
        utility_variance = sum(loadings[k, p] ** 2 * variance[i, p] for p in range(mean.shape[1]))
        sign = 1 if positives[i, k] else -1
        term = w @ log_expit(sign * (utility + np.sqrt(utility_variance) * z))
        total += term if weights is None else weights[i, k] * term
    return total


def log_evidence(prior, loadings, bias, positives, nodes):
    """Return log p(Y) by quadrature over h on a tensor grid of N·P dimensions."""
    points, factors = len(prior), loadings.shape[1]
    z, w = roots_hermitenorm(nodes)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*[z] * (points * factors))])
    log_weights = sum(np.meshgrid(*[np.log(w / w.sum())] * (points * factors))).ravel()
    latent = np.linalg.cholesky(prior) @ grid.reshape(factors, points, -1)
    utilities = np.einsum("kp,pis->iks", loadings, latent) + bias[:, None]
    signs = np.where(positives, 1, -1)[:, :, None]
    return np.logaddexp.reduce(log_weights + log_expit(signs * utilities).sum(axis=(0, 1)))


def random_parameters(random, terms, ard, posterior, inducing, factors, labels, dtype=np.float64, noise=0.3):
    """Return a kernel and random parameters near the initial ones."""
    kernel = Kernel(terms, ard)
    count, dimension = inducing.shape
    parameters = kernel.initial(dimension, 1.0, np.float64)
    parameters |= POSTERIORS[posterior].initial(count, factors, 0.5, random, np.float64)
    parameters = {name: value + noise * random.normal(size=value.shape) for name, value in parameters.items()}
    for name in FACTORS.intersection(parameters):
        parameters[name] = np.tril(parameters[name])
    parameters |= {
        "inducing": inducing,
        "loadings": random.normal(size=(labels, factors)) / np.sqrt(factors),
        "bias": random.normal(-1, 1, labels),
    }
    return kernel, {name: np.array(value, dtype) for name, value in parameters.items()}


def random_labels(random, points, labels, density=0.3):
    """Return random positives, a csr_array."""
    return sp.csr_array(random.random((points, labels)) < density)


def pairs_of(positives, negatives):
    """Return the pairs of all positives and of the given negatives, a list for each point.

    Negatives come before positives, because the order is not specified.
    """
    indptr, columns, positive, weight = [0], [], [], []
    for present, chosen in zip(positives, negatives, strict=True):
        absent = int((~present).sum())
        columns += [*chosen, *np.flatnonzero(present)]
        positive += [False] * len(chosen) + [True] * int(present.sum())
        weight += [absent / max(len(chosen), 1)] * len(chosen) + [1.0] * int(present.sum())
        indptr.append(len(columns))
    return SampledPairs(np.array(indptr), np.array(columns, int), np.array(positive, bool), np.array(weight))


def complete_pairs(positives):
    """Return the pairs with all negatives as the sample."""
    return pairs_of(positives, [np.flatnonzero(~present) for present in positives])
