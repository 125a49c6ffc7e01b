"""Inference for BMLPL: what all methods share, and expectation maximisation.

M-steps of the weights are exact, or make some conjugate gradient steps.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from xmlgp.features.inputs import Inputs
from xmlgp.models.bmlpl import least_squares, parameters
from xmlgp.models.bmlpl.activations import ActivationSums, expected_activations, prior_mean
from xmlgp.models.bmlpl.counts import Counts, Positives, expected_counts
from xmlgp.models.bmlpl.settings import BMLPLSettings
from xmlgp.runtime.errors import SettingsError
from xmlgp.training.inference import Inference

__all__ = ["EM", "BMLPLInference", "ExactEM", "Problem", "infer_activations"]

#: Iterations before shapes and precisions are learned; the first ones only find the labels of each topic.
WARM_UP = 2

#: Most that a shape changes in an iteration after the first one that changes it, as a ratio; in most runs none changes
#: by as much, and a part of the step raises the evidence too. Without this limit the shape and the intercept of a topic
#: that hardly any label needs can swing ever further, until all points have it: on descriptions of packages with 592
#: tags, from the 90th iteration on.
SHAPE_RATIO = 2.0

#: Largest number of features for exact M-steps: a matrix of 2 GB for each core, and half a minute for each topic.
MOST_FEATURES = 16_000

#: Iterations between updates of the precisions; an update costs a few M-steps.
PRECISIONS_EVERY = 10

#: Conjugate gradient steps in an update of the precisions.
PRECISIONS_STEPS = 20


#: Alternations of `infer_activations` between counts and activations.
ROUNDS = 5


def infer_activations(
    positives: Positives,
    topics: NDArray[np.floating],
    log_odds: NDArray[np.floating],
    shapes: NDArray[np.floating],
    point_counts: NDArray[np.floating] | None = None,
) -> tuple[NDArray[np.floating], Counts, ActivationSums]:
    """Return activations that were alternated with counts, from their prior means on, the counts, and the sums.

    The counts of points may be written to `point_counts`, N×T.
    """
    activations = prior_mean(log_odds, shapes)
    for _ in range(ROUNDS):
        counts = expected_counts(positives, topics, activations, point_counts)
        sums = expected_activations(counts.by_point, log_odds, shapes, activations)
    return activations, counts, sums


class Problem(NamedTuple):
    """What a method is trained on: the `Inputs` of points, and Y, N×K."""

    coordinates: Inputs
    labels: csr_array
    settings: BMLPLSettings


class BMLPLInference(Inference):
    """Base class of the inference methods of BMLPL, which maximise or sample from the posterior.

    Subclasses set the weights W with the intercepts in the last row, (D+1)×T, the shapes r, T, and the precisions τ
    with that of the intercepts last, D+1.
    """

    weights: NDArray[np.floating]
    shapes: NDArray[np.floating]
    precisions: NDArray[np.floating]
    random: np.random.Generator

    objective = "log_posterior"
    advice = "try another weighting or precision"

    def _start(self, problem: Problem, random: np.random.Generator) -> NDArray[np.floating]:
        """Set the initial values of a method whose steps see all points; return those of the topics V, K×T."""
        coordinates, labels, settings = problem
        self._settings = settings
        self.random = random
        self.epochs = settings.passes
        self._positives = Positives(labels)
        topics, self.weights, self.shapes, self.precisions = parameters.initial_values(
            coordinates.feature_count, labels, settings, random
        )
        dtype = self.weights.dtype
        T = len(self.shapes)
        self.activations = np.empty((labels.shape[0], T), dtype)
        self.activations[:] = prior_mean(self.weights[-1], self.shapes)
        self._system = least_squares.LeastSquares(
            least_squares.Design(coordinates.weighted(slice(None)).sparse), T, dtype
        )
        return topics

    def _log_posterior(
        self, log_likelihood: float, log_prior_of_activations: float, log_prior_of_topics: float
    ) -> float:
        """Return the log posterior up to a constant, given the terms that the methods compute differently."""
        return (
            log_likelihood
            + log_prior_of_activations
            + least_squares.log_prior(self.weights, self.precisions)
            + log_prior_of_topics
            - parameters.SHAPE_RATE * float(self.shapes.sum())
        )

    def _model(
        self,
        weights: NDArray[np.floating],
        precisions: NDArray[np.floating],
        label_counts: NDArray[np.floating],
        frequencies: NDArray[np.integer],
    ) -> dict[str, NDArray[Any]]:
        """Return the parameters of the model, by name, given W, τ, m_kt, K×T, and the points of each label, K."""
        return {
            "topics": parameters.update_topics(label_counts.copy(), self._settings.concentration),
            "weights": weights[:-1],
            "intercepts": weights[-1],
            "shapes": self.shapes,
            "precisions": precisions[:-1],
            "shares": parameters.topic_shares(label_counts, frequencies),
        }


class EM(BMLPLInference):
    """Maximise log p(V, W, log U | Y), with latent counts and Pólya–Gamma variables summed out.

    Given the expected counts m, the maximum over u is u = (r + m) σ(ψ), and the remaining objective of W is the
    negative binomial likelihood m ψ − (m + r) log(1 + e^ψ). Both are maximised together, so that no iteration lowers
    the posterior while shapes and precisions are fixed. Shapes and precisions maximise marginal likelihoods given the
    counts, between M-steps. The M-step of W makes some conjugate gradient steps. `Learning` makes the same steps with
    another prior.
    """

    _warm_up = WARM_UP

    def __init__(self, problem: Problem, random: np.random.Generator) -> None:
        topics = self._start(problem, random)
        self._cg_steps = problem.settings.cg_steps
        self._counts, self._label_counts, _ = expected_counts(self._positives, topics, self.activations)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that steps change, by name."""
        return {
            "parameters.weights": self.weights,
            "parameters.shapes": self.shapes,
            "parameters.precisions": self.precisions,
            "counts.points": self._counts,
            "counts.labels": self._label_counts,
        }

    def step(self, epoch: int, done: int) -> float:
        """Make one iteration; return the log posterior, given the shapes and precisions before it."""
        self._set_tangent(epoch)
        self._update_weights()
        concentration = self._settings.concentration
        topics = parameters.update_topics(self._label_counts, concentration)
        m = self._counts
        activated = expected_activations(m, self._system.log_odds, self.shapes, self.activations)
        _, self._label_counts, log_likelihood = expected_counts(self._positives, topics, self.activations, m)
        log_prior_of_topics = parameters.log_prior_of_topics(topics, concentration)
        value = self._log_posterior(log_likelihood, activated.log_prior, log_prior_of_topics)
        if epoch >= self._warm_up:
            most = math.inf if epoch == self._warm_up else SHAPE_RATIO
            updated = parameters.update_shapes(self.shapes, activated)
            self.shapes[:] = updated.clip(self.shapes / most, self.shapes * most)
        return value

    def _set_tangent(self, epoch: int) -> None:
        """Set the lower bound on the likelihood of W that is tight at the weights; at times, learn τ."""
        system = self._system
        since = epoch - self._warm_up
        system.set_tangent(self.weights, self._counts, self.shapes, self.precisions)
        if self._settings.learn_precision and since >= 0 and since % PRECISIONS_EVERY == 0:
            moments = np.square(least_squares.cg_sample(system, self.random, PRECISIONS_STEPS))
            moments += np.square(self.weights)
            self.precisions[:-1] = parameters.update_precisions(moments[:-1], self.precisions.dtype)
            system.set_tangent(self.weights, self._counts, self.shapes, self.precisions)

    def _update_weights(self) -> None:
        """Make the M-step of the weights, and set the log odds of the system."""
        least_squares.cg_solve(self._system, self.weights, self._cg_steps)

    def parameters(self, epochs: int) -> dict[str, NDArray[Any]]:
        """Return the parameters of the model, by name."""
        return self._model(self.weights, self.precisions, self._label_counts, self._positives.frequencies())


class ExactEM(EM):
    """`EM` with exact M-steps of the weights, by a Cholesky factorisation for each topic."""

    def __init__(self, problem: Problem, random: np.random.Generator) -> None:
        D = problem.coordinates.feature_count
        if D > MOST_FEATURES:
            raise SettingsError(
                f"inference em factorises a matrix of {D + 1} rows for each topic and supports at most {MOST_FEATURES} "
                "features; use em-cg"
            )
        super().__init__(problem, random)

    def _update_weights(self) -> None:
        least_squares.cholesky_solve(self._system, self._counts - self.shapes, self.weights)
        self._system.set_log_odds(self.weights)
