"""Gibbs sampling for BMLPL: samples from the conditional posteriors, and sweeps of them ([B] section 3.1)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.dense import all_finite
from xmlgp.models.bmlpl import least_squares
from xmlgp.models.bmlpl.activations import LARGEST_EXPONENT, log_prior, softplus_sums
from xmlgp.models.bmlpl.blocks import ROWS
from xmlgp.models.bmlpl.counts import LEAST_RATE, Positives, expected_counts
from xmlgp.models.bmlpl.inference import BMLPLInference, Problem
from xmlgp.models.bmlpl.parameters import LEAST_SHAPE, SHAPE_RATE, log_prior_of_topics, topic_shares, update_precisions
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.runtime.blocks import row_blocks
from xmlgp.runtime.errors import NumericalError

__all__ = ["Gibbs", "sample_activations", "sample_counts", "sample_omega", "sample_shapes", "sample_topics"]

#: Most latent counts per positive label on average; more mean that sampling diverged.
MOST_COUNTS = 1000

#: Terms of the sum of a Pólya–Gamma variable that are sampled as gamma variables, and log odds beyond which none is: so
#: the third and fourth cumulants are off by 2e-4 of them at most.
GAMMA_TERMS = 8
LARGE_LOG_ODDS = 15

#: The root of what is added to squares of log odds, because formulas of the moments divide zero by zero at zero. The
#: moments change by 1e-7 of them.
LEAST_LOG_ODDS = 1e-3

#: Least activation, so that logarithms are finite.
LEAST_ACTIVATION = 1e-30

#: Largest number of weights of a topic, with the intercept, that are sampled by a dense Cholesky factorisation.
DENSE_SIZE = 4096

#: Conjugate gradient steps at most, for larger ones.
CG_STEPS = 100


class Gibbs(BMLPLInference):
    """Sample counts, topics, shapes, weights and activations in turn ([B] section 3.1); return means of the samples.

    Shapes and weights are sampled with the activations integrated out; the activations are sampled right after them.
    Learned precisions maximise the marginal likelihood given the sampled weights (type-II maximum likelihood).
    """

    def __init__(self, problem: Problem, random: np.random.Generator) -> None:
        self.topics = self._start(problem, random)
        T = len(self.shapes)
        self.shares = np.full(T, 1 / T, self.weights.dtype)
        self._sums = {name: np.zeros(array.shape) for name, array in self._sample().items()}

    def _sample(self) -> dict[str, NDArray[np.floating]]:
        """Return the parameters as last sampled, by name."""
        return {name: getattr(self, name) for name in ("topics", "weights", "shapes", "precisions", "shares")}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that steps change, by name."""
        arrays = {f"parameters.{name}": array for name, array in self._sample().items()}
        arrays["activations"] = self.activations
        return arrays | {f"sums.{name}": array for name, array in self._sums.items()}

    def step(self, epoch: int, done: int) -> float:
        """Make one sweep; return the log posterior after it."""
        settings = self._settings
        random = self.random
        m, label_counts = sample_counts(self._positives, self.topics, self.activations, random)
        self.shares[:] = topic_shares(label_counts, self._positives.frequencies())
        self.topics[:] = sample_topics(label_counts, settings.concentration, random)
        system = self._system
        system.set_log_odds(self.weights)
        if not all_finite(system.log_odds):
            raise NumericalError("the log odds of activations are not finite")
        self.shapes[:] = sample_shapes(m, system.log_odds, self.shapes, random)
        system.omega[:] = sample_omega(m, system.log_odds, self.shapes, random)
        if settings.learn_precision:
            moments = np.square(self.weights[:-1])
            self.precisions[:-1] = update_precisions(moments, self.precisions.dtype)
        system.precisions = self.precisions
        twice_kappa = m - self.shapes
        if len(self.weights) <= DENSE_SIZE:
            least_squares.cholesky_solve(system, twice_kappa, self.weights, random)
        else:
            mean = sparse.product(system.design.columns, twice_kappa)
            mean *= 0.5
            self.weights[:] = least_squares.cg_sample(system, random, CG_STEPS, mean)
        system.set_log_odds(self.weights)
        self.activations[:] = sample_activations(m, system.log_odds, self.shapes, random)
        if is_kept(settings, epoch):
            for name, array in self._sample().items():
                self._sums[name] += array
        return self._log_posterior(
            expected_counts(self._positives, self.topics, self.activations).log_likelihood,
            log_prior(self.activations, system.log_odds, self.shapes),
            log_prior_of_topics(self.topics, settings.concentration),
        )

    def parameters(self, epochs: int) -> dict[str, NDArray[Any]]:
        """Return the parameters of the model, by name: the means of the kept samples, or the last one before any."""
        count = sum(is_kept(self._settings, sweep) for sweep in range(epochs))
        means = {name: (array / max(1, count)).astype(self.weights.dtype) for name, array in self._sums.items()}
        if not count:
            means = self._sample()
        weights = means.pop("weights")
        return means | {"weights": weights[:-1], "intercepts": weights[-1], "precisions": means["precisions"][:-1]}


def is_kept(settings: BMLPLSettings, sweep: int) -> bool:
    """Return whether the sample of a sweep, counted from 0, is kept."""
    since = sweep - settings.burned
    return since >= 0 and since % settings.thinning == 0


def sample_counts(
    positives: Positives, topics: NDArray[np.floating], activations: NDArray[np.floating], random: np.random.Generator
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return samples of the latent counts m_nt, N×T, and m_kt, K×T, given topics V and activations U ([B] (10), (11)).

    m_nk ~ Poisson(λ_nk), truncated at zero, for every positive label; each count belongs to topic t with probability
    v_kt u_nt / λ_nk. An average rate above `MOST_COUNTS` in a block of points raises NumericalError.
    """
    by_point = np.zeros_like(activations)
    by_label = np.zeros_like(topics)
    for rows in row_blocks(len(activations), ROWS):
        ends = positives.indptr[rows.start : rows.stop + 1]
        points = np.repeat(np.arange(rows.start, rows.stop), np.diff(ends))
        labels = positives.indices[ends[0] : ends[-1]]
        shares = topics[labels].astype(np.float64) * activations[points]
        rates = shares.sum(axis=1)
        if not rates.sum() <= MOST_COUNTS * max(ROWS, len(rates)):
            raise NumericalError(f"a label of a point has more than {MOST_COUNTS} latent counts on average")
        # Without a topic that explains it, a label is divided among all.
        shares[rates < LEAST_RATE] = 1
        counts = random.multinomial(_truncated_poisson(rates, random), shares / shares.sum(axis=1, keepdims=True))
        positions, chosen = np.nonzero(counts)
        for sums, numbers in (by_point, points), (by_label, labels):
            np.add.at(sums, (numbers[positions], chosen), counts[positions, chosen])
    return by_point, by_label


def _truncated_poisson(rates: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.int64]:
    """Return a sample of each zero-truncated Poisson distribution: its first event in a time λ, and those after it."""
    first = -np.log1p(random.random(len(rates)) * np.expm1(-rates))
    return 1 + random.poisson(np.maximum(rates - first, 0))


def sample_topics(
    counts: NDArray[np.floating], concentration: float, random: np.random.Generator
) -> NDArray[np.floating]:
    """Return a sample of V, K×T: column t from Dirichlet(η + m_kt) ([B] (12))."""
    # A gamma variable underflows for small η, so logarithms are used: Gamma(a) is distributed as Gamma(a + 1) U^(1/a).
    shape = counts + concentration
    logarithms = np.log(random.standard_gamma(shape + 1)) + np.log1p(-random.random(shape.shape)) / shape
    logarithms -= logarithms.max(axis=0)
    topics: NDArray[np.floating] = np.exp(logarithms)
    topics /= topics.sum(axis=0)
    return topics.astype(counts.dtype, copy=False)


def sample_omega(
    counts: NDArray[np.floating],
    log_odds: NDArray[np.floating],
    shapes: NDArray[np.floating],
    random: np.random.Generator,
) -> NDArray[np.floating]:
    """Return samples of the Pólya–Gamma variables ω_nt ~ PG(m_nt + r_t, ψ_nt), N×T ([B] section 3.1).

    With h = m + r,

        ω = Σ_j g_j / (2π²(j − ½)² + ψ²/2), g_j ~ Gamma(h, 1), j = 1, 2, …
        E ω = h tanh(ψ/2) / (2ψ)
        Var ω = h (sinh ψ − ψ) / (4ψ³ cosh²(ψ/2))

    The first `GAMMA_TERMS` are sampled. The sum of the others is replaced by an inverse Gaussian variable of its mean
    and variance, which is also the limit of ω for large |ψ|. So both moments of ω are right for every h and ψ; in the
    package polyagamma 2.0.2 they are wrong for h that are no integers. Source: Polson, Scott and Windle, "Bayesian
    inference for logistic models using Pólya–Gamma latent variables", 2013, section 2.
    """
    h: NDArray[np.float64] = np.add(counts, shapes, dtype=np.float64)
    z = np.hypot(log_odds, LEAST_LOG_ODDS, dtype=np.float64)
    tanh = np.tanh(z / 2)
    mean = tanh / (2 * z)
    variance = (tanh - z / 2 * (1 - tanh * tanh)) / (2 * z**3)
    sample = np.zeros_like(h)
    for j in range(GAMMA_TERMS):
        scale = (z < LARGE_LOG_ODDS) / (2 * np.square(np.pi * (j + 0.5)) + z * z / 2)
        mean -= scale
        variance -= scale * scale
        sample += scale * random.standard_gamma(h)
    sample += random.wald(h * mean, h * h * mean**3 / variance)
    return sample.astype(counts.dtype)


def sample_activations(
    counts: NDArray[np.floating],
    log_odds: NDArray[np.floating],
    shapes: NDArray[np.floating],
    random: np.random.Generator,
) -> NDArray[np.floating]:
    """Return a sample of the activations u_nt ~ Gamma(r_t + m_nt, scale σ(ψ_nt)), N×T ([B] (13))."""
    sample = random.standard_gamma(counts + shapes).astype(counts.dtype, copy=False)
    sample /= 1 + np.exp(np.clip(-log_odds, -LARGEST_EXPONENT, LARGEST_EXPONENT))
    return np.maximum(sample, LEAST_ACTIVATION, out=sample)


def sample_shapes(
    counts: NDArray[np.floating],
    log_odds: NDArray[np.floating],
    shapes: NDArray[np.floating],
    random: np.random.Generator,
) -> NDArray[np.floating]:
    """Return a sample of r_t ~ Gamma(1 + Σ_n l_nt, rate 1 + Σ_n log(1 + e^ψ_nt)), T, with l_nt ~ CRT(m_nt, r_t).

    The activations are integrated out, so they must be sampled again afterwards. Source: see `update_shapes`.
    """
    # In the Chinese restaurant process customer j = 0, 1, … opens a new table with probability r/(r + j).
    points, topics = np.nonzero(counts)
    customers = counts[points, topics].astype(np.int64)
    topic_of_customer = np.repeat(topics, customers)
    order = np.arange(len(topic_of_customer)) - np.repeat(np.cumsum(customers) - customers, customers)
    r = shapes.astype(np.float64)
    new_table = random.random(len(topic_of_customer)) * (r[topic_of_customer] + order) < r[topic_of_customer]
    tables = np.bincount(topic_of_customer[new_table], minlength=len(r))
    sample = random.standard_gamma(1 + tables) / (SHAPE_RATE + softplus_sums(log_odds))
    return np.maximum(sample, LEAST_SHAPE).astype(shapes.dtype)
