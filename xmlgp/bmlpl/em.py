"""Expectation maximisation, with M-steps for the weights that are exact or some conjugate gradient steps."""

import numpy as np

from xmlgp.bmlpl import activations, hyperparameters, least_squares, start
from xmlgp.bmlpl.counts import expected_counts
from xmlgp.bmlpl.positives import Positives
from xmlgp.bmlpl.topics import topic_shares
from xmlgp.errors import SettingsError
from xmlgp.training.inference import Inference

__all__ = ["EM"]

#: Iterations before shapes and precisions are learned: the first ones only find out what each topic is about.
WARM_UP = 2

#: Features up to which M-steps may be exact: a matrix of 2 GB for each core, and half a minute for each topic.
MOST_FEATURES = 16_000

#: Iterations from one update of precisions to the next, and conjugate gradient steps of each: they cost a few M-steps.
PRECISIONS_EVERY, SPREAD_STEPS = 10, 20


class EM(Inference):
    """Maximises log p(V, W, log U | Y), from which latent counts and Pólya–Gamma variables are summed out.

    Given the expected counts, the maximum over u is u = (r + m) σ(ψ), and what it leaves of W's objective is the
    negative binomial likelihood m ψ − (m + r) log(1 + e^ψ): so both are maximised together, and no iteration lowers the
    posterior while shapes and precisions stay. These maximise marginal likelihoods given the counts, in between.

    Parameters
    ----------
    coordinates : Coordinates
    labels : csr_array of bool, N×K
        Y.
    settings : BMLPLSettings
    random : numpy.random.Generator

    Raises
    ------
    SettingsError
        For exact M-steps with more features than `MOST_FEATURES`.
    """

    objective = "log_posterior"
    advice = "try another --weighting or --precision"

    def __init__(self, coordinates, labels, settings, random):
        self._settings, self.random, self.epochs = settings, random, settings.passes
        self._positives = Positives(labels)
        if settings.inference == "em" and coordinates.feature_count > MOST_FEATURES:
            raise SettingsError(
                f"inference em solves with {coordinates.feature_count + 1} rows and columns for each topic, and is for "
                f"at most {MOST_FEATURES} features; em-cg has no such limit"
            )
        begun = start.start(coordinates.feature_count, labels, settings, random)
        topics, self.weights, self.shapes, self.precisions = begun
        dtype, T = self.weights.dtype, len(self.shapes)
        self._activations = np.empty((labels.shape[0], T), dtype)
        self._activations[:] = activations.prior_mean(self.weights[-1], self.shapes)
        self._counts = expected_counts(self._positives, topics, self._activations)
        self._system = least_squares.LeastSquares(least_squares.Design(coordinates.weighted(slice(None))), T, dtype)

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
        """Make one iteration, counted from 0; return the log posterior, given shapes and precisions as it had them."""
        settings, m, learned = self._settings, self._counts.by_point, epoch >= WARM_UP
        system = self._system
        system.set_tangent(self.weights, m, self.shapes, self.precisions)
        if settings.learn_precision and learned and (epoch - WARM_UP) % PRECISIONS_EVERY == 0:
            moments = np.square(least_squares.cg_sample(system, self.random, SPREAD_STEPS))
            moments += np.square(self.weights)
            self.precisions[:-1] = hyperparameters.update_precisions(moments[:-1], self.precisions.dtype)
            system.set_tangent(self.weights, m, self.shapes, self.precisions)
        if settings.inference == "em":
            least_squares.cholesky_solve(system, m - self.shapes, self.weights)
            system.set_log_odds(self.weights)
        else:
            least_squares.cg_solve(system, self.weights, settings.cg_steps)
        topics = hyperparameters.update_topics(self._counts.by_label, settings.concentration)
        activated = activations.expected_activations(m, system.log_odds, self.shapes, self._activations)
        self._counts = expected_counts(self._positives, topics, self._activations, m)
        value = (
            self._counts.log_likelihood
            + activated.log_prior
            + least_squares.log_prior(self.weights, self.precisions)
            + hyperparameters.log_prior_of_topics(topics, settings.concentration)
            - hyperparameters.SHAPE_RATE * float(self.shapes.sum())
        )
        if learned:
            self.shapes[:] = hyperparameters.update_shapes(self.shapes, activated)
        return value

    def parameters(self, epochs):
        """Return the parameters of the model, by their names."""
        topics = hyperparameters.update_topics(self._counts.by_label.copy(), self._settings.concentration)
        return {
            "topics": topics,
            "weights": self.weights[:-1],
            "intercepts": self.weights[-1],
            "shapes": self.shapes,
            "precisions": self.precisions[:-1],
            "shares": topic_shares(self._counts.by_label, self._positives.frequencies()),
        }
