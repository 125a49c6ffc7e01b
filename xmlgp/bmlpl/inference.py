"""What the inference methods of BMLPL share: initial values, the log posterior, and the parameters of the model."""

import numpy as np

from xmlgp.bmlpl import least_squares
from xmlgp.bmlpl.activations import prior_mean
from xmlgp.bmlpl.counts import Positives
from xmlgp.bmlpl.parameters import SHAPE_RATE, initial_values
from xmlgp.bmlpl.topics import topic_shares, update_topics
from xmlgp.training.inference import Inference

__all__ = ["BMLPLInference"]


class BMLPLInference(Inference):
    """Base class of the inference methods of BMLPL, which maximise or sample from the posterior.

    Subclasses set the weights W with the intercepts in the last row, (D+1)×T, the shapes r, T, and the precisions τ
    with that of the intercepts last, D+1.
    """

    objective = "log_posterior"
    advice = "try another weighting or precision"

    def _start(self, coordinates, labels, settings, random):
        """Set the initial values of a method whose steps see all points; return those of the topics V, K×T."""
        self._settings, self.random, self.epochs = settings, random, settings.passes
        self._positives = Positives(labels)
        topics, self.weights, self.shapes, self.precisions = initial_values(
            coordinates.feature_count, labels, settings, random
        )
        dtype, T = self.weights.dtype, len(self.shapes)
        self.activations = np.empty((labels.shape[0], T), dtype)
        self.activations[:] = prior_mean(self.weights[-1], self.shapes)
        self._system = least_squares.LeastSquares(least_squares.Design(coordinates.weighted(slice(None))), T, dtype)
        return topics

    def _log_posterior(self, log_likelihood, log_prior_of_activations, log_prior_of_topics):
        """Return the log posterior up to a constant, given the terms that the methods compute differently."""
        return (
            log_likelihood
            + log_prior_of_activations
            + self._log_prior_of_weights()
            + log_prior_of_topics
            + self._log_prior_of_shapes()
        )

    def _log_prior_of_weights(self):
        return least_squares.log_prior(self.weights, self.precisions)

    def _log_prior_of_shapes(self):
        return -SHAPE_RATE * float(self.shapes.sum())

    def _model(self, weights, precisions, label_counts, frequencies):
        """Return the parameters of the model, by name, given W, τ, m_kt, K×T, and the points of each label, K."""
        return {
            "topics": update_topics(label_counts.copy(), self._settings.concentration),
            "weights": weights[:-1],
            "intercepts": weights[-1],
            "shapes": self.shapes,
            "precisions": precisions[:-1],
            "shares": topic_shares(label_counts, frequencies),
        }
