"""Gibbs sampling for BMLPL."""

import numpy as np

from xmlgp.bmlpl import activations, conditionals, hyperparameters, least_squares
from xmlgp.bmlpl.counts import expected_counts
from xmlgp.bmlpl.inference import BMLPLInference
from xmlgp.bmlpl.topics import topic_shares
from xmlgp.errors import NumericalError
from xmlgp.linear_algebra import sparse
from xmlgp.linear_algebra.dense import all_finite

__all__ = ["Gibbs"]

#: Largest number of weights of a topic, with the intercept, that are sampled by a dense Cholesky factorisation.
DENSE_SIZE = 4096

#: Conjugate gradient steps at most, for larger ones.
CG_STEPS = 100


class Gibbs(BMLPLInference):
    """Sample counts, topics, shapes, weights and activations in turn ([B] section 3.1); return means of the samples.

    Shapes and weights are sampled with the activations integrated out; the activations are sampled right after them.
    Learned precisions maximise the marginal likelihood given the sampled weights (type-II maximum likelihood).
    """

    def __init__(self, coordinates, labels, settings, random):
        self.topics = self._start(coordinates, labels, settings, random)
        T = len(self.shapes)
        self._shares = np.full(T, 1 / T, self.weights.dtype)
        self._sums = {name: np.zeros(array.shape) for name, array in self._sample().items()}

    def _sample(self):
        """Return the parameters as last sampled, by name."""
        return {
            "topics": self.topics,
            "weights": self.weights,
            "shapes": self.shapes,
            "precisions": self.precisions,
            "shares": self._shares,
        }

    def arrays(self):
        """Return the arrays that steps change, by name."""
        arrays = {f"parameters.{name}": array for name, array in self._sample().items()}
        arrays["activations"] = self.activations
        return arrays | {f"sums.{name}": array for name, array in self._sums.items()}

    def step(self, epoch, done):
        """Make one sweep; return the log posterior after it."""
        settings, random = self._settings, self.random
        m, label_counts = conditionals.sample_counts(self._positives, self.topics, self.activations, random)
        self._shares[:] = topic_shares(label_counts, self._positives.frequencies())
        self.topics[:] = conditionals.sample_topics(label_counts, settings.concentration, random)
        system = self._system
        system.set_log_odds(self.weights)
        if not all_finite(system.log_odds):
            raise NumericalError("the log odds of activations are not finite")
        self.shapes[:] = conditionals.sample_shapes(m, system.log_odds, self.shapes, random)
        system.omega[:] = conditionals.sample_omega(m, system.log_odds, self.shapes, random)
        if settings.learn_precision:
            moments = np.square(self.weights[:-1])
            self.precisions[:-1] = hyperparameters.update_precisions(moments, self.precisions.dtype)
        system.precisions = self.precisions
        twice_kappa = m - self.shapes
        if len(self.weights) <= DENSE_SIZE:
            least_squares.cholesky_solve(system, twice_kappa, self.weights, random)
        else:
            mean = sparse.product(system.design.columns, twice_kappa)
            mean *= 0.5
            self.weights[:] = least_squares.cg_sample(system, random, CG_STEPS, mean)
        system.set_log_odds(self.weights)
        self.activations[:] = conditionals.sample_activations(m, system.log_odds, self.shapes, random)
        if is_kept(settings, epoch):
            for name, array in self._sample().items():
                self._sums[name] += array
        return self._log_posterior(
            expected_counts(self._positives, self.topics, self.activations).log_likelihood,
            activations.log_prior(self.activations, system.log_odds, self.shapes),
            hyperparameters.log_prior_of_topics(self.topics, settings.concentration),
        )

    def parameters(self, epochs):
        """Return the parameters of the model, by name: the means of the kept samples, or the last one before any."""
        count = sum(is_kept(self._settings, sweep) for sweep in range(epochs))
        means = {name: (array / max(1, count)).astype(self.weights.dtype) for name, array in self._sums.items()}
        if not count:
            means = self._sample()
        weights = means.pop("weights")
        means["precisions"] = means["precisions"][:-1]
        return means | {"weights": weights[:-1], "intercepts": weights[-1]}


def is_kept(settings, sweep):
    """Return whether the sample of a sweep, counted from 0, is kept."""
    since = sweep - settings.burned
    return since >= 0 and since % settings.thinning == 0
