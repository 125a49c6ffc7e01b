"""Expectation maximisation for BMLPL, with M-steps of the weights by conjugate gradients or exact ones."""

import numpy as np

from xmlgp.bmlpl import activations, hyperparameters, least_squares
from xmlgp.bmlpl.counts import expected_counts
from xmlgp.bmlpl.inference import BMLPLInference
from xmlgp.errors import SettingsError

__all__ = ["EM", "ExactEM"]

#: Iterations before shapes and precisions are learned; the first ones only find the labels of each topic.
WARM_UP = 2

#: Largest number of features for exact M-steps: a matrix of 2 GB for each core, and half a minute for each topic.
MOST_FEATURES = 16_000

#: Iterations between updates of the precisions, and conjugate gradient steps in each; an update costs a few M-steps.
PRECISIONS_EVERY, PRECISIONS_STEPS = 10, 20


class EM(BMLPLInference):
    """Maximise log p(V, W, log U | Y), with latent counts and Pólya–Gamma variables summed out.

    Given the expected counts m, the maximum over u is u = (r + m) σ(ψ), and the remaining objective of W is the
    negative binomial likelihood m ψ − (m + r) log(1 + e^ψ). Both are maximised together, so that no iteration lowers
    the posterior while shapes and precisions are fixed. Shapes and precisions maximise marginal likelihoods given the
    counts, between M-steps. The M-step of W makes some conjugate gradient steps.
    """

    def __init__(self, coordinates, labels, settings, random):
        topics = self._start(coordinates, labels, settings, random)
        self._counts = expected_counts(self._positives, topics, self.activations)

    def arrays(self):
        """Return the arrays that steps change, by name."""
        return {
            "parameters.weights": self.weights,
            "parameters.shapes": self.shapes,
            "parameters.precisions": self.precisions,
            "counts.points": self._counts.by_point,
            "counts.labels": self._counts.by_label,
        }

    def step(self, epoch, done):
        """Make one iteration; return the log posterior, given the shapes and precisions before it."""
        settings, m, learned = self._settings, self._counts.by_point, epoch >= WARM_UP
        system = self._system
        system.set_tangent(self.weights, m, self.shapes, self.precisions)
        if settings.learn_precision and learned and (epoch - WARM_UP) % PRECISIONS_EVERY == 0:
            moments = np.square(least_squares.cg_sample(system, self.random, PRECISIONS_STEPS))
            moments += np.square(self.weights)
            self.precisions[:-1] = hyperparameters.update_precisions(moments[:-1], self.precisions.dtype)
            system.set_tangent(self.weights, m, self.shapes, self.precisions)
        self._update_weights(system, m)
        topics = hyperparameters.update_topics(self._counts.by_label, settings.concentration)
        activated = activations.expected_activations(m, system.log_odds, self.shapes, self.activations)
        self._counts = expected_counts(self._positives, topics, self.activations, m)
        log_prior_of_topics = hyperparameters.log_prior_of_topics(topics, settings.concentration)
        value = self._log_posterior(self._counts.log_likelihood, activated.log_prior, log_prior_of_topics)
        if learned:
            self.shapes[:] = hyperparameters.update_shapes(self.shapes, activated)
        return value

    def _update_weights(self, system, m):
        """Make the M-step of the weights, and set the log odds of the system."""
        least_squares.cg_solve(system, self.weights, self._settings.cg_steps)

    def parameters(self, epochs):
        """Return the parameters of the model, by name."""
        return self._model(self._counts.by_label, self._positives.frequencies())


class ExactEM(EM):
    """`EM` with exact M-steps of the weights, by a Cholesky factorisation for each topic."""

    def __init__(self, coordinates, labels, settings, random):
        if coordinates.feature_count > MOST_FEATURES:
            raise SettingsError(
                f"inference em factorises a matrix of {coordinates.feature_count + 1} rows for each topic and supports "
                f"at most {MOST_FEATURES} features; use em-cg"
            )
        super().__init__(coordinates, labels, settings, random)

    def _update_weights(self, system, m):
        least_squares.cholesky_solve(system, m - self.shapes, self.weights)
        system.set_log_odds(self.weights)
