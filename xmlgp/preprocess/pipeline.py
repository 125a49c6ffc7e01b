"""Preprocessing from features to the arrays that training starts from."""

from typing import NamedTuple

import numpy as np

from xmlgp.errors import SettingsError
from xmlgp.preprocess.basis import truncated_svd_basis
from xmlgp.preprocess.coordinates import Coordinates
from xmlgp.preprocess.inducing import LEADING, candidates, start_inducing
from xmlgp.preprocess.weighting import IDF_WEIGHTINGS, Weighting, inverse_document_frequency, row_chunks, weigh
from xmlgp.progress import silent

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
    """

    weighting: Weighting
    basis: np.ndarray | None
    inducing: np.ndarray | None

    def coordinates(self, features, dtype, **options):
        """Return the `Coordinates` of raw features, N×D."""
        return Coordinates(features, self.basis, dtype, weigh=self.weigh, sparse=self.inducing is None, **options)

    def weigh(self, features):
        """Return weighted features, N×D."""
        return weigh(features, *self.weighting)


def preprocess(features, settings, progress=silent):
    """Return the feature weights, the basis and the start of the inducing inputs; the weights alone without those.

    Parameters
    ----------
    features : csr_array, N×D
        X as read.
    settings : Settings
    progress : callable
        See `xmlgp.progress`.

    Raises
    ------
    SettingsError
        Where there is no feature to learn from, or points are too far from the origin to be computed with.
    """
    if not features.nnz:
        raise SettingsError("there is nothing to learn from: no training point has a feature")
    idf = inverse_document_frequency(features) if settings.weighting in IDF_WEIGHTINGS else None
    if settings.weighting == "root-idf":
        # Inner products then weight each feature by its inverse document frequency once, not twice.
        idf = np.sqrt(idf)
    weighting = Weighting.named(settings.weighting, idf)
    if "inducing" not in settings.preprocess_part():
        # A part at a time: features may be in a file that is larger than memory.
        _check_size(weigh(features[rows], *weighting) for rows in row_chunks(features, CHUNK))
        return Preprocessed(weighting, None, None)
    weighted = weigh(features, *weighting)
    _check_size([weighted])
    basis, leading = None, None
    if settings.inducing == "subspace":
        basis = truncated_svd_basis(weighted, settings.basis_size, settings.seed, progress)
        leading = LEADING
    coordinates = Coordinates(weighted, basis, np.float32, dense_limit=0)
    rows = candidates(coordinates, settings.inducing_count, settings.seed)
    values, _ = coordinates.rows(rows)
    start, seed = settings.inducing_start, settings.seed
    inducing = start_inducing(values, settings.inducing_count, start, seed, leading, progress)
    return Preprocessed(weighting, basis, inducing)


def _check_size(parts):
    """Raise SettingsError where points, as weighted and given in parts, are too far from the origin."""
    sizes = [(np.abs(part.data).max(initial=0), np.diff(part.indptr).max(initial=0)) for part in parts]
    peak, length = np.max(sizes, axis=0)
    farthest = peak * np.sqrt(length)
    if farthest > FARTHEST:
        raise SettingsError(
            f"features are as large as {peak:.3g}, and sums of their squares do not fit single precision; scale them, "
            "or choose another --weighting"
        )
