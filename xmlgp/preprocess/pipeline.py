"""Preprocessing from features to the arrays that training starts from."""

from typing import NamedTuple

import numpy as np

from xmlgp.errors import SettingsError
from xmlgp.preprocess.basis import truncated_svd_basis
from xmlgp.preprocess.coordinates import Coordinates, are_dense
from xmlgp.preprocess.inducing import LEADING, candidates, start_inducing
from xmlgp.preprocess.standardise import mean_and_scale
from xmlgp.preprocess.weighting import IDF_WEIGHTINGS, Weighting, inverse_document_frequency, row_chunks, weigh
from xmlgp.runtime.progress import silent

__all__ = ["Preprocessed", "preprocess"]


#: Length of a point, as weighted, whose square can be added up over a hundred million points in single precision.
FARTHEST = 1e15

#: Stored elements that are weighted at a time where they are only looked at.
CHUNK = 1 << 20


class Preprocessed(NamedTuple):
    """What preprocessing computes.

    Attributes
    ----------
    weighting : Weighting
    basis : ndarray, R×D, or None
        X̃, the transpose of a C-contiguous array; None for free inducing inputs and without any.
    inducing : ndarray, M×R or M×D, or None
        The start of A or Z; None for a model without inducing inputs.
    center : ndarray, D, or None
        With weighting "standard" what is subtracted from raw features: zeros where points are sparse, and stay so.
    """

    weighting: Weighting
    basis: np.ndarray | None
    inducing: np.ndarray | None
    center: np.ndarray | None = None

    def to_arrays(self):
        """Return the arrays by name, for a file; `from_arrays` reads them back."""
        arrays = {
            "idf": self.weighting.idf,
            "basis": self.basis,
            "inducing": self.inducing,
            "scale": self.weighting.scale,
            "center": self.center,
        }
        return {name: array for name, array in arrays.items() if array is not None}

    @classmethod
    def from_arrays(cls, arrays, settings, D):
        """Return what `to_arrays` was called on.

        Parameters
        ----------
        arrays : mapping of str to ndarray
            Untrusted: names, shapes and values are checked here.
        settings : Settings
        D : int

        Raises
        ------
        ValueError
            If the arrays are not those of these settings and D features.
        """
        space = settings.preprocess_part().get("inducing")  # None for a model without inducing inputs
        names = {
            "idf": settings.weighting in IDF_WEIGHTINGS,
            "basis": space == "subspace",
            "inducing": space is not None,
            "scale": settings.weighting == "standard",
            "center": settings.weighting == "standard",
        }
        if arrays.keys() != {name for name, wanted in names.items() if wanted}:
            raise ValueError("the arrays of preprocessing are not those that the settings ask for")
        idf, basis, inducing, scale, center = map(arrays.get, names)
        fits = (
            all(array.shape == (D,) for array in (idf, scale, center) if array is not None)
            and (basis is None or (basis.ndim == 2 and basis.shape[1] == D))
            # A file can claim any number of rows without elements.
            and (inducing is None or (inducing.size and inducing.shape[1:] == (D if basis is None else len(basis),)))
            and all(np.isfinite(array).all() for array in arrays.values())
        )
        if not fits:
            raise ValueError("the arrays of preprocessing do not fit each other or the settings")
        if basis is not None:
            # The order that products need; a copy if the file has the other one.
            basis = np.asfortranarray(basis)
        return cls(Weighting.named(settings.weighting, idf, scale), basis, inducing, center)

    def coordinates(self, features, dtype, **options):
        """Return the `Coordinates` of raw features, N×D."""
        sparse = self.inducing is None
        center = self.center * self.weighting.scale if self.is_centered else None
        return Coordinates(features, self.basis, dtype, weigh=self.weigh, sparse=sparse, center=center, **options)

    @property
    def is_centered(self):
        """Whether anything is subtracted from features, so that coordinates are dense."""
        return self.center is not None and bool(np.any(self.center))

    def weigh(self, features):
        """Return weighted features, N×D."""
        return weigh(features, *self.weighting)


def preprocess(features, settings, progress=silent):
    """Return the feature weights, the basis and the start of the inducing inputs; the weights alone without those.

    Features are standardised by scaling them; where few of a point's are absent, their mean is subtracted as well. To
    a kernel that looks at distances alone that is the same but for rounding, and absent features stay absent.

    Parameters
    ----------
    features : csr_array, N×D
        X as read.
    settings : Settings
    progress : callable
        See `xmlgp.runtime.progress`.

    Raises
    ------
    SettingsError
        Where there is no feature to learn from, or points are too far from the origin to be computed with.
    """
    if not features.nnz:
        raise SettingsError("there is nothing to learn from: no training point has a feature")
    if settings.weighting == "standard":
        return _standardised(features, settings, progress)
    idf = inverse_document_frequency(features) if settings.weighting in IDF_WEIGHTINGS else None
    if settings.weighting == "root-idf":
        # Inner products then weight each feature by its inverse document frequency once, not twice.
        idf = np.sqrt(idf)
    weighting = Weighting.named(settings.weighting, idf)
    if "inducing" not in settings.preprocess_part():
        # A part at a time: features may be in a file that is larger than memory.
        _check_size((weigh(features[rows], *weighting) for rows in row_chunks(features, CHUNK)), settings)
        return Preprocessed(weighting, None, None)
    weighted = weigh(features, *weighting)
    _check_size([weighted], settings)
    basis, leading = None, None
    if settings.inducing == "subspace":
        basis = truncated_svd_basis(weighted, settings.basis_size, settings.seed, progress)
        leading = LEADING
    coordinates = Coordinates(weighted, basis, np.float32, dense_limit=0)
    return Preprocessed(weighting, basis, _inducing(coordinates, settings, leading, progress))


def _standardised(features, settings, progress):
    mean, scale = mean_and_scale(features)
    weighting = Weighting.named("standard", scale=scale)
    center = mean if are_dense(features) else np.zeros_like(mean)
    begun = Preprocessed(weighting, None, None, center)
    coordinates = begun.coordinates(features, np.float32, dense_limit=0)
    return begun._replace(inducing=_inducing(coordinates, settings, None, progress))


def _inducing(coordinates, settings, leading, progress):
    """Return the start of the inducing inputs."""
    rows = candidates(coordinates, settings.inducing_count, settings.seed)
    values, _ = coordinates.rows(rows)
    start, seed = settings.inducing_start, settings.seed
    return start_inducing(values, settings.inducing_count, start, seed, leading, progress)


def _check_size(parts, settings):
    """Raise SettingsError where points, as weighted and given in parts, are too far from the origin."""
    sizes = [(np.abs(part.data).max(initial=0), np.diff(part.indptr).max(initial=0)) for part in parts]
    peak, length = np.max(sizes, axis=0)
    farthest = peak * np.sqrt(length)
    if farthest > FARTHEST:
        other = "leave out --no-standardise" if settings.model == "gpc" else "choose another --weighting"
        raise SettingsError(
            f"features are as large as {peak:.3g}, and sums of their squares do not fit single precision; scale them, "
            f"or {other}"
        )
