"""Online expectation maximisation: minibatches, of which decayed statistics are all that is kept."""

import numpy as np
from scipy.sparse import csr_array

from xmlgp.bmlpl import activations, hyperparameters, least_squares, start
from xmlgp.bmlpl.counts import expected_counts
from xmlgp.bmlpl.positives import Positives
from xmlgp.bmlpl.topics import topic_shares
from xmlgp.linear_algebra import sparse
from xmlgp.training.inference import Inference
from xmlgp.training.minibatches import epoch_rows
from xmlgp.training.optimisers import Adam
from xmlgp.training.schedules import SCHEDULES

__all__ = ["OnlineEM"]

#: Weight γ of a minibatch in the statistics: (DELAY + step)^(−DECAY), so that early ones are forgotten.
DELAY, DECAY = 2.0, 0.6

#: Rounds between counts and activations of a minibatch, of which nothing is kept from one pass to the next.
ROUNDS = 5

#: Adam's learning rate of the weights, up to half of the passes; then it falls to zero.
LEARNING_RATE = 0.05

#: Statistics below this are none yet.
LEAST = 1e-12


class OnlineEM(Inference):
    """The same maximum as `EM`'s, approached in small steps; memory does not grow with the number of points.

    Topics come from decayed counts, shapes from decayed sums. The weights follow the decayed gradient of the negative
    binomial likelihood (Adam): with decayed matrices Xᵀ Ω X for each topic, as in [B] 3.2, memory and time would grow
    with the square of the number of features.

    Parameters
    ----------
    coordinates : Coordinates
    labels : csr_array of bool, N×K
        Y.
    settings : BMLPLSettings
    random : numpy.random.Generator
    """

    objective = "log_posterior"
    advice = "try another --weighting or --precision"

    def __init__(self, coordinates, labels, settings, random):
        self._coordinates, self._labels, self._settings = coordinates, labels, settings
        begun = start.start(coordinates.feature_count, labels, settings, random)
        self._label_counts, self.weights, self.shapes, self.precisions = begun
        T = len(self.shapes)
        self.epochs, self.steps_per_epoch = settings.passes, -(-labels.shape[0] // settings.batch_size)
        # As many counts as there are labels, so that the first minibatches say how they are shared out, not how many.
        self._label_counts *= labels.nnz / T
        self._sums = np.zeros((2, T))
        self._adam = Adam({"weights": self.weights})
        self._schedule = SCHEDULES["linear"]
        #: The pass whose minibatches are known, and these.
        self._dealt = None

    def arrays(self):
        """Return the arrays that steps change, by name."""
        return {
            "parameters.weights": self.weights,
            "parameters.shapes": self.shapes,
            "counts.labels": self._label_counts,
            "sums": self._sums,
            **{f"optimiser.{name}": value for name, value in self._adam.state.items()},
        }

    def step(self, epoch, done):
        """Take in minibatch `done` of a pass, both counted from 0; return an estimate of the log posterior before."""
        settings, N = self._settings, self._labels.shape[0]
        rows = self._minibatches(epoch)[done]
        design = least_squares.with_intercept(self._coordinates.weighted(rows))
        # Only the labels that some of these points have, numbered anew: of topics the others' part is not looked at.
        present, positives = present_labels(self._labels[rows])
        scale, totals = N / len(rows), self._totals()
        topics = (self._label_counts[present] + settings.concentration) / totals
        topics = topics.astype(self.weights.dtype, copy=False)
        log_odds = sparse.product(design, self.weights)
        u = activations.prior_mean(log_odds, self.shapes)
        for _ in range(ROUNDS):
            counts = expected_counts(positives, topics, u)
            activated = activations.expected_activations(counts.by_point, log_odds, self.shapes, u)
        value = (
            scale * expected_counts(positives, topics, u).log_likelihood
            + scale * activated.log_prior
            + least_squares.log_prior(self.weights, self.precisions)
            + self._log_prior_of_topics(totals)
            - hyperparameters.SHAPE_RATE * float(self.shapes.sum())
        )
        omega, residuals = np.empty_like(u), np.empty_like(u)
        least_squares.polya_gamma_means(design, self.weights, counts.by_point, self.shapes, log_odds, omega, residuals)
        gradient = sparse.product(design.T.tocsr(), residuals)
        gradient *= scale
        gradient -= self.precisions[:, None] * self.weights
        number = epoch * self.steps_per_epoch + done
        self._adam.step_count = number
        total = self.epochs * self.steps_per_epoch
        self._adam.step(
            {"weights": self.weights}, {"weights": gradient}, LEARNING_RATE * self._schedule(number / total)
        )
        self._remember(present, counts, activated, scale, (DELAY + number) ** -DECAY)
        return value

    def _totals(self):
        """Return Σ_k η + m_kt, T, which topics are scaled by."""
        eta, K = self._settings.concentration, len(self._label_counts)
        return self._label_counts.sum(axis=0, dtype=np.float64) + K * eta

    def _log_prior_of_topics(self, totals):
        """Return η Σ_kt log v_kt without an array of all v_kt = (η + m_kt) / Σ_k (η + m_kt)."""
        eta, K = self._settings.concentration, len(self._label_counts)
        return hyperparameters.log_prior_of_topics(self._label_counts, eta, eta) - eta * K * np.log(totals).sum()

    def _minibatches(self, epoch):
        """Return the points of each minibatch of a pass, which the seed and its number alone decide."""
        if self._dealt is None or self._dealt[0] != epoch:
            order = np.random.default_rng([self._settings.seed, 2, epoch])
            self._dealt = epoch, epoch_rows(self._labels.shape[0], self._settings.batch_size, order)
        return self._dealt[1]

    def _remember(self, present, counts, activated, scale, share):
        """Let the statistics of a minibatch take their share of those so far."""
        self._label_counts *= 1 - share
        self._label_counts[present] += share * scale * counts.by_label
        self._sums += share * (scale * np.array(activated[:2]) - self._sums)
        # The share of the zeros that the sums began from is the same in both, and cancels where there is no prior.
        if self._sums[0].min() > LEAST:
            # Half of the way, by logarithms: the sums are of other shapes, and whole steps could swing ever further.
            after = hyperparameters.update_shapes(self.shapes, activations.ActivationSums(*self._sums, 0.0))
            self.shapes[:] = np.sqrt(self.shapes * after)

    def parameters(self, epochs):
        """Return the parameters of the model, by their names."""
        return {
            "topics": hyperparameters.update_topics(self._label_counts.copy(), self._settings.concentration),
            "weights": self.weights[:-1],
            "intercepts": self.weights[-1],
            "shapes": self.shapes,
            "precisions": self.precisions[:-1],
            "shares": topic_shares(self._label_counts, Positives(self._labels).frequencies()),
        }


def present_labels(labels):
    """Return the labels that some points have, ascending, and these positives with the labels numbered among them.

    Parameters
    ----------
    labels : csr_array of bool, B×K
    """
    present, indices = np.unique(labels.indices, return_inverse=True)
    shape = labels.shape[0], len(present)
    return present, Positives(csr_array((labels.data, indices.astype(np.int32), labels.indptr), shape=shape))
