"""Points as a Python user gives them: a path, matrices, or texts with the names of their labels."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import warnings
from collections.abc import Sequence
from numbers import Integral, Number
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import scipy.sparse as sp

from xmlgp.data.dataset import Dataset
from xmlgp.data.dense_files import DenseRows, as_list, dense_in_folder, read_dense
from xmlgp.data.features import Features
from xmlgp.data.formats import REPOSITORY
from xmlgp.data.locate import locate
from xmlgp.data.names import UNFIT
from xmlgp.errors import NoSuchFileError, SettingsError, UsageError
from xmlgp.runs.data_frames import labels_of_table, text_column
from xmlgp.runtime.plurals import counted
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import excerpt, show_name
from xmlgp.text.analysis import Analysis, Vectorizer, checked_analysis
from xmlgp.text.encoder import open_encoder
from xmlgp.text.labels import label_matrix
from xmlgp.text.names import Names, add_label_names
from xmlgp.text.points import Rows, TrainingData, open_points, read_known_data, read_more_data, read_training_data
from xmlgp.text.transformer import Transformer
from xmlgp.text.vectorize import as_texts, vectorize_texts

__all__ = [
    "DenseFeatures",
    "FilePath",
    "Labels",
    "Matrix",
    "Points",
    "added_labels",
    "as_matrix",
    "check_columns",
    "check_count",
    "check_dense",
    "check_exists",
    "check_points",
    "columns_of",
    "features_in_memory",
    "in_memory",
    "is_matrix",
    "is_path",
    "known_points",
    "label_of",
    "labels_in_memory",
    "more_labels",
    "more_points",
    "note_unknown",
    "open_given",
    "training_points",
    "unknown_labels",
]

#: Labels that a note lists.
MOST_LISTED = 10

FilePath: TypeAlias = "str | os.PathLike[str]"
Matrix: TypeAlias = "np.ndarray | sp.sparray | sp.spmatrix"

#: Points: a file or folder as for the command line, features (N×D), texts, or a data set, perhaps with names.
Points: TypeAlias = "FilePath | Matrix | Sequence[str] | Dataset | TrainingData"

#: Labels of points that are no file: N×K, nonzero where a point has a label, or the names of the labels of each point.
Labels: TypeAlias = "Matrix | Sequence[Sequence[str]]"


#: Dense features of points beside their other ones: a .npy or .npz file, an array N×E, or a list of these.
DenseFeatures: TypeAlias = "FilePath | Matrix | Sequence[FilePath | Matrix]"


def is_path(data: object) -> TypeGuard[FilePath]:
    """Return whether data are given by a path."""
    return isinstance(data, str | os.PathLike)


def is_matrix(data: object) -> TypeGuard[Matrix]:
    """Return whether data are numbers, not texts or names; a series of pandas has one dimension."""
    return sp.issparse(data) or len(getattr(data, "shape", ())) == 2


def check_exists(data: object, example: str = '["a text"]') -> None:
    """Raise NoSuchFileError for a str that is no path of a file or folder, perhaps a text, of which it has an example.

    A standard stream, `-`, is a path, and what cannot be looked at may be one.
    """
    if not isinstance(data, str) or data == "-":
        return
    try:
        os.stat(data)
        return
    except ValueError:  # a character that no path has
        error = OSError(errno.ENOENT, os.strerror(errno.ENOENT), data)
    except OSError as raised:
        if raised.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            return
        error = raised
    text = f"there is no file or folder {excerpt(str(data))}; a text must be in a list: {example}"
    raise NoSuchFileError(error, text) from None


def check_points(data: object, labels: object, needed: bool = True) -> None:
    """Raise UsageError for a path that is none, and if points in memory lack labels that are `needed`.

    A file or a `Dataset` has labels, beside which there are no others.
    """
    check_exists(data)
    if is_path(data) or isinstance(data, Dataset | TrainingData):
        if labels is not None:
            raise UsageError(f"The labels are those of {label_of(data, 'the data set')}; leave out `labels`.")
        return
    if not needed:
        return
    if labels is None or _are_columns(labels, data):
        columns = labels_of_table(data) if hasattr(data, "columns") else None
        if columns is None:
            raise UsageError("points in memory need labels: give `labels=Y`, a matrix or lists of names.")
        raise UsageError(f"points in memory need labels: of this DataFrame, give {text_column(data)}, labels={columns}")


def _are_columns(labels: Any, data: Any) -> bool:
    """Return whether labels are given by the names of columns of a DataFrame, one or several."""
    if not hasattr(data, "columns") or hasattr(labels, "columns"):
        return False
    names = [labels] if isinstance(labels, str) else labels
    if not hasattr(names, "__len__") or getattr(names, "ndim", 1) != 1 or not len(names):
        return False
    return all(isinstance(name, str) and name in data.columns for name in names)


def _are_names(labels):
    if hasattr(labels, "columns") or sp.issparse(labels):
        return False
    if not is_matrix(labels):
        return True
    array = np.asarray(labels)
    return array.dtype.kind not in "biufc" and not all(isinstance(value, Number) for value in array.flat)


def columns_of(table, kind):
    """Return the names of the columns of a DataFrame, each a label or a feature (`kind`); None if they have none."""
    columns = list(getattr(table, "columns", ()))
    if not columns or not all(isinstance(name, str) for name in columns):
        return None
    for name in columns:
        if UNFIT.search(name):
            raise SettingsError(f"the {kind} {excerpt(name)} has a character that a name cannot have")
    return [name.strip() for name in columns] if kind == "label" else columns


def check_columns(kind, names, known):
    """Raise SettingsError if the columns of a DataFrame are other features or labels (`kind`) than those of a model."""
    for number, (name, expected) in enumerate(zip(names or (), known or (), strict=False)):
        if name != expected:
            raise SettingsError(
                f"column {number} is the {kind} {excerpt(name)}, but the model was trained with {excerpt(expected)} "
                "there; give it the same columns in the same order"
            )


def as_matrix(table, dtype, is_labels=False):
    """Return numbers as a csr_array; SettingsError for a table of texts or of lists, and for complex numbers."""
    if getattr(getattr(table, "dtype", None), "kind", None) == "c":
        raise SettingsError("Complex data not supported; give real numbers, such as `data.real`")
    if sp.issparse(table):
        return sp.csr_array(table, dtype=dtype)
    try:
        found = np.asarray(table)
        return sp.csr_array(found.astype(float) if found.dtype.kind == "O" else found, dtype=dtype)
    except (TypeError, ValueError):
        if not hasattr(table, "columns"):
            raise SettingsError("a matrix must have numbers; texts and lists of names have one dimension") from None
        column = (labels_of_table(table) if is_labels else None) or text_column(table)
        raise SettingsError(
            f"a DataFrame must have numbers; give texts and lists of names as a column of it, such as {column}"
        ) from None


def check_count(name, number, other=""):
    """Raise UsageError if the value of an option is neither a positive integer nor None."""
    if number is not None and (isinstance(number, bool) or not isinstance(number, Integral) or number < 1):
        raise UsageError(f"{name} must be a positive integer{other}, not {excerpt(number)}.")


def label_of(data, other="the points"):
    """Return what data are called in messages."""
    return os.fspath(data) if is_path(data) else other


def labels_in_memory(Y, N):
    """Return labels in memory, of N points, as a csr_array of bool."""
    labels = as_matrix(Y, None, is_labels=True)
    # Also not a number.
    if not (labels.data >= 0).all():
        raise SettingsError("a label is negative or not a number; 1 says that a point has the label, 0 that it has not")
    fractions = labels.data[labels.data % 1 != 0] if labels.dtype.kind == "f" else labels.data[:0]
    if fractions.size:
        what = "1 says that a point has the label, 0 that it has not; give `labels > 0` if that is meant"
        raise SettingsError(f"Unknown label type: continuous; a label is {fractions[0]:g}; {what}")
    if not sp.issparse(Y) and labels.nnz == np.prod(labels.shape) and np.ptp(labels.data, axis=None) > 0:
        warnings.warn(
            "no label is 0, so all points have all labels; 0 says that one has not", UserWarning, stacklevel=2
        )
    labels = labels.astype(bool)
    labels.sum_duplicates()
    labels.eliminate_zeros()
    if labels.shape[0] != N:
        raise SettingsError(f"there are {N} points, but the labels of {labels.shape[0]} points")
    return labels


def features_in_memory(X, dtype=np.float32):
    """Return features in memory, without duplicates and stored zeros; X is not changed."""
    features = as_matrix(X, dtype)
    if not np.isfinite(features.data).all():
        raise SettingsError("a feature is NaN or inf, not a finite number")
    if not features.has_canonical_format or not features.data.all():
        features = features.copy()
        features.sum_duplicates()
        features.eliminate_zeros()
    return Features(features)


def _with_dense(data, dense, part=None, model=None):
    """Return points as given, and the `DenseRows` beside them: those of `data.yaml` in a folder, unless they are given.

    Without data, the points are without other features. For a model of dense features alone a matrix is dense.
    """
    if isinstance(dense, DenseRows):
        return data, dense
    blocks = as_list(dense)
    if model and not model.data["D"] and is_matrix(data) and data.shape[1]:
        data, blocks = None, [data, *blocks]
    if not blocks and part and is_path(data) and os.fspath(data) != "-" and os.path.isdir(data):
        blocks = dense_in_folder(data, part)
    rows = read_dense(blocks, label_of(data, "`data`"))
    if data is None:
        if rows is None:
            raise UsageError("No points: give data, dense features, or both.")
        data = sp.csr_array((rows.dense.shape[0], 0), dtype=np.float32)
    return data, rows


def _find_encoder(names, corpus):
    """Look for the encoder of a model with these `Names` where `corpus` says; SettingsError if it has none."""
    if corpus.encoder or corpus.download:
        encoder = names.vectorizer and names.vectorizer.analysis.encoder
        if not encoder:
            raise SettingsError("the model was trained without an encoder")
        encoder.find(corpus.encoder, corpus.download)


def _joined(found, rows):
    """Return `TrainingData` with the dense features beside its points."""
    if rows is None:
        return found
    rows.check(found.dataset.N)
    return found._replace(dataset=rows.beside(found.dataset))


def check_dense(widths, known, data):
    """Raise SettingsError if dense features of some data have other widths than those (`known`) of a model."""
    if list(widths) == list(known):
        return
    data = "standard input" if is_path(data) and os.fspath(data) == "-" else label_of(data, "`data`")
    own, trained = (
        f"dense features of {'width' if len(part) == 1 else 'widths'} {' and '.join(map(str, part))}"
        for part in (widths, known)
    )
    if not known:
        raise SettingsError(f"{data} has {own}, but the model was trained without any")
    if not widths:
        advice = "give them by `dense=FILE`"
        raise SettingsError(f"{data} has no dense features, but the model was trained with {trained}; {advice}")
    raise SettingsError(f"{data} has {own}, but the model was trained with {trained}")


def in_memory(data, labels, names, extend, same=None, dense=None):
    """Return points in memory with their names (`TrainingData`), and with dense features if they are given.

    Words and labels are numbered by `names`, to which other labels are appended. Other words are appended with
    `extend`, and left out without. For a new model there are none yet, but lists without an entry. Names of labels that
    are the `same` are one label, as for `LabelNumbers`. Without `data`, there are dense features alone.
    """
    data, rows = _with_dense(data, dense)
    return _joined(_in_memory(data, labels, names, extend, same), rows)


def _in_memory(data, labels, names, extend, same):
    if isinstance(data, TrainingData):
        data.names.check()
        check_columns("label", data.names.labels, names.labels)
        check_columns("feature", data.names.features, names.features)
        return data._replace(names=Names(*(own or known for own, known in zip(data.names, names, strict=True))))
    if isinstance(data, Dataset):
        return TrainingData(data, REPOSITORY, names)
    is_text = not is_matrix(data)
    if not is_text:
        features = features_in_memory(data)
        columns = columns_of(data, "feature")
        check_columns("feature", columns, names.features)
        names = names._replace(features=columns or names.features)
    else:
        texts = as_texts(data)
        if names.vectorizer is None:
            raise SettingsError("the points are text, but the model was not trained on text")
        if extend and not isinstance(names.vectorizer, Transformer):
            vectorizer, features = vectorize_texts(texts, names.vectorizer)
            names = names._replace(features=vectorizer.words, vectorizer=vectorizer)
        else:
            features = names.vectorizer.features(texts)
    N = features.N
    columns = columns_of(labels, "label")
    if labels is None:
        labels = sp.csr_array((N, 0), dtype=bool)
    elif not _are_names(labels) and (columns or not (extend and is_text)):
        check_columns("label", columns, names.labels)
        names = names._replace(labels=columns or names.labels or None)
    elif names.labels is None:
        raise SettingsError("the model has no names of labels, so the labels of points must be a matrix")
    else:
        found, labels = label_matrix(labels, names.labels, same or names.same)
        names = names._replace(labels=found)
    return TrainingData(Dataset(features, labels_in_memory(labels, N)), REPOSITORY, names)


def training_points(data, labels, dense, path, corpus, analysis, cache, progress, note, same=None):
    """Return the `TrainingData` of a model to be trained, in the folder at `path` or in memory.

    Without an `Analysis`, texts are divided as by default; SettingsError for one if the points are no texts.
    """
    check_points(data, labels)
    data, rows = _with_dense(data, dense, "train")
    if corpus.encoder:
        encoder = open_encoder(corpus.encoder, corpus.download)
        analysis = (Analysis() if analysis is None else analysis)._replace(encoder=encoder)
    elif corpus.download:
        raise UsageError("`download=True` needs `encoder=NAME`.")
    return _joined(_training_points(data, labels, path, corpus, analysis, cache, progress, note, same), rows)


def _training_points(data, labels, path, corpus, analysis, cache, progress, note, same):
    if is_path(data):
        return read_training_data(_training_file(data, path), corpus, analysis, cache, progress, note, same)
    is_text = not (isinstance(data, Dataset | TrainingData) or is_matrix(data))
    analysis = checked_analysis(analysis, is_text, label_of(data))
    if isinstance(data, TrainingData):
        data.names.check()
        return data
    if isinstance(data, Dataset):
        return TrainingData(data, REPOSITORY, Names())
    vectorizer = Vectorizer(analysis, []) if is_text else None
    return _in_memory(data, labels, Names([], None, vectorizer), extend=True, same=same)


def more_points(data, labels, dense, model, names, corpus, cache, progress, note):
    """Return more training points for a `TrainedModel`, whose labels have these names, and the names after them.

    Points in memory without names may have more features and labels than a model in memory, which then loses the names
    of all.
    """
    D = model.data["D"]
    K = model.data["K"]
    check_points(data, labels)
    _find_encoder(names, corpus)
    data, rows = _with_dense(data, dense, "train", model)
    if is_path(data):
        file = _training_file(data, model.folder and model.folder.path)
        found = _joined(read_more_data(file, names, D, K, corpus, cache, progress, note), rows)
        return found.dataset, found.names
    dataset, _, names = in_memory(data, labels, names, extend=True, dense=rows)
    for kind, count in ("labels", dataset.K), ("features", dataset.D):
        if getattr(names, kind) is not None and len(getattr(names, kind)) < count:
            if model.folder:
                raise SettingsError(f"{model} has names of {kind}, but the points have {kind} without a name")
            names = names._replace(**{kind: None})
    return dataset, names if names.features or dataset.D == D else names._replace(vectorizer=None)


def _training_file(data, path):
    """Return the training file of a path; it must not be in the folder of the model."""
    file = locate(os.fspath(data), "train")
    folder = file if os.path.isdir(file) else os.path.dirname(file) or os.curdir
    folders = path is not None and file != "-" and os.path.isdir(path) and os.path.isdir(folder)
    if folders and os.path.samefile(folder, path):
        raise UsageError(f"{path} is the folder of the training data; choose another folder for the model.")
    return file


def more_labels(names, K, add_labels):
    """Return the names of a model with more labels, of a file or given, and the number of labels."""
    if is_path(add_labels):
        names = add_label_names(add_labels, names, K)
    elif names.labels is None:
        raise SettingsError("the model has no names of labels, so none can be added")
    else:
        names = names._replace(labels=label_matrix([list(add_labels)], names.labels, names.same)[0])
    return names, len(names.labels)


def known_points(data, labels, dense, part, model, corpus, cache, progress, note):
    """Return points for a `TrainedModel` (`TrainingData`), without other words; see `unknown_labels`."""
    names = model.names
    check_points(data, labels, needed=False)
    _find_encoder(names, corpus)
    data, rows = _with_dense(data, dense, part, model)
    if is_path(data):
        sizes = model.data["D"], model.data["K"]
        return _joined(read_known_data(data, part, names, sizes, corpus, cache, progress, note), rows)
    found = in_memory(data, labels, names, extend=False, dense=rows)
    # A data set has names of its own, which the model does not look at.
    return found if labels is not None else found._replace(names=names)


def added_labels(names, known):
    """Return how many labels follow those of a model with the `Names` `known` in the names of data for it."""
    return max(0, len(names.labels) - len(known.labels)) if names.labels and known.labels else 0


def unknown_labels(names, labels, K, listed=()):
    """Return the true labels that a model of K labels cannot give, the most frequent first, with their points (dict).

    They follow its own in the true labels, N×K or more, which have these names or None. Those that are `listed` it gave
    nevertheless.
    """
    counts = np.bincount(labels.indices, minlength=len(names or ()))
    counts[np.unique(np.asarray(listed, int))] = 0
    pairs = zip((names or [])[K:], counts[K:].tolist(), strict=False)
    return dict(sorted((pair for pair in pairs if pair[1]), key=lambda pair: (-pair[1], pair[0])))


def note_unknown(data, unknown, labels, note):
    """Note the `unknown_labels` of data, which are called so, if there are any, and their share of the true labels."""
    if unknown:
        count = f"{len(unknown)} labels of {data} are" if len(unknown) > 1 else f"1 label of {data} is"
        share = f"{sum(unknown.values())} of {labels.nnz} true labels"
        listed = [f"{show_name(name)} ({points})" for name, points in itertools.islice(unknown.items(), MOST_LISTED)]
        listed += [f"and {len(unknown) - MOST_LISTED} more"] * (len(unknown) > MOST_LISTED)
        note(f"{count} unknown to the model and counted as missed ({share}): {', '.join(listed)}")


def _index_of(data):
    """Return the index of a DataFrame or Series as identifiers, integers or texts; None for other data."""
    if not hasattr(data, "iloc"):
        return None
    return [own if type(own) in (int, str) else str(own) for own in data.index.tolist()]


@contextlib.contextmanager
def open_given(data, labels, dense, model, corpus, labelled, note, keep_errors=False):
    """Open points for a `TrainedModel` as `open_points` does; SettingsError if it does not know their features.

    It must know their labels too if these are read (`labelled`); otherwise a different number of labels is noted.
    """
    check_points(data, labels, needed=labelled)
    _find_encoder(model.names, corpus)
    ids = _index_of(data)
    (data, rows) = _with_dense(data, dense, "test", model)
    if is_path(data):
        sizes = model.data["D"], model.data["K"]
        opened = open_points(data, model.names, sizes, corpus, labelled, note, keep_errors, rows)
    else:
        texts = None if isinstance(data, Dataset | TrainingData) or is_matrix(data) else as_texts(data)
        given = data if texts is None else texts
        dataset, _, names = known_points(given, labels, rows, None, model, corpus, False, silent, note)
        shape = (dataset.N, dataset.D, dataset.K - added_labels(names, model.names))
        rows = Rows(shape, [(1, dataset)], texts=texts, ids=ids, labels=names.labels)
        rows.own_widths = dataset.features.widths
        opened = contextlib.nullcontext(rows)
    with opened as points:
        check_dense(points.widths, model.data.get("dense", []), data)
        try:
            model.predictor.check(points.D)
        except SettingsError as error:
            raise SettingsError(f"{label_of(data)}: {error}") from None
        K = model.data["K"]
        if points.K != K and (labelled or points.K):
            text = f"{label_of(data)} has {counted(points.K, 'label')}, but the model was trained on {K}"
            if labelled:
                raise SettingsError(text)
            note(text)
        yield points
