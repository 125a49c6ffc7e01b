"""Preprocessing: the quantities that models compute from the features before training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from xmlgp.data.features import Features
from xmlgp.features.inducing import LEADING, candidates, initial_inducing
from xmlgp.features.inputs import Inputs, are_dense
from xmlgp.features.weighting import (
    IDF_WEIGHTINGS,
    Weighting,
    count_points,
    idf_of_counts,
    mean_and_scale,
    sizes_of,
    weigh,
    weigh_points,
    weighted_sizes,
)
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, arrays_fit, is_not_empty
from xmlgp.models.fields import Settings
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.progress import Progress, silent
from xmlgp.runtime.work import THIS_MACHINE, Work

__all__ = [
    "Preprocessed",
    "check_magnitudes",
    "find_inducing_inputs",
    "standardise_features",
    "weight_features",
    "weighting_of_counts",
]

#: Largest length of a weighted point: its square can be summed over a hundred million points in single precision.
MAX_LENGTH = 1e15


#: The arrays of preprocessing, by what the settings ask for.
IDF = ArrayGroup(idf=Array("D"))
STANDARD = ArrayGroup(scale=Array("D"), center=Array("D"))
SUBSPACE = ArrayGroup(basis=Array("R D"), inducing=Array("M R", check=is_not_empty))
FREE = ArrayGroup(inducing=Array("M D", check=is_not_empty))


class Preprocessed(NamedTuple):
    """The result of preprocessing.

    `basis` is X̃, R×D, the transpose of a C-contiguous array; None for free inducing inputs, and for models without
    any. `inducing` is the initial A, M×R, or Z, M×D; None for models without inducing inputs. `center`, D, is what is
    subtracted from raw features with weighting "standard": zeros if points are sparse, so that they remain sparse.
    """

    weighting: Weighting
    basis: np.ndarray | None
    inducing: np.ndarray | None
    center: np.ndarray | None = None

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by name, for a file; `from_arrays` reads them back."""
        arrays = self._asdict() | self.weighting._asdict()
        names = ("idf", "basis", "inducing", "scale", "center")
        return {name: arrays[name] for name in names if arrays[name] is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], settings: Settings, D: int) -> Preprocessed:
        """Return the object that `to_arrays` was called on, of untrusted arrays by name.

        Raises ValueError if the arrays are not those of these settings and D features.
        """
        # A model without inducing inputs has the same arrays as one whose inducing inputs are the unit vectors.
        space = getattr(settings, "inducing", "features")
        groups: dict[ArrayGroup, bool | None] = {
            IDF: settings.weighting in IDF_WEIGHTINGS,
            STANDARD: settings.weighting == "standard",
        }
        if space != "features":
            groups[SUBSPACE if space == "subspace" else FREE] = True
        if not arrays_fit(arrays, groups, {"D": D}):
            raise ValueError("the arrays of preprocessing do not fit the settings or each other")
        idf, scale, basis = map(arrays.get, ("idf", "scale", "basis"))
        if basis is not None:
            # The order that products need; a copy if the file has the other one.
            basis = np.asfortranarray(basis)
        weighting = Weighting.named(settings.weighting, idf, scale)
        return cls(weighting, basis, arrays.get("inducing"), arrays.get("center"))

    def inputs(self, features: Features, dtype: DTypeLike, **options: Any) -> Inputs:
        """Return the `Inputs` of raw features, N×D."""
        sparse = self.inducing is None
        center = None if self.center is None or not self.is_centered else self.center * self.weighting.scale
        return Inputs(features, self.basis, dtype, weigh=self.weigh, sparse=sparse, center=center, **options)

    @property
    def is_centered(self) -> bool:
        """Whether anything is subtracted from features, so that coordinates are dense."""
        return self.center is not None and bool(np.any(self.center))

    def weigh(self, features: Features) -> Features:
        """Return weighted features, N×D."""
        return features.with_sparse(weigh(features.sparse, *self.weighting))

    def weigh_points(self, features: Features, work: Work = THIS_MACHINE) -> Features:
        """Return the same of many points, by row shards; the weighting has no scale."""
        return features.with_sparse(weigh_points(features.sparse, self.weighting, work))


def weight_features(
    features: Features, settings: Settings, progress: Progress = silent, work: Work = THIS_MACHINE
) -> Preprocessed:
    """Return the feature weights of a model without inducing inputs; see `Model.preprocess`."""
    weighting = _fit_weighting(features, settings.weighting, work)
    # In parts, because features may be in a file that is larger than memory.
    check_magnitudes(weighted_sizes(features.sparse, weighting, work))
    return Preprocessed(weighting, None, None)


def find_inducing_inputs(
    features: Features, settings: Settings, progress: Progress = silent, work: Work = THIS_MACHINE
) -> Preprocessed:
    """Return the feature weights, the basis of the subspace if there is one, and the initial inducing inputs.

    See `Model.preprocess`. The settings are `weighting`, `inducing`, `basis_size`, `inducing_count`,
    `start_of_inducing`, `kernel` and `seed`. `work` computes document frequencies, weighted features and the basis;
    inducing inputs are computed here, from a sample of the points. Raises SettingsError if no point has a feature, or
    points are so far from the origin that computations overflow.
    """
    if settings.inducing == "features":
        return weight_features(features, settings, progress, work)
    weighting = _fit_weighting(features, settings.weighting, work)
    weighted = weigh_points(features.sparse, weighting, work)
    check_magnitudes([sizes_of(weighted)])
    basis = None
    leading = None
    if settings.inducing == "subspace":
        from xmlgp.features.basis import truncated_svd_basis

        basis = truncated_svd_basis(weighted, settings.basis_size, settings.seed, progress, work)
        leading = LEADING
    inducing = _initial_inducing(
        Inputs(Features(weighted), basis, np.float32, dense_limit=0), settings, leading, progress
    )
    if "se" in settings.kernel:
        # Centroids of unit rows are short, so an SE kernel has all points at the same distance and does not learn.
        norms = np.linalg.norm(inducing, axis=1, keepdims=True)
        inducing /= np.where(norms > 0, norms, 1)
    return Preprocessed(weighting, basis, inducing)


def standardise_features(features: Features, settings: Settings, progress: Progress = silent) -> Preprocessed:
    """Return the scale and centre of each feature, unless `settings.standardise` is False, and initial inducing inputs.

    Features are standardised by scaling. If points have most features, the mean is subtracted as well; otherwise absent
    features stay absent. To a kernel that depends on distances alone, both are the same except for rounding. The other
    settings are `inducing_count`, `start_of_inducing` and `seed`. Errors are those of `find_inducing_inputs`.
    """
    _check_not_empty(features)
    if settings.standardise:
        mean, scale = mean_and_scale(features.sparse)
        center = mean if are_dense(features) else np.zeros_like(mean)
        preprocessed = Preprocessed(Weighting.named("standard", scale=scale), None, None, center)
        inputs = preprocessed.inputs(features, np.float32, dense_limit=0)
    else:
        preprocessed = Preprocessed(Weighting.named("none"), None, None)
        weighted = preprocessed.weigh(features)
        check_magnitudes([sizes_of(weighted.sparse)], "use standardise=true")
        inputs = Inputs(weighted, None, np.float32, dense_limit=0)
    return preprocessed._replace(inducing=_initial_inducing(inputs, settings, None, progress))


def _fit_weighting(features: Features, name: str, work: Work) -> Weighting:
    """Return the `Weighting` of a name with the inverse document frequencies of these features."""
    _check_not_empty(features)
    return weighting_of_counts(name, features.N, count_points(features.sparse, work))


def weighting_of_counts(name: str, N: int, counts: NDArray[np.int64]) -> Weighting:
    """Return the `Weighting` of a value of the setting, for N points of which `counts`, D, have each feature."""
    if name not in IDF_WEIGHTINGS:
        return Weighting.named(name)
    idf = idf_of_counts(N, counts)
    if name == "root-idf":
        # The square root, so that inner products weight each feature by its inverse document frequency once.
        idf = np.sqrt(idf)
    return Weighting.named(name, idf)


def _initial_inducing(
    inputs: Inputs, settings: Settings, leading: int | None, progress: Progress
) -> NDArray[np.float32]:
    """Return the initial inducing inputs, M×R or M×D."""
    rows = candidates(inputs, settings.inducing_count, settings.seed)
    values, _ = inputs.rows(rows)
    if isinstance(values, Features):
        values = values.sparse
    method = settings.start_of_inducing
    seed = settings.seed
    return initial_inducing(values, settings.inducing_count, method, seed, leading, progress)


def _check_not_empty(features: Features) -> None:
    if not features.sparse.nnz:
        raise SettingsError("there is nothing to learn from: no training point has a feature")


def check_magnitudes(sizes: Iterable[tuple[float, int]], advice: str = "choose another weighting") -> None:
    """Raise SettingsError with advice if weighted features, of these `sizes_of` parts, are too far from the origin."""
    peak, length = np.max(list(sizes), axis=0, initial=0)
    if peak * np.sqrt(length) > MAX_LENGTH:
        raise SettingsError(
            f"features are as large as {peak:.3g}, and sums of their squares do not fit single precision; scale them, "
            f"or {advice}"
        )
