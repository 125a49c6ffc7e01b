"""The method of MLGPF in weight space, for a linear kernel: f = Φ Tᵀx + b + W x.

T, Φ and b are trained by stochastic steps, then W by closed-form updates in sweeps over the labels.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from scipy.sparse import csr_array

from xmlgp.features.inputs import Inputs
from xmlgp.gp.bound import Bound
from xmlgp.gp.expectations import Quadrature
from xmlgp.gp.weight_space import LATENT_WEIGHTS, WHITENED, WeightSpace, WeightSpacePrediction, feature_shares
from xmlgp.linear_algebra.array_groups import ArrayGroup
from xmlgp.models.mlgpf.held_out import HeldOutChoices
from xmlgp.models.mlgpf.initial import initial_bias, random_rows
from xmlgp.models.mlgpf.label_weights.pattern import used_by_default
from xmlgp.models.mlgpf.label_weights.posterior import initial_label_weights
from xmlgp.models.mlgpf.method import MLGPFMethod, Parameters, Problem
from xmlgp.models.mlgpf.stochastic import Stochastic
from xmlgp.models.mlgpf.sweep import Sweep, SweepPlan
from xmlgp.models.mlgpf.sweep_data import SweepData
from xmlgp.training.inference import Inference
from xmlgp.training.minibatches import ChoosePairs, LabelSampler

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from xmlgp.data.features import Features
    from xmlgp.features.inputs import Selected
    from xmlgp.features.pipeline import Preprocessed
    from xmlgp.models.mlgpf.settings import MLGPFSettings
    from xmlgp.runtime.work import Work

__all__ = ["SWEEPS", "WeightSpaceMethod", "sweep_count"]

#: Initial variance of q(u); that of the prior is one. On Bibtex, 0.3 and 1 rank the labels of held-out points about
#: equally well; with 0.01 the log loss of these points is larger.
VARIANCE_START = 0.3

#: Initial prior variance a of the weights.
PRIOR_START = 1.0

#: Root mean square length of the row of initial loadings of a label. The row of initial means of a feature has length
#: one.
LOADINGS_LENGTH = 0.1

#: Sweeps over the labels, with the last one, which adds the held-out points. The first makes shortlists by Φ h alone.
#: On six data sets, one more ranks held-out points no better.
SWEEPS = 2

#: Most pairs of points and labels for a second sweep. With more, it gains little, and its shortlists would take most of
#: the time.
SECOND_SWEEP_LIMIT = 10**11

#: Updates of ξ in a sweep. More of them do not change precision.
ROUNDS = 2

#: The same in the last sweep, which adds the held-out points.
LAST_ROUNDS = 1


class WeightSpaceMethod(MLGPFMethod):
    """Latent functions with a weight for each feature (`xmlgp.gp.weight_space`)."""

    has_label_weights = True

    def __init__(self, settings: MLGPFSettings) -> None:
        self.settings = settings
        self.quadrature = Quadrature(settings.nodes)

    def coordinates(self, features: Features, preprocessed: Preprocessed, work: Work) -> Inputs:
        """Return the `Inputs` of training points, given X as read: weighted features."""
        return Inputs(preprocessed.weigh(features, work), None, self.settings.dtype, sparse=True)

    def pairs(self, labels: csr_array) -> ChoosePairs:
        """Return the function that chooses the pairs of a minibatch of points with these labels."""
        return LabelSampler(labels, self.settings.sampled_labels(labels.shape[1]))

    def start(
        self,
        coordinates: Inputs | Selected,
        labels: csr_array,
        inducing: NDArray[np.floating] | None,
        random: np.random.Generator,
    ) -> tuple[Bound, Parameters]:
        """Return the bound and its initial parameters, for points to train on."""
        return self.bound(coordinates), self.initial(coordinates.feature_count, labels, random)

    def later_stages(
        self, problem: Problem, steps: Stochastic, trained: NDArray[np.int64], held_out: NDArray[np.int64]
    ) -> Sequence[Inference]:
        """Return the stages after the stochastic steps for T, Φ and b.

        First come sweeps over the labels, without the held-out points; then the choices on these points;
        then a last, shorter sweep over all points, which keeps the shortlists of the sweep before. Without
        label weights there are no sweeps. Held-out points are neighbours in the end.
        """
        settings = self.settings
        coordinates = problem.coordinates
        labels = problem.labels
        count = sweep_count(settings, labels.shape[0], coordinates.feature_count, labels.shape[1])
        has_last = bool(count and len(held_out))
        if has_last:
            # One sweep comes before the choices on held-out points, and one after them.
            count = 1
        total = count + has_last
        make_data = functools.cache(functools.partial(self._sweep_data, problem, steps))
        sweep = functools.partial(Sweep, make_data, labels)
        # Where a last sweep follows, the one before it leaves the prior to it: one more update would widen the prior.
        prior_updates = count - 1 if has_last else count
        sweeps = [
            sweep(SweepPlan(ROUNDS, i, total, with_weights=i > 0, updates_prior=i < prior_updates), left_out=held_out)
            for i in range(count)
        ]

        def current_parameters() -> Parameters:
            return steps.parameters() | (sweeps[-1].parameters() if sweeps else {})

        stages: list[Inference] = [*sweeps]
        if settings.neighbours or len(held_out):
            choices = HeldOutChoices(problem, (trained, held_out), current_parameters, settings.neighbours)
            stages.append(choices)
        if has_last:
            plan = SweepPlan(LAST_ROUNDS, count, total, updates_prior=True)
            stages.append(sweep(plan, shortlisted=held_out))
        return stages

    def bound(self, coordinates: Inputs | Selected) -> Bound:
        """Return the bound for minibatches of some points."""
        return Bound(WeightSpace(feature_shares(coordinates.weighted(slice(None)).sparse)), self.quadrature)

    def initial(self, D: int, labels: csr_array, random: np.random.Generator) -> Parameters:
        """Return initial parameters: means of q(u) ~ N(0, 1/P), small Φ, and b at the log odds of label frequencies."""
        P = self.settings.factor_count
        dtype = np.dtype(self.settings.dtype)
        mean = random_rows(D, P, random, dtype)
        loadings = random_rows(labels.shape[1], P, random, dtype)
        loadings *= LOADINGS_LENGTH
        log_variance, log_prior = (np.full(D, np.log(start), dtype) for start in (VARIANCE_START, PRIOR_START))
        parameters: Parameters = dict(zip(WHITENED, (mean, log_variance, log_prior), strict=True))
        return parameters | {"loadings": loadings, "bias": initial_bias(labels, dtype)}

    def _sweep_data(self, problem: Problem, steps: Stochastic) -> SweepData:
        """Return the `SweepData` of all points, with initial label weights."""
        features = problem.coordinates.weighted(slice(None)).sparse
        bias = steps.parameters()["bias"]
        weights = initial_label_weights(features, problem.labels, bias, problem.coordinates.dtype)
        seed = self.settings.seed
        return SweepData(problem.work, seed, features, problem.labels, steps.parameters, weights)

    def trained(self, bound: Bound, parameters: Parameters) -> Parameters:
        """Return the parameters of a trained model, with q(t) in place of the whitened q(u) that steps change."""
        others = {name: value for name, value in parameters.items() if name not in WHITENED}
        return cast("WeightSpace", bound.latent).posterior(parameters) | others

    def predict(self, parameters: Parameters) -> WeightSpacePrediction:
        """Return the latent functions of a trained model."""
        return WeightSpacePrediction(parameters)

    @property
    def array_groups(self) -> Mapping[ArrayGroup, bool | None]:
        """The arrays of the latent functions, which a model must have."""
        return {LATENT_WEIGHTS: True}


def sweep_count(settings: MLGPFSettings, N: int, D: int, K: int) -> int:
    """Return the number of sweeps over the labels; 0 without label weights."""
    has_weights = settings.label_weights
    if has_weights is None:
        has_weights = used_by_default(D, settings.factor_count)
    if not has_weights:
        return 0
    return SWEEPS if N * K <= SECOND_SWEEP_LIMIT else 1
