"""Read points with labels of any kind: rows of numbers, perhaps with names beside them, or a corpus of text."""

import os
from typing import NamedTuple

from xmlgp.data.dataset import Dataset
from xmlgp.data.formats import REPOSITORY, points_of, read_dataset
from xmlgp.data.lines import LineReader
from xmlgp.data.streams import open_input
from xmlgp.errors import XmlgpError
from xmlgp.runtime.progress import silent
from xmlgp.text.analysis import Analysis
from xmlgp.text.corpus import is_corpus
from xmlgp.text.data_folder import VECTORIZER, read_names
from xmlgp.text.names import Names
from xmlgp.text.vectorize import vectorize_known, vectorize_new

__all__ = ["TrainingData", "read_known_data", "read_training_data"]


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


def read_training_data(path, columns=None, corpus_format=None, cache=True, progress=silent, tell=lambda text: None):
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

    Raises
    ------
    DataFormatError
        If the file is malformed; it names the line.
    XmlgpError
        If a corpus has no words or labels, or if a vectorizer beside the file is malformed.
    """
    path = os.fspath(path)
    with open_input(path) as stream:
        reader = LineReader(stream, path)
        if _is_text(reader, columns, corpus_format):
            found = vectorize_new(reader, Analysis(), columns, corpus_format, progress=progress)
            names = Names(found.labels, found.vectorizer.words, found.vectorizer)
            dataset = found.dataset()
            tell(f"{path}: {found.summary()}")
            return TrainingData(dataset, REPOSITORY, names)
        # A pipe cannot be opened twice.
        if not os.path.isfile(path):
            return TrainingData(*points_of(reader, progress), Names())
    dataset, data_format = read_dataset(path, cache, progress)
    return TrainingData(dataset, data_format, _names_beside(path, dataset, tell))


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
        if not os.path.isfile(path):
            return points_of(reader, progress)[0]
    return read_dataset(path, cache, progress)[0]


def _is_text(reader, columns, corpus_format):
    first = reader.peek_line()
    return bool(first) and bool(columns or corpus_format or is_corpus(reader.path, first))


def _names_beside(path, dataset, tell):
    folder = os.path.dirname(path) or os.curdir
    try:
        return read_names(folder, dataset.D, dataset.K)
    except XmlgpError as error:
        # Without a vectorizer, files of these names may be something else.
        if os.path.isfile(os.path.join(folder, VECTORIZER)):
            raise
        tell(f"names are not used: {error}")
        return Names()
