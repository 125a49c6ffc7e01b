"""Online expectation maximisation for BMLPL: minibatches, with exponentially decayed statistics."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xmlgp.linear_algebra import sparse
from xmlgp.models.bmlpl import least_squares
from xmlgp.models.bmlpl.activations import ActivationSums, polya_gamma_means
from xmlgp.models.bmlpl.counts import Counts, Positives, expected_counts
from xmlgp.models.bmlpl.inference import BMLPLInference, Problem, infer_activations
from xmlgp.models.bmlpl.parameters import initial_values, log_prior_of_topics, update_shapes
from xmlgp.training.minibatches import SeededMinibatches
from xmlgp.training.optimisers import Adam, falling_rate

__all__ = ["OnlineEM"]

#: The weight γ of a minibatch in the statistics is (DELAY + step)^(−DECAY), so that early minibatches are forgotten.
DELAY = 2.0
DECAY = 0.6

#: Adam's learning rate of the weights in the first half of the epochs; then it falls to zero.
LEARNING_RATE = 0.05

#: Sums below this are still zero; shapes are not updated from them.
MINIMUM_SUM = 1e-12


class OnlineEM(BMLPLInference):
    """Approach the maximum of `EM` in small steps; memory does not grow with the number of points.

    Topics come from decayed counts, shapes from decayed sums. The weights follow the gradient of the negative binomial
    likelihood by Adam. [B] 3.2 has decayed matrices Xᵀ Ω X for each topic instead; their memory and time grow with the
    square of the number of features.
    """

    def __init__(self, problem: Problem, random: np.random.Generator) -> None:
        coordinates, labels, settings = problem
        self._coordinates = coordinates
        self._labels = labels
        self._settings = settings
        initial = initial_values(coordinates.feature_count, labels, settings, random)
        self._label_counts, self.weights, self.shapes, self.precisions = initial
        T = len(self.shapes)
        self._minibatches = SeededMinibatches(labels.shape[0], settings.batch_size, settings.seed)
        self.epochs = settings.passes
        self.steps_per_epoch = len(self._minibatches)
        # As many counts as positive labels, so that the first minibatches change their shares and not their scale.
        self._label_counts *= labels.nnz / T
        self._sums = np.zeros((2, T))
        self._adam = Adam({"weights": self.weights})

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that steps change, by name."""
        return {
            "parameters.weights": self.weights,
            "parameters.shapes": self.shapes,
            "counts.labels": self._label_counts,
            "sums": self._sums,
            **{f"optimiser.{name}": value for name, value in self._adam.state.items()},
        }

    def step(self, epoch: int, done: int) -> float:
        """Update with one minibatch; return an estimate of the log posterior before the update."""
        settings = self._settings
        N = self._labels.shape[0]
        rows = self._minibatches.rows(epoch, done)
        design = least_squares.with_intercept(self._coordinates.weighted(rows).sparse)
        present, positives = self._positives_of(rows)
        scale = N / len(rows)
        totals = self._totals()
        topics = (self._label_counts[present] + settings.concentration) / totals
        topics = topics.astype(self.weights.dtype, copy=False)
        log_odds = sparse.product(design, self.weights)
        u, counts, activated = infer_activations(positives, topics, log_odds, self.shapes)
        value = self._log_posterior(
            scale * expected_counts(positives, topics, u).log_likelihood,
            scale * activated.log_prior,
            self._log_prior_of_topics(totals),
        )
        omega = np.empty_like(u)
        residuals = np.empty_like(u)
        polya_gamma_means(counts.by_point, log_odds, self.shapes, omega, residuals)
        gradient = sparse.product(design.T.tocsr(), residuals)
        gradient *= scale
        gradient -= self.precisions[:, None] * self.weights
        number = epoch * self.steps_per_epoch + done
        self._adam.step_count = number
        total = self.epochs * self.steps_per_epoch
        self._adam.step({"weights": self.weights}, {"weights": gradient}, LEARNING_RATE * falling_rate(number / total))
        self._update_statistics(present, counts, activated, scale, (DELAY + number) ** -DECAY)
        return value

    def _positives_of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.integer], Positives]:
        """Return the labels of some points, ascending, and the `Positives` with these labels alone.

        The rows of other labels in the topics are not needed.
        """
        present, labels = sparse.present_columns(self._labels[rows])
        return present, Positives(labels)

    def _totals(self) -> NDArray[np.float64]:
        """Return Σ_k (η + m_kt), T, the normalisers of the topics."""
        totals: NDArray[np.float64] = self._label_counts.sum(axis=0, dtype=np.float64)
        totals += len(self._label_counts) * self._settings.concentration
        return totals

    def _log_prior_of_topics(self, totals: NDArray[np.float64]) -> float:
        """Return η Σ_kt log v_kt, with v_kt = (η + m_kt) / Σ_k (η + m_kt), without an array of all v_kt."""
        eta = self._settings.concentration
        K = len(self._label_counts)
        return log_prior_of_topics(self._label_counts, eta, eta) - eta * K * float(np.log(totals).sum())

    def _update_statistics(
        self, present: NDArray[np.integer], counts: Counts, activated: ActivationSums, scale: float, share: float
    ) -> None:
        """Mix the statistics of a minibatch into the decayed ones, and update the shapes."""
        self._label_counts *= 1 - share
        self._label_counts[present] += share * scale * counts.by_label
        self._sums += share * (scale * np.array(activated[:2]) - self._sums)
        # Both sums contain the same share of the initial zeros, which cancels but for the prior.
        if self._sums[0].min() > MINIMUM_SUM:
            # Half a step on the log scale: the sums belong to earlier shapes, so whole steps could oscillate.
            softplus, digamma = self._sums
            updated = update_shapes(self.shapes, ActivationSums(softplus, digamma, 0.0))
            self.shapes[:] = np.sqrt(self.shapes * updated)

    def parameters(self, epochs: int) -> dict[str, NDArray[Any]]:
        """Return the parameters of the model, by name."""
        frequencies = Positives(self._labels).frequencies()
        return self._model(self.weights, self.precisions, self._label_counts, frequencies)
