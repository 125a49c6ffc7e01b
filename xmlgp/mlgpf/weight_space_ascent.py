"""Training of MLGPF in weight space: stochastic ascent for T, Φ and b, then closed-form updates of W."""

import numpy as np

from xmlgp.data.dataset import consecutive_rows
from xmlgp.gp.label_weight_updates import update_prior_variances
from xmlgp.gp.label_weights import initial_label_weights, used_by_default
from xmlgp.linear_algebra import sparse
from xmlgp.mlgpf.held_out import calibration_points, without_labels_of
from xmlgp.mlgpf.stochastic import StochasticAscent
from xmlgp.mlgpf.sweep import (
    POINT_BLOCK,
    ScaledPrior,
    Sweep,
    label_blocks,
    point_blocks,
    prior_scales,
    sampled_points,
    shortlist_length,
)
from xmlgp.training.inference import Inference
from xmlgp.work import THIS_MACHINE

__all__ = ["WeightSpaceAscent", "sweep_count"]

#: Sweeps over the labels. The first has shortlists by Φ h alone, the second by Φ h + W x. With more pairs of points and
#: labels than the limit there is no second one, which gains little and whose shortlists would take most of the time.
SWEEPS, SECOND_SWEEP_LIMIT = 2, 10**11

#: Updates of ξ in a sweep, and in the one that adds the held-out points. More of them do not change precision.
ROUNDS, LAST_ROUNDS = 2, 1

#: How long operations take relative to a multiplication of a stochastic step, measured with 4,000 to 60,000 labels. The
#: first is for a point and a label, beside multiplications; the next for a multiplication for the shortlists of the
#: first and of later sweeps; the last for a pair and a byte of its features, in the updates of label weights.
PAIR_COST, LIST_COSTS, UPDATE_COST = 100, (0.5, 0.85), 90

#: Points whose latent functions are a block of work.
LATENT_BLOCK = 1 << 15

#: Label weights that sweeps change.
MOVING = ("mean", "log_variance", "log_prior")


class WeightSpaceAscent(Inference):
    """Maximise the bound over T, Φ and b by stochastic steps, then over q(W) label by label.

    The epochs of the first part are those of `StochasticAscent`. Each epoch of the second part finds a shortlist of
    negatives for every point, updates the weights of every label (`xmlgp.gp.label_weight_updates`), and then the prior
    variances τ; those of rare labels are larger (`prior_scales`). The latent functions have a share of their means (see
    `Sweep`), and no variance, because the bound of Jaakkola and Jordan is loose for uncertain utilities. The bound in
    the history is then that one, given these offsets and estimated from stratified pairs.

    The points of `calibration_points` are held out until then. A last, shorter sweep is over all points, with the
    shortlists of the one before. Without label weights there is none, and nothing is trained on these points.

    Parameters
    ----------
    model, coordinates, labels, learning_rate
        As for `StochasticAscent`.
    work : ThisMachine or DaskCluster
        Computes the sweeps; the stochastic steps are made here.
    """

    advice = StochasticAscent.advice
    advice_at_start = StochasticAscent.advice_at_start

    def __init__(self, model, coordinates, labels, work=THIS_MACHINE, learning_rate=None):
        settings, self._work = model.settings, work
        self._trained, self._held = calibration_points(settings, labels)
        part = (coordinates.select(self._trained), labels[self._trained]) if len(self._held) else (coordinates, labels)
        self._factors = StochasticAscent(model, *part, None, learning_rate)
        self.random = self._factors.random
        self._settings = settings
        self._seed, self._labels, self._coordinates = settings.seed, labels, coordinates
        N, K = labels.shape
        sweeps = sweep_count(settings, N, coordinates.feature_count, K)
        self.equal_steps = not sweeps
        #: Blocks of points, in each sweep, whose shortlists are found.
        self._point_blocks = [point_blocks(N)] * sweeps
        if sweeps and len(self._held):
            self._point_blocks.append(np.split(self._held, range(POINT_BLOCK, len(self._held), POINT_BLOCK)))
        self.epochs = self._factors.epochs + len(self._point_blocks)
        #: Φ and b, which steps change.
        moving = self._factors.arrays()
        self._parameters = {name: moving[f"parameters.{name}"] for name in ("loadings", "bias")}
        self._weights = {}
        self._label_blocks = label_blocks(K)
        self._sweep = None
        #: Means of the latent functions, made for the first sweep.
        self._latent = None
        #: ρ of the prior of W in the current sweep.
        self._scales = None

    def place(self, epoch):
        """Return the number of the epoch, and that of the sweep."""
        epochs = self._factors.epochs
        if epoch < epochs:
            return {"epoch": f"{epoch + 1}/{epochs}"}
        return {"epoch": f"{epochs}/{epochs}", "sweep": f"{epoch - epochs + 1}/{self.epochs - epochs}"}

    def begin(self, epoch):
        """Before the first sweep, free what only stochastic steps need and make the initial label weights."""
        if epoch < self._factors.epochs or self._weights:
            return
        self._factors.free()
        self._features = self._coordinates.weighted(slice(None))
        bias, dtype, (N, K) = self._parameters["bias"], self._coordinates.dtype, self._labels.shape
        self._weights = initial_label_weights(self._features, self._labels, bias, dtype)
        self._shortlist = np.full((N, shortlist_length(N, K)), -1, np.int32)

    def steps_in(self, epoch):
        """Return the number of minibatches of an epoch of the first part, or of blocks of points and labels."""
        if epoch < self._factors.epochs:
            return self._factors.steps_in(epoch)
        return len(self._point_blocks[epoch - self._factors.epochs]) + len(self._label_blocks)

    def cost(self, epoch, done):
        """Return the time of a step in multiplications; see `PAIR_COST`."""
        (N, K), settings, sweep = self._labels.shape, self._settings, epoch - self._factors.epochs
        if sweep < 0:
            points = N / self.steps_in(epoch)
            # All points of a minibatch share its labels.
            count = settings.label_sample + points * self._labels.nnz / N
            return points * min(K, count) * (3 * settings.factor_count + PAIR_COST)
        blocks = self._point_blocks[sweep]
        if done < len(blocks):
            count = len(range(N)[blocks[done]]) if isinstance(blocks[done], slice) else len(blocks[done])
            return LIST_COSTS[min(sweep, 1)] * count * K * (settings.factor_count + PAIR_COST)
        first, last = self._label_blocks[done - len(blocks)]
        pairs = (last - first) * (sampled_points(K) + (self._labels.nnz + N * shortlist_length(N, K)) / K)
        return self._rounds(sweep) / ROUNDS * UPDATE_COST * pairs * self._coordinates.row_bytes

    def step(self, epoch, done):
        """Make one step; in a sweep, list the negatives of a block of points or update a block of labels."""
        if epoch < self._factors.epochs:
            return self._factors.step(epoch, done)
        number = epoch - self._factors.epochs
        if self._sweep is None or self._sweep.number != number:
            held = self._held[:0] if self._is_last(number) else self._held
            self._sweep = self._make_sweep(number, held)
        blocks = self._point_blocks[number]
        if done < len(blocks):
            self._sweep.list_negatives(blocks[done])
            return None
        block = done - len(blocks)
        bounds = self._sweep.update_weights(*self._label_blocks[block], self._rounds(number))
        # The last sweep adds points, and has the prior of the one before: a further update would widen it.
        if block == len(self._label_blocks) - 1 and not self._is_last(number + 1):
            update_prior_variances(self._weights, self._scales)
        return float(bounds.sum()) * len(self._label_blocks)

    def _make_sweep(self, number, held):
        """Return a `Sweep`; the first ignores W in utilities."""
        seen = without_labels_of(self._labels, held) if len(held) else self._labels
        parameters, weights = self._parameters, self._weights
        self._scales = prior_scales(np.bincount(seen.indices, minlength=seen.shape[1]), parameters["loadings"].dtype)
        if self._latent is None:
            self._latent = self._latent_functions()
        if self._sweep is not None:
            self._sweep.close()
        return Sweep(
            self._work,
            number,
            self._seed,
            self._features,
            seen,
            self._latent,
            parameters,
            weights,
            self._shortlist,
            ScaledPrior(self._scales),
            self._point_blocks[number],
            self._label_blocks,
            held=held,
            with_weights=number > 0,
        )

    def _latent_functions(self):
        """Return the means of the latent functions of all points, N×P, which sweeps do not change."""
        mean = self._factors.parameters(0)["latent_weights.mean"]
        N = self._features.shape[0]
        latent = self._work.empty((N, mean.shape[1]), mean.dtype)
        blocks = [slice(start, min(start + LATENT_BLOCK, N)) for start in range(0, N, LATENT_BLOCK)]
        parts = self._work.map(_latent_means, ((rows,) for rows in blocks), (self._features, mean))
        for rows, part in zip(blocks, parts, strict=True):
            latent[rows] = part
        return latent

    def _is_last(self, sweep):
        """Return whether a sweep is the one that adds the held-out points."""
        return len(self._held) > 0 and sweep == len(self._point_blocks) - 1

    def _rounds(self, sweep):
        return LAST_ROUNDS if self._is_last(sweep) else ROUNDS

    def arrays(self):
        """Return the arrays that steps change, by name."""
        arrays = self._factors.arrays()
        if self._weights:
            arrays |= {f"parameters.label_weights.{name}": self._weights[f"label_weights.{name}"] for name in MOVING}
            arrays["shortlist"] = self._shortlist
        return arrays

    def parameters(self, epochs):
        """Return the parameters by name; steps may change these arrays. The first part has no label weights."""
        return self._factors.parameters(epochs) | (self._weights if epochs > self._factors.epochs else {})

    def notes(self):
        """Return the notes of `StochasticAscent`, and the number of the sweep, counted from 1."""
        return self._factors.notes() | ({"sweep": self._sweep.number + 1} if self._sweep else {})


def _latent_means(shared, rows):
    features, mean = shared
    return sparse.product(consecutive_rows(features, rows), mean)


def sweep_count(settings, N, D, K):
    """Return the number of sweeps over the labels; 0 without label weights.

    Parameters
    ----------
    settings : MLGPFSettings
        In weight space.
    N, D, K : int
    """
    wanted = settings.label_weights
    if wanted is None:
        wanted = used_by_default(D, settings.factor_count)
    if not wanted:
        return 0
    return SWEEPS if N * K <= SECOND_SWEEP_LIMIT else 1
