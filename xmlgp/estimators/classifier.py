"""The base classes of the estimators, which follow the scikit-learn API."""

from __future__ import annotations

import dataclasses
import inspect
import os
from abc import ABC
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from xmlgp.data.dataset import Dataset
from xmlgp.errors import SettingsError
from xmlgp.model_folder.folder import ModelFolder
from xmlgp.prediction.assignment import ABOVE_HALF, AssignmentRule, assign
from xmlgp.prediction.tuning import Tuned, tune
from xmlgp.runs.learn import learn_points
from xmlgp.runs.predict import StoredPredictor, predict_blocks
from xmlgp.runs.save import save_model
from xmlgp.runs.stored import open_model
from xmlgp.runtime.progress import silent
from xmlgp.text.names import Names
from xmlgp.training.trained import Trained
from xmlgp.work import THIS_MACHINE
from xmlgp.work.connection import open_work

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from numpy.typing import ArrayLike
    from typing_extensions import Self

    from xmlgp.model import Model
    from xmlgp.prediction.scores_file import Scores

    #: A matrix of features or labels.
    Matrix: TypeAlias = ArrayLike | sp.sparray | sp.spmatrix

__all__ = ["Classifier", "Estimator", "load_estimator"]


def load_estimator(path: str | os.PathLike[str]) -> Estimator:
    """Return the fitted estimator of the model in a folder, which `xmlgp train` or `save` has written.

    It predicts what `xmlgp predict` does. The folder is not trusted: it holds no code, and its content is checked. The
    arrays are read-only and mapped into memory, so that they are read where they are used.

    Parameters
    ----------
    path : path
        The model folder.

    Returns
    -------
    MLGPFClassifier, BMLPLClassifier or GPCClassifier
        Its parameters are the settings of the folder.

    Raises
    ------
    ModelFolderError
        If there is no model, or it is not trained yet, damaged or of another version.
    """
    folder, stored, names = ModelFolder.read(path, lambda folder: (folder, open_model(folder), folder.names))
    return Estimator.kinds[folder.settings.model]._from_stored(folder, stored, names)


def _learns_on(estimator: Estimator) -> bool:
    return estimator.model.learn is not None


class Estimator(ABC, ClassifierMixin, BaseEstimator):
    """A classifier whose parameters are the settings of its model.

    A subclass names its model and inherits the signature of its constructor from the settings:
    `class MLGPFClassifier(Classifier, model=MLGPF)`.

    Attributes
    ----------
    parameters_ : dict of str to ndarray
        As described in docs/model-folder.md.
    history_ : list of dict
        For each epoch `epoch`, the model's objective and `seconds`.
    n_features_in_ : int
        Number of features, D.
    tuned_ : Tuned or None
        What `tune` or `xmlgp tune` chose, and for which scores.
    names_ : Names
        What the model folder calls labels and features, and what maps text to these; None each after `fit`.
    learned_ : list of dict
        What each `partial_fit` or `xmlgp learn` added after training: `N` points, `D` features and `K` labels, their
        `fingerprint` and `history`, with entries as in `history_`.
    """

    #: The estimator of each model, by the model's name.
    kinds: ClassVar[dict[str, type[Estimator]]] = {}

    model: ClassVar[Model]

    #: Features are converted to this type.
    feature_dtype: ClassVar[type] = np.float32

    parameters_: dict[str, np.ndarray]
    history_: list[dict[str, Any]]
    n_features_in_: int
    tuned_: Tuned | None
    names_: Names
    learned_: list[dict[str, Any]]

    def __init_subclass__(cls, model: Model | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if model is None:
            return
        specs = dataclasses.fields(model.settings)

        def __init__(self, **settings):
            unknown = settings.keys() - {spec.name for spec in specs}
            if unknown:
                raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {min(unknown)!r}")
            for spec in specs:
                setattr(self, spec.name, settings.get(spec.name, spec.default))

        # scikit-learn reads the names of the parameters and their defaults from the signature.
        kind = inspect.Parameter
        named = [kind(spec.name, kind.KEYWORD_ONLY, default=spec.default, annotation=spec.type) for spec in specs]
        __init__.__signature__ = inspect.Signature([kind("self", kind.POSITIONAL_OR_KEYWORD), *named])  # type: ignore[attr-defined]
        __init__.__doc__ = None
        cls.__init__ = __init__  # type: ignore[method-assign]
        cls.model = model
        Estimator.kinds[model.name] = cls

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model into a folder, for `load_estimator` and all commands.

        The settings in the folder are those of `fit`. What `tune` chose, `names_` and `learned_` are written too.

        Parameters
        ----------
        path : path
            The model folder; created if missing. A model in it is replaced as a whole; an interrupted run of `xmlgp
            train` in it stays.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        SettingsError
            If the folder cannot hold the names of the two classes of `GPCClassifier`.
        ModelFolderError
            If the path is one of a file, or another process is writing the folder.
        OSError
            If the folder cannot be written; its earlier content stays.
        """
        check_is_fitted(self)
        trained = Trained(self.parameters_, self.history_)
        facts = {"names": self.names_} | self._more_to_store()
        if self.learned_:
            facts["learned"] = self.learned_
        save_model(path, self._settings, self._data, self._preprocessed, trained, self.tuned_, **facts)

    def _fit(self, features, labels, classes, work=THIS_MACHINE):
        settings = self.model.settings(**self.get_params()).for_shape(*features.shape, labels.shape[1])
        dataset = Dataset(features, labels)
        options = self.model.work_options(work)
        self.model.check_memory(settings, dataset)
        preprocessed = self.model.preprocess(features, settings, silent, **options)
        trained = self.model.train(features, labels, preprocessed, settings, silent, None, **options)
        predictor = self.model.predictor(settings, preprocessed, trained.parameters, features.shape[1])
        return self._set_fitted(settings, dataset.facts, preprocessed, trained, predictor, classes)

    def _set_fitted(self, settings, data, preprocessed, trained, predictor, classes):
        """Set the attributes of a fitted model, whose settings and data facts may differ from those of `self`."""
        self._settings, self._data, self._preprocessed, self._predictor = settings, data, preprocessed, predictor
        self.parameters_, self.history_ = trained
        self.n_features_in_ = predictor.feature_count
        self.classes_ = classes
        self.tuned_, self.names_, self.learned_ = None, Names(), []
        return self

    @classmethod
    def _from_stored(cls, folder, stored, names):
        """Return the fitted estimator of a model folder, its `StoredModel` and its `Names`."""
        description = folder.description
        trained = Trained(stored.parameters, description["history"])
        classes = cls._stored_classes(folder, stored.predictor.label_count)
        fitted = cls(**folder.settings.mapping())._set_fitted(
            folder.settings, description["data"], stored.preprocessed, trained, stored.predictor, classes
        )
        fitted.tuned_, fitted.names_, fitted.learned_ = folder.tuned, names, description.get("learned", [])
        return fitted

    @classmethod
    def _stored_classes(cls, folder, label_count):
        """Return `classes_` of the model in a folder."""
        return [np.array([0, 1])] * label_count

    def _more_to_store(self):
        """Return entries of the model folder that only this kind of model has."""
        return {}

    def _score(self, X, output):
        """Return the scores of all labels, N×K."""
        features = self._known_features(X)
        return self._predictor.score(features, output)[0]

    def _known_features(self, X):
        """Return the features of points for the fitted model; raise an error if they are not as many as in `fit`."""
        check_is_fitted(self)
        features = self._features(X)
        self._check_features(features.shape[1])
        return features

    def _check_features(self, count):
        self._predictor.check(count)

    def _features(self, X):
        features = sp.csr_array(check_array(X, accept_sparse="csr", dtype=self.feature_dtype))
        if not features.has_canonical_format or not features.data.all():
            features = features.copy()
            features.sum_duplicates()
            features.eliminate_zeros()
        return features


class Classifier(Estimator):
    """A multi-label classifier; see `Estimator` for its other attributes.

    Attributes
    ----------
    classes_ : list of ndarray
        [0, 1] for each of the K labels.
    assignment_rule_ : AssignmentRule or None
        The threshold and the limit of `tuned_`.
    """

    classes_: list[np.ndarray]

    def fit(self, X: Matrix, Y: Matrix, client: Any = None) -> Self:
        """Train on points and their labels; return the estimator itself.

        Parameters
        ----------
        X : array or sparse matrix, N×D
        Y : array or sparse matrix, N×K
            Nonzero where a point has a label.
        client : distributed.Client, optional
            Of a Dask cluster to train on.

        Raises
        ------
        SettingsError
            For a setting that is not allowed, for X and Y with different numbers of points, for training that does not
            fit into memory, or for a cluster if the model cannot use one.
        ClusterError
            If the cluster is lost.
        """
        features, labels = self._points(X, Y)
        with open_work(client=client) as work:
            return self._fit(features, labels, [np.array([0, 1])] * labels.shape[1], work)

    @available_if(_learns_on)
    def partial_fit(self, X: Matrix, Y: Matrix) -> Self:
        """Learn more points, as `xmlgp learn` does, and return the estimator itself; without `fit` before, it is `fit`.

        If there is an error, it stays as it was.

        What the model knows is the prior of what it learns. Give it new points only: points that it has learned count
        twice. It has no parameter `classes`: a label that occurs later is one more column of Y.

        The settings stay those of `fit`, and so do `history_` and `tuned_`. With more labels than before, `names_` has
        none of labels, with more features none of features and no vectorizer.

        Parameters
        ----------
        X : array or sparse matrix, n×D
            D may be larger than before. The first features are those known.
        Y : array or sparse matrix, n×K
            Nonzero where a point has a label. K may be larger than before. The first labels are those known.

        Raises
        ------
        SettingsError
            As `fit` does, if X has fewer features or Y fewer labels than before, or if the model is one of an older
            xmlgp.
        NumericalError
            If the objective or a parameter becomes non-finite.
        """
        if not hasattr(self, "parameters_"):
            return self.fit(X, Y)
        dataset = Dataset(*self._points(X, Y))
        grown = learn_points(self._settings, self._preprocessed, self.parameters_, self._data, dataset)
        trained = Trained(grown.parameters, self.history_)
        predictor = self.model.predictor(self._settings, grown.preprocessed, grown.parameters, dataset.D)
        classes = [*self.classes_, *[np.array([0, 1])] * grown.batch["K"]]
        tuned, names, learned = self.tuned_, self.names_, [*self.learned_, grown.batch]
        if grown.batch["K"]:
            names = names._replace(labels=None)
        if grown.batch["D"]:
            names = names._replace(features=None, vectorizer=None)
        self._set_fitted(self._settings, grown.data, grown.preprocessed, trained, predictor, classes)
        self.tuned_, self.names_, self.learned_ = tuned, names, learned
        return self

    def decision_function(self, X: Matrix) -> np.ndarray:
        """Return the utilities of all labels, N×K."""
        return self._score(X, "utility")

    def predict_proba(self, X: Matrix, client: Any = None) -> np.ndarray:
        """Return the probabilities of all labels, N×K.

        Parameters
        ----------
        X : array or sparse matrix, N×D
        client : distributed.Client, optional
            Of a Dask cluster that computes them.
        """
        return self._score(X, "probability") if client is None else self._score_on_cluster(X, client)

    @property
    def assignment_rule_(self) -> AssignmentRule | None:
        """The tuned threshold and limit, or None."""
        return self.tuned_ and self.tuned_.rule

    def predict(self, X: Matrix) -> np.ndarray:
        """Return 1 where a label is assigned, N×K: by the tuned rule, or where its probability is above one half."""
        features = self._known_features(X)
        assigned, done = np.zeros((features.shape[0], self._predictor.label_count), int), 0
        for scores in self._assigned(features):
            assigned[done + scores.points, scores.labels] = 1
            done += scores.N
        return assigned

    def tune(self, X: Matrix, Y: Matrix, metric: str = "f1-micro") -> Self:
        """Choose the threshold and the limit by which `predict` assigns labels until the next `fit`; return itself.

        Parameters
        ----------
        X : array or sparse matrix, N×D
            Points that the estimator was not fitted to.
        Y : array or sparse matrix, N×K
            Nonzero where a point has a label.
        metric : str
            The F1 that is maximised: "f1-micro" over all pairs of point and label, "f1-macro", the mean over labels, or
            "f1-point", the mean over points.

        Raises
        ------
        SettingsError
            For another metric, for X and Y with other shapes than expected, or if there is one label or no true label.
        """
        check_is_fitted(self)
        features, labels = self._points(X, Y)
        self.tuned_ = tune(self._predictor, features, labels, metric, "probability")
        return self

    def _assigned(self, features: sp.csr_array) -> Iterator[Scores]:
        """Yield the labels of points that `predict` assigns, a chunk of points at a time."""
        output = self.tuned_.output if self.tuned_ else "probability"
        return assign(self._predictor, features, self.assignment_rule_ or ABOVE_HALF, output)

    def _score_on_cluster(self, X, client):
        """Return the probabilities of all labels, N×K, which workers compute with a copy of the model in a folder."""
        features = self._known_features(X)
        N, K = features.shape[0], self._predictor.label_count
        found = np.empty((N, K), self._predictor.dtype)
        with open_work(client=client) as work:
            folder = work.new_folder()
            self.save(folder)
            stored = StoredPredictor(self._predictor, ModelFolder(folder))
            every = AssignmentRule(limit=K)
            for points, _, scores in predict_blocks(stored, [(range(N), features)], every, "probability", work=work):
                found[np.repeat(points, np.diff(scores.indptr)), scores.labels] = scores.scores
        return found

    def _points(self, X, Y):
        """Return the features and labels of points."""
        features = self._features(X)
        labels = sp.csr_array(check_array(Y, accept_sparse="csr", dtype=None)).astype(bool)
        labels.eliminate_zeros()
        labels.sum_duplicates()
        if labels.shape[0] != features.shape[0]:
            raise SettingsError(f"X has {features.shape[0]} points, but Y has {labels.shape[0]}")
        return features, labels
