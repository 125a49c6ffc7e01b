"""Read points with labels of any kind: rows of numbers, perhaps with names beside them, or a corpus of text."""

import os
from typing import NamedTuple

from xmlgp.data.dataset import Dataset, check_room
from xmlgp.data.formats import LIBSVM, REPOSITORY, read_rows
from xmlgp.data.libsvm_format import resize_features
from xmlgp.data.lines import LineReader
from xmlgp.data.streams import open_input
from xmlgp.errors import SettingsError, XmlgpError
from xmlgp.runtime.progress import silent
from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.analysis import Analysis
from xmlgp.text.corpus import has_corpus_ending, is_corpus
from xmlgp.text.data_folder import FEATURES, LABELS, VECTORIZER, read_names
from xmlgp.text.names import Names
from xmlgp.text.vectorize import vectorize_known, vectorize_more, vectorize_new
from xmlgp.text.vectorizer import Vectorizer

__all__ = ["TrainingData", "read_known_data", "read_more_data", "read_training_data"]


class TrainingData(NamedTuple):
    """Training points.

    Attributes
    ----------
    dataset : Dataset
    format : str
        `REPOSITORY`, also of text, or `LIBSVM`.
    names : Names
    """

    dataset: Dataset
    format: str
    names: Names


def read_training_data(
    path, columns=None, corpus_format=None, cache=True, progress=silent, tell=lambda text: None, work=None
):
    """Read training data (`TrainingData`).

    Parameters
    ----------
    path : str
        A file, or `-` for standard input. A corpus is vectorized with the defaults of `Analysis`.
    columns : Columns, optional
        Where a corpus has its texts and labels.
    corpus_format : str, optional
        One of `xmlgp.text.corpus.FORMATS`.
    cache, progress
        As for `xmlgp.data.formats.read_dataset`.
    tell : callable
        Receives a message about what a corpus has, or if names beside the file cannot be used.
    work : ThisMachine or DaskCluster, optional
        As for `xmlgp.data.formats.read_dataset`; text is read here.

    Raises
    ------
    DataFormatError
        If the file is malformed; it names the line.
    XmlgpError
        If a corpus has no words or labels, or if a vectorizer beside the file is malformed.
    ClusterError
        As for `xmlgp.data.formats.read_dataset`.
    """
    path = os.fspath(path)
    with open_input(path) as stream:
        reader = LineReader(stream, path)
        if _is_text(reader, columns, corpus_format):
            return _of_corpus(vectorize_new(reader, Analysis(), columns, corpus_format, progress=progress), path, tell)
        dataset, data_format = read_rows(reader, cache, progress, work)
    return TrainingData(dataset, data_format, _names_beside(path, dataset, tell))


def read_more_data(
    path, names, D, K, columns=None, corpus_format=None, cache=True, progress=silent, tell=lambda text: None
):
    """Read more training data for a model (`TrainingData`), perhaps with more features and labels.

    Parameters
    ----------
    path : str
        A file, or `-` for standard input.
    names : Names
        Of the model. With a vectorizer the file may be a corpus, whose new words and labels follow those of the model.
        Names of more features and labels of rows are read beside the file.
    D, K : int
        The numbers of the model's features and labels.
    columns, corpus_format, cache, progress, tell
        As for `read_training_data`.

    Returns
    -------
    TrainingData
        The first D features and K labels are those of the model. It has names as far as the model has. Points in libsvm
        format, which does not declare the number of features, have at least D.

    Raises
    ------
    DataFormatError
        If the file is malformed; it names the line.
    SettingsError
        If the file is text and the model was not trained on text, if the points have fewer features or labels than the
        model, or if names are missing or others than those of the model.
    XmlgpError
        If a corpus has no documents, or if a vectorizer beside the file is malformed.
    """
    path = os.fspath(path)
    with open_input(path) as stream:
        reader = LineReader(stream, path)
        if names.vectorizer and _is_text(reader, columns, corpus_format):
            known = names.vectorizer, names.labels
            return _of_corpus(vectorize_more(reader, *known, columns, corpus_format, progress=progress), path, tell)
        # Other text gets an error that says what is wrong with its first line.
        if not names.vectorizer and (columns or corpus_format or has_corpus_ending(path)):
            raise SettingsError(f"{path} is text, but the model was not trained on text")
        dataset, data_format = read_rows(reader, cache, progress)
    if data_format == LIBSVM:
        dataset = resize_features(dataset, max(D, dataset.D))
    check_room(dataset, D, K, path)
    beside = _names_beside(path, dataset, tell)
    features = _more_names("feature", names.features, beside.features, dataset.D, path, tell)
    labels = _more_names("label", names.labels, beside.labels, dataset.K, path, tell)
    vectorizer = names.vectorizer
    if vectorizer and len(features) > D:
        _check_unique(features, D, path)
        vectorizer = Vectorizer(vectorizer.analysis, features, vectorizer.columns)
    return TrainingData(dataset, data_format, Names(labels, features, vectorizer))


def read_known_data(path, names, columns=None, corpus_format=None, cache=True, progress=silent):
    """Read points for a model that is trained already (`Dataset`).

    Parameters
    ----------
    path : str
        A file, or `-` for standard input.
    names : Names
        Of the model. With a vectorizer the file may be a corpus, of which other words and labels are left out.
    columns, corpus_format, cache, progress
        As for `read_training_data`.

    Raises
    ------
    DataFormatError
        If the file is malformed; it names the line.
    """
    path = os.fspath(path)
    with open_input(path) as stream:
        reader = LineReader(stream, path)
        if names.vectorizer and _is_text(reader, columns, corpus_format):
            known = names.vectorizer, names.labels
            return vectorize_known(reader, *known, columns, corpus_format, progress=progress).dataset()
        return read_rows(reader, cache, progress)[0]


def _is_text(reader, columns, corpus_format):
    first = reader.peek_line()
    return bool(first) and bool(columns or corpus_format or is_corpus(reader.path, first))


def _of_corpus(found, path, tell):
    """Return the `TrainingData` of a corpus, and tell what it has."""
    dataset = found.dataset()
    tell(f"{path}: {found.summary()}")
    return TrainingData(dataset, REPOSITORY, Names(found.labels, found.vectorizer.words, found.vectorizer))


def _is_file(path):
    return path != "-" and os.path.isfile(path)


def _beside(path, name):
    return os.path.join(os.path.dirname(path), name)


def _names_beside(path, dataset, tell):
    if not _is_file(path):
        return Names()
    try:
        return read_names(os.path.dirname(path) or os.curdir, dataset.D, dataset.K)
    except XmlgpError as error:
        # Without a vectorizer, files of these names may be something else.
        if os.path.isfile(_beside(path, VECTORIZER)):
            raise
        tell(f"names are not used: {error}")
        return Names()


def _more_names(kind, known, beside, count, path, tell):
    """Return the names of features or labels of more data, the first of which are those of the model, or None.

    Parameters
    ----------
    kind : str
    known, beside : list of str or None
        The names of the model, and those beside the data.
    count : int
        The number of features or labels of the data.
    path, tell
        As for `read_more_data`.
    """
    name = {"feature": FEATURES, "label": LABELS}[kind]
    file = _beside(path, name)
    if known is None:
        if beside is not None:
            tell(f"{file} is not used: the model has no names of {kind}s")
        return None
    if beside is None:
        if count == len(known):
            return known
        where = f"must be in {file}" if _is_file(path) else f"must be in {name} beside a file, which a pipe lacks"
        raise SettingsError(
            f"{path}: the points have {count} {kind}s, but the model has names for {len(known)}; those of all {where}"
        )
    for number, (own, other) in enumerate(zip(known, beside, strict=False)):
        if own != other:
            raise SettingsError(
                f"{file}:{number + 1}: names that clash: {kind} {number} is {excerpt(other)}, but the model calls it "
                f"{excerpt(own)}"
            )
    return beside


def _check_unique(words, D, path):
    """Raise SettingsError if a word after the first D ones occurs before: text could not be counted."""
    known = set(words[:D])
    for number, word in enumerate(words[D:], D):
        if word in known:
            place = f"{_beside(path, FEATURES)}:{number + 1}"
            raise SettingsError(f"{place}: feature {number} is {excerpt(word)}, as an earlier one is")
        known.add(word)
