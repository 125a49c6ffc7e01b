"""The estimator that takes texts and answers with names of labels."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from xmlgp.api.points import is_matrix
from xmlgp.api.predict import predict
from xmlgp.api.source import DenseFeatures, Source
from xmlgp.api.trained_model import TrainedModel
from xmlgp.data.features import Features
from xmlgp.estimators.classifier import Classifier
from xmlgp.estimators.documents import Documents, NameLists, check_no_table
from xmlgp.estimators.estimator import RandomState, load_estimator
from xmlgp.estimators.features import check_feature_count, unlabelled
from xmlgp.estimators.labels import check_given
from xmlgp.estimators.mlgpf import MLGPFClassifier
from xmlgp.estimators.scikit_learn import BaseEstimator
from xmlgp.metrics.assignment import assignment_statistics
from xmlgp.runtime.errors import ModelFolderError, SettingsError
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.analysis import Analysis
from xmlgp.text.labels import LabelNumbers, label_matrix
from xmlgp.text.names import Names
from xmlgp.text.word_counts import WordCounts

if TYPE_CHECKING:
    from sklearn.utils import Tags
    from typing_extensions import Self

__all__ = ["TextTagger"]

#: The names of the labels of each document.
LabelNames: TypeAlias = Iterable[Iterable[str]]


class TextTagger(BaseEstimator):
    """Labels of texts by their names, in the scikit-learn API.

    Parameters
    ----------
    classifier : MLGPFClassifier or BMLPLClassifier, optional
        The model, which `fit` clones. By default `MLGPFClassifier()`.
    vectorizer : xmlgp.text.analysis.Analysis, optional
        Which words of texts are counted, as `xmlgp vectorize` does. For other features of texts, use a `Pipeline` of a
        vectorizer and an `MLGPFClassifier`.
    random_state : int or RandomState, optional
    n_jobs : int, optional
        As for `MLGPFClassifier`; None keeps those of `classifier`.

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
    """

    def __init__(
        self,
        classifier: Classifier | None = None,
        vectorizer: Analysis | None = None,
        *,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.classifier = classifier
        self.vectorizer = vectorizer
        self.random_state = random_state
        self.n_jobs = n_jobs

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, with those of the classifier and the vectorizer if `deep`."""
        params = super().get_params(deep)
        if deep and self.classifier is None:
            params |= {f"classifier__{name}": value for name, value in self._template.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also `classifier__factors` and the like, and return the tagger itself.

        If the classifier is None, setting a parameter of it makes it an `MLGPFClassifier` with this parameter.
        """
        nested = {name.partition("__")[0] for name in params if "__" in name}
        if "classifier" in nested and params.get("classifier", self.classifier) is None:
            params["classifier"] = MLGPFClassifier()
        return super().set_params(**params)

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
        template = self._template
        if not isinstance(template, Classifier):
            kind = type(template).__name__
            raise SettingsError(f"classifier must be an MLGPFClassifier or a BMLPLClassifier, not {kind}")
        if isinstance(y, np.ndarray) and y.ndim == 2 and y.dtype.kind == "i" and (y > 1).any():
            # scikit-learn has numbered the names in each column of lists that have the same length.
            raise SettingsError(
                "cross_val_predict takes lists of names with method='predict' only, and otherwise numbers the names; "
                "for probabilities, give it a DataFrame of 0 and 1 and a Pipeline of a vectorizer and MLGPFClassifier"
            )
        tagger_params = {"random_state": self.random_state, "n_jobs": self.n_jobs}
        overrides = {name: value for name, value in tagger_params.items() if value is not None}
        classifier = clone(template).set_params(**overrides)
        points = Source(X, y, dense).numbered(self._names_for(X), extend=True)
        if not points.names.labels:
            raise SettingsError("no document has a label")
        return self._set_fitted(classifier._fit(points))

    def _names_for(self, X: Any) -> Names:
        """Return the names of a new model, which has no labels yet, with a vectorizer that counts words of texts."""
        vectorizer = Analysis() if self.vectorizer is None else self.vectorizer
        is_text = not is_matrix(X)
        if not isinstance(vectorizer, Analysis):
            advice = "put other vectorizers before a classifier in a Pipeline"
            raise SettingsError(f"vectorizer must be an Analysis, not {excerpt(vectorizer)}; {advice}")
        if self.vectorizer is not None and not is_text:
            raise SettingsError("X is a matrix of features, but the vectorizer divides texts into words")
        vectorizer.check()
        check_no_table(X)
        return Names([], None, WordCounts(vectorizer, []) if is_text else None)

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
        _check_limits(k, threshold)
        limits = () if k is None and threshold is None else (threshold, k)
        suggestions: list[list[tuple[str, float]]] = []
        with self.classifier_._threads():
            for block in self.classifier_._assigned(self._features(X, dense), *limits).blocks():
                scores = block.scores
                scores.check_finite(len(suggestions))
                pairs = list(zip(self.classes_[scores.labels].tolist(), scores.scores.tolist(), strict=True))
                suggestions += [pairs[start:stop] for start, stop in itertools.pairwise(scores.indptr.tolist())]
        return suggestions

    def explain(
        self, X: Documents, k: int | None = 5, words: int = 5, *, dense: DenseFeatures | None = None
    ) -> list[list[dict[str, Any]]]:
        """Return the most probable labels of each document, with the words that speak for and against each.

        Parameters
        ----------
        X, k
            As for `suggest`.
        words : int
            The largest number of words for each label, and of words against it.

        Returns
        -------
        list of list of dict
            For each document `{"label": ..., "probability": ..., "for": [...], "against": [...]}`, as
            `xmlgp predict --explain` writes; the lists have `{"word": ..., "contribution": ...}`.

        Raises
        ------
        SettingsError
            If the utilities of the model are not sums over words.
        """
        check_is_fitted(self)
        _check_limits(k, None)
        points = unlabelled(self._features(X, dense))
        count = "all" if k is None else k
        predictions = predict(self.model_, points, k=count, output="probability", explain=words)
        with self.classifier_._threads():
            return [point["labels"] for point in predictions]

    def predict_proba(self, X: Documents, *, dense: DenseFeatures | None = None) -> NDArray[np.floating]:
        """Return the probabilities of all labels, N×K, in the order of `classes_`."""
        check_is_fitted(self)
        return self.classifier_._score(self._features(X, dense), "probability")

    def decision_function(self, X: Documents, *, dense: DenseFeatures | None = None) -> NDArray[np.floating]:
        """Return the numbers that rank labels, N×K, in the order of `classes_`; see that of the classifier."""
        check_is_fitted(self)
        return self.classifier_._decide(self._features(X, dense))

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
        names = Names(self.classes_.tolist())
        # Without features: only the labels matter. Those that the tagger does not know are appended.
        truth = Source(csr_array((len(assigned), 0)), y).numbered(names, extend=True)
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

    @property
    def _template(self) -> Classifier:
        """The classifier that `fit` clones."""
        return MLGPFClassifier() if self.classifier is None else self.classifier

    def _features(self, X: Documents, dense: DenseFeatures | None) -> Features:
        """Return the features of documents, for the fitted model."""
        if self.vectorizer_ is None and is_matrix(X):
            check_feature_count(self, X.shape[1])
        check_no_table(X)
        features = Source(X, None, dense).numbered(self.classifier_.names_, extend=False).dataset.features
        self.classifier_._check_features(features)
        return features

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags


def _check_limits(k: object, threshold: object) -> None:
    """Raise SettingsError unless both are None or what `TextTagger.suggest` takes."""
    if k is not None and (isinstance(k, bool) or not isinstance(k, Integral) or k < 1):
        raise SettingsError(f"k must be a positive integer or None, not {excerpt(k)}")
    if threshold is None:
        return
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not 0 <= float(threshold) <= 1:
        raise SettingsError(f"threshold must be a probability from 0 to 1, not {excerpt(threshold)}")
