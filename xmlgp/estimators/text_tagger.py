"""The estimator that takes texts and answers with names of labels."""

from __future__ import annotations

import copy
import itertools
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from xmlgp.errors import ModelFolderError, SettingsError
from xmlgp.estimators.classifier import Classifier, _predicted, check_feature_count, load_estimator, split
from xmlgp.estimators.models import MLGPFClassifier
from xmlgp.inputs.data_frames import text_column
from xmlgp.inputs.kinds import is_matrix
from xmlgp.inputs.source import Source
from xmlgp.metrics.assignment import evaluate_assignment
from xmlgp.prediction.scores_file import Scores
from xmlgp.prediction.tuning import Tuned
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.analysis import Analysis
from xmlgp.text.encoder import open_encoder
from xmlgp.text.fitted_vectorizer import FittedVectorizer
from xmlgp.text.labels import label_matrix
from xmlgp.text.names import Names
from xmlgp.text.word_counts import WordCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeAlias

    from typing_extensions import Self

    from xmlgp.estimators.classifier import Features
    from xmlgp.inputs.kinds import FilePath
    from xmlgp.inputs.source import DenseFeatures
    from xmlgp.runs.trained_model import TrainedModel

    #: Texts, or their features.
    Documents: TypeAlias = Iterable[str] | Features

    #: Labels by their names, or a file with a name a line.
    Chosen: TypeAlias = FilePath | Sequence[str] | None

__all__ = ["TextTagger"]

#: Probabilities of all labels that are computed at a time, where those of some labels are needed.
PROBABILITIES = 1 << 22


def _learns_on(tagger):
    """Return whether the classifier of a tagger can learn more points."""
    return hasattr(getattr(tagger, "classifier_", tagger._template), "partial_fit")


class TextTagger(BaseEstimator):
    """Labels of texts by their names, in the scikit-learn API.

    Parameters
    ----------
    classifier : MLGPFClassifier or BMLPLClassifier, optional
        The model, which `fit` clones. By default `MLGPFClassifier()`.
    vectorizer : Analysis or estimator, optional
        What maps texts to features. By default, or with an `xmlgp.text.analysis.Analysis`, words are counted as
        `xmlgp vectorize` does. An estimator is any transformer of scikit-learn that takes texts, such as
        `TfidfVectorizer`; `fit` clones it, and it receives each X as it is.
    encoder : str or path, optional
        The encoder that computes an embedding of each text, beside its words; see `xmlgp.train`.
    random_state : int or RandomState, optional
    n_jobs : int, optional
        Those of `classifier_`, as for `MLGPFClassifier`. By default, or with None, those of `classifier`.

    Attributes
    ----------
    classifier_ : Classifier
        The fitted classifier.
    vectorizer_ : Vectorizer, estimator or None
        The fitted vectorizer; None if `fit` was given features.
    n_features_in_ : int
        The number of features if `fit` was given features, otherwise missing.
    classes_ : ndarray of str, K
        The names of the labels, in the order of `xmlgp vectorize`: of their characters, or of numbers if all are. Those
        that `partial_fit` has added follow, each time in this order.
    model_ : TrainedModel
        The fitted model, for the functions of `xmlgp`.
    tuned_ : Tuned or None
        What `tune` or `xmlgp tune` chose, and for which scores.

    Notes
    -----
    Every X is a list, an array or a series of texts, or, without a vectorizer, a matrix of features, N×D, so that the
    tagger can be the last step of a pipeline. A tagger that was fitted on texts also takes a matrix of the counts of
    its words. Each method that takes X also takes `dense`, the dense features of the documents, as for `fit`. A
    DataFrame may have them too: X is then its column of texts, and its columns of arrays are dense features.
    """

    def __init__(
        self,
        classifier: Classifier | None = None,
        vectorizer: Analysis | Any = None,
        *,
        encoder: FilePath | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.classifier = classifier
        self.vectorizer = vectorizer
        self.encoder = encoder
        self.random_state = random_state
        self.n_jobs = n_jobs

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, and if `deep` those of the classifier, also of the default one, and the vectorizer."""
        params = super().get_params(deep)
        if deep and self.classifier is None:
            params |= {f"classifier__{name}": value for name, value in self._template.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also `classifier__factors` and the like, and return the tagger itself.

        If the classifier is None, a parameter of it makes it an `MLGPFClassifier` that has this parameter.
        """
        nested = {name.partition("__")[0] for name in params if "__" in name}
        if "classifier" in nested and params.get("classifier", self.classifier) is None:
            params["classifier"] = MLGPFClassifier()
        vectorizer = params.get("vectorizer", self.vectorizer)
        if "vectorizer" in nested and not hasattr(vectorizer, "set_params"):
            what = "an estimator, such as TextTagger(vectorizer=TfidfVectorizer())"
            raise SettingsError(f"the vectorizer is {excerpt(vectorizer)}, and parameters inside it need {what}")
        return super().set_params(**params)

    def fit(self, X: Documents, y: Iterable[Iterable[str]], *, dense: DenseFeatures | None = None) -> Self:
        """Train on documents and the names of their labels; return the tagger itself.

        Parameters
        ----------
        X : list of str, matrix N×D, DataFrame or None
            A matrix of dense features as for `MLGPFClassifier.fit`.
        y : list of list of str
            The names of the labels of each document, which may be none. Whitespace around a name is removed, and an
            empty name is no label.
        dense : array, DataFrame, column of arrays, path of a .npy file, or list of these, optional
            Dense features of the documents, N×E, beside X, such as embeddings. Without other features, X is None.

        Raises
        ------
        SettingsError, NumericalError
            As for `xmlgp.train`, and if there are no words or no labels.
        """
        if y is None:
            raise ValueError("TextTagger requires y to be passed, but the target y is None")
        if not isinstance(self._template, Classifier):
            kind = type(self._template).__name__
            raise SettingsError(f"classifier must be an MLGPFClassifier or a BMLPLClassifier, not {kind}")
        if isinstance(y, np.ndarray) and y.ndim == 2 and y.dtype.kind == "i" and (y > 1).any():
            # scikit-learn has numbered the names in each place of lists that have the same length.
            raise SettingsError(
                "cross_val_predict takes lists of names with method='predict' only, and otherwise numbers the names; "
                "for probabilities, give it a DataFrame of 0 and 1 and a Pipeline of a vectorizer and MLGPFClassifier"
            )
        own = {"random_state": self.random_state, "n_jobs": self.n_jobs}
        own = {name: value for name, value in own.items() if value is not None}
        classifier = clone(self._template).set_params(**own)
        X, dense = _divided(X, dense, classifier, self.vectorizer)
        analysis = Analysis() if self.vectorizer is None else self.vectorizer
        if self.encoder is not None:
            if not isinstance(analysis, Analysis) or X is None or is_matrix(X):
                raise SettingsError("an encoder needs texts, and no vectorizer but an Analysis")
            analysis = analysis._replace(encoder=open_encoder(self.encoder))
        if X is None:
            names = Names([])
        elif not isinstance(analysis, Analysis):
            transformer = clone(self.vectorizer)
            features: Any = transformer.fit_transform(_not_a_table(X, transformer))
            X = features
            vectorizer = FittedVectorizer(features.shape[1], transformer)
            names = Names([], vectorizer.words, vectorizer)
        else:
            if is_matrix(X) and self.vectorizer is not None:
                raise SettingsError("X is a matrix of features, but the vectorizer divides texts into words")
            analysis.check()
            X = _not_a_table(X)
            names = Names([], None, None if is_matrix(X) else WordCounts(analysis, []))
        points = Source(X, y, dense).numbered(names, extend=True)
        if not points.names.labels:
            raise SettingsError("no document has a label")
        return self._set_fitted(classifier._fit(points))

    @available_if(_learns_on)
    def partial_fit(self, X: Documents, y: Iterable[Iterable[str]], *, dense: DenseFeatures | None = None) -> Self:
        """Learn more documents, as `MLGPFClassifier.partial_fit` does, and return the tagger itself.

        X and y are as for `fit`, of new documents only, none of which needs a word or a label. New names of labels are
        added, and new words, if words are counted here: a vectorizer of scikit-learn stays as it is. Without a
        vectorizer, X may have more columns than before.
        """
        if not hasattr(self, "classifier_"):
            return self.fit(X, y, dense=dense)
        self._check_features(X, dense, more=True)
        X, dense = self._transformed(X, dense)
        points = Source(X, y, dense).numbered(self.classifier_.names_, extend=True)
        if not points.dataset.N:
            raise SettingsError("there are no documents")
        if points.names.vectorizer and is_matrix(X):
            self.classifier_._check_features(points.dataset.features)
        return self._set_fitted(copy.copy(self.classifier_)._learn(points))

    def suggest(
        self,
        X: Documents,
        k: int | None = 5,
        threshold: float | None = None,
        *,
        only: Chosen = None,
        without: Chosen = None,
        dense: DenseFeatures | None = None,
    ) -> list[list[tuple[str, float]]]:
        """Return the most probable labels of each document, in memory that does not grow with the number of labels.

        Parameters
        ----------
        X : list of str or matrix, N×D
        k : int or None
            At most so many labels; None for no limit.
        threshold : float, optional
            Only labels with at least this probability. If k is None too, labels are assigned as by `predict`.
        only, without : path or list of str, optional
            The labels that are considered, and those that are left out, as for `xmlgp.predict`.

        Returns
        -------
        list of list of (str, float)
            For each document names and probabilities, the highest first.
        """
        check_is_fitted(self)
        _check_limits(k, threshold)
        rule = {} if k is None and threshold is None else {"limit": k, "threshold": threshold}
        found: list[list[tuple[str, float]]] = []
        with self.classifier_._threads():
            assigned = self.classifier_._assigned(self._features(X, dense), only, without, **rule)
            for block in assigned.blocks():
                scores = block.scores
                scores.check_finite(len(found))
                if not rule and self.tuned_ and self.tuned_.output != "probability":
                    scores = self._with_probabilities(block.features, scores)
                pairs = list(zip(self.classes_[scores.labels].tolist(), scores.scores.tolist(), strict=True))
                found += [pairs[start:stop] for start, stop in itertools.pairwise(scores.indptr.tolist())]
        return found

    def explain(
        self,
        X: Documents,
        k: int | None = 5,
        words: int = 5,
        *,
        only: Chosen = None,
        without: Chosen = None,
        dense: DenseFeatures | None = None,
    ) -> list[list[dict[str, Any]]]:
        """Return the most probable labels of each document, with the words that speak for and against each.

        Parameters
        ----------
        X, k, only, without
            As for `suggest`.
        words : int
            At most so many words for each label, and so many against it.

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
        chosen = {"k": "all" if k is None else k, "output": "probability", "only": only, "without": without}
        found = _predicted(self.classifier_.model_, self._features(X, dense), explain=words, **chosen)
        with self.classifier_._threads():
            return [point["labels"] for point in found]

    def predict_proba(self, X: Documents, *, dense: DenseFeatures | None = None) -> np.ndarray:
        """Return the probabilities of all labels, N×K, in the order of `classes_`."""
        check_is_fitted(self)
        with self.classifier_._threads():
            return self.classifier_.model_.predictor.score(self._features(X, dense), "probability")[0]

    def decision_function(self, X: Documents, *, dense: DenseFeatures | None = None) -> np.ndarray:
        """Return the numbers that labels are ranked by, N×K, in the order of `classes_`; see the classifier's."""
        check_is_fitted(self)
        return self.classifier_._decide(self._features(X, dense))

    def predict(self, X: Documents, *, dense: DenseFeatures | None = None) -> list[list[str]]:
        """Return the names of the assigned labels of each document, most probable first.

        They are assigned by the tuned rule, or where the probability is above one half.
        """
        return _NameLists([name for name, _ in pairs] for pairs in self.suggest(X, k=None, dense=dense))

    def score(self, X: Documents, y: Iterable[Iterable[str]], *, dense: DenseFeatures | None = None) -> float:
        """Return F1 of `predict` over all pairs of document and label (micro F1), which `GridSearchCV` maximises.

        X and y are as for `fit`. A label that the tagger does not know counts as missed.
        """
        found = self.predict(X, dense=dense)
        known = Names(self.classes_.tolist())
        true, _, names = Source(csr_array((len(found), 0)), y).numbered(known, extend=True)
        return evaluate_assignment(label_matrix(found, names.labels)[1], true.labels)["F1_micro"]

    def tune(
        self,
        X: Documents,
        y: Iterable[Iterable[str]],
        metric: str = "f1-micro",
        force: bool = False,
        *,
        dense: DenseFeatures | None = None,
    ) -> Self:
        """Choose the threshold and the limit by which `predict` assigns labels until the next `fit`; return itself.

        X and y are as for `fit`, of documents that the tagger was not fitted to, unless `force`. Labels that it does
        not know are left out. See `MLGPFClassifier.tune`.
        """
        check_is_fitted(self)
        X, dense = self._transformed(X, dense)
        return self._set_fitted(copy.copy(self.classifier_)._tune(X, y, metric, force, dense))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted tagger into a model folder, for `TextTagger.load` and all commands; see `Estimator.save`.

        A vectorizer of scikit-learn is written by skops, which must be installed. A folder holds no code, so a
        SettingsError names functions in the vectorizer, such as its own `tokenizer`.
        """
        check_is_fitted(self)
        self.classifier_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the fitted tagger of the model in a folder, which `save` or `xmlgp train` has written.

        Without a vectorizer in the folder, the tagger takes features. A ModelFolderError is raised as for `xmlgp.load`,
        or if the labels have no names or are two classes.
        """
        classifier = load_estimator(path)
        if not isinstance(classifier, Classifier):
            raise ModelFolderError(f"{path}: a model of two classes has no labels to suggest; use load_estimator")
        vectorizer = classifier.names_.vectorizer
        if classifier.names_.labels is None:
            raise ModelFolderError(f"{path}: the labels of this model have no names; use load_estimator")
        parameter = encoder = None
        if vectorizer and vectorizer.estimator is not None:
            parameter = clone(vectorizer.estimator)
        elif isinstance(vectorizer, WordCounts):
            analysis = vectorizer.analysis._replace(encoder=None)
            parameter = None if analysis == Analysis() else analysis
            encoder = vectorizer.analysis.encoder and vectorizer.analysis.encoder.name
        return cls(clone(classifier), parameter, encoder=encoder)._set_fitted(classifier)

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

    @property
    def tuned_(self) -> Tuned | None:
        """What `tune` or `xmlgp tune` chose, and for which scores (`Tuned`), or None."""
        return self.classifier_.tuned_

    def _set_fitted(self, classifier):
        """Set the attributes of a fitted tagger: those of a classifier that has names of labels."""
        self.classifier_ = classifier
        self.vectorizer_ = classifier.names_.vectorizer
        if isinstance(self.vectorizer_, FittedVectorizer):
            self.vectorizer_ = self.vectorizer_.estimator
        # Strings of a fixed length would take the memory of the longest for each.
        self.classes_ = np.array(classifier.names_.labels, object)
        return self

    @property
    def _template(self):
        """The classifier that `fit` clones."""
        return MLGPFClassifier() if self.classifier is None else self.classifier

    def _transformed(self, X, dense):
        """Return documents as the classifier takes them, and their dense features."""
        vectorizer = self.classifier_.names_.vectorizer
        transformer = vectorizer.estimator if vectorizer else None
        X, dense = _divided(X, dense, self.classifier_, transformer, self.model_)
        if X is None:
            return X, dense
        X = _not_a_table(X, transformer)
        return (transformer.transform(X) if transformer else X), dense

    def _check_features(self, X, dense, more=False):
        """Do what `check_feature_count` does for a matrix alone, if the tagger was fitted on one."""
        if self.vectorizer_ is None and is_matrix(X) and not split(X, dense)[1]:
            check_feature_count(self, np.shape(X)[1], more)

    def _features(self, X, dense):
        """Return the features of documents, as the predictor takes them."""
        self._check_features(X, dense)
        X, dense = self._transformed(X, dense)
        features = Source(X, None, dense).numbered(self.classifier_.names_, extend=False).dataset.features
        self.classifier_._check_features(features)
        return features

    def _with_probabilities(self, features, scores):
        """Return the same labels with their probabilities, highest first."""
        size = max(1, PROBABILITIES // len(self.classes_))
        found = []
        for start in range(0, scores.N, size):
            part = scores.rows(start, min(start + size, scores.N))
            dense, _ = self.classifier_.model_.predictor.score(features[start : start + size], "probability")
            found.append(Scores(part.indptr, part.labels, dense[part.points, part.labels], part.K))
        return Scores.stack(found).descending()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.sparse = True
        tags.target_tags.required = tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags


def _divided(X, dense, classifier, vectorizer, known=None):
    """Return documents without dense features (None if there are no others), and these, for a known model or a new one.

    A column of texts beside columns of arrays is the documents.
    """
    X, blocks = split(X, dense)
    if blocks and hasattr(X, "iloc") and X.shape[1:] == (1,) and X.dtypes.iloc[0].kind == "O":
        X = X.iloc[:, 0]
    return classifier._split(X, blocks, known) if vectorizer is None and is_matrix(X) else (X, blocks)


def _not_a_table(X, transformer=None):
    """Return documents; SettingsError for a DataFrame of texts, of which a vectorizer would read the columns' names."""
    if hasattr(X, "columns"):
        some = np.asarray(X[:100])
        texts = some.dtype.kind in "OUT" and any(isinstance(value, str) for value in some.flat)
        if hasattr(transformer, "build_analyzer") or (transformer is None and texts):
            given = f"a list or column of texts, such as {text_column(X)}"
            raise SettingsError(f"TextTagger takes {given}, not a DataFrame")
    return X


class _NameLists(list):
    """Lists of names, an array of one dimension for NumPy, as `cross_val_predict` needs lists of different lengths."""

    def __array__(self, dtype=None, copy=None):
        return np.fromiter(self, object, len(self))


def _check_limits(k, threshold):
    if k is not None and (isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1):
        raise SettingsError(f"k must be a positive integer or None, not {excerpt(k)}")
    number = isinstance(threshold, int | float | np.number) and not isinstance(threshold, bool)
    if threshold is not None and not (number and 0 <= threshold <= 1):
        raise SettingsError(f"threshold must be a probability from 0 to 1, not {excerpt(threshold)}")
