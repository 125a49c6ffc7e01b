"""The base classes of the estimators, which follow the scikit-learn API."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import os
from abc import ABC
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from xmlgp import api
from xmlgp.data.dataset import Dataset
from xmlgp.data.dense_files import as_list, read_dense
from xmlgp.data.features import Features
from xmlgp.data.formats import REPOSITORY
from xmlgp.errors import SettingsError
from xmlgp.inputs.kinds import is_matrix
from xmlgp.inputs.memory import check_columns, columns_of, features_in_memory, labels_in_memory
from xmlgp.inputs.source import check_widths
from xmlgp.inputs.training_data import TrainingData
from xmlgp.prediction.assignment import ABOVE_HALF, AssignmentRule
from xmlgp.prediction.tuning import Tuned
from xmlgp.runtime.threads import core_count, limit_threads
from xmlgp.settings.shared import SEED_LIMIT
from xmlgp.text.names import Names
from xmlgp.text.written_names import separator_of
from xmlgp.work import THIS_MACHINE
from xmlgp.work.connection import open_work

if TYPE_CHECKING:
    from typing import TypeAlias

    from numpy.typing import ArrayLike
    from typing_extensions import Self

    from xmlgp.inputs.source import DenseFeatures
    from xmlgp.model import Model

    #: A matrix of features or labels.
    Matrix: TypeAlias = ArrayLike | sp.sparray | sp.spmatrix

    #: A matrix of features, perhaps with dense blocks, or None if there are dense features alone.
    Features: TypeAlias = Matrix | list[Matrix] | None

__all__ = ["Classifier", "Estimator", "check_feature_count", "load_estimator", "parameters_of", "split"]

#: Rows in which columns of arrays are recognised.
ROWS = 100

#: The parameters of estimators that scikit-learn calls otherwise than the settings that they are.
PARAMETERS = {"seed": "random_state"}


def load_estimator(path: str | os.PathLike[str]) -> Estimator:
    """Return the fitted estimator of the model in a folder, which `xmlgp train` or `save` has written.

    It is the one of the model, an `MLGPFClassifier`, a `BMLPLClassifier` or a `GPCClassifier`, with the settings of the
    folder as its parameters. It predicts what `xmlgp predict` does, and leaves the folder as it is. For the safety of
    the folder and for errors see `xmlgp.load`.
    """
    model = api.load(path)
    model.folder = None
    estimator = Estimator.kinds[model.settings.model](**parameters_of(model.settings))
    estimator.model_ = model
    return estimator


def parameters_of(settings):
    """Return `Settings` as parameters of an estimator."""
    return {PARAMETERS.get(name, name): value for name, value in settings.mapping().items()}


def _learns_on(estimator: Estimator) -> bool:
    return estimator.model.learn is not None


def _of_model(name: str) -> Any:
    """Return a property that reads an attribute of the fitted model."""
    return property(lambda estimator: getattr(estimator.model_, name))


class Estimator(ABC, ClassifierMixin, BaseEstimator):
    """A classifier whose parameters are the settings of its model.

    A subclass names its `Model`, from whose settings the signature of its constructor is made. The setting `seed` is
    the parameter `random_state`, as in scikit-learn: an integer, by default 0, a RandomState or None. `n_jobs` is the
    number of threads, by default one for each core; −1 means all, −2 all but one.

    Attributes
    ----------
    model_ : TrainedModel
        The fitted model, for the functions of `xmlgp`.
    parameters_, history_, tuned_, names_, learned_
        `parameters`, `history`, `tuned`, `names` and `learned` of `model_`.
    n_features_in_ : int
        Number of features, D; if there are dense features alone, their number, E.
    feature_names_in_ : ndarray of str, D
        The names of the columns of X, or those of the features in a model folder; missing if there are none. With a
        DataFrame of other columns, or in another order, there is a ValueError, as scikit-learn has it.
    """

    #: The estimator of each model, by the model's name.
    kinds: ClassVar[dict[str, type[Estimator]]] = {}

    model: ClassVar[Model]

    #: Features are converted to this type.
    feature_dtype: ClassVar[type] = np.float32

    #: The names of the columns of an X that is dense, which a model folder does not keep.
    _dense_columns: list[str] | None = None

    model_: api.TrainedModel
    parameters_: dict[str, np.ndarray] = _of_model("parameters")
    history_: list[dict[str, Any]] = _of_model("history")
    tuned_: Tuned | None = _of_model("tuned")
    names_: Names = _of_model("names")
    learned_: list[dict[str, Any]] = _of_model("learned")

    def __init_subclass__(cls, model: Model | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if model is None:
            return
        specs = dataclasses.fields(model.settings)
        defaults = {PARAMETERS.get(spec.name, spec.name): (spec.default, spec.type) for spec in specs}
        defaults["n_jobs"] = (None, int | None)

        def __init__(self, **parameters):
            unknown = parameters.keys() - defaults.keys()
            if unknown:
                raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {min(unknown)!r}")
            for name, (default, _) in defaults.items():
                setattr(self, name, parameters.get(name, default))

        # scikit-learn reads the names of the parameters and their defaults from the signature.
        kind = inspect.Parameter
        named = [
            kind(name, kind.KEYWORD_ONLY, default=value, annotation=type_) for name, (value, type_) in defaults.items()
        ]
        __init__.__signature__ = inspect.Signature([kind("self", kind.POSITIONAL_OR_KEYWORD), *named])  # type: ignore[attr-defined]
        __init__.__doc__ = None
        cls.__init__ = __init__  # type: ignore[method-assign]
        cls.model = model
        Estimator.kinds[model.name] = cls

    @property
    def n_features_in_(self) -> int:
        """The number of features, D; if there are dense features alone, their number, E."""
        return self.model_.data["D"] or sum(self.model_.data.get("dense", []))

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The names of the features; missing if there are none, or if they are the words of texts."""
        names = self.model_.names
        columns = names.features if self.model_.data["D"] else self._dense_columns
        if columns is None or names.vectorizer:
            raise AttributeError("the features have no names")
        return np.array(columns, object)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model into a folder, for `load_estimator` and all commands; see `TrainedModel.save`.

        The settings in the folder are those of `fit`. What `tune` chose, `names_` and `learned_` are written too.
        """
        check_is_fitted(self)
        self.model_.save(path)

    def _fit(self, points, work=THIS_MACHINE):
        """Train on `TrainingData`, and return the estimator itself."""
        random = self.random_state
        state = check_random_state(random)
        # An integer is the seed itself, so that commands with it train the same model.
        seed = int(random if isinstance(random, Integral) else state.randint(SEED_LIMIT, dtype=np.int64))
        settings = self._settings(points.dataset.shape, seed)
        with self._threads():
            self.model_ = api.train(points, settings=settings, work=work)
        return self

    def _settings(self, shape, seed=0):
        """Return the settings for a data set of a shape, N, D and K."""
        parameters = self.get_params() | {"seed": seed}
        del parameters["random_state"], parameters["n_jobs"]
        return self.model.settings(**parameters).for_shape(*shape)

    def _threads(self):
        """Return a context that computes with the threads of `n_jobs`; negative ones count down from all cores."""
        n_jobs = self.n_jobs  # type: ignore[attr-defined]
        return limit_threads(max(1, core_count() + 1 + n_jobs) if n_jobs is not None and n_jobs < 0 else n_jobs)

    def _score(self, features, output):
        """Return the scores of all labels, N×K, from features for the fitted model."""
        with self._threads():
            return self.model_.predictor.score(features, output)[0]

    def _known_features(self, X, dense=None):
        """Return the features of points for the fitted model; raise an error if they are not as many as in `fit`."""
        check_is_fitted(self)
        X, blocks = split(X, dense)
        if X is not None and not sp.issparse(X):  # which has no names
            validate_data(self, X, reset=False, skip_check_array=True, ensure_2d=False)
        features = self._features(X, blocks, self.model_)
        # Of several blocks beside each other no number of features is wrong by itself.
        if X is not None and (self.model_.data["D"] or not blocks):
            check_feature_count(self, _count(features))
        self._check_features(features)
        return features

    def _check_features(self, features):
        self.model_.predictor.check(features.D)
        check_widths(features.widths, self.model_.known.widths, "X")

    def _features(self, X, dense=None, known=None):
        """Return the features of points, for a known `TrainedModel` or a new one."""
        dtype = self.feature_dtype
        X, blocks = self._split(X, dense, known)
        rows = read_dense(blocks, "X")
        if X is None:
            if rows is None:
                raise SettingsError("there are no points: give X, dense features, or both")
            features = Features(sp.csr_array((rows.dense.shape[0], 0), dtype=dtype))
        else:
            try:
                features = features_in_memory(check_array(X, accept_sparse="csr", dtype=dtype), dtype)
            except ValueError as error:
                if _has_texts(_rows(X)):
                    hint = "give texts to a TextTagger, or turn them into numbers, for example by a TfidfVectorizer"
                    raise SettingsError(f"X has text; {hint}") from None
                raise error from None
        if rows is None:
            return features
        rows.check(features.N)
        return features.beside(rows.dense)

    def _split(self, X, dense, known=None):
        """Return what `split` does; an X that is dense is the first of the blocks.

        In `fit` it is one by its values, later if the `known` model has dense features alone.
        """
        X, blocks = split(X, dense)
        if X is None:
            return X, blocks
        takes_dense = known or self.model.takes_dense(self._settings((1, 1, 1)))
        if takes_dense and (not known.data["D"] if known else _is_dense(X)):
            return None, [check_array(X, accept_sparse="csr"), *blocks]
        return X, blocks


class Classifier(Estimator):
    """A multi-label classifier; see `Estimator` for its other attributes.

    Attributes
    ----------
    classes_ : ndarray, K×2
        [0, 1] for each of the K labels. Their names, if y was a DataFrame, are `names_.labels`.
    assignment_rule_ : AssignmentRule or None
        The threshold and the limit of `tuned_`.
    """

    @property
    def classes_(self) -> np.ndarray:
        """[0, 1] for each label, K×2: an array, as scikit-learn's `cross_val_predict` needs it."""
        return np.broadcast_to([0, 1], (self.model_.data["K"], 2))

    @property
    def assignment_rule_(self) -> AssignmentRule | None:
        """The tuned threshold and limit, or None."""
        return self.tuned_ and self.tuned_.rule

    def fit(self, X: Features, y: Matrix, client: Any = None, *, dense: DenseFeatures | None = None) -> Self:
        """Train on points and their labels; return the estimator itself.

        Parameters
        ----------
        X : array, sparse matrix, DataFrame, list of blocks or None, N×D
            Features are weighted like counts of words, with one exception: an array or DataFrame with negative numbers,
            more than half of which are not zero, such as embeddings, has dense features, as `dense` has, if the model
            can use them: an `MLGPFClassifier` with the default `kernel` and `inducing`. A column of arrays in a
            DataFrame has dense features as well. A list of matrices is X followed by dense features. What is dense in
            `fit` is so for all later points, whatever their values.
        y : array, sparse matrix or DataFrame, N×K
            Nonzero where a point has a label. The columns of a DataFrame are the names of the labels.
        client : distributed.Client, optional
            Of a Dask cluster to train on.
        dense : array, DataFrame, column of arrays, path of a .npy file, or list of these, optional
            Dense features of the points, N×E, beside X, such as embeddings. Without other features, X is None.

        Raises
        ------
        SettingsError, NumericalError, ClusterError
            As for `xmlgp.train`.
        """
        points = self._points(X, y, dense)
        with open_work(client=client) as work:
            self._fit(points, work)
        self._dense_columns = columns_of(split(X, dense)[0], "feature")
        return self

    @available_if(_learns_on)
    def partial_fit(
        self, X: Features, y: Matrix, classes: ArrayLike | None = None, *, dense: DenseFeatures | None = None
    ) -> Self:
        """Learn more points, as `xmlgp.learn` does, and return the estimator itself; without `fit` before, it is `fit`.

        Give it new points only: points that it has learned count twice. X, y and `dense` are as for `fit`. The first
        columns of X and y are the features and labels that are known; there may be more. `classes` has no effect;
        scikit-learn's `learning_curve` gives it.

        The settings stay those of `fit`, and so do `history_` and `tuned_`. With more labels than before, `names_` has
        none of labels, with more features none of features and no vectorizer, unless the columns have names. If there
        is an error, nothing changes.
        """
        if not hasattr(self, "model_"):
            return self.fit(X, y, dense=dense)
        return self._learn(self._points(X, y, dense, self.model_))

    def _learn(self, points):
        """Learn more `TrainingData`, and return the estimator itself."""
        with self._threads():
            self.model_ = api.learn(self.model_, points)
        return self

    def decision_function(self, X: Features, *, dense: DenseFeatures | None = None) -> np.ndarray:
        """Return the utilities of all labels, or the log odds of an `MLGPFClassifier`, N×K."""
        return self._decide(self._known_features(X, dense))

    def _decide(self, features):
        return self._score(features, "utility")

    def predict_proba(self, X: Features, client: Any = None, *, dense: DenseFeatures | None = None) -> np.ndarray:
        """Return the probabilities of all labels, N×K, perhaps computed on the Dask cluster of a client."""
        features = self._known_features(X, dense)
        if client is None:
            return self._score(features, "probability")
        with open_work(client=client) as work, self._threads():
            return _predicted(self.model_, features, k="all", output="probability", work=work).matrix().toarray()

    def predict(self, X: Features, *, dense: DenseFeatures | None = None) -> np.ndarray:
        """Return 1 where a label is assigned, N×K: by the tuned rule, or where its probability is above one half."""
        with self._threads():
            assigned = self._assigned(self._known_features(X, dense)).matrix()
        # An assigned label may have the utility 0.
        assigned.data = np.ones(assigned.nnz, int)
        return assigned.toarray()

    def score(
        self, X: Features, y: Matrix, sample_weight: ArrayLike | None = None, *, dense: DenseFeatures | None = None
    ) -> float:
        """Return the share of points to which exactly the true labels are assigned, as scikit-learn defines it.

        X, y and `dense` are as for `fit`; a DataFrame of other labels, or in another order, raises a SettingsError.
        """
        check_is_fitted(self)
        check_columns("label", columns_of(y, "label"), self.names_.labels)
        found = self.predict(X, dense=dense)
        true = self._labels(y, len(found)).toarray()
        if true.shape[1] != found.shape[1]:
            raise SettingsError(f"y has {true.shape[1]} labels, but the model was trained on {found.shape[1]}")
        return accuracy_score(true, found, sample_weight=sample_weight)

    def tune(
        self,
        X: Features,
        y: Matrix,
        metric: str = "f1-micro",
        force: bool = False,
        *,
        dense: DenseFeatures | None = None,
    ) -> Self:
        """Choose the threshold and the limit by which `predict` assigns labels until the next `fit`; return itself.

        X, y and `dense` are as for `fit`, of points that the estimator was not fitted to, unless `force`. For the
        metric and for errors see `xmlgp.tune`.
        """
        check_is_fitted(self)
        return self._tune(self._points(X, y, dense, self.model_), None, metric, force)

    def _tune(self, points, labels, metric, force, dense=None):
        # Copies of the estimator share the model.
        model = copy.copy(self.model_)
        with self._threads():
            api.tune(model, points, labels=labels, dense=dense, metric=metric, output="probability", force=force)
        self.model_ = model
        return self

    def _assigned(self, features, only=None, without=None, **rule):
        """Return the `Predictions` of labels that a rule assigns, by default that of `predict`."""
        output = self.tuned_.output if self.tuned_ and not rule else "probability"
        if not rule and not self.tuned_:
            rule = {"threshold": ABOVE_HALF.threshold}
        return _predicted(self.model_, features, output=output, only=only, without=without, **rule)

    def _points(self, X, y, dense=None, known=None):
        """Return points with labels, and with the names of the columns of DataFrames (`TrainingData`).

        They are for a known `TrainedModel` or a new one.
        """
        X, blocks = split(X, dense)
        # Columns of dense features have no names in the model.
        alone = known and not known.data["D"]
        features = self._known_features(X, blocks) if alone else self._features(X, blocks, known)
        if known and X is not None and not alone:
            check_feature_count(self, _count(features), more=True)
        labels = self._labels(y, features.N)
        names = Names(columns_of(y, "label"), columns_of(X, "feature") if features.D else None)
        return TrainingData(Dataset(features, labels), REPOSITORY, names)

    def _labels(self, y, N):
        """Return the labels of N points, a csr_array of bool; an error says what is wrong with y."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        try:
            return labels_in_memory(check_array(y, accept_sparse="csr", dtype=None), N)
        except ValueError as error:
            hint = _hint_at_labels(_rows(y))
            raise (SettingsError(hint) if hint else error) from None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = tags.target_tags.two_d_labels = True
        tags.target_tags.single_output = False
        return tags


def _count(features):
    """Return the number of features; if there are dense ones alone, theirs."""
    return features.D or sum(features.widths)


def check_feature_count(estimator, count, more=False):
    """Raise SettingsError, as scikit-learn words it, unless X has as many features as in `fit`, or perhaps `more`."""
    known = estimator.n_features_in_
    if count < known or (count > known and not more):
        raise SettingsError(
            f"X has {count} features, but {type(estimator).__name__} is expecting {known} features as input"
        )


def split(X, dense):
    """Return features without dense blocks (None if there are no others), and the dense blocks (list).

    Blocks follow X in a list of matrices, are columns of arrays in a DataFrame, or are given as `dense`.
    """
    dense = as_list(dense)
    if isinstance(X, list | tuple) and X and all(map(is_matrix, X)):
        X, *blocks = X
        dense = blocks + dense
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        dense = [column for _, column in X.items() if _has_arrays(column)] + dense
        others = [not _has_arrays(column) for _, column in X.items()]
        X = X if all(others) else X.loc[:, others] if any(others) else None
    return X, dense


def _has_arrays(column):
    """Return whether a column of a DataFrame has an array or a list of numbers in a row."""
    return column.dtype.kind == "O" and any(
        isinstance(value, list | tuple | np.ndarray) and len(value) and np.asarray(value).dtype.kind in "iuf"
        for value in column.iloc[:ROWS]
    )


def _is_dense(X):
    """Return whether most numbers of a table are not zero, and some are negative."""
    if sp.issparse(X) or hasattr(X, "sparse"):
        return False
    X = np.asarray(X)
    return X.dtype.kind in "if" and 2 * np.count_nonzero(X) > X.size and X.min() < 0


def _rows(data):
    """Return the rows of data that may be no matrix: lists, or single values; none of a sparse matrix."""
    if sp.issparse(data) or not hasattr(data, "__iter__"):
        return []
    rows = data.to_numpy() if hasattr(data, "to_numpy") else data
    return [list(row) if hasattr(row, "__iter__") and not isinstance(row, str) else row for row in rows]


def _has_texts(rows):
    return any(isinstance(value, str) for row in rows for value in (row if isinstance(row, list) else [row]))


def _hint_at_labels(y):
    """Return what takes rows of names or single values, which a matrix of labels has not; None for other rows."""
    if not y:
        return None
    if not any(isinstance(row, list) for row in y):
        return _hint_at_values(y)
    is_matrix = all(isinstance(row, list) for row in y) and len({len(row) for row in y}) == 1
    if is_matrix and not _has_texts(y):
        return None
    if is_matrix and all(value in ("0", "1") for row in y for value in row):
        return "y has texts, not the numbers 0 and 1; give np.array(y).astype(int)"
    return "y has lists, not a column for each label; a TextTagger takes lists of names, for texts or features"


def _hint_at_values(y):
    """Return what takes one value for each point: numbers, or names of one class or of several."""
    kind = type_of_target(y)
    given = "y has one value for each point, not a column for each label"
    if kind.startswith("continuous"):
        return f"Unknown label type: {kind}; {given}, and the values are not 0 and 1"
    if kind == "binary" and not separator_of(y):
        # Wrappers of one output give it so.
        column = "" if _has_texts(y) else "; one label is a column, np.reshape(y, (-1, 1))"
        return (
            f"{given}; GPCClassifier is for two classes{column}; several labels need no MultiOutputClassifier or "
            "ClassifierChain around this estimator"
        )
    separator = separator_of(y)
    table = f"pd.Series(y).str.get_dummies({separator!r})" if separator else "pd.get_dummies(y)"
    several = "Only binary classification is supported, by GPCClassifier, for one value"
    return f"{given}; {table} has a column for each. {several}"


def _predicted(model, features, **options):
    """Return the `Predictions` of features as read."""
    return api.predict(model, Dataset(features, sp.csr_array((features.N, 0), dtype=bool)), **options)
