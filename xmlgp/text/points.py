"""Turn the documents of a corpus into points, a few hundred at a time."""

from itertools import islice

from xmlgp.text.corpus import read_documents

__all__ = ["documents_as_points"]

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
    documents = read_documents(reader, columns or vectorizer.columns, name, labelled=False)
    while block := list(islice(documents, DOCUMENTS)):
        yield block, vectorizer.features([document.text for document in block])
