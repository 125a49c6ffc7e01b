"""The full posterior of [L] section 4.1, with a mean and a Cholesky factor for each latent function, whitened."""

from functools import partial
from operator import itemgetter

import numpy as np

from xmlgp.gp.divergences import whitened_kl
from xmlgp.gp.inner_products import Covariances
from xmlgp.gp.log_parameters import bounded_exp, checked_log, is_inside
from xmlgp.gp.posteriors.jitter import add_jitter, jitter_backward
from xmlgp.gp.posteriors.moments import Moments
from xmlgp.gp.posteriors.shared_diagonal import DIAGONAL_NAME, initial_mean, sigma_diagonal
from xmlgp.linear_algebra import lapack
from xmlgp.linear_algebra.cholesky import factorise
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.runtime.threads import parallel_for, run_parallel

__all__ = ["Cholesky"]

#: Columns of a block in products with triangular matrices. Smaller blocks skip more of the zeros, larger ones have a
#: higher rate. The best of 32 to 200 at M = 200 and B = 250.
BLOCK = 80


class Cholesky:
    """q(u_p) = N(L_Z v_p, L_Z S_p L_Zᵀ) with K_Z = L_Z L_Zᵀ and S_p = L_p L_pᵀ, L_p lower triangular, for each p.

    These are all the normal distributions, as in [L]. In the whitened variables L_Z⁻¹ u_p the prior is N(0, I): no
    gradient has a factor K_Z⁻¹, which grows without limit where M exceeds the rank of K_Z. With A = K_BZ L_Z⁻ᵀ:
    m_ip = (A v_p)_i; s_ip = k(x_i, x_i) − Σ_j A_ij² + Σ_j (A L_p)_ij²; the divergence is that of `whitened_kl`. K_Z has
    jitter on its diagonal.

    Parameters in the flat mapping: `posterior.whitened_mean`, v, M×P; `posterior.whitened_factor`, P×M×M, the lower
    triangles of L_p with the logarithms of their diagonals. Source: [L] (9), (10), (13); whitening: Murray and Adams,
    Slice sampling covariance hyperparameters of latent Gaussian models, 2010. The methods are those of
    `SharedDiagonal`.
    """

    name = "cholesky"
    parameter_names = ("posterior.whitened_mean", "posterior.whitened_factor")
    #: Whether `prepare` uses all cores.
    prepare_is_parallel = False

    def initial(self, inducing_count, factor_count, diagonal, random, dtype):
        """Return initial parameters by name, with L_p = √diagonal I; see `SharedDiagonal.initial`."""
        factor = np.zeros((factor_count, inducing_count, inducing_count), dtype)
        factor[:, range(inducing_count), range(inducing_count)] = 0.5 * checked_log(diagonal, DIAGONAL_NAME)
        return {
            "posterior.whitened_mean": initial_mean(inducing_count, factor_count, random, dtype),
            "posterior.whitened_factor": factor,
        }

    def prepare(self, parameters, K_Z):
        """Return the quantities that moments at any points need: v, each L_p, and L_Z⁻¹.

        Raises
        ------
        ValueError
            If the shapes of the parameters do not agree.
        """
        mean, raw = (parameters[name] for name in self.parameter_names)
        M, P = mean.shape
        # Compiled functions do not check shapes.
        if raw.shape != (P, M, M):
            raise ValueError(f"posterior.whitened_factor has the shape {raw.shape}, not {(P, M, M)}")
        return mean, _lower_factors(raw), _invert_lower(_factor(K_Z))

    def alpha(self, prepared):
        """Return α, M×P, with which the mean at points is K_BZ α: L_Z⁻ᵀ v."""
        mean, _, inverse = prepared
        return inverse.T @ mean

    def mean_from_alpha(self, alpha, K_Z):
        """Return the `posterior.whitened_mean`, M×P, that has the given α: v = L_Zᵀ α."""
        return _factor(K_Z).T @ alpha

    def moments(self, prepared, K_BZ, K_diag):
        """Return the moments at points, and A and each A L_p, P×B×M; see `SharedDiagonal.moments`."""
        mean, factors, inverse = prepared
        whitened = K_BZ @ inverse.T
        conditional = K_diag - np.einsum("bm,bm->b", whitened, whitened)
        variance = np.empty((len(K_diag), len(factors)), mean.dtype)
        projected = np.empty((len(factors), *whitened.shape), mean.dtype)

        def project(p):
            _product(whitened, factors[p], projected[p])
            variance[:, p] = conditional + np.einsum("bm,bm->b", projected[p], projected[p])

        run_parallel(partial(project, p) for p in range(len(factors)))
        return Moments(whitened @ mean, variance), (whitened, projected)

    def forward(self, parameters, covariances, prepared=None):
        """Return the moments, the sum of the KL divergences, and the tape; see `SharedDiagonal.forward`."""
        prepared = prepared or self.prepare(parameters, covariances.K_Z)
        moments, projections = self.moments(prepared, covariances.K_BZ, covariances.K_diag)
        mean, factors, _ = prepared
        return moments, whitened_kl(mean, factors), (*prepared, *projections)

    def backward(self, tape, d_moments, d_kl):
        """Return the gradients with respect to the covariances and the parameters; see `SharedDiagonal.backward`."""
        mean, factors, inverse, whitened, projected = tape
        d_K_diag = d_moments.variance.sum(axis=1)
        d_whitened = d_moments.mean @ mean.T - 2 * d_K_diag[:, None] * whitened
        d_factors = np.empty_like(factors)
        diagonals, d_kl = np.einsum("pmm->pm", factors), mean.dtype.type(d_kl)
        sums = []

        def add_factors(first, last):
            total, product, d_projected = np.zeros_like(d_whitened), *np.empty((2, *d_whitened.shape), d_whitened.dtype)
            for p in range(first, last):
                np.multiply(projected[p], 2 * d_moments.variance[:, p, None], out=d_projected)
                _product_transposed(d_projected, factors[p], product)
                total += product
                _lower_of_product(whitened, d_projected, d_factors[p])
                _add_divergence(d_factors[p], factors[p], d_kl, is_inside(diagonals[p]))
            sums.append((first, total))

        parallel_for(add_factors, len(factors), 1)
        # Sorted, so that the result does not depend on which thread was faster.
        for _, total in sorted(sums, key=itemgetter(0)):
            d_whitened += total
        gradients = {
            "posterior.whitened_mean": whitened.T @ d_moments.mean + d_kl * mean,
            "posterior.whitened_factor": d_factors,
        }
        # With A = K_BZ L_Z⁻ᵀ and T = dAᵀ A: dK_Z = −½ L_Z⁻ᵀ (Φ(T) + Φ(T)ᵀ) L_Z⁻¹, where Φ takes the lower triangle and
        # half of the diagonal (Murray, Differentiation of the Cholesky decomposition, 2016).
        lower = np.tril(d_whitened.T @ whitened)
        lower[np.diag_indices_from(lower)] *= lower.dtype.type(0.5)
        d_K_Z = -0.5 * (inverse.T @ (lower + lower.T) @ inverse)
        jitter_backward(d_K_Z)
        return Covariances(d_whitened @ inverse, d_K_Z, d_K_diag), gradients

    def precondition(self, tape, gradients):
        """Return the gradients as they are: that of v is the natural gradient if q(u) is the prior."""
        return gradients

    def parameters_of_diagonal(self, parameters, K_Z):
        """Return the parameters for which each q(u_p) is that of a diagonal posterior, by name.

        Parameters
        ----------
        parameters : mapping of str to ndarray
            `posterior.mean` and `posterior.log_diagonal` of `Diagonal` or `SharedDiagonal`.
        K_Z : ndarray, M×M
        """
        lower, mean = _factor(K_Z), parameters["posterior.mean"]
        diagonals = np.broadcast_to(sigma_diagonal(parameters), mean.T.shape)
        factors = np.empty((mean.shape[1], *K_Z.shape), mean.dtype)
        for p, diagonal in enumerate(diagonals):
            if p and (diagonal == diagonals[p - 1]).all():
                factors[p] = factors[p - 1]
                continue
            # S = L_Z⁻¹ (K_Z⁻¹ + Σ⁻¹)⁻¹ L_Z⁻ᵀ = (I + L_Zᵀ Σ⁻¹ L_Z)⁻¹.
            root = lower / np.sqrt(diagonal)[:, None]
            precision = root.T @ root
            precision[np.diag_indices_from(precision)] += 1
            covariance = factorise(precision, "the precision of q(u)").inverse
            factors[p] = factorise(covariance, "the covariance of q(u)").factor
            np.fill_diagonal(factors[p], np.log(np.diagonal(factors[p])))
        return {"posterior.whitened_mean": lower.T @ mean, "posterior.whitened_factor": factors}


def _factor(K_Z):
    """Return L_Z, lower triangular, of K_Z with jitter."""
    return factorise(add_jitter(K_Z), "K_Z").factor


def _invert_lower(lower):
    inverse = lower.copy()
    lapack.invert_lower(inverse)
    return inverse


def _lower_factors(raw):
    """Return each L_p, P×M×M, of the parameters `posterior.whitened_factor`."""
    factors = np.empty(raw.shape, raw.dtype)
    parallel_for(lambda first, last: _copy_lower(raw[first:last], factors[first:last]), len(raw), 1)
    index = np.arange(raw.shape[1])
    factors[:, index, index] = bounded_exp(raw[:, index, index])
    return factors


@compiled
def _copy_lower(source, target):
    for p in range(source.shape[0]):
        for i in range(source.shape[1]):
            target[p, i, :i] = source[p, i, :i]
            target[p, i, i + 1 :] = 0


def _product(left, lower, out):
    """Write X L to `out`, B×M, for X, B×M, and a lower triangular L."""
    for start in range(0, len(lower), BLOCK):
        stop = start + BLOCK
        np.matmul(left[:, start:], lower[start:, start:stop], out=out[:, start:stop])


def _product_transposed(left, lower, out):
    """Write X Lᵀ to `out`, B×M, for X, B×M, and a lower triangular L."""
    for start in range(0, len(lower), BLOCK):
        stop = start + BLOCK
        np.matmul(left[:, :stop], lower[start:stop, :stop].T, out=out[:, start:stop])


def _lower_of_product(left, right, out):
    """Write the lower triangle of Xᵀ Y to `out`, M×M, for X and Y, B×M; what is above it has no meaning."""
    for start in range(0, len(out), BLOCK):
        stop = start + BLOCK
        np.matmul(left[:, start:].T, right[:, start:stop], out=out[start:, start:stop])


@compiled
def _add_divergence(gradient, factor, d_kl, is_inside):
    """Add the gradient of the divergence to that of L_p, M×M, in place, and clear the upper triangle.

    The diagonal is parametrised by logarithms: d log L = L dL, and −log L is a term of the divergence.
    """
    for i in range(len(factor)):
        for j in range(i):
            gradient[i, j] += d_kl * factor[i, j]
        change = gradient[i, i] * factor[i, i] + d_kl * (factor[i, i] * factor[i, i] - factor.dtype.type(1))
        gradient[i, i] = change if is_inside[i] else factor.dtype.type(0)
        gradient[i, i + 1 :] = 0
