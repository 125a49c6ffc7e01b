"""The base class of the estimators, which follow the scikit-learn API, and how a model folder becomes one."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from xmlgp.api.points import TrainingData
from xmlgp.api.source import DenseFeatures, check_width
from xmlgp.api.train import train
from xmlgp.api.trained_model import TrainedModel
from xmlgp.data.dataset import Features
from xmlgp.estimators.inputs import MatrixLike, check_feature_count, read_features
from xmlgp.estimators.scikit_learn import BaseEstimator, ClassifierMixin
from xmlgp.models.fields import Settings
from xmlgp.models.shared_settings import SEED_LIMIT
from xmlgp.runtime.executor import LOCAL_EXECUTOR, Executor
from xmlgp.runtime.threads import core_count, limit_threads
from xmlgp.text.names import Names

if TYPE_CHECKING:
    from typing_extensions import Self

    from xmlgp.models.model import Model

__all__ = ["Estimator"]


def _of_model(name: str) -> Any:
    """Return a property that reads an attribute of the fitted model."""
    return property(lambda estimator: getattr(estimator.model_, name))


class Estimator(ClassifierMixin, BaseEstimator):
    """A classifier whose parameters are the settings of its model.

    `with_settings_of` makes a subclass from the settings. The setting `seed` is the parameter `random_state`, as in
    scikit-learn: an integer, by default 0, a RandomState or None.

    Attributes
    ----------
    model_ : TrainedModel
        The fitted model, for the functions of `xmlgp`.
    parameters_, history_, names_
        `parameters`, `history` and `names` of `model_`.
    n_features_in_ : int
        Number of features, D.
    feature_names_in_ : ndarray of str, D
        The names of the columns of X, or those of the features in a model folder; missing if there are none. A
        DataFrame with other columns, or in another order, raises a ValueError, as in scikit-learn.
    """

    model: ClassVar[Model]

    #: Features are converted to this type.
    feature_dtype: ClassVar[type] = np.float32

    random_state: int | np.random.RandomState | None
    n_jobs: int | None
    keep_points: bool

    model_: TrainedModel
    parameters_: dict[str, NDArray[Any]] = _of_model("parameters")
    history_: list[dict[str, Any]] = _of_model("history")
    names_: Names = _of_model("names")

    def __dask_tokenize__(self) -> str:
        """Return a new name each time: Dask would identify a dataclass by its fields, which fitting does not change."""
        return uuid4().hex

    @property
    def n_features_in_(self) -> int:
        """The number of features, D."""
        return self.model_.signature.D

    @property
    def feature_names_in_(self) -> NDArray[np.object_]:
        """The names of the features; missing if there are none, or if they are the words of texts."""
        names = self.names_
        if names.features is None or names.vectorizer:
            raise AttributeError("the features have no names")
        return np.array(names.features, object)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model into a folder, for `load_estimator` and all commands; see `TrainedModel.save`.

        The settings in the folder are those of `fit`. `names_` are written too.
        """
        check_is_fitted(self)
        self.model_.save(path)

    def _fit(self, points: TrainingData, executor: Executor = LOCAL_EXECUTOR) -> Self:
        """Train on points, and return the estimator itself."""
        # An integer is the seed itself, so that commands with it train the same model.
        seed = self.random_state
        state = check_random_state(seed)
        if not isinstance(seed, Integral):
            seed = state.randint(SEED_LIMIT, dtype=np.int64)
        settings = self._settings(points.dataset.shape, int(seed))
        with self._threads():
            self.model_ = train(points, settings=settings, keep_points=self.keep_points, executor=executor)
        return self

    def _settings(self, shape: tuple[int, int, int], seed: int = 0) -> Settings:
        """Return the settings for a data set of a shape, N, D and K."""
        parameters = self.get_params() | {"seed": seed}
        for name in ("random_state", "n_jobs", "keep_points"):
            del parameters[name]
        return self.model.settings(**parameters).for_shape(*shape)

    def _threads(self) -> AbstractContextManager[None]:
        """Return a context that computes with the threads of `n_jobs`; negative ones count down from all cores."""
        n_jobs = self.n_jobs
        return limit_threads(max(1, core_count() + 1 + n_jobs) if n_jobs is not None and n_jobs < 0 else n_jobs)

    def _score(self, features: Features, output: str) -> NDArray[np.floating]:
        """Return the scores of all labels, N×K, from features for the fitted model."""
        with self._threads():
            return self.model_.predictor.score(features, output)[0]

    def _features_of_fit(self, X: MatrixLike, dense: DenseFeatures | None = None) -> Features:
        """Return the features of points; raise an error if they are not those that the estimator was fitted to."""
        check_is_fitted(self)
        if not sp.issparse(X):  # a sparse matrix has no names
            validate_data(self, X, reset=False, skip_check_array=True, ensure_2d=False)
        features = read_features(X, dense, self.feature_dtype)
        check_feature_count(self, features.D)
        self._check_features(features)
        return features

    def _check_features(self, features: Features) -> None:
        """Raise SettingsError if features do not fit the fitted model."""
        self.model_.predictor.check(features.D)
        check_width(features.width, self.model_.signature.E, "X")
