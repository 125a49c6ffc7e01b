"""The method of MLGPF in weight space, for a linear kernel: f = Φ Tᵀx + b + W x.

T, Φ and b are trained by stochastic steps, then W by closed-form updates in sweeps over the labels.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.sparse import csr_array

from xmlgp.data.features import Features
from xmlgp.gp.bound import Bound
from xmlgp.gp.expectations import make_expectations
from xmlgp.gp.log_parameters import bounded_exp
from xmlgp.gp.weight_space import (
    BLOCKS,
    DENSE_WEIGHTS,
    SPARSE,
    SPARSE_WEIGHTS,
    WeightSpace,
    WeightSpacePrediction,
    blocks_of,
    feature_shares,
    names_of,
    whitened_names,
)
from xmlgp.label_weights.pairs import shortlist_length
from xmlgp.label_weights.pattern import label_weight_count, used_by_default
from xmlgp.label_weights.posterior import initial_label_weights
from xmlgp.linear_algebra.array_groups import ArrayGroup
from xmlgp.mlgpf.held_out import HeldOutChoices
from xmlgp.mlgpf.initial import initial_bias, random_rows
from xmlgp.mlgpf.method import LearningStart, MakeBatch, MLGPFMethod, Parameters, Problem
from xmlgp.mlgpf.stochastic import Stochastic, optimiser_of
from xmlgp.mlgpf.sweep import Sweep, SweepPlan
from xmlgp.mlgpf.sweep_data import SweepData
from xmlgp.model import MemoryPart
from xmlgp.preprocess.inputs import Inputs
from xmlgp.training.inference import Inference
from xmlgp.training.minibatches import LabelSampler, make_batch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmlgp.data.dataset import Dataset
    from xmlgp.data.features import Features
    from xmlgp.mlgpf.settings import MLGPFSettings
    from xmlgp.preprocess.inputs import Selected
    from xmlgp.preprocess.pipeline import Preprocessed
    from xmlgp.work import Work

__all__ = ["SWEEPS", "WeightSpaceMethod", "sweep_count"]

#: Initial variance of q(u); that of the prior is one. On Bibtex, 0.3 and 1 rank held-out points about equally well;
#: with 0.01 these have a larger log loss.
VARIANCE_START = 0.3

#: Initial prior variance a of the weights of sparse and of dense features. The embeddings of documents with 592 tags
#: gain with 4 to 16; with 64 or more, steps are too large for them.
PRIOR_START = (1.0, 9.0)

#: Root mean square length of the initial loadings of a label; those of the means of q(u) have length one.
LOADINGS_LENGTH = 0.1

#: Sweeps over the labels. The first has shortlists by Φ h alone, the second by Φ h + W x.
SWEEPS = 2

#: Most pairs of points and labels for a second sweep. With more, it gains little, and its shortlists would take most of
#: the time.
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


class WeightSpaceMethod(MLGPFMethod):
    """Latent functions with a weight for each feature (`xmlgp.gp.weight_space`)."""

    has_label_weights = True
    learning_steps = LEARNING_STEPS

    def __init__(self, settings: MLGPFSettings) -> None:
        self.settings = settings
        self.expectations = make_expectations(settings.expectations, settings.nodes)

    def coordinates(self, features: Features, preprocessed: Preprocessed, work: Work) -> Inputs:
        """Return the `Inputs` of training points, given X as read: weighted features."""
        return Inputs(preprocessed.weigh_points(features, work), None, self.settings.dtype, sparse=True)

    def batches(self, coordinates: Inputs | Selected, labels: csr_array) -> MakeBatch:
        """Return the function that makes minibatches of points with these labels."""
        sampler = LabelSampler(labels, self.settings.label_sample)
        return functools.partial(make_batch, coordinates, labels, label_sampler=sampler)

    def start(
        self,
        coordinates: Inputs | Selected,
        labels: csr_array,
        inducing: NDArray[np.floating] | None,
        random: np.random.Generator,
    ) -> tuple[Bound, Parameters]:
        """Return the bound and its initial parameters, for points to train on."""
        dense = coordinates.weighted(slice(0, 0)).dense
        widths = [coordinates.feature_count] if dense is None else [coordinates.feature_count, dense.shape[1]]
        return self.bound(coordinates), self.initial(widths, labels, random)

    def later_stages(
        self, problem: Problem, steps: Stochastic, trained: NDArray[np.int64], held_out: NDArray[np.int64]
    ) -> Sequence[Inference]:
        """Return the stages after the stochastic steps for T, Φ and b.

        These are sweeps over the labels; the choices on held-out points, and the regression; a last, shorter sweep over
        all points, with the shortlists of the one before. Without label weights there are no sweeps, and only the
        regression is trained on held-out points.
        """
        settings = self.settings
        coordinates = problem.coordinates
        labels = problem.labels
        first = sweep_count(settings, labels.shape[0], coordinates.feature_count, labels.shape[1])
        last = bool(first and len(held_out))
        make_data = functools.cache(functools.partial(self._sweep_data, problem, steps))
        sweep = functools.partial(
            Sweep, make_data, labels, factor_count=settings.factor_count, row_bytes=coordinates.row_bytes
        )
        # The last sweep adds points, and has the prior of the one before: a further update would widen it.
        sweeps = [
            sweep(
                SweepPlan(ROUNDS, i, first + last, with_weights=i > 0, updates_prior=not last or i < first - 1),
                left_out=held_out,
            )
            for i in range(first)
        ]

        def current_parameters() -> Parameters:
            return steps.parameters() | (sweeps[-1].parameters() if sweeps else {})

        stages: list[Inference] = [*sweeps]
        regresses = _may_regress(settings, *labels.shape)
        if len(held_out) or regresses:
            stages.append(HeldOutChoices(problem, trained, held_out, current_parameters, regresses))
        if last:
            plan = SweepPlan(LAST_ROUNDS, first, first + 1, updates_prior=True)
            stages.append(sweep(plan, shortlisted=held_out))
        return stages

    def bound(self, coordinates: Inputs | Selected, *prior_means: NDArray[np.floating]) -> Bound:
        """Return the bound for minibatches of some points; with the means of an earlier posterior only T and Φ move."""
        shares = feature_shares(coordinates.weighted(slice(None)).sparse)
        return Bound(WeightSpace(shares, *prior_means), self.expectations, {"bias"} if prior_means else ())

    def initial(self, widths: Sequence[int], labels: csr_array, random: np.random.Generator) -> Parameters:
        """Return initial parameters: means of q(u) ~ N(0, 1/P), small Φ, and b at the log odds of label frequencies.

        The widths are D and, for points with dense features, E.
        """
        P = self.settings.factor_count
        dtype = np.dtype(self.settings.dtype)
        means = [random_rows(widths[0], P, random, dtype)]
        loadings = random_rows(labels.shape[1], P, random, dtype)
        loadings *= LOADINGS_LENGTH
        means += [random_rows(width, P, random, dtype) for width in widths[1:]]
        parameters: Parameters = {}
        for block, mean, prior in zip(BLOCKS, means, PRIOR_START, strict=False):
            log_variance, log_prior = (np.full(len(mean), np.log(start), dtype) for start in (VARIANCE_START, prior))
            parameters |= zip(whitened_names(block), (mean, log_variance, log_prior), strict=True)
        return parameters | {"loadings": loadings, "bias": initial_bias(labels, dtype)}

    def _sweep_data(self, problem: Problem, steps: Stochastic) -> SweepData:
        """Return the `SweepData`, with initial label weights. Features are those of all points."""
        features = problem.coordinates.weighted(slice(None))
        bias = steps.parameters()["bias"]
        weights = initial_label_weights(features.sparse, problem.labels, bias, problem.coordinates.dtype)
        seed = self.settings.seed
        return SweepData(problem.work, seed, features, problem.labels.shape, steps.parameters, weights)

    def learning_start(
        self, features: Features, coordinates: Inputs | Selected, parameters: Parameters, N: int
    ) -> LearningStart:
        """Return where learning on begins: at the means of the posterior, which are those of the prior.

        Steps change the rows of the features of the batch, whose coordinates are these alone. The prior is N(r, a) with
        r the means of the posterior so far, and with the variances that n_d earlier points with a feature imply,
        1/a = 1/a_d + `CURVATURE` n_d, where a_d is the relevance of the feature. The square of a dense feature is 1/E
        in an earlier point on average. A feature that no point had until now has weights around zero: those that the
        model has for it were drawn at random. The whitened weights start from zero, with the variance of the posterior
        so far, which is at most that of the prior.
        """
        X = features.sparse
        used, columns, counts = np.unique(X.indices, return_inverse=True, return_counts=True)
        local = csr_array((X.data, columns.astype(np.int32), X.indptr), shape=(X.shape[0], len(used)))
        rows: dict[str, NDArray[np.int64] | slice] = {}
        latent: Parameters = {}
        means = []
        for block in blocks_of(parameters):
            names = names_of(block)
            changed = used if block == SPARSE else slice(None)
            rows |= dict.fromkeys(names[:2], changed)
            mean, log_variance, log_prior = (parameters[name][changed] for name in names)
            if block == SPARSE:
                earlier = parameters["statistics.features"][used] - counts
                new = earlier == 0
                mean[new] = 0
                log_variance[new] = log_prior[new] + np.log(VARIANCE_START)
            else:
                earlier = N / np.repeat(features.widths, features.widths)
            log_prior = -np.log(np.exp(-log_prior) + mean.dtype.type(CURVATURE) * earlier.astype(log_prior.dtype))
            values = np.zeros_like(mean), np.minimum(log_variance - log_prior, 0), log_prior
            latent |= zip(whitened_names(block), values, strict=True)
            means.append(mean)
        coordinates = Inputs(features.with_sparse(local), None, X.dtype, sparse=True)
        return LearningStart(rows, coordinates, self.bound(coordinates, *means), latent)

    def whitened(self, parameters: Parameters) -> Parameters:
        """Return parameters that steps change, given those of a trained model; the inverse of `trained`."""
        whitened = {name: parameters[name].copy() for name in ("loadings", "bias")}
        for block in blocks_of(parameters):
            mean, log_variance, log_prior = (parameters[name] for name in names_of(block))
            scaled = mean / bounded_exp(log_prior, 0.5)[:, None]
            values = scaled, np.minimum(log_variance - log_prior, 0), log_prior.copy()
            whitened |= zip(whitened_names(block), values, strict=True)
        return whitened

    def trained(self, bound: Bound, parameters: Parameters) -> Parameters:
        """Return the parameters of a trained model, with q(t) in place of the whitened q(u) that steps change."""
        whitened = {name for block in BLOCKS for name in whitened_names(block)}
        kept = {name: value for name, value in parameters.items() if name not in whitened}
        return cast("WeightSpace", bound.latent).posterior(parameters) | kept

    def predict(self, parameters: Parameters) -> WeightSpacePrediction:
        """Return the latent functions of a trained model."""
        return WeightSpacePrediction(parameters)

    @property
    def array_groups(self) -> Mapping[ArrayGroup, bool | None]:
        """The arrays of the latent functions of a model; it may have dense features."""
        return {SPARSE_WEIGHTS: True, DENSE_WEIGHTS: None}

    def memory(self, dataset: Dataset) -> list[MemoryPart]:
        """Return the largest arrays of the stage that needs most memory."""
        settings = self.settings
        N, D, K = dataset.shape
        itemsize = np.dtype(settings.dtype).itemsize
        # T and Φ with the statistics of the optimiser; in sweeps, the latent functions of all points instead.
        rows = (1 + len(optimiser_of(settings).statistics)) * (D + K)
        weights = []
        if sweep_count(settings, N, D, K):
            rows = N + D + K
            # Shortlists by point and by label, and W: pattern, means and logarithms of variances.
            size = 8 * shortlist_length(N, K) * N
            size += (4 + 2 * itemsize) * label_weight_count(dataset.features.sparse, dataset.labels)
            weights = [MemoryPart("label weights", size, "label_weights=false avoids that")]
        factors = MemoryPart(
            "the latent functions", itemsize * rows * settings.factor_count, "fewer factors lower that"
        )
        # As read they are in a file that is mapped into memory, or in memory already.
        features = 0 if settings.weighting == "none" else itemsize * dataset.features.sparse.nnz
        parts = [factors, *weights, MemoryPart("weighted features", features)]
        if _may_regress(settings, N, K) and sum(part.size for part in parts) < 4 * N**2:
            advice = "regression_points=0 avoids that"
            return [MemoryPart("the covariances of exact GP regression", 4 * N**2, advice)]
        return parts


def sweep_count(settings: MLGPFSettings, N: int, D: int, K: int) -> int:
    """Return the number of sweeps over the labels; 0 without label weights."""
    has_weights = settings.label_weights
    if has_weights is None:
        has_weights = used_by_default(D, settings.factor_count)
    if not has_weights:
        return 0
    return SWEEPS if N * K <= SECOND_SWEEP_LIMIT else 1


def _may_regress(settings: MLGPFSettings, N: int, K: int) -> bool:
    """Return whether regression on N points with K labels may join."""
    return 0 < N <= settings.regression_points and K <= MOST_REGRESSED
