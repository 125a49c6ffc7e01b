"""Scoring points with a trained model: utilities or probabilities of the top labels, in bounded memory."""

import functools

import numpy as np
import scipy.sparse as sp

from xmlgp.errors import ModelFolderError, NumericalError, SettingsError
from xmlgp.gp import expectations, label_weights, regression
from xmlgp.gp.factors import pair_moments, utility_moments
from xmlgp.gp.mlgpf import MLGPF
from xmlgp.gp.posteriors import Moments
from xmlgp.gp.products import Points
from xmlgp.linear_algebra import dense, sparse
from xmlgp.linear_algebra.compiled import compiled
from xmlgp.models.build import stored_preprocessing
from xmlgp.prediction.scores_file import Scores
from xmlgp.preprocess.coordinates import Coordinates
from xmlgp.threads import in_parts, one_blas_thread

__all__ = ["MEMORY", "OUTPUTS", "Predictor", "offer"]

OUTPUTS = ("utility", "probability")

#: Megabytes that scoring may take, unless told otherwise.
MEMORY = 256

#: Points and labels scored at a time: their scores stay in a core's own cache until the best are picked.
ROWS, LABELS = 256, 1024

#: Of more labels than this the best are found by sorting all.
FEW = 64


class Predictor:
    """A trained model, ready to score.

    Parameters
    ----------
    settings : Settings
    preprocessed : Preprocessed
        Its start of the inducing inputs is not needed.
    parameters : mapping of str to ndarray
        As training returns them.
    feature_count : int
        D.
    """

    def __init__(self, settings, preprocessed, parameters, feature_count):
        self.feature_count = feature_count
        self.label_count = len(parameters["bias"])
        self._dtype = np.dtype(settings.dtype)
        self._preprocessed = preprocessed
        self._parameters = parameters
        self._predictive = MLGPF(settings).predictive(parameters, feature_count)
        self._nodes = settings.nodes

    @classmethod
    def open(cls, folder):
        """Return the predictor of a model folder.

        Parameters
        ----------
        folder : ModelFolder
            At stage "trained".

        Raises
        ------
        ModelFolderError
            Where the model was preprocessed but not trained yet, or is damaged.
        """
        if folder.stage != "trained":
            raise ModelFolderError(f"{folder.path}: the model is {folder.stage}, but not trained yet")
        preprocessed, parameters = stored_preprocessing(folder), folder.arrays("parameters.")
        D, K = (folder.description["data"][name] for name in "DK")
        try:
            fits = (
                _as_settings_say(folder.settings, parameters)
                and all(np.isfinite(value).all() for value in parameters.values())
                and parameters["loadings"].shape[:-1] == parameters["bias"].shape == (K,)
                and parameters["inducing"].size
                and label_weights.fits(parameters, D, K)
                and regression.fits(parameters, D, K)
            )
            if fits:
                with _overflow_is_told_later():
                    predictor = cls(folder.settings, preprocessed, parameters, D)
                # No points at all are scored by arrays of the right shapes only.
                fits = predictor.utilities(sp.csr_array((0, D), dtype=np.float32))[0].shape == (0, K)
        except (LookupError, TypeError, ValueError):
            fits = False
        if not fits:
            raise ModelFolderError(f"{folder.path}: the model is damaged, its arrays do not fit each other")
        return predictor

    def check(self, feature_count):
        """Raise SettingsError for points with another number of features than the model."""
        if feature_count != self.feature_count:
            raise SettingsError(
                f"the points have {feature_count} features, but the model was trained on {self.feature_count}"
            )

    def utilities(self, features):
        """Return mean and variance of q(f_ik) for all labels, both N×K, without regard to memory.

        Parameters
        ----------
        features : csr_array, N×D
            As read, without weighting.
        """
        weighted = self._preprocessed.weigh(features)
        with one_blas_thread(), _overflow_is_told_later():
            return self._predictive(self._points(weighted), weighted)

    @functools.cached_property
    def _map(self):
        """From weighted features to the means of the latent functions, D×P; None where the kernel is not linear."""
        mapped = self._predictive.mean_map()
        if mapped is None or self._preprocessed.basis is None:
            return mapped
        return dense.product(self._preprocessed.basis.T, mapped)

    def _points(self, weighted):
        coordinates = Coordinates(weighted, self._preprocessed.basis, self._dtype, dense_limit=0)
        return Points(*coordinates.rows(slice(None)))

    def _latent_mean(self, weighted):
        if self._map is None:
            return self._predictive.latent_mean(self._points(weighted))
        return sparse.product(weighted.astype(self._dtype, copy=False), self._map)

    def score(self, features, output="utility", with_std=False):
        """Return scores of all labels, N×K, and their standard deviations or None.

        The utility is the mean of q(f), pooled with the regression where there is one (`gp.regression.pool`); the
        probability is E σ(f) under the same distribution, and its standard deviation that of σ(f) ([S] A.3).

        Parameters
        ----------
        features : csr_array, N×D
        output : str
            One of `OUTPUTS`.
        with_std : bool

        Raises
        ------
        NumericalError
            Where a score is not finite: features that are not weighted can be too large.
        """
        mean, variance = self.utilities(features)
        with _overflow_is_told_later():
            scores = self._scores(mean, variance, output)
            std = self._deviations(mean, variance, output) if with_std else None
        finite = np.isfinite(scores) & (True if std is None else np.isfinite(std))
        if not finite.all():
            point, label = np.argwhere(~finite)[0]
            raise NumericalError(f"the score of label {label} for point {point} is not finite")
        return scores, std

    def _scores(self, mean, variance, output):
        return mean if output == "utility" else expectations.logistic(mean, variance, self._nodes)

    def _deviations(self, mean, variance, output):
        if output == "utility":
            return np.sqrt(np.maximum(variance, 0))
        probability, half_spread = expectations.logistic_gradients(mean, variance, self._nodes)
        # half_spread is ½ E σ(1−σ), so E σ² = E σ − 2 half_spread.
        return np.sqrt(np.maximum(probability - 2 * half_spread - probability**2, 0))

    def top(self, features, k, output="utility", with_std=False, memory=MEMORY):
        """Yield the top labels of points (`Scores`), a chunk of points at a time.

        Parameters
        ----------
        features : csr_array, N×D
        k : int or None
            Labels a point; None for all.
        output : str
            One of `OUTPUTS`.
        with_std : bool
        memory : int
            Megabytes that a chunk may take, beside the model.

        Raises
        ------
        SettingsError
            Where the points have another number of features than the model.
        """
        self.check(features.shape[1])
        k = min(k or self.label_count, self.label_count)
        chunk = max(1, (memory << 20) // self._bytes_a_point(k, output, with_std))
        for start in range(0, features.shape[0], chunk):
            with one_blas_thread(), _overflow_is_told_later():
                scores = self._top(features[start : start + chunk], k, output, with_std)
            yield scores

    def _bytes_a_point(self, k, output, with_std):
        """Return what a point needs while it is scored, and until its labels are written."""
        M, Q = self._parameters["inducing"].shape
        P = self._parameters["loadings"].shape[1]
        numbers = 4 * P + 4 * k + 2 * min(LABELS, self.label_count)
        if self._predictive.has_regression:
            numbers += self._parameters["regression.loadings"].shape[1]
        if k > FEW:
            numbers += 4 * self.label_count
        if with_std or output != "utility" or self._map is None:
            # Covariances and their product with C⁻¹; for other posteriors than the shared one, of each function.
            shared = self._parameters.get("posterior.log_diagonal", np.empty((1, 1))).ndim == 1
            numbers += Q + 2 * M * (1 if shared else P)
        return numbers * 8

    def _top(self, features, k, output, with_std):
        count = features.shape[0]
        labels, scores = np.empty((count, k), np.int32), np.empty((count, k), self._dtype)
        std = np.empty((count, k), self._dtype) if with_std else None
        variance_needed = with_std or output != "utility"

        def part(first, last):
            for start in range(first, last, ROWS):
                rows = slice(start, min(start + ROWS, last))
                weighted = self._preprocessed.weigh(features[rows])
                if variance_needed:
                    moments = self._predictive.latent(self._points(weighted))
                else:
                    moments = Moments(self._latent_mean(weighted), None)
                own = self._predictive.weighted_points(weighted)
                latent = self._predictive.regressed(weighted)
                self._pick(moments, own, latent, output, labels[rows], scores[rows])
                if with_std:
                    pairs = self._of_pairs(moments, own, latent, labels[rows])
                    std[rows] = self._deviations(*pairs, output).reshape(-1, k)

        in_parts(part, count, 1)
        return Scores.from_top(labels, scores, self.label_count, std)

    def _of_pairs(self, moments, own, latent, labels):
        """Return the moments of the utilities of some labels of each point, B×k, in a row."""
        indptr = np.arange(0, labels.size + 1, labels.shape[1])
        columns = labels.ravel()
        mean, variance = pair_moments(moments, self._parameters["loadings"], self._parameters["bias"], indptr, columns)
        if own is not None:
            own.add_pairs(
                label_weights.PairsByLabel.of(indptr, *np.unique(columns, return_inverse=True)), mean, variance
            )
        self._predictive.pool_pairs(latent, indptr, columns, mean, variance)
        return mean, variance

    def _pick(self, moments, own, latent, output, labels, scores):
        """Fill in the labels of highest score and their scores, best first, equal ones by label."""
        k = labels.shape[1]
        width = self.label_count if k > FEW else LABELS
        for start in range(0, self.label_count, width):
            block = slice(start, start + width)
            phi, bias = self._parameters["loadings"][block], self._parameters["bias"][block]
            if output == "utility":
                mean, variance = moments.mean @ phi.T, None
                mean += bias
            else:
                mean, variance = utility_moments(moments, phi, bias)
            if own is not None:
                own.add(start, mean, variance)
            self._predictive.pool(latent, block, mean, variance)
            values = self._scores(mean, variance, output)
            if k > FEW:
                order = np.argsort(-values, axis=1, kind="stable")[:, :k]
                labels[:], scores[:] = order, np.take_along_axis(values, order, axis=1)
            else:
                offer(values, start, labels, scores)


def _overflow_is_told_later():
    """Have NumPy not warn of what is not finite: scores are looked at, here or where they are written."""
    return np.errstate(divide="ignore", over="ignore", invalid="ignore")


@compiled
def offer(values, first, labels, best):
    """Take the scores of labels from `first` on into the best k so far, of each point, if they are among them.

    Parameters
    ----------
    values : ndarray, B×L
        Scores of L labels, all later ones than those offered before.
    first : int
        The first of them, 0 at the beginning; then `labels` and `best` are empty.
    labels, best : ndarray, B×k
        Changed in place; highest score first, equal ones by label.
    """
    k = best.shape[1]
    for i in range(values.shape[0]):
        count = min(first, k)
        for j in range(values.shape[1]):
            value = values[i, j]
            if np.isnan(value):
                value = -np.inf
            if count < k:
                place = count
                count += 1
            elif value > best[i, k - 1]:
                place = k - 1
            else:
                continue
            while place > 0 and value > best[i, place - 1]:
                best[i, place], labels[i, place] = best[i, place - 1], labels[i, place - 1]
                place -= 1
            best[i, place], labels[i, place] = value, first + j


def _as_settings_say(settings, parameters):
    """Return whether there are the parameters that a model of these settings has, and no others: each counts."""
    own, regressed = (
        any(name.startswith(f"{part}.") for name in parameters) for part in ("label_weights", "regression")
    )
    others = {name for name in parameters if not name.startswith(("label_weights.", "regression."))}
    return (
        others == set(MLGPF(settings).parameter_names())
        and settings.label_weights in (None, own)
        and (settings.regression_points > 0 or not regressed)
    )
