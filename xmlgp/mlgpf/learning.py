"""Learning on: MLGPF with new points, labels and features, where the posterior of what it knows is the prior."""

import numpy as np
import scipy.sparse as sp

from xmlgp.errors import SettingsError
from xmlgp.gp.exact_gp import add_points, scaled_features
from xmlgp.gp.label_weights import (
    PRIOR_VARIANCE,
    WEIGHTS_LIMIT,
    has_label_weights,
    label_features,
    put_labels,
    take_labels,
)
from xmlgp.gp.likelihood import IndexedRows
from xmlgp.gp.posteriors import Unwhitened
from xmlgp.gp.weight_space import POSTERIOR, PRIOR, WeightSpace
from xmlgp.linear_algebra import sparse
from xmlgp.mlgpf.stochastic import BOUND_EVERY, default_rate, optimiser_of
from xmlgp.mlgpf.sweep import (
    OFFSET_SHARE,
    MeanPoint,
    Sweep,
    label_blocks,
    point_blocks,
    prior_scales,
    shortlist_length,
)
from xmlgp.mlgpf.train import REGRESSION_RANK, regression_parameters
from xmlgp.mlgpf.weight_space import VARIANCE_START, make_model
from xmlgp.preprocess.growth import with_columns
from xmlgp.preprocess.inputs import Inputs
from xmlgp.runtime.progress import silent
from xmlgp.training.inference import Inference
from xmlgp.training.loop import Loop
from xmlgp.training.minibatches import SAMPLERS, LabelSampler, SeededMinibatches, make_batch
from xmlgp.training.schedules import SCHEDULES
from xmlgp.training.statistics import STATISTICS, added, older_model, statistics_of
from xmlgp.training.trained import Trained
from xmlgp.work import THIS_MACHINE

__all__ = ["LearningAscent", "learn"]

#: Stochastic steps for the latent functions, in weight space and otherwise, and the least number of passes.
STEPS_IN_WEIGHT_SPACE, STEPS, LEAST_EPOCHS = 300, 60, 4

#: Loadings of a new label move if the batch has so many points without it. Otherwise nothing would keep them from
#: raising the utility of the label for all points.
LEAST_NEGATIVES = 20

#: Learning rate of these steps relative to that of training: they start near where they end.
RATE_SHARE = 0.5

#: Mean curvature of the negative log likelihood of a point by one weight t_dp of each feature that it has. From 0.03 to
#: 0.1 the test points of a data set with 28,164 labels are ranked equally well after two batches.
CURVATURE = 0.05

#: Updates of ξ in the sweep over the labels of the batch. There is one sweep where training has two.
ROUNDS = 4

#: Parameters with a row for each label and for each feature, and what those of a new feature are if not
#: zero. Relevances, scales and prior variances are those from before training.
BY_LABEL = {"loadings", "bias", "regression.loadings", "regression.mean"}
BY_FEATURE = {*POSTERIOR, PRIOR, "label_weights.log_prior", "regression.scales"}
FILLS = {"regression.scales": 1.0, "label_weights.log_prior": np.log(PRIOR_VARIANCE)}

#: Label weights that the sweep changes.
MOVING = ("label_weights.mean", "label_weights.log_variance")


def learn(earlier, features, labels, preprocessed, progress=silent, checkpoints=None):
    """Learn on: the posterior of what a trained MLGPF knows is the prior of what a batch of points says.

    The bound that is maximised is that of training over the points of the batch, with KL[q(u) ‖ q₀(u)] and
    KL[q(W) ‖ q₀(W)] in place of the divergences from the priors, for the labels that points of the batch have; q₀ is
    the posterior in the model. Kernel, inducing inputs and the loadings of known labels have no posterior and stay, and
    so does the calibration. The bias of each label changes as the log odds of its frequency. New labels get loadings
    and label weights, new features weights. A regression on all points gets the new ones
    (`xmlgp.gp.exact_gp.add_points`).

    Parameters
    ----------
    earlier : Earlier
    features : csr_array, n×D
        X of the batch as read; D may be larger than that of the model.
    labels : csr_array of bool, n×K
        Y of the batch; K may be larger than that of the model.
    preprocessed : Preprocessed
        With the weighting of all points so far and D features.
    progress : callable
        See `xmlgp.runtime.progress`.
    checkpoints : CheckpointWriter, optional
        Writes checkpoints, and holds the one to resume from.

    Returns
    -------
    Trained
        The history is that of this batch.

    Raises
    ------
    SettingsError
        If the model is one of an older xmlgp that lacks what learning on needs.
    TrainingDiverged
        If the bound or a parameter becomes non-finite.
    ModelFolderError
        If the checkpoint is damaged.
    """
    _check(earlier)
    settings = earlier.settings
    batch = statistics_of(features, labels)
    grown = _grown(earlier, batch, features.shape[0])
    coordinates = preprocessed.inputs(features, settings.dtype)
    history = []
    if labels.nnz:
        loop = Loop(LearningAscent, make_model(settings), coordinates, labels, grown, earlier)
        _, history = loop.run(progress, None, checkpoints)
        grown = loop.inference.put_back()
    if "regression.weights" in grown and features.shape[0]:
        grown |= _regression(grown, earlier, coordinates.weighted(slice(None)), labels, preprocessed)
    return Trained(grown, history)


def _check(earlier):
    """Raise SettingsError if the model lacks what learning on needs."""
    parameters = earlier.parameters
    if "regression.weights" in parameters and "regression.labels" not in parameters:
        raise older_model("regression.labels")
    if isinstance(make_model(earlier.settings).posterior_of(parameters), Unwhitened):
        raise older_model("posterior.whitened_mean")
    if has_label_weights(parameters) and not earlier.settings.in_weight_space:
        raise SettingsError(
            "the model was trained by an older xmlgp and has label weights beside inducing inputs, so it cannot learn "
            "on; train it again"
        )


def _grown(earlier, batch, count):
    """Return the parameters with room for new labels and features, and with the biases of all points so far.

    Parameters
    ----------
    earlier : Earlier
    batch : mapping of str to ndarray
        Statistics of the `count` points of the batch.
    count : int
    """
    old, found = earlier.parameters, {}
    K, D = (len(batch[name]) for name in STATISTICS)
    # A subspace may have as many dimensions as there were features.
    by_feature = earlier.preprocessed.basis is None
    for name, value in old.items():
        fill = FILLS.get(name, 0.0)
        if name in BY_LABEL:
            found[name] = _with_rows(value, K, 0.0)
        elif name in BY_FEATURE or (name.endswith("log_relevance") and by_feature):
            found[name] = _with_rows(value, D, fill)
        else:
            found[name] = value
    if "inducing" in old and by_feature and D > earlier.D:
        found["inducing"] = np.asfortranarray(with_columns(old["inducing"], D))
    if has_label_weights(old):
        indptr = old["label_weights.indptr"]
        found["label_weights.indptr"] = np.append(indptr, np.full(K - earlier.K, indptr[-1]))
    found |= added(old, batch)
    before = np.zeros(K, np.int64)
    before[: earlier.K] = old["statistics.labels"]
    change = _log_odds(found["statistics.labels"], earlier.N + count)
    change[: earlier.K] -= _log_odds(before[: earlier.K], earlier.N)
    found["bias"] = (found["bias"] + change).astype(old["bias"].dtype)
    return found


def _with_rows(array, count, fill):
    if len(array) == count:
        return array
    return np.concatenate([array, np.full((count - len(array), *array.shape[1:]), fill, array.dtype)])


def _log_odds(counts, N):
    """Return the log odds of label frequencies, with half a count on either side, as before training."""
    return np.log((counts + 0.5) / (N + 0.5 - counts))


def _regression(parameters, earlier, features, labels, preprocessed):
    """Return the parameters of the regression with the points of the batch.

    Parameters
    ----------
    parameters : mapping of str to ndarray
        With room for new labels and features.
    earlier : Earlier
    features : csr_array, n×D
        Weighted, of the batch.
    labels : csr_array, n×K
    preprocessed : Preprocessed
    """
    arrays = {name.partition(".")[2]: value for name, value in parameters.items() if name.startswith("regression.")}
    (D, K), count = (features.shape[1], labels.shape[1]), len(arrays["weights"])
    values = arrays["values"]
    before, now = earlier.preprocessed.weighting, preprocessed.weighting
    old = sp.csr_array((values, arrays["indices"], arrays["indptr"]), shape=(count, D))
    if now.idf is not None:
        ratio = np.ones(D, np.float32)
        ratio[: earlier.D] = now.idf[: earlier.D] / before.idf
        # Points keep their length, so this is the weighting of today.
        old = scaled_features(old, ratio)
    new = scaled_features(features, arrays["scales"]) if "scales" in arrays else features.astype(np.float32)
    known = sp.csr_array(
        (np.ones(len(arrays["labels"]), bool), arrays["labels"], arrays["label_indptr"]), shape=(count, K)
    )
    points, all_labels = (sp.csr_array(sp.vstack(parts, "csr")) for parts in ((old, new), (known, labels)))
    seed = [earlier.settings.seed, 6, earlier.N]
    found = add_points(points, all_labels, arrays["weights"], arrays["loadings"], count, REGRESSION_RANK, seed)
    return regression_parameters(points, all_labels, found)


class LearningAscent(Inference):
    """Maximise the bound of a batch: stochastic steps for the latent functions, then one sweep over its labels.

    Only the labels of the batch are used, so the cost depends on the batch and on the weights of these labels. The
    stochastic steps move q(u), or q(t) of the features of the batch in weight space, and the loadings of labels of
    which the batch has at least as many points as came before, and `LEAST_NEGATIVES` without. The sweep, in weight
    space, moves the label weights, if the model has them. In it the mean of the earlier points stands for these
    (`MeanPoint`).

    Parameters
    ----------
    model : MLGPF
    coordinates : Inputs
        Of the n points.
    labels : csr_array, n×K
        Y.
    parameters : mapping of str to ndarray
        With room for new labels and features.
    earlier : Earlier
    """

    advice = "train again on all points"

    def __init__(self, model, coordinates, labels, parameters, earlier):
        settings, self._whole = model.settings, parameters
        #: How many points came before; what is drawn depends on it.
        self._settings, self._earlier = settings, earlier.N
        self._features = coordinates.weighted(slice(None))
        counts = np.bincount(labels.indices, minlength=labels.shape[1])
        #: Labels of the batch, and Y of these.
        self._present = np.flatnonzero(counts)
        self._labels = sp.csr_array(labels[:, self._present])
        before = parameters["statistics.labels"][self._present] - counts[self._present]
        #: Labels whose loadings move, of those of the batch.
        lacking = labels.shape[0] - counts[self._present]
        self._free = (before <= counts[self._present]) & (lacking >= LEAST_NEGATIVES)
        self._known = before > 0
        chosen = {name: parameters[name][self._present] for name in ("loadings", "bias")}
        # What a label without points has was drawn at random.
        chosen["loadings"][before == 0] = 0
        if settings.in_weight_space:
            self._used, coordinates, latent, whitened = _of_used_features(self._features, parameters)
            steps = STEPS_IN_WEIGHT_SPACE
        else:
            latent = {name: parameters[name] for name in model.parameter_names(parameters) if name not in chosen}
            steps = STEPS
        self._coordinates = coordinates
        self._bound = model.learning_bound(coordinates, latent)
        if settings.in_weight_space:
            latent = whitened
        moving = [name for name in latent if name not in self._bound.fixed]
        self._moving = {name: np.array(latent[name], order="K") for name in moving}
        self._moving["loadings"] = chosen["loadings"]
        self._parameters = latent | chosen | self._moving
        self._weighted = has_label_weights(parameters)
        if self._weighted:
            scales = prior_scales(parameters["statistics.labels"][self._present], settings.dtype)
            room = max(len(self._present), WEIGHTS_LIMIT - len(parameters["label_weights.mean"]))
            pattern = label_features(self._features, self._labels, room)
            self._weights, self._prior = take_labels(parameters, self._present, pattern, scales)
        n, L = self._labels.shape
        self._minibatches = SeededMinibatches(n, settings.batch_size, settings.seed)
        self._steps = max(steps, LEAST_EPOCHS * len(self._minibatches))
        self._optimiser = optimiser_of(settings)(self._moving)
        self._schedule, self._sampler = SCHEDULES["linear"], SAMPLERS[settings.sampling](self._labels)
        self._label_sampler = LabelSampler(self._labels, settings.label_sample) if settings.in_weight_space else None
        self._point_blocks, self._label_blocks = point_blocks(n), label_blocks(L)
        self.epochs = 1 + self._weighted
        #: Made for the sweep.
        self._shortlist = None

    def begin(self, epoch):
        """Before the sweep, free the optimiser and make what the sweep needs."""
        if epoch == 0:
            return
        self._optimiser.state.clear()
        n, L = self._labels.shape
        self._shortlist = np.full((n, shortlist_length(n, L)), -1, np.int32)
        # The last row stands for the earlier points, in the features that the batch has.
        self._rows = sp.csr_array(sp.vstack([self._features, self._mean_features()], "csr"))
        #: Made at the first step: a resumed run fills arrays after it begins an epoch.
        self._sweep = None

    def _make_sweep(self):
        latent = self._latent()
        return Sweep(
            THIS_MACHINE,
            0,
            self._settings.seed,
            self._rows,
            self._labels,
            latent,
            self._parameters,
            self._weights,
            self._shortlist,
            self._prior,
            self._point_blocks,
            self._label_blocks,
            mean_point=self._mean_point(latent),
        )

    def _latent(self):
        """Return the means of the latent functions at the rows of the sweep, (n+1)×P."""
        used = sp.csr_array(self._rows[:, self._used])
        return sparse.product(used, self._trained()["latent_weights.mean"])

    def _trained(self):
        """Return the parameters with q(t) in place of q(u), for the features of the batch."""
        latent = self._bound.latent.posterior(self._parameters) if self._settings.in_weight_space else {}
        return self._parameters | latent

    def _mean_point(self, latent):
        """Return the `MeanPoint`, with the label weights from before the sweep."""
        indptr, columns = (self._weights[f"label_weights.{name}"] for name in ("indptr", "features"))
        before = sp.csr_array((self._prior.mean, columns, indptr), shape=(len(indptr) - 1, self._rows.shape[1]))
        loadings, bias = self._parameters["loadings"], self._parameters["bias"]
        own = (before @ self._rows[-1:].T).toarray().ravel()
        return MeanPoint.of(bias + OFFSET_SHARE * (loadings @ latent[-1]) + own, self._earlier, self._known)

    def _mean_features(self):
        """Return the mean of the earlier points, 1×D, estimated from their document frequencies and from the batch."""
        X = self._features
        counts = np.bincount(X.indices, minlength=X.shape[1])
        sums = np.bincount(X.indices, X.data, X.shape[1])
        earlier = self._whole["statistics.features"] - counts
        mean = sums * earlier / (np.maximum(counts, 1) * max(1, self._earlier))
        return sp.csr_array(mean[None].astype(X.dtype))

    def steps_in(self, epoch):
        """Return the number of stochastic steps, or of blocks of points and labels in the sweep."""
        return len(self._point_blocks) + len(self._label_blocks) if epoch else self._steps

    def step(self, epoch, done):
        """Make one step; in the sweep, list the negatives of a block of points or update a block of labels."""
        if epoch == 0:
            return self._stochastic_step(done)
        if self._sweep is None:
            self._sweep = self._make_sweep()
        blocks = self._point_blocks
        if done < len(blocks):
            self._sweep.list_negatives(blocks[done])
            return None
        bounds = self._sweep.update_weights(*self._label_blocks[done - len(blocks)], ROUNDS)
        return float(bounds.sum()) * len(self._label_blocks)

    def _stochastic_step(self, number):
        settings = self._settings
        rows = self._minibatches.rows(*divmod(number, len(self._minibatches)))
        # Drawn anew for each step, so that there is no state to be kept.
        random = np.random.default_rng([settings.seed, 5, self._earlier, number])
        negatives = None if settings.in_weight_space else settings.negatives
        batch = make_batch(self._coordinates, self._labels, rows, negatives, random, self._sampler)
        if self._label_sampler is not None:
            sample = self._label_sampler.sample(batch.labels, random, self._coordinates.dtype)
            batch = batch._replace(sample=sample)
        wanted = number % BOUND_EVERY == 0
        value, gradients = self._bound.value_and_gradients(self._parameters, batch, wanted, for_step=True)
        gradients = {name: gradient for name, gradient in gradients.items() if name in self._moving}
        gradients["loadings"] = _masked(gradients["loadings"], self._free)
        self._optimiser.step_count = number
        rate = RATE_SHARE * default_rate(settings) * self._schedule(number / self._steps)
        self._optimiser.step(self._moving, gradients, rate)
        return value

    def arrays(self):
        """Return the arrays that steps change, by name."""
        arrays = {f"parameters.{name}": value for name, value in self._moving.items()}
        arrays |= {f"optimiser.{name}": value for name, value in self._optimiser.state.items()}
        if self._weighted:
            arrays |= {f"parameters.{name}": self._weights[name] for name in MOVING}
            if self._shortlist is not None:
                arrays["shortlist"] = self._shortlist
        return arrays

    def parameters(self, epochs):
        """Return the parameters that were moved, by name."""
        return self._moving | (self._weights if self._weighted else {})

    def put_back(self):
        """Return the parameters of the whole model, with what was learned."""
        found = dict(self._whole)
        trained = self._trained()
        latent = POSTERIOR if self._settings.in_weight_space else [name for name in self._moving if name != "loadings"]
        for name in (*latent, "loadings"):
            value = trained[name]
            rows = self._present if name == "loadings" else self._used if self._settings.in_weight_space else None
            if rows is not None:
                value, moved = self._whole[name].copy(), value
                value[rows] = moved
            found[name] = value
        return put_labels(found, self._present, self._weights) if self._weighted else found


def _of_used_features(features, parameters):
    """Return the features that points have, their coordinates, and the parameters in weight space of these features.

    The prior is N(r, a) with r the means of the posterior so far, and with the variances that n_d earlier points with a
    feature imply, 1/a = 1/a_d + `CURVATURE` n_d, where a_d is the relevance of the feature. A feature that no point had
    until now has weights around zero: those that the model has for it were drawn at random. The whitened weights start
    from zero, with the variance of the posterior so far, which is at most that of the prior.

    Parameters
    ----------
    features : csr_array, n×D
        Weighted, of the batch.
    parameters : mapping of str to ndarray
        With the statistics of all points.

    Returns
    -------
    used : ndarray of int
    coordinates : Inputs
    latent, whitened : dict of str to ndarray
        The prior, and the parameters to be moved.
    """
    used, columns, counts = np.unique(features.indices, return_inverse=True, return_counts=True)
    shape = features.shape[0], len(used)
    local = sp.csr_array((features.data, columns.astype(np.int32), features.indptr), shape=shape)
    new = parameters["statistics.features"][used] == counts
    mean, log_variance, log_prior = (parameters[name][used] for name in (*POSTERIOR, PRIOR))
    mean[new] = 0
    log_variance[new] = log_prior[new] + np.log(VARIANCE_START)
    earlier = (parameters["statistics.features"][used] - counts).astype(log_prior.dtype)
    log_prior = -np.log(np.exp(-log_prior) + mean.dtype.type(CURVATURE) * earlier)
    values = np.zeros_like(mean), np.minimum(log_variance - log_prior, 0), log_prior
    whitened = dict(zip(WeightSpace.parameter_names, values, strict=True))
    latent = {POSTERIOR[0]: mean, PRIOR: log_prior}
    return used, Inputs(local, None, features.dtype, sparse=True), latent, whitened


def _masked(gradient, free):
    """Return a gradient with zeros for the labels that are not free."""
    if isinstance(gradient, IndexedRows):
        kept = free[gradient.indices]
        return IndexedRows(gradient.indices[kept], gradient.values[kept])
    return gradient * free[:, None]
