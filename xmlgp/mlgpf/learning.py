"""Learning on: MLGPF with new points, labels and features, where the posterior of what it knows is the prior."""

import numpy as np
import scipy.sparse as sp

from xmlgp.errors import SettingsError
from xmlgp.gp.weight_space import POSTERIOR, PRIOR
from xmlgp.label_weights.pairs import MeanPoint
from xmlgp.label_weights.pattern import WEIGHTS_LIMIT, label_features
from xmlgp.label_weights.posterior import LabelWeights, prior_scales
from xmlgp.mlgpf.initial import log_odds
from xmlgp.mlgpf.stochastic import Stochastic, default_rate
from xmlgp.mlgpf.sweep import OFFSET_SHARE, Sweep, SweepData
from xmlgp.preprocess.pipeline import with_columns
from xmlgp.regression.fitting import add_points
from xmlgp.regression.regression import Regression, scaled_features
from xmlgp.runtime.progress import silent
from xmlgp.training.inference import Stages
from xmlgp.training.loop import Loop
from xmlgp.training.trained import STATISTICS, TRAIN_AGAIN, Trained, add_statistics, statistics_of
from xmlgp.work import THIS_MACHINE

__all__ = ["LearningOn", "learn"]

#: Least number of passes over the batch by stochastic steps.
LEAST_EPOCHS = 4

#: Loadings of a new label move if the batch has so many points without it. Otherwise nothing would keep them from
#: raising the utility of the label for all points.
LEAST_NEGATIVES = 20

#: Learning rate of these steps relative to that of training: they start near where they end.
RATE_SHARE = 0.5

#: Updates of ξ in the sweep over the labels of the batch. There is one sweep where training has two.
ROUNDS = 4

#: Parameters with a row for each label and for each feature. Relevances of new features are those from before training.
BY_LABEL = {"loadings", "bias", "regression.loadings", "regression.mean"}
BY_FEATURE = {*POSTERIOR, PRIOR, "regression.scales"}


def learn(earlier, features, labels, preprocessed, progress=silent, checkpoints=None):
    """Learn on: the posterior of what a trained MLGPF knows is the prior of what a batch of points says.

    See `Model.learn`. The bound that is maximised is that of training over the points of the batch, with
    KL[q(u) ‖ q₀(u)] and KL[q(W) ‖ q₀(W)] in place of the divergences from the priors, for the labels that points of
    the batch have; q₀ is the posterior in the model. Kernel, inducing inputs and the loadings of known labels have no
    posterior and stay, and so does the calibration. The bias of each label changes as the log odds of its frequency.
    New labels get loadings and label weights, new features weights. A regression on all points gets the new ones
    (`xmlgp.regression.fitting.add_points`). The history is that of this batch.

    Raises SettingsError if an earlier version trained the model, so that it lacks what is needed, and TrainingDiverged
    and ModelFolderError as training does.
    """
    settings, old = earlier.settings, earlier.parameters
    method = settings.load_method()
    unknown = "regression.weights" in old and "regression.labels" not in old
    if unknown or (LabelWeights.of(old) and not method.has_label_weights):
        raise SettingsError(TRAIN_AGAIN)
    batch = statistics_of(features, labels)
    grown = _grown(earlier, batch, features.shape[0])
    coordinates = preprocessed.inputs(features, settings.dtype)
    history = []
    if labels.nnz:
        loop = Loop(LearningOn, method, coordinates, labels, grown, earlier)
        _, history = loop.run(progress, None, checkpoints)
        grown = loop.inference.put_back()
    if "regression.weights" in grown and features.shape[0]:
        weighted = coordinates.weighted(slice(None))
        grown |= _regression(grown, earlier, weighted, labels, preprocessed.weighting).parameters()
    return Trained(grown, history)


def _regression(grown, earlier, features, labels, weighting):
    """Return the `Regression` with the points of a batch, whose features are weighted by the `weighting` of all."""
    D = features.shape[1]
    regression = Regression.of(grown, D)
    if weighting.idf is not None:
        ratio = np.ones(D, np.float32)
        ratio[: earlier.D] = weighting.idf[: earlier.D] / earlier.preprocessed.weighting.idf
        # Points keep their length, so this is the weighting of today.
        regression = regression._replace(features=scaled_features(regression.features, ratio))
    return add_points(regression, features, labels, [earlier.settings.seed, 6, earlier.N])


def _grown(earlier, batch, count):
    """Return the parameters with room for new labels and features, and with the biases of all points so far.

    `batch` are the statistics of the `count` points of the batch.
    """
    old, grown = earlier.parameters, {}
    K, D = (len(batch[name]) for name in STATISTICS)
    # A subspace may have as many dimensions as there were features.
    by_feature = earlier.preprocessed.basis is None
    for name, value in old.items():
        if name in BY_LABEL:
            grown[name] = _with_rows(value, K, 0.0)
        elif name in BY_FEATURE or (name.endswith("log_relevance") and by_feature):
            grown[name] = _with_rows(value, D, float(name == "regression.scales"))
        else:
            grown[name] = value
    if "inducing" in old and by_feature and D > earlier.D:
        grown["inducing"] = np.asfortranarray(with_columns(old["inducing"], D))
    weights = LabelWeights.of(old)
    if weights:
        grown |= weights.grown(K, D).parameters()
    grown |= add_statistics(old, batch)
    change = log_odds(grown["statistics.labels"], earlier.N + count)
    change[: earlier.K] -= log_odds(old["statistics.labels"], earlier.N)
    grown["bias"] = (grown["bias"] + change).astype(old["bias"].dtype)
    return grown


def _with_rows(array, count, fill):
    if len(array) == count:
        return array
    return np.concatenate([array, np.full((count - len(array), *array.shape[1:]), fill, array.dtype)])


class LearningOn(Stages):
    """The stages of training with the posterior of the model as the prior: stochastic steps, then one sweep.

    Only the labels of the batch are used, so the cost depends on the batch and on the weights of these labels. The
    stochastic steps move q(u), or q(t) of the features of the batch in weight space, and the loadings of labels of
    which the batch has at least as many points as came before, and `LEAST_NEGATIVES` without. The sweep moves the
    label weights, if the model has them. In it the mean of the earlier points stands for these (`MeanPoint`).
    `parameters` have room for new labels and features.
    """

    advice = "train again on all points"

    def __init__(self, method, coordinates, labels, parameters, earlier):
        self._method, self._settings, self._whole, self._earlier = method, earlier.settings, parameters, earlier.N
        self._features = coordinates.weighted(slice(None))
        counts = np.bincount(labels.indices, minlength=labels.shape[1])
        #: Labels of the batch, Y of these, and how many earlier points have each.
        self._present = np.flatnonzero(counts)
        self._labels = sp.csr_array(labels[:, self._present])
        self._before = parameters["statistics.labels"][self._present] - counts[self._present]
        stages = [self._stochastic(coordinates, counts[self._present])]
        if LabelWeights.of(parameters):
            stages.append(Sweep(self._sweep_data, self._labels, rounds=ROUNDS))
        super().__init__(stages)
        self._steps, self._weights = stages[0], None

    def _stochastic(self, coordinates, counts):
        """Return the stochastic steps, given how many points of the batch have each of its labels."""
        settings, n = self._settings, len(coordinates)
        chosen = {name: self._whole[name][self._present] for name in ("loadings", "bias")}
        # What a label without points has was drawn at random.
        chosen["loadings"][self._before == 0] = 0
        self._used, coordinates, bound, latent = self._method.prior(self._features, coordinates, self._whole)
        batches = -(-n // settings.batch_size)
        return Stochastic(
            self._method,
            bound,
            latent | chosen,
            coordinates,
            self._labels,
            # Other random numbers than those of the earlier points.
            np.random.default_rng([settings.seed, 5, self._earlier]),
            batch_size=settings.batch_size,
            epochs=max(LEAST_EPOCHS, -(-self._method.learning_steps // batches)),
            rate=RATE_SHARE * default_rate(settings),
            free=(self._before <= counts) & (n - counts >= LEAST_NEGATIVES),
        )

    def _sweep_data(self):
        """Return the `SweepData`; the last row of features stands for the earlier points, in those of the batch."""
        whole, settings = self._whole, self._settings
        scales = prior_scales(whole["statistics.labels"][self._present], settings.dtype)
        weights = LabelWeights.of(whole)
        most = max(len(self._present), WEIGHTS_LIMIT - len(weights.mean))
        pattern = label_features(self._features, self._labels, most)
        self._weights, prior = weights.take(self._present, pattern, scales)
        rows = sp.csr_array(sp.vstack([self._features, self._mean_features()], "csr"))

        def factors():
            trained = self._steps.parameters()
            latent_map = np.zeros((rows.shape[1], trained["loadings"].shape[1]), trained["loadings"].dtype)
            latent_map[self._used] = trained[POSTERIOR[0]]
            return latent_map, trained["loadings"], trained["bias"]

        def mean_point(data):
            _, latent, loadings, bias = data.factors
            indptr, columns = self._weights[:2]
            before = sp.csr_array((prior.mean, columns, indptr), shape=(len(indptr) - 1, rows.shape[1]))
            own = (before @ rows[-1:].T).toarray().ravel()
            return MeanPoint.of(bias + OFFSET_SHARE * (loadings @ latent[-1]) + own, self._earlier, self._before > 0)

        return SweepData(THIS_MACHINE, settings.seed, rows, self._labels, factors, self._weights, prior, mean_point)

    def _mean_features(self):
        """Return the mean of the earlier points, 1×D, estimated from their document frequencies and from the batch."""
        X = self._features
        counts = np.bincount(X.indices, minlength=X.shape[1])
        sums = np.bincount(X.indices, X.data, X.shape[1])
        earlier = self._whole["statistics.features"] - counts
        mean = sums * earlier / (np.maximum(counts, 1) * max(1, self._earlier))
        return sp.csr_array(mean[None].astype(X.dtype))

    def put_back(self):
        """Return the parameters of the whole model, with what was learned."""
        grown, trained = dict(self._whole), self._steps.parameters()
        latent = [name for name in self._method.parameter_names if name in trained and name != PRIOR]
        for name, rows in [("loadings", self._present), *((name, self._used) for name in latent)]:
            grown[name] = trained[name]
            if rows is not None:
                grown[name] = self._whole[name].copy()
                grown[name][rows] = trained[name]
        if self._weights:
            grown |= LabelWeights.of(grown).put(self._present, self._weights).parameters()
        return grown
