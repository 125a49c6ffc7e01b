"""The method of MLGPF in weight space, for a linear kernel: f = Φ Tᵀx + b + W x.

T, Φ and b are trained by stochastic steps, then W by closed-form updates in sweeps over the labels.
"""

import functools

import numpy as np
import scipy.sparse as sp

from xmlgp.data.blocks import dense_of, sparse_of, with_sparse
from xmlgp.gp.bound import Bound
from xmlgp.gp.expectations import make_expectations
from xmlgp.gp.log_parameters import bounded_exp
from xmlgp.gp.weight_space import (
    BLOCKS,
    SPARSE,
    LatentMap,
    WeightSpace,
    WeightSpacePrediction,
    are_valid,
    blocks_of,
    feature_shares,
    names_of,
    whitened_names,
)
from xmlgp.label_weights.pairs import shortlist_length
from xmlgp.label_weights.pattern import WEIGHTS_LIMIT, label_weight_count, used_by_default
from xmlgp.label_weights.posterior import LabelWeights, initial_label_weights
from xmlgp.mlgpf.held_out import HeldOutChoices, calibration_points
from xmlgp.mlgpf.initial import initial_bias, random_rows
from xmlgp.mlgpf.stochastic import optimiser_of
from xmlgp.mlgpf.sweep import Sweep, SweepData
from xmlgp.model import MemoryPart
from xmlgp.preprocess.inputs import Inputs
from xmlgp.training.minibatches import LabelSampler

__all__ = ["SWEEPS", "WeightSpaceMethod", "sweep_count"]

#: Initial variance of q(u); that of the prior is one. On Bibtex, 0.3 and 1 rank held-out points about equally well;
#: with 0.01 these have a larger log loss.
VARIANCE_START = 0.3

#: Initial prior variance a of the weights of sparse and of dense features. The embeddings of documents with 592 tags
#: gain with 4 to 16; with 64 or more, steps are too large for them.
PRIOR_START = (1.0, 9.0)

#: Root mean square length of the initial loadings of a label; those of the means of q(u) have length one.
LOADINGS_LENGTH = 0.1

#: Sweeps over the labels. The first has shortlists by Φ h alone, the second by Φ h + W x. With more pairs of points and
#: labels than the limit there is no second one, which gains little and whose shortlists would take most of the time.
SWEEPS = 2
SECOND_SWEEP_LIMIT = 10**11

#: Updates of ξ in a sweep, and in the one that adds the held-out points. More of them do not change precision.
ROUNDS = 2
LAST_ROUNDS = 1

#: Stochastic steps of learning on.
LEARNING_STEPS = 300

#: Mean curvature of the negative log likelihood of a point by one weight t_dp of each feature that it has. From 0.03 to
#: 0.1 the test points of a data set with 28,164 labels are ranked equally well after two batches.
CURVATURE = 0.05


#: Most labels for which regression is tried: with more, the few functions say little about most labels; with 10,405 and
#: with 20,765 labels held-out points were ranked worse with it.
MOST_REGRESSED = 5000


class WeightSpaceMethod:
    """Latent functions with a weight for each feature (`xmlgp.gp.weight_space`)."""

    has_label_weights = True
    learning_steps = LEARNING_STEPS
    predict = WeightSpacePrediction
    are_valid = staticmethod(are_valid)

    def __init__(self, settings):
        self.settings = settings
        self.expectations = make_expectations(settings.expectations, settings.nodes)

    def coordinates(self, features, preprocessed, work):
        """Return the `Inputs` of training points, given X as read: weighted features."""
        return Inputs(preprocessed.weigh_points(features, work), None, self.settings.dtype, sparse=True)

    def samplers(self, labels):
        """Return the options of `make_batch` for points with these labels."""
        return {"label_sampler": LabelSampler(labels, self.settings.label_sample)}

    def start(self, coordinates, labels, inducing, random):
        """Return the bound and its initial parameters, for points to train on."""
        dense = dense_of(coordinates.weighted(slice(0, 0)))
        widths = coordinates.feature_count, dense and dense.shape[1]
        return self.bound(coordinates), self.initial(widths, labels, random)

    def later_stages(self, problem, steps, trained, held):
        """Return the stages after the stochastic steps for T, Φ and b.

        These are sweeps over the labels; the choices on held-out points, and the regression; a last, shorter sweep over
        all points, with the shortlists of the one before. Without label weights there are no sweeps, and only the
        regression is trained on held-out points.
        """
        settings = self.settings
        coordinates = problem.coordinates
        labels = problem.labels
        first = sweep_count(settings, labels.shape[0], coordinates.feature_count, labels.shape[1])
        last = bool(first and len(held))
        make_data = functools.cache(functools.partial(self._sweep_data, problem, steps))
        sweep = functools.partial(
            Sweep,
            make_data,
            labels,
            count=first + last,
            factor_count=settings.factor_count,
            row_bytes=coordinates.row_bytes,
        )
        # The last sweep adds points, and has the prior of the one before: a further update would widen it.
        sweeps = [
            sweep(i, rounds=ROUNDS, left_out=held, with_weights=i > 0, updates_prior=not last or i < first - 1)
            for i in range(first)
        ]

        def before():
            return steps.parameters() | (sweeps[-1].parameters(0) if sweeps else {})

        stages = list(sweeps)
        regresses = _may_regress(settings, *labels.shape)
        if len(held) or regresses:
            stages.append(HeldOutChoices(problem, trained, held, before, regresses))
        if last:
            stages.append(sweep(first, rounds=LAST_ROUNDS, listed=held, updates_prior=True))
        return stages

    def bound(self, coordinates, *prior_means):
        """Return the bound for minibatches of some points; with the means of an earlier posterior only T and Φ move."""
        shares = feature_shares(coordinates.weighted(slice(None)))
        return Bound(WeightSpace(shares, *prior_means), self.expectations, {"bias"} if prior_means else ())

    def initial(self, widths, labels, random):
        """Return initial parameters: means of q(u) ~ N(0, 1/P), small Φ, and b at the log odds of label frequencies.

        The widths are D and E; E is None for points without dense features.
        """
        P = self.settings.factor_count
        dtype = np.dtype(self.settings.dtype)
        found = {}
        (D, E) = widths
        whitened = random_rows(D, P, random, dtype)
        loadings = random_rows(labels.shape[1], P, random, dtype)
        loadings *= LOADINGS_LENGTH
        means = [whitened] if E is None else [whitened, random_rows(E, P, random, dtype)]
        for block, mean, prior in zip(BLOCKS, means, PRIOR_START, strict=False):
            variance, prior = (np.full(len(mean), np.log(start), dtype) for start in (VARIANCE_START, prior))
            found |= zip(whitened_names(block), (mean, variance, prior), strict=True)
        return found | {"loadings": loadings, "bias": initial_bias(labels, dtype)}

    def _sweep_data(self, problem, steps):
        """Return the `SweepData`, with initial label weights. Features are those of all points."""
        parameters = steps.parameters()
        features = problem.coordinates.weighted(slice(None))
        bias = parameters["bias"]
        weights = initial_label_weights(sparse_of(features), problem.labels, bias, problem.coordinates.dtype)

        def factors():
            trained = steps.parameters()
            return LatentMap.of(trained), trained["loadings"], trained["bias"]

        return SweepData(problem.work, self.settings.seed, features, problem.labels, factors, weights)

    @staticmethod
    def parameter_names(parameters):
        """Return the names of the parameters of the latent functions among those of a model."""
        return [name for block in blocks_of(parameters) for name in names_of(block)]

    def prior(self, features, coordinates, parameters, N):
        """Return the rows of each parameter that learning on changes, coordinates, the bound, and its first parameters.

        The batch has `features`, n×D, weighted, and comes after N points; the parameters have the statistics of all.
        Rows are those of the features of the batch, whose coordinates are these alone. The prior is N(r, a) with r the
        means of the posterior so far, and with the variances that n_d earlier points with a feature imply,
        1/a = 1/a_d + `CURVATURE` n_d, where a_d is the relevance of the feature. The square of a dense feature is 1/E
        in an earlier point on average. A feature that no point had until now has weights around zero: those that the
        model has for it were drawn at random. The whitened weights start from zero, with the variance of the posterior
        so far, which is at most that of the prior.
        """
        X = sparse_of(features)
        used, columns, counts = np.unique(X.indices, return_inverse=True, return_counts=True)
        local = sp.csr_array((X.data, columns.astype(np.int32), X.indptr), shape=(X.shape[0], len(used)))
        new = parameters["statistics.features"][used] == counts
        earlier = parameters["statistics.features"][used] - counts
        rows = {}
        latent = {}
        means = []
        for block in blocks_of(parameters):
            names = names_of(block)
            if block == SPARSE:
                rows |= dict.fromkeys(names[:2], used)
                mean, log_variance, log_prior = (parameters[name][used] for name in names)
                mean[new] = 0
                log_variance[new] = log_prior[new] + np.log(VARIANCE_START)
            else:
                rows |= dict.fromkeys(names[:2])
                mean, log_variance, log_prior = (parameters[name] for name in names)
                widths = dense_of(features).widths
                earlier = N / np.repeat(widths, widths)
            log_prior = -np.log(np.exp(-log_prior) + mean.dtype.type(CURVATURE) * earlier.astype(log_prior.dtype))
            values = np.zeros_like(mean), np.minimum(log_variance - log_prior, 0), log_prior
            latent |= zip(whitened_names(block), values, strict=True)
            means.append(mean)
        coordinates = Inputs(with_sparse(features, local), None, features.dtype, sparse=True)
        return rows, coordinates, self.bound(coordinates, *means), latent

    def whitened(self, parameters):
        """Return parameters that steps change, given those of a trained model; the inverse of `trained`."""
        found = {name: parameters[name].copy() for name in ("loadings", "bias")}
        for block in blocks_of(parameters):
            mean, log_variance, log_prior = (parameters[name] for name in names_of(block))
            values = mean / bounded_exp(log_prior, 0.5)[:, None], np.minimum(log_variance - log_prior, 0)
            found |= zip(whitened_names(block), (*values, log_prior.copy()), strict=True)
        return found

    def trained(self, bound, parameters):
        """Return the parameters of a trained model, with q(t) in place of the whitened q(u) that steps change."""
        whitened = {name for block in BLOCKS for name in whitened_names(block)}
        others = {name: value for name, value in parameters.items() if name not in whitened}
        return bound.latent.posterior(parameters) | others

    def memory(self, dataset):
        """Return the largest arrays of the stage that needs most memory (list of `MemoryPart`)."""
        settings = self.settings
        (N, D, K) = dataset.shape
        copies = 1 + len(optimiser_of(settings).statistics)
        steps = [self._memory_of_factors(copies * (D + K)), self._memory_of_features(dataset)]
        if settings.label_sample >= K:
            size = np.dtype(settings.dtype).itemsize * K * settings.factor_count
            advice = "a smaller label_sample leaves most of it out"
            steps.append(MemoryPart("the gradient by the loadings of all labels", size, advice))
        stages = [steps]
        if sweep_count(settings, N, D, K):
            stages.append(self._memory_of_sweeps(dataset))
        if _may_regress(settings, N, K):
            advice = "regression_points=0 avoids that"
            stages.append([MemoryPart("the covariances of exact GP regression", 4 * N**2, advice)])
        return max(stages, key=lambda parts: sum(part.size for part in parts))

    def memory_of_learning(self, earlier, dataset, replayed, whole):
        """Return the largest arrays at the end of learning on (list of `MemoryPart`).

        So many points are replayed at least, and all earlier ones if `whole`.
        """
        (N, D, K) = dataset.shape
        old = earlier.parameters
        present, used = (np.unique(matrix.indices) for matrix in (dataset.labels, dataset.features))
        # Rows of T and Φ that steps move, and all of both: with room for new ones, in the result, and where steps over
        # all points follow, whitened and before these.
        grown = D * (D > earlier.D) + K * (K > earlier.K)
        rows = N + replayed + len(present) + len(used) + (1 + 2 * whole) * (D + K) + grown
        parts = [MemoryPart("the latent functions", old["loadings"][:1].nbytes * rows)]
        if weights := LabelWeights.of(old):
            present = np.arange(K) if whole else present
            moving = np.diff(weights.indptr)[present[present < earlier.K]].sum()
            limit = max(len(present), WEIGHTS_LIMIT - len(weights.mean))
            moving = max(moving, label_weight_count(dataset.features, dataset.labels, limit))
            itemsize = weights.mean.itemsize
            # Those of the batch with their prior, and all in the result; shortlists.
            size = (4 + 4 * itemsize) * moving + (4 + 2 * itemsize) * max(len(weights.mean), moving)
            size += 4 * (N + replayed) * shortlist_length(N + replayed, len(present))
            parts.append(MemoryPart("label weights", int(size)))
        return parts

    def _memory_of_sweeps(self, dataset):
        settings = self.settings
        (N, D, K) = dataset.shape
        itemsize = np.dtype(settings.dtype).itemsize
        weights = label_weight_count(dataset.features, dataset.labels)
        # Shortlists, and W: pattern, means and logarithms of variances.
        shortlists = 4 * shortlist_length(N, K) * N
        kept = shortlists + (4 + 2 * itemsize) * weights + 8 * K
        # Shortlists are found, after the first sweep, with variances and with W by feature; so is the calibration.
        # Later, the points of each label are known.
        held = len(calibration_points(settings, dataset.labels)[1])
        by_feature = (4 + 3 * itemsize) * weights if held or sweep_count(settings, N, D, K) > 1 else 0
        working = max(by_feature, shortlists + 4 * dataset.labels.nnz)
        weights = MemoryPart("label weights", kept + working, "label_weights=false avoids that")
        return [self._memory_of_factors(N + D + K), weights, self._memory_of_features(dataset)]

    def _memory_of_factors(self, rows):
        size = np.dtype(self.settings.dtype).itemsize * rows * self.settings.factor_count
        return MemoryPart("the latent functions", size, "fewer factors lower that")

    def _memory_of_features(self, dataset):
        # As read they are in a file that is mapped into memory, or in memory already.
        itemsize = np.dtype(self.settings.dtype).itemsize if self.settings.weighting != "none" else 0
        return MemoryPart("weighted features", itemsize * dataset.features.nnz)


def sweep_count(settings, N, D, K):
    """Return the number of sweeps over the labels; 0 without label weights."""
    wanted = settings.label_weights
    if wanted is None:
        wanted = used_by_default(D, settings.factor_count)
    most = SWEEPS if N * K <= SECOND_SWEEP_LIMIT else 1
    return most if wanted else 0


def _may_regress(settings, N, K):
    """Return whether regression on N points with K labels may join."""
    return 0 < N <= settings.regression_points and K <= MOST_REGRESSED
