"""The estimator that takes texts and answers with names of labels."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from xmlgp.api.memory import InMemory
from xmlgp.api.points import Signature, is_matrix
from xmlgp.api.predict import Predictions, matrix, predict
from xmlgp.api.source import DenseFeatures, Source
from xmlgp.api.trained_model import TrainedModel
from xmlgp.estimators.classifier import Classifier
from xmlgp.estimators.from_settings import load_estimator
from xmlgp.estimators.inputs import MatrixLike, check_feature_count, check_given
from xmlgp.estimators.mlgpf import MLGPFClassifier
from xmlgp.estimators.scikit_learn import BaseEstimator
from xmlgp.metrics.assignment import assignment_statistics
from xmlgp.prediction.assignment import ABOVE_HALF
from xmlgp.runtime.errors import ModelFolderError, SettingsError
from xmlgp.text.labels import LabelNumbers, label_matrix
from xmlgp.text.names import Names
from xmlgp.text.word_counts import Analysis

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from typing_extensions import Self

__all__ = ["TextTagger"]

#: Texts, or their features.
Documents: TypeAlias = "Iterable[str] | MatrixLike"

#: The names of the labels of each document.
LabelNames: TypeAlias = Iterable[Iterable[str]]


def _documents(X: Documents) -> Documents:
    """Return documents; SettingsError for one text, which would otherwise be the path of a file to read."""
    if isinstance(X, str | os.PathLike):
        raise SettingsError("X must be a list of texts, not one text; write it as [text]")
    return X


class TextTagger(BaseEstimator):
    """Labels of texts by their names, in the scikit-learn API.

    Parameters
    ----------
    classifier : MLGPFClassifier or BMLPLClassifier, optional
        The model, which `fit` clones. By default `MLGPFClassifier()`; to search its parameters, give one.
    vectorizer : xmlgp.text.word_counts.Analysis, optional
        Which words of texts are counted, as `xmlgp vectorize` does. For other features of texts, use a `Pipeline` of a
        vectorizer and an `MLGPFClassifier`.

    Attributes
    ----------
    classifier_ : Classifier
        The fitted classifier.
    vectorizer_ : WordCounts or None
        The fitted vectorizer; None if `fit` was given features.
    n_features_in_ : int
        The number of features if `fit` was given features, otherwise missing.
    classes_ : ndarray of str, K
        The names of the labels, sorted as texts, or as numbers if all are numbers.
    model_ : TrainedModel
        The fitted model, for the functions of `xmlgp`.

    Notes
    -----
    Every X is a list, an array or a series of texts, or, without a vectorizer, a matrix of features, N×D, so that the
    tagger can be the last step of a pipeline. A tagger that was fitted on texts also takes a matrix of the counts of
    its words. Each method that takes X also takes `dense`, the dense features of the documents, as for `fit`.
    `xmlgp.predict(tagger.model_, X, explain=5)` lists the words that speak for each label.
    """

    def __init__(self, classifier: Classifier | None = None, vectorizer: Analysis | None = None) -> None:
        self.classifier = classifier
        self.vectorizer = vectorizer

    def fit(self, X: Documents, y: LabelNames, *, dense: DenseFeatures | None = None) -> Self:
        """Train on documents and the names of their labels; return the tagger itself.

        Parameters
        ----------
        X : list of str or matrix N×D
            The documents.
        y : list of list of str
            The names of the labels of each document, or an empty list. Whitespace around a name is removed; an empty
            name is ignored.
        dense : array or path of a .npy file, N×E, optional
            Dense features of the documents beside X, such as embeddings; see `MLGPFClassifier.fit`.

        Raises
        ------
        SettingsError, NumericalError
            As for `xmlgp.train`, and if there are no words or no labels.
        """
        check_given(self, y)
        classifier = MLGPFClassifier() if self.classifier is None else clone(self.classifier, safe=False)
        if not isinstance(classifier, Classifier):
            kind = type(classifier).__name__
            raise SettingsError(f"classifier must be an MLGPFClassifier or a BMLPLClassifier, not {kind}")
        points = Source(_documents(X), y, dense, analysis=self.vectorizer).read()
        if not points.names.labels:
            raise SettingsError("no document has a label")
        return self._set_fitted(classifier._fit(points))

    def suggest(
        self, X: Documents, k: int | None = 5, threshold: float | None = None, *, dense: DenseFeatures | None = None
    ) -> list[list[tuple[str, float]]]:
        """Return the most probable labels of each document, in memory that does not grow with the number of labels.

        Parameters
        ----------
        X : list of str or matrix, N×D
        k : int or None
            The largest number of labels; None for no limit.
        threshold : float, optional
            Only labels with at least this probability. If k is None too, labels are assigned as by `predict`.

        Returns
        -------
        list of list of (str, float)
            For each document names and probabilities, the highest first.
        """
        check_is_fitted(self)
        if k is None and threshold is None:
            threshold = ABOVE_HALF
        suggestions: list[list[tuple[str, float]]] = []
        with self.classifier_._threads():
            for block in self._predictions(X, dense, k, threshold).blocks():
                scores = block.scores
                scores.check_finite(len(suggestions))
                pairs = list(zip(self.classes_[scores.labels].tolist(), scores.scores.tolist(), strict=True))
                suggestions += [pairs[start:stop] for start, stop in itertools.pairwise(scores.indptr.tolist())]
        return suggestions

    def predict_proba(self, X: Documents, *, dense: DenseFeatures | None = None) -> NDArray[np.floating]:
        """Return the probabilities of all labels, N×K, in the order of `classes_`."""
        check_is_fitted(self)
        predictions = self._predictions(X, dense, "all", None)
        with self.classifier_._threads():
            probabilities: NDArray[np.floating] = matrix(predictions).toarray()
        return probabilities

    def predict(self, X: Documents, *, dense: DenseFeatures | None = None) -> list[list[str]]:
        """Return the names of the assigned labels of each document, most probable first.

        They are assigned where the probability is above one half.
        """
        return NameLists([name for name, _ in pairs] for pairs in self.suggest(X, k=None, dense=dense))

    def score(self, X: Documents, y: LabelNames, *, dense: DenseFeatures | None = None) -> float:
        """Return F1 of `predict` over all pairs of document and label (micro F1), which `GridSearchCV` maximises.

        X and y are as for `fit`. A label that the tagger does not know counts as missed.
        """
        assigned = self.predict(X, dense=dense)
        # Without features: only the labels matter. Those that the tagger does not know are appended.
        points = InMemory(csr_array((len(assigned), 0)), y)
        truth = points.numbered(Signature(Names(self.classes_.tolist())), extend=True)
        _, assigned_labels = label_matrix(assigned, LabelNumbers(truth.names.labels or []))
        return assignment_statistics(assigned_labels, truth.dataset.labels)["F1_micro"].value

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted tagger into a model folder, for `TextTagger.load` and all commands; see `Estimator.save`."""
        check_is_fitted(self)
        self.classifier_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the fitted tagger of the model in a folder, which `save` or `xmlgp train` has written.

        Without a vectorizer in the folder, the tagger takes features. A ModelFolderError is raised as for `xmlgp.load`,
        and for a model of two classes, or of labels without names.
        """
        classifier = load_estimator(path)
        if not isinstance(classifier, Classifier):
            raise ModelFolderError(f"{path}: a model of two classes has no labels to suggest; use load_estimator")
        names = classifier.names_
        if names.labels is None:
            raise ModelFolderError(f"{path}: the labels of this model have no names; use load_estimator")
        analysis = names.vectorizer.analysis if names.vectorizer else Analysis()
        return cls(clone(classifier), None if analysis == Analysis() else analysis)._set_fitted(classifier)

    @property
    def n_features_in_(self) -> int:
        """The number of features if the tagger was fitted on a matrix; missing if it was fitted on texts."""
        if self.vectorizer_ is not None:
            raise AttributeError("texts have no number of features")
        return self.classifier_.n_features_in_

    @property
    def model_(self) -> TrainedModel:
        """The fitted model, for the functions of `xmlgp`."""
        return self.classifier_.model_

    def _set_fitted(self, classifier: Classifier) -> Self:
        """Set the attributes of a fitted tagger: those of a classifier that has names of labels."""
        self.classifier_ = classifier
        self.vectorizer_ = classifier.names_.vectorizer
        # In an array of strings of a fixed length, each name would take the memory of the longest.
        self.classes_: NDArray[np.object_] = np.array(classifier.names_.labels, object)
        return self

    def _predictions(
        self, X: Documents, dense: DenseFeatures | None, k: int | str | None, threshold: float | None
    ) -> Predictions:
        """Return the labels of documents by their probability, as `xmlgp.predict` does."""
        if self.vectorizer_ is None and is_matrix(X):
            check_feature_count(self, X.shape[1])
        return predict(self.model_, Source(_documents(X), None, dense), k=k, threshold=threshold, output="probability")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags


class NameLists(list[list[str]]):
    """Lists of names. `cross_val_predict` makes an array of them, which has one dimension whatever their lengths."""

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[np.object_]:
        return np.fromiter(self, object, len(self))
