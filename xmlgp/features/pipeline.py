"""Preprocessing: the quantities that models compute from the features before training.

The settings are those of a model, of which a function names those that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from xmlgp.data.dataset import Features
from xmlgp.features.inducing import initial_inducing
from xmlgp.features.inputs import Inputs, are_dense
from xmlgp.features.weighting import (
    IDF_WEIGHTINGS,
    Weighting,
    count_points,
    inverse_frequencies,
    largest_magnitude,
    mean_and_scale,
    weigh,
)
from xmlgp.linear_algebra.array_groups import Array, ArrayGroup, arrays_fit, is_not_empty
from xmlgp.runtime.errors import SettingsError
from xmlgp.runtime.executor import LOCAL_EXECUTOR, Executor
from xmlgp.runtime.progress import Progress, silent

__all__ = ["Preprocessed", "check_magnitudes", "find_inducing_inputs", "standardise_features", "weight_features"]

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
    basis: np.ndarray | None = None
    inducing: np.ndarray | None = None
    center: np.ndarray | None = None

    def to_arrays(self, prefix: str = "") -> dict[str, NDArray[Any]]:
        """Return the arrays by name, after a prefix, for a file; `from_arrays` reads them back."""
        arrays = self._asdict() | self.weighting._asdict()
        names = ("idf", "basis", "inducing", "scale", "center")
        return {f"{prefix}{name}": arrays[name] for name in names if arrays[name] is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], settings: Any, D: int) -> Preprocessed:
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
        center = None if self.center is None or not np.any(self.center) else self.center * self.weighting.scale
        return Inputs(features, self.basis, dtype, weigh=self.weigh, sparse=sparse, center=center, **options)

    def weigh(self, features: Features, executor: Executor = LOCAL_EXECUTOR) -> Features:
        """Return weighted features, N×D; see `xmlgp.features.weighting.weigh`."""
        return features.with_sparse(weigh(features.sparse, self.weighting, executor))


def weight_features(
    features: Features, settings: Any, progress: Progress = silent, executor: Executor = LOCAL_EXECUTOR
) -> Preprocessed:
    """Return the feature weights for the setting `weighting`; see `Model.preprocess`.

    Raises SettingsError if no point has a feature, or points are so far from the origin that computations overflow.
    """
    _check_not_empty(features)
    idf = inverse_frequencies(settings.weighting, features.N, count_points(features.sparse))
    weighting = Weighting.named(settings.weighting, idf)
    if not weighting.unit:
        check_magnitudes(features.sparse, "choose another weighting")
    return Preprocessed(weighting)


def find_inducing_inputs(
    features: Features, settings: Any, progress: Progress = silent, executor: Executor = LOCAL_EXECUTOR
) -> Preprocessed:
    """Return the feature weights, the basis of the subspace if there is one, and the initial inducing inputs.

    See `Model.preprocess`. The settings are `weighting`, `inducing`, `basis_size`, `inducing_count`,
    `start_of_inducing`, `kernel` and `seed`. `executor` computes the basis; inducing inputs are computed here, from a
    sample of the points. Errors are those of `weight_features`.
    """
    preprocessed = weight_features(features, settings)
    if settings.inducing == "features":
        return preprocessed
    weighted = preprocessed.weigh(features, executor)
    basis = None
    if settings.inducing == "subspace":
        from xmlgp.features.basis import truncated_svd_basis

        basis = truncated_svd_basis(weighted.sparse, settings.basis_size, settings.seed, executor)
    inducing = _initial_inducing(Inputs(weighted, basis, np.float32, dense_limit=0), settings)
    if "se" in settings.kernel:
        # Centroids of unit rows are short, so an SE kernel has all points at the same distance and does not learn.
        norms = np.linalg.norm(inducing, axis=1, keepdims=True)
        inducing /= np.where(norms > 0, norms, 1)
    return preprocessed._replace(basis=basis, inducing=inducing)


def standardise_features(features: Features, settings: Any, progress: Progress = silent) -> Preprocessed:
    """Return the scale and centre of each feature, unless `settings.standardise` is False, and initial inducing inputs.

    Features are standardised by scaling. If points have most features, the mean is subtracted as well; otherwise absent
    features stay absent. To a kernel that depends on distances alone, both are the same except for rounding. The other
    settings are `inducing_count`, `start_of_inducing` and `seed`. Errors are those of `weight_features`.
    """
    _check_not_empty(features)
    if settings.standardise:
        mean, scale = mean_and_scale(features.sparse)
        center = mean if are_dense(features) else np.zeros_like(mean)
        preprocessed = Preprocessed(Weighting.named("standard", scale=scale), center=center)
    else:
        check_magnitudes(features.sparse, "use standardise=true")
        preprocessed = Preprocessed(Weighting.named("none"))
    inputs = preprocessed.inputs(features, np.float32, dense_limit=0)
    return preprocessed._replace(inducing=_initial_inducing(inputs, settings))


def _initial_inducing(inputs: Inputs, settings: Any) -> NDArray[np.float32]:
    """Return the initial inducing inputs, M×R or M×D."""
    return initial_inducing(inputs, settings.inducing_count, settings.start_of_inducing, settings.seed)


def _check_not_empty(features: Features) -> None:
    if not features.sparse.nnz:
        raise SettingsError("there is nothing to learn from: no training point has a feature")


def check_magnitudes(features: csr_array, advice: str) -> None:
    """Raise SettingsError, with advice, if features, N×D, are too far from the origin."""
    peak = largest_magnitude(features)
    if peak * np.sqrt(np.diff(features.indptr).max(initial=0)) > MAX_LENGTH:
        raise SettingsError(
            f"features are as large as {peak:.3g}, and sums of their squares do not fit single precision; scale them, "
            f"or {advice}"
        )
