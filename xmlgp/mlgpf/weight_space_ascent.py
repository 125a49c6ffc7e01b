"""Training of MLGPF in weight space: stochastic ascent for T, Φ and b, then closed-form updates of W."""

import numpy as np
import scipy.sparse as sp

from xmlgp.gp.label_weight_updates import update_label_weights, update_prior_variances
from xmlgp.gp.label_weights import initial_label_weights, used_by_default
from xmlgp.linear_algebra import sparse
from xmlgp.mlgpf.label_pairs import StratifiedPairs, Utilities, pairs_with_offsets, shortlist_negatives
from xmlgp.mlgpf.stochastic import StochasticAscent
from xmlgp.training.inference import Inference

__all__ = ["WeightSpaceAscent"]

#: Sweeps over the labels. The first has shortlists by Φ h alone, the second by Φ h + W x.
SWEEPS = 2

#: Negatives on the shortlist of a point, and points sampled for a label beside those that list it.
SHORTLIST, SAMPLED = 30, 20

#: Updates of ξ in a sweep, and conjugate gradient steps in each.
ROUNDS, CG_STEPS = 4, 4

#: Points whose shortlist is found in a step, and labels whose weights are updated in a step.
POINT_BLOCK, LABEL_BLOCK = 1 << 13, 1 << 9


class WeightSpaceAscent(Inference):
    """Maximise the bound over T, Φ and b by stochastic steps, then over q(W) label by label.

    The epochs of the first part are those of `StochasticAscent`. Each epoch of the second part finds a shortlist of
    negatives for every point, updates the weights of every label (`xmlgp.gp.label_weight_updates`), and then the prior
    variances τ. There the latent functions have their means, because the bound of Jaakkola and Jordan is loose for
    uncertain utilities. The bound in the history is then that one, given these means and estimated from stratified
    pairs.

    Parameters
    ----------
    model, coordinates, labels, inducing, learning_rate
        As for `StochasticAscent`; the inducing inputs are not used.
    """

    advice = StochasticAscent.advice
    advice_at_start = StochasticAscent.advice_at_start

    def __init__(self, model, coordinates, labels, inducing, learning_rate=None):
        settings = model.settings
        self._factors = StochasticAscent(model, coordinates, labels, inducing, learning_rate)
        self.random = self._factors.random
        self._settings, self._labels = settings, labels
        self._features = coordinates.weighted(slice(None))
        N, K = labels.shape
        wanted = settings.label_weights
        if wanted is None:
            wanted = used_by_default(coordinates.feature_count, settings.factors)
        self._sweeps = SWEEPS if wanted else 0
        self.epochs = self._factors.epochs + self._sweeps
        self._parameters = self._factors.parameters(0)
        self._weights = {}
        if wanted:
            bias = self._parameters["bias"]
            self._weights = initial_label_weights(self._features, labels, bias, coordinates.dtype)
            available = K - int(np.diff(labels.indptr).max(initial=0))
            self._shortlist = np.zeros((N, max(0, min(SHORTLIST, available))), np.int32)
        self._point_blocks = [slice(start, min(start + POINT_BLOCK, N)) for start in range(0, N, POINT_BLOCK)]
        self._label_blocks = [(start, min(start + LABEL_BLOCK, K)) for start in range(0, K, LABEL_BLOCK)]
        #: The sweep whose means of the latent functions are known, and these; the same for utilities and pairs.
        self._latent = self._utilities = self._pairs = None, None

    def steps_in(self, epoch):
        """Return the number of minibatches of an epoch of the first part, or of blocks of points and labels."""
        if epoch < self._factors.epochs:
            return self._factors.steps_in(epoch)
        return len(self._point_blocks) + len(self._label_blocks)

    def step(self, epoch, done):
        """Make one step; in a sweep, list the negatives of a block of points or update a block of labels."""
        if epoch < self._factors.epochs:
            return self._factors.step(epoch, done)
        sweep = epoch - self._factors.epochs
        if done < len(self._point_blocks):
            # With few labels, some point may have no negatives.
            if self._shortlist.shape[1]:
                self._list_negatives(sweep, self._point_blocks[done])
            return None
        block = done - len(self._point_blocks)
        value = self._update_weights(sweep, *self._label_blocks[block])
        if block == len(self._label_blocks) - 1:
            update_prior_variances(self._weights)
        return value

    def _list_negatives(self, sweep, rows):
        if self._utilities[0] != sweep:
            weights = means_of(self._weights, self._features.shape[1]) if sweep else None
            latent = self._latent_means(sweep)
            loadings, bias = self._parameters["loadings"], self._parameters["bias"]
            self._utilities = sweep, Utilities(latent, self._features, loadings, bias, weights)
        shortlist_negatives(self._utilities[1], self._labels, rows, self._shortlist[rows])

    def _update_weights(self, sweep, first, last):
        if self._pairs[0] != sweep:
            seed = [self._settings.seed, 3, sweep]
            self._pairs = sweep, StratifiedPairs(self._labels, self._shortlist, SAMPLED, seed)
        loadings, bias = self._parameters["loadings"], self._parameters["bias"]
        pairs = self._pairs[1].of(first, last)
        pairs = pairs_with_offsets(pairs, first, self._latent_means(sweep), loadings, bias)
        bounds = update_label_weights(pairs, first, self._features, self._weights, ROUNDS, CG_STEPS)
        return float(bounds.sum()) * len(self._label_blocks)

    def _latent_means(self, sweep):
        if self._latent[0] != sweep:
            self._latent = sweep, sparse.product(self._features, self._parameters["latent_weights.mean"])
        return self._latent[1]

    def arrays(self):
        """Return the arrays that steps change, by name."""
        arrays = self._factors.arrays()
        if self._weights:
            arrays |= {f"parameters.label_weights.{name}": self._weights[f"label_weights.{name}"] for name in MOVING}
            arrays["shortlist"] = self._shortlist
        return arrays

    def parameters(self, epochs):
        """Return the parameters by name; steps change these arrays. The first part has no label weights."""
        return self._parameters | (self._weights if epochs > self._factors.epochs else {})

    def notes(self):
        """Return the notes of `StochasticAscent`."""
        return self._factors.notes()


#: Label weights that sweeps change.
MOVING = ("mean", "log_variance", "log_prior")


def means_of(weights, feature_count):
    """Return the means of W as a csc_array, K×D."""
    indptr, columns, mean = (weights[f"label_weights.{name}"] for name in ("indptr", "features", "mean"))
    return sp.csr_array((mean, columns, indptr), shape=(len(indptr) - 1, feature_count)).tocsc()
