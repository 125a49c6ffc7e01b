"""Learning on with a trained BMLPL: EM for further points, with the posterior of the earlier ones as the prior."""

import numpy as np
from scipy.sparse import csr_array

from xmlgp.bmlpl import activations, hyperparameters, learning_prior, least_squares
from xmlgp.bmlpl.counts import expected_counts
from xmlgp.bmlpl.inference import BMLPLInference
from xmlgp.bmlpl.initial import reveal_labels
from xmlgp.bmlpl.positives import Positives, present_labels
from xmlgp.errors import SettingsError
from xmlgp.runtime.progress import silent
from xmlgp.training.loop import Loop
from xmlgp.training.minibatches import SeededMinibatches
from xmlgp.training.trained import Trained

__all__ = ["Learning", "learn"]

#: Iterations for each part of the points, and conjugate gradient steps in each. Twice as many change little.
ITERATIONS, CG_STEPS = 10, 3

#: Alternations between counts and activations of a part before its first iteration.
ROUNDS = 5

#: Most elements of an N×T array. More points are learned in parts, one after the other, so that memory is bounded.
PART_ELEMENTS = 1 << 24


def learn(earlier, features, labels, preprocessed, progress=silent, checkpoints=None):
    """Learn on: return the parameters of a trained model that has seen further points as well.

    See `Model.learn`. The number of topics stays.

    Raises
    ------
    SettingsError
        If the model was trained by Gibbs sampling.
    """
    settings = earlier.settings
    if settings.inference == "gibbs":
        raise SettingsError(
            "a model of Gibbs sampling cannot learn on, because its parameters are means of samples, from which EM "
            "cannot continue; train with inference=em-cg"
        )
    coordinates = preprocessed.inputs(features, settings.dtype)
    # Other random numbers than those of the earlier points.
    labels = reveal_labels(labels, settings.revealed, np.random.default_rng([settings.seed, 1, earlier.N]))
    return Trained(*Loop(Learning, earlier, coordinates, labels).run(progress, checkpoints=checkpoints))


class Learning(BMLPLInference):
    """Maximise log p(V, W, log U, r | Y) of further points, with a prior that stands for the earlier points.

    The steps are those of `EM`; the priors differ:

    - Topic t has a Dirichlet prior of η + m_kt, with the counts of the earlier points (`recover_counts`).
    - Weights have a Gaussian prior around those of the model (`weight_prior`). It is the quadratic lower bound on the
      log posterior of the earlier points at these weights, with an estimated matrix.
    - The shape r_t has a prior Gamma(1 + a_t, b_t) with b_t = 1 + S_t and a_t = r_t b_t, where S_t estimates
      Σ_n log(1 + e^ψ_nt) over earlier points as N/B times the sum over the further ones. Its mode is r_t. In a model
      that has converged, a_t are the table counts r_t Σ_n [Ψ(m_nt + r_t) − Ψ(r_t)] of the earlier points
      (`update_shapes`).

    Points of more than `PART_ELEMENTS` activations are learned in random parts, one after the other: a part's posterior
    is the prior of the next one. Only the labels and features that a part has are touched.
    """

    def __init__(self, earlier, coordinates, labels):
        self._settings, self._coordinates, self._labels = earlier.settings, coordinates, labels
        self._set_grown(earlier)
        size = max(self._settings.batch_size, PART_ELEMENTS // len(self.shapes))
        self._parts = SeededMinibatches(labels.shape[0], size, self._settings.seed)
        self.epochs, self._part = ITERATIONS * len(self._parts), None

    def _set_grown(self, earlier):
        """Set the model's parameters for all features and labels, and what is known of the earlier points."""
        settings, model = self._settings, earlier.parameters
        D, K, T = self._coordinates.feature_count, self._labels.shape[1], len(model["shapes"])
        dtype, frequencies = np.dtype(settings.dtype), model["statistics.labels"]
        self.weights = np.zeros((D + 1, T), dtype)
        self.weights[: earlier.D], self.weights[-1] = model["weights"], model["intercepts"]
        self.shapes = np.array(model["shapes"], dtype)
        self.precisions = np.empty(D + 1, dtype)
        self.precisions[: earlier.D], self.precisions[-1] = model["precisions"], least_squares.INTERCEPT_PRECISION
        self.precisions[earlier.D : -1] = np.median(model["precisions"]) if earlier.D else settings.precision
        self._label_counts = np.zeros((K, T), dtype)
        self._label_counts[: earlier.K] = learning_prior.recover_counts(
            model["topics"], model["shares"], frequencies.sum() * settings.revealed, settings.concentration
        )
        self._frequencies = Positives(self._labels).frequencies()
        self._frequencies[: earlier.K] += frequencies
        #: n_d, the number of earlier points with each feature, and N last.
        self._points = np.zeros(D + 1, np.int64)
        self._points[: earlier.D], self._points[-1] = model["statistics.features"], earlier.N

    def begin(self, epoch):
        """Prepare for a part before its first iteration."""
        part = epoch // ITERATIONS
        if part == self._part or part >= len(self._parts):
            return
        known = self._points.copy()
        for before in range(part):
            features = self._coordinates.weighted(self._parts.rows(0, before))
            known[:-1] += np.bincount(features.indices, minlength=len(known) - 1)
            known[-1] += features.shape[0]
        self._part, rows = part, self._parts.rows(0, part)
        features = self._coordinates.weighted(rows)
        present, indices = np.unique(features.indices, return_inverse=True)
        shape = features.shape[0], len(present)
        features = csr_array((features.data, indices.astype(np.int32), features.indptr), shape=shape)
        #: The part's features, with the intercept, and its labels, which are renumbered.
        self._present = np.append(present, len(self.weights) - 1)
        self._present_labels, self._positives = present_labels(self._labels[rows])
        self._set_prior(features, known[self._present])

    def _set_prior(self, features, known):
        """Set the prior for a part, the system of its points and of the mean of earlier ones, and its first counts."""
        T, dtype = len(self.shapes), self.weights.dtype
        point = learning_prior.mean_point(features, known)
        design = least_squares.Design(learning_prior.with_point(features, point))
        self._system = system = least_squares.LeastSquares(design, T, dtype)
        weights, precisions = self.weights[self._present], self.precisions[self._present]
        self._prior_counts = self._label_counts[self._present_labels]
        self._prior_totals = self._label_counts.sum(axis=0, dtype=np.float64)
        #: m with a last row of zeros for the mean point, and u.
        self._counts = np.zeros((features.shape[0] + 1, T), dtype)
        m, topics = self._counts[:-1], self._topics()
        system.set_log_odds(weights)
        log_odds = system.log_odds[:-1]
        self._activations = activations.prior_mean(log_odds, self.shapes)
        for _ in range(ROUNDS):
            expected_counts(self._positives, topics, self._activations, m)
            activated = activations.expected_activations(m, log_odds, self.shapes, self._activations)
        system.set_tangent(weights, self._counts, self.shapes, precisions)
        self._prior = learning_prior.weight_prior(design, system.omega, known, precisions)
        #: ψ of the mean point at the prior mean of W.
        self._prior_log_odds = system.log_odds[-1].copy()
        system.center = weights
        self._rates = hyperparameters.SHAPE_RATE + activated.softplus * (known[-1] / features.shape[0])
        self._tables = self.shapes * self._rates

    def arrays(self):
        """Return the arrays that steps change, by name."""
        arrays = {
            "parameters.weights": self.weights,
            "parameters.shapes": self.shapes,
            "counts.labels": self._label_counts,
        }
        if self._part is None:
            return arrays
        return arrays | {
            "counts.points": self._counts,
            "prior.weights": self._system.center,
            "prior.log_odds": self._prior_log_odds,
            "prior.precisions": self._prior.precisions,
            "prior.strength": self._prior.strength,
            "prior.counts": self._prior_counts,
            "prior.totals": self._prior_totals,
            "prior.tables": self._tables,
            "prior.rates": self._rates,
        }

    def _topics(self):
        """Return the rows of V of the part's labels."""
        counts = self._label_counts[self._present_labels]
        topics = counts + self._settings.concentration
        topics /= self._totals(counts)
        return topics.astype(self.weights.dtype, copy=False)

    def _totals(self, counts):
        """Return Σ_k (η + m_kt) over all labels, T, given the counts of the part's labels."""
        added = (counts - self._prior_counts).sum(axis=0, dtype=np.float64)
        return self._prior_totals + added + len(self._label_counts) * self._settings.concentration

    def step(self, epoch, done):
        """Make one iteration for a part; return its log posterior, given the shapes before it."""
        system, prior, m = self._system, self._prior, self._counts[:-1]
        weights, topics = self.weights[self._present], self._topics()
        totals = self._totals(self._label_counts[self._present_labels])
        system.set_tangent(weights, self._counts, self.shapes, prior.precisions)
        # The mean point stands for −½ s (ψ − ψ₀)², and has no counts.
        system.omega[-1] = prior.strength
        system.residuals[-1] = prior.strength * (self._prior_log_odds - system.log_odds[-1])
        least_squares.cg_solve(system, weights, CG_STEPS)
        self.weights[self._present] = weights
        activated = activations.expected_activations(m, system.log_odds[:-1], self.shapes, self._activations)
        counts = expected_counts(self._positives, topics, self._activations, m)
        self._label_counts[self._present_labels] = self._prior_counts + counts.by_label
        value = (
            counts.log_likelihood
            + activated.log_prior
            + self._log_prior_of_weights(weights)
            + self._log_prior_of_topics(topics, totals)
            + float(self._tables @ np.log(self.shapes) - self._rates @ self.shapes)
        )
        self.shapes[:] = hyperparameters.update_shapes(self.shapes, activated, self._tables, self._rates)
        return value

    def _log_prior_of_weights(self, weights):
        """Return −½ Σ_dt P_dt δ_dt² − ½ Σ_t s_t (x̄ᵀδ_t)² for the change δ of the weights."""
        change = weights - self._system.center
        distance = self._system.log_odds[-1] - self._prior_log_odds
        total = np.einsum("dt,dt,dt->t", self._prior.precisions, change, change).sum(dtype=np.float64)
        return float(-0.5 * (total + (self._prior.strength * np.square(distance)).sum(dtype=np.float64)))

    def _log_prior_of_topics(self, topics, totals):
        """Return Σ_kt (η + m_kt) log v_kt with the earlier counts m, up to a constant.

        v_kt of labels that the part does not have is a constant divided by the total of the topic.
        """
        eta = self._settings.concentration
        earlier = self._prior_counts + eta
        logarithms = np.log(np.maximum(topics, hyperparameters.TINY))
        absent = self._prior_totals + len(self._label_counts) * eta - earlier.sum(axis=0, dtype=np.float64)
        return float((earlier * logarithms).sum(dtype=np.float64) - absent @ np.log(totals))

    def parameters(self, epochs):
        """Return the parameters of the model, by name."""
        return self._model(self._label_counts, self._frequencies)
