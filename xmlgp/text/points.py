"""Turn the documents of a corpus into points, about a thousand at a time."""

from itertools import islice

import numpy as np

from xmlgp.data.dataset import Dataset, as_csr
from xmlgp.text.corpus import read_documents
from xmlgp.text.vectorizer import counts

__all__ = ["documents_as_points", "labelled_documents_as_points"]

#: Documents that are vectorized at a time.
DOCUMENTS = 1024


def documents_as_points(reader, vectorizer, columns=None, name=None):
    """Yield documents, a list at a time, with their features, B×D.

    Parameters
    ----------
    reader : LineReader
        At the first line.
    vectorizer : Vectorizer
    columns : Columns, optional
        By default those of the vectorizer.
    name : str, optional
        The format, see `read_documents`.

    Raises
    ------
    DataFormatError
        If the corpus is malformed; it names the line.
    """
    documents = read_documents(reader, columns, name, labelled=False, usual=vectorizer.columns)
    while block := list(islice(documents, DOCUMENTS)):
        yield block, vectorizer.features([document.text for document in block])


def labelled_documents_as_points(reader, vectorizer, labels, columns=None, name=None):
    """Yield documents, a list at a time, with their features and those of their labels that are known (`Dataset`).

    Parameters
    ----------
    reader, vectorizer, columns, name
        As for `documents_as_points`.
    labels : list of str
        The names of the K labels.

    Raises
    ------
    DataFormatError
        If the corpus is malformed; it names the line.
    """
    number = {label: place for place, label in enumerate(labels)}
    documents = read_documents(reader, columns, name, usual=vectorizer.columns)
    while block := list(islice(documents, DOCUMENTS)):
        numbers = [number.get(label.strip(), -1) for document in block for label in document.labels]
        lengths = [len(document.labels) for document in block]
        known = counts(np.array(numbers, np.int32), lengths, len(labels))
        features = vectorizer.features([document.text for document in block])
        yield block, Dataset(features, as_csr(None, known.indices, known.indptr, len(labels)))
