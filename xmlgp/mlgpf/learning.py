"""Learning on: MLGPF with new points, labels and features, where the posterior of what it knows is the prior."""

import math
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmlgp.data.blocks import Blocks, dense_of, sparse_of, stacked
from xmlgp.errors import SettingsError
from xmlgp.gp.weight_space import POSTERIOR, PRIOR, LatentMap
from xmlgp.label_weights import pairs
from xmlgp.label_weights.pairs import MeanPoint, shortlist_negatives
from xmlgp.label_weights.pattern import WEIGHTS_LIMIT, label_features
from xmlgp.label_weights.posterior import LabelWeights, WeightsPrior, hidden_label_weights, prior_scales
from xmlgp.label_weights.utilities import UtilityMoments
from xmlgp.mlgpf.held_out import CALIBRATION_MOST, Recalibration, without_labels_of
from xmlgp.mlgpf.initial import log_odds
from xmlgp.mlgpf.replay import NOT_LISTED, Ranked, Replay, bounded
from xmlgp.mlgpf.stochastic import Stochastic, default_rate
from xmlgp.mlgpf.sweep import OFFSET_SHARE, Sweep, SweepData
from xmlgp.mlgpf.train import Problem
from xmlgp.preprocess.inputs import Inputs
from xmlgp.preprocess.pipeline import with_columns
from xmlgp.regression.fitting import add_points
from xmlgp.regression.regression import Regression, scaled_features
from xmlgp.runtime.progress import silent
from xmlgp.training.inference import Stages
from xmlgp.training.loop import Loop
from xmlgp.training.minibatches import hold_out
from xmlgp.training.trained import STATISTICS, TRAIN_AGAIN, Trained, add_statistics, statistics_of
from xmlgp.work import THIS_MACHINE

__all__ = ["REPLAYED_LEAST", "LearningOn", "learn", "replays_all"]

#: Least number of passes over the batch by stochastic steps.
LEAST_EPOCHS = 4

#: Loadings of a new label move if the batch has so many points without it. Otherwise nothing would keep them from
#: raising the utility of the label for all points.
LEAST_NEGATIVES = 20

#: Learning rate of these steps relative to that of training: they start near where they end.
RATE_SHARE = 0.5

#: Updates of ξ in the sweep, of which there is one where training has two: where no points are replayed, where all are,
#: and where those are that matter to some labels, which hardly move then.
ROUNDS = 4
ROUNDS_OF_ALL = 2
ROUNDS_OF_SOME = 1

#: Share of the steps over the batch that are made where steps over all points follow: all of them rank no better then.
STEPS_SHARE = 0.5

#: Share of earlier points that get shortlists anew, where all are replayed. The others keep those from before.
LISTED_AGAIN = 1 / 16

#: A batch that has a point for so many of the memory, beside the least number, replays all of it. A smaller one replays
#: the least number of points beside those that matter to its labels.
REPLAYED_EACH = 20
REPLAYED_LEAST = 500

#: Labels that the model suggests first for a point that lacks them, and that are in the sweep for it.
SUGGESTED = 3

#: Steps over all points, where all earlier ones are replayed: one of so many epochs of training, and their learning
#: rate relative to that of training.
REFINEMENT_SHARE = 8
REFINEMENT_RATE = 0.25

#: Parameters with a row for each label and for each feature. Relevances of new features are those from before training.
BY_LABEL = {"loadings", "bias", "regression.loadings", "regression.mean"}
BY_FEATURE = {*POSTERIOR, PRIOR, "regression.scales"}


def learn(earlier, features, labels, preprocessed, progress=silent, checkpoints=None):
    """Learn on: the posterior of what a trained MLGPF knows is the prior of what a batch of points says.

    See `Model.learn`. Earlier points that are not replayed (`xmlgp.mlgpf.replay`) are known by the posterior q₀: the
    bound that is maximised is that of training over the points of the batch and those that are replayed, with
    KL[q(u) ‖ q₀(u)] and KL[q(W) ‖ q₀(W)] in place of the divergences from the priors, for the labels of the batch and
    those that `Replayed` adds. Kernel and inducing inputs have no posterior and stay. Where all earlier points are
    replayed, all of T, Φ, b and W move. Otherwise the loadings of known labels stay, and the bias of each label changes
    as the log odds of its frequency. New labels get loadings and label weights, new features weights. A regression on
    all points gets the new ones (`xmlgp.regression.fitting.add_points`). The history is that of this batch.

    Raises SettingsError if an earlier version trained the model, so that it lacks what is needed, and TrainingDiverged
    and ModelFolderError as training does.
    """
    settings = earlier.settings
    old = earlier.parameters
    method = settings.load_method()
    unknown = "regression.weights" in old and "regression.labels" not in old
    if unknown or (LabelWeights.of(old) and not method.has_label_weights):
        raise SettingsError(TRAIN_AGAIN)
    batch = statistics_of(features, labels)
    n = features.shape[0]
    grown = _grown(earlier, batch, n)
    coordinates = preprocessed.inputs(features, settings.dtype)
    memory = Replay.of(old, features.shape[1], labels.shape[1])
    history = []
    shortlist = None
    if labels.nnz:
        problem = Problem(settings, coordinates, labels, None, features, preprocessed)
        replayed = memory and Replayed.by(memory, grown, problem, earlier.N)
        loop = Loop(LearningOn, method, problem, grown, earlier, replayed)
        _, history = loop.run(progress, None, checkpoints)
        grown = loop.inference.put_back()
        shortlist = loop.inference.shortlist
        if replayed and not replayed.all:
            shortlist = np.concatenate([memory.shortlist, replayed.shortlist])
    if memory and n:
        memory = memory.followed_by(features, labels, shortlist)
        grown |= bounded(memory, grown["statistics.labels"], earlier.N + n, settings).parameters()
    if "regression.weights" in grown and n:
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
    old = earlier.parameters
    grown = {}
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


def replays_all(memory, n):
    """Return whether a batch of n points replays all earlier points."""
    return bool(REPLAYED_LEAST + REPLAYED_EACH * n >= memory.size and (memory.weights == 1).all())


class Replayed(NamedTuple):
    """What a batch replays: points of the memory, their weighted features, and the labels that the sweep is over.

    A batch that is large beside the memory replays `all` of it, and sweeps over all labels, but only if the memory has
    never been thinned: with a sample, steps that move the parameters of all labels made them worse. Otherwise the
    labels are those of the batch, and those that the model suggests first for points that lack them; the points are
    those that have these labels or list them as negatives, and others, of which `drawn` has the rows, drawn from the
    `population`. Shortlists of the batch are over all labels, or None where the sweep finds them.
    """

    points: Replay
    features: sp.csr_array
    all: bool
    swept: np.ndarray
    drawn: np.ndarray | None = None
    population: int | None = None
    shortlist: np.ndarray | None = None

    @classmethod
    def by(cls, memory, grown, problem, N):
        """Return what the batch of a `Problem` replays, given the parameters with room for it, after N points."""
        (n, K) = problem.labels.shape
        settings = problem.settings
        if replays_all(memory, n):
            return cls(memory, _weighted(memory, problem), True, np.arange(K))
        if memory.shortlist is None:
            # No sweep would use them.
            return None
        shortlist = _shortlists(grown, problem, memory.shortlist.shape[1])
        swept = np.union1d(problem.labels.indices, shortlist[:, :SUGGESTED])
        swept = swept[swept >= 0]
        wanted = np.zeros(K + 1, bool)  # the last one is for −1
        wanted[swept] = True
        having = np.zeros(memory.size, bool)
        having[np.repeat(np.arange(memory.size), np.diff(memory.labels.indptr))[wanted[memory.labels.indices]]] = True
        having |= wanted[memory.shortlist].any(axis=1)
        random = np.random.default_rng([settings.seed, 7, N])
        others = np.sort(random.choice(memory.size, min(REPLAYED_LEAST, memory.size), replace=False))
        having[others] = True
        rows = np.flatnonzero(having)
        points = memory.rows(rows)
        return cls(
            points, _weighted(points, problem), False, swept, np.searchsorted(rows, others), memory.size + n, shortlist
        )


def _weighted(points, problem):
    return problem.preprocessed.weigh(points.features).astype(problem.settings.dtype, copy=False)


def _shortlists(parameters, problem, length):
    """Return the shortlists of the points of a batch over all labels, by a model."""
    features = problem.coordinates.weighted(slice(None))
    utilities = UtilityMoments(parameters["loadings"], parameters["bias"], LabelWeights.of(parameters))
    latent = LatentMap.of(parameters).means(features)
    return shortlist_negatives(utilities, latent, sparse_of(features), problem.labels, length)


class _Refinement(Stochastic):
    """Stochastic steps over all points, from where the steps over the batch end: `start` returns the parameters."""

    def __init__(self, start, method, coordinates, labels, random, **options):
        super().__init__(method, method.bound(coordinates), start(), coordinates, labels, random, **options)
        self._start = start

    def begin(self, epoch):
        """Take the parameters, before the first epoch."""
        if self._start:
            for name, value in self._start().items():
                self._parameters[name][...] = value
            self._start = None


class LearningOn(Stages):
    """The stages of training with the posterior of the model as the prior: stochastic steps, then a sweep.

    The stochastic steps move q(u), or q(t) of the features of the batch in weight space, and the loadings of labels of
    which the batch has at least as many points as came before, and `LEAST_NEGATIVES` without. Points of the batch alone
    are used. The sweep moves the weights of the labels of the batch and of those that `Replayed` adds, if the model has
    label weights, so that the cost depends on the batch. Of the earlier points with a label, a share f is replayed. The
    prior of the label has the posterior of the model for the other points (`_prior_without`), and in the sweep their
    mean stands for these (`MeanPoint`).

    If all earlier points are replayed, further steps over all points move T, Φ and b, as in training, and the sweep
    moves the weights of all labels. The calibration goes on as well: some points of the batch are held out of what is
    before it, as in training, and a last sweep adds them.

    `parameters` have room for new labels and features.
    """

    advice = "train again on all points"

    def __init__(self, method, problem, parameters, earlier, replayed=None):
        self._method = method
        self._settings = earlier.settings
        self._whole = parameters
        self._earlier = earlier.N
        self._problem = problem
        self._replayed = replayed
        labels = problem.labels
        self._features = problem.coordinates.weighted(slice(None))
        n, K = labels.shape
        ranked = Ranked.of(parameters)
        whole = bool(replayed and replayed.all)
        #: Points of the batch that stages before the calibration train on, and that they leave out.
        self._trained = np.arange(n)
        self._held = np.zeros(0, np.int64)
        if whole and ranked and "calibration" in parameters:
            self._trained, self._held = _hold_out(len(ranked.correct), n, self._settings.seed, earlier.N)
        counts = np.bincount(labels.indices, minlength=K)
        #: Labels of the batch, and labels that the sweep is over.
        self._present = np.flatnonzero(counts)
        self._swept = replayed.swept if replayed else self._present
        self._before = parameters["statistics.labels"] - counts
        self._labels = labels
        # Other random numbers than those of the earlier points.
        random = np.random.default_rng([self._settings.seed, 5, earlier.N])
        steps = method.learning_steps * (STEPS_SHARE if whole else 1)
        stages = [self._steps_over_batch(counts[self._present], steps, random)]
        if whole:
            stages.append(self._steps_over_all(stages[0], random))
        self._steps = stages
        self._weights = None
        self._data = None
        M = replayed.points.size if replayed else 0
        held = M + self._held
        sweep = None
        if LabelWeights.of(parameters):
            listed = M + np.arange(n)
            if whole:
                wanted = replayed.points.shortlist[:, 0] == NOT_LISTED
                again = hold_out(M, LISTED_AGAIN, np.random.default_rng([self._settings.seed, 12, earlier.N]))[1]
                wanted[again] = True
                listed = np.flatnonzero(np.append(wanted, np.ones(n, bool)))
            swept = sp.csr_array(self._all_labels[:, self._swept])
            sweep = partial(Sweep, self._sweep_data, swept, count=1 + bool(len(held)))
            rounds = ROUNDS_OF_ALL if whole else ROUNDS_OF_SOME if replayed else ROUNDS
            # The last sweep makes one of them.
            stages = [*stages, sweep(rounds=rounds - bool(len(held)), left_out=held, listed=listed)]
        self._recalibrated = self._recalibration(ranked) if len(held) else None
        if len(held):
            stages.append(self._recalibrated)
        if len(held) and sweep:
            stages.append(sweep(1, rounds=1, listed=held))
        super().__init__(stages)

    def _recalibration(self, ranked):
        problem = self._problem
        held = self._held
        n = self._labels.shape[0]
        seen = without_labels_of(self._all_labels, self._replayed.points.size + held)

        @contextmanager
        def before():
            parameters = self._put_back()
            parameters.pop("calibration")
            with hidden_label_weights(parameters, self._all_features, seen):
                yield parameters

        held_out = problem._replace(features=problem.features[held], labels=problem.labels[held])
        known = np.bincount(seen.indices, minlength=seen.shape[1]) > 0
        share = n / (self._earlier + n)
        seed = [self._settings.seed, 10, self._earlier]
        return Recalibration(held_out, known, ranked, share, seed, before)

    @cached_property
    def _all_labels(self):
        """Y of the points that are replayed and those of the batch."""
        if not self._replayed:
            return self._labels
        return stacked([self._replayed.points.labels, self._labels])

    @cached_property
    def _all_features(self):
        """The weighted features of the points that are replayed and those of the batch."""
        if not self._replayed:
            return self._features
        return stacked([self._replayed.features, self._features])

    def _steps_over_batch(self, counts, steps, random):
        """Return about so many stochastic steps, given how many points of the batch have each of its labels."""
        settings = self._settings
        n = len(self._trained)
        before = self._before[self._present]
        chosen = {name: self._whole[name][self._present] for name in ("loadings", "bias")}
        # What a label without points has was drawn at random.
        chosen["loadings"][before == 0] = 0
        self._rows, coordinates, bound, latent = self._method.prior(
            self._features[self._trained], self._problem.coordinates, self._whole, self._earlier
        )
        batches = -(-n // settings.batch_size)
        return Stochastic(
            self._method,
            bound,
            latent | chosen,
            coordinates,
            sp.csr_array(self._labels[self._trained][:, self._present]),
            random,
            batch_size=settings.batch_size,
            epochs=max(LEAST_EPOCHS, min(math.ceil(steps / batches), n)),
            rate=RATE_SHARE * default_rate(settings),
            free=(before <= counts) & (n - counts >= LEAST_NEGATIVES),
        )

    def _steps_over_all(self, first, random):
        """Return the steps over all points, after the `first` ones."""
        settings = self._settings
        M = self._replayed.points.size
        rows = np.append(np.arange(M), M + self._trained)
        batch_size = settings.points_in_batch(len(rows))
        epochs = settings.epoch_count(self._earlier)
        return _Refinement(
            lambda: self._method.whitened(self._after_steps(first)),
            self._method,
            Inputs(self._all_features[rows], None, settings.dtype, sparse=True),
            self._all_labels[rows],
            random,
            batch_size=batch_size,
            epochs=-(-epochs // REFINEMENT_SHARE),
            rate=REFINEMENT_RATE * default_rate(settings),
            earlier_steps=epochs * -(-len(rows) // batch_size),
        )

    def _after_steps(self, stage):
        """Return the parameters of the whole model, with what the steps over the batch changed."""
        grown = dict(self._whole)
        trained = stage.parameters()
        for name, rows in [("loadings", self._present), *self._rows.items()]:
            grown[name] = trained[name]
            if rows is not None:
                grown[name] = self._whole[name].copy()
                grown[name][rows] = trained[name]
        return grown

    @cached_property
    def _stepped(self):
        """The parameters of the whole model after all stochastic steps, when these have ended."""
        grown = self._after_steps(self._steps[0])
        return grown | self._steps[1].parameters() if len(self._steps) > 1 else grown

    def _sweep_data(self):
        """Return the `SweepData`; the last row of features stands for earlier points that are not replayed."""
        if self._data:
            return self._data
        whole = self._whole
        settings = self._settings
        replayed = self._replayed
        swept = self._swept
        before = self._before[self._swept]
        scales = prior_scales(whole["statistics.labels"][swept], settings.dtype)
        weights = LabelWeights.of(whole)
        most = max(len(swept), WEIGHTS_LIMIT - len(weights.mean))
        pattern = label_features(self._features, sp.csr_array(self._labels[:, swept]), most)
        self._weights, posterior = weights.take(swept, pattern, scales)
        labels = sp.csr_array(self._all_labels[:, swept])
        rows = self._all_features
        shares = np.zeros(len(swept))
        more = {}
        if replayed:
            kept = np.bincount(replayed.points.labels.indices, minlength=len(whole["bias"]))[swept]
            shares = np.where(before > 0, kept / np.maximum(before, 1), 1).astype(np.float32)
            more = {"replayed": pairs.PairWeights(replayed.points.weights, shares)}
            more |= {"drawn_from": replayed.drawn, "population": replayed.population}
        prior = _prior_without(posterior, self._weights.prior_of_training(scales), self._weights.indptr, shares)
        mean_point = None
        if (shares < 1).any():
            rows = stacked([rows, self._mean_of_earlier()])

            def mean_point(data):
                _, latent, loadings, bias = data.factors
                indptr, columns = self._weights[:2]
                before_batch = sp.csr_array((posterior.mean, columns, indptr), shape=(len(indptr) - 1, rows.shape[1]))
                own = (before_batch @ sparse_of(rows)[-1:].T).toarray().ravel()
                utility = bias + OFFSET_SHARE * (loadings @ latent[-1]) + own
                return MeanPoint.of(utility, self._earlier * (1 - shares), before > 0)

        def factors():
            trained = self._stepped
            return LatentMap.of(trained), trained["loadings"][swept], trained["bias"][swept]

        seed = settings.seed + self._earlier
        self._data = SweepData(THIS_MACHINE, seed, rows, labels, factors, self._weights, prior, mean_point, **more)
        if replayed:
            known = _among(replayed.points.shortlist, swept, len(whole["bias"]))
            found = self._data.shortlist
            shared = min(known.shape[1], found.shape[1])
            found[: len(known), :shared] = known[:, :shared]
        return self._data

    def _mean_of_earlier(self):
        """Return the mean of the earlier points, 1×D, estimated from their document frequencies and from the batch.

        That of dense features is their centre.
        """
        X = sparse_of(self._features)
        dense = dense_of(self._features)
        counts = np.bincount(X.indices, minlength=X.shape[1])
        sums = np.bincount(X.indices, X.data, X.shape[1])
        earlier = self._whole["statistics.features"] - counts
        mean = sums * earlier / (np.maximum(counts, 1) * max(1, self._earlier))
        mean = sp.csr_array(mean[None].astype(X.dtype))
        if dense is None:
            return mean
        centers = tuple(dense.center[None, slice(*bounds)] for bounds in dense.bounds())
        return Blocks(mean, replace(dense, arrays=centers))

    def put_back(self):
        """Return the parameters of the whole model, with what was learned."""
        return self._put_back() | (self._recalibrated.fitted() if self._recalibrated else {})

    def _put_back(self):
        """Return the same with the calibration of before."""
        grown = dict(self._stepped)
        if self._weights:
            grown |= LabelWeights.of(grown).put(self._swept, self._weights).parameters()
        return grown

    @property
    def shortlist(self):
        """The shortlists of all points from a sweep over all labels, or None."""
        return self._data.shortlist if self._data and self._replayed and self._replayed.all else None


def _among(shortlist, labels, K):
    """Return shortlists, M×S, of some of the K labels alone, by their places among these."""
    places = np.full(K + 1, -1, np.int32)  # the last one is for −1
    places[labels] = np.arange(len(labels), dtype=np.int32)
    found = places[shortlist]
    if len(labels) == K:
        return found
    # Those that remain come first.
    return -np.sort(-found, axis=1)


def _hold_out(before, n, seed, N):
    """Return the points of a batch of n that are not held out, and those that are: as large a share as before.

    Of the N points before, the model keeps so many that were held out (`before`).
    """
    return hold_out(n, min(before / N, CALIBRATION_MOST / (N + n)), np.random.default_rng([seed, 11, N]))


def _prior_without(posterior, prior, indptr, shares):
    """Return the `WeightsPrior` of labels of which a share f of the earlier points, L, is replayed.

    It has the natural parameters of the prior of training, and 1 − f of what the earlier points added to these.
    """
    rest = np.repeat(1 - shares, np.diff(indptr)).astype(prior.precision.dtype)
    precision = prior.precision + rest * np.maximum(posterior.precision - prior.precision, 0)
    return WeightsPrior(rest * posterior.precision * posterior.mean / precision, precision)
