"""Learn the vocabulary of texts that are in memory, and count its words in them."""

from array import array
from collections import defaultdict

import numpy as np
from scipy.sparse import csr_array, vstack

from xmlgp.errors import SettingsError
from xmlgp.text.vectorizer import Vectorizer, counts

__all__ = ["vectorize_texts"]

#: Texts that are counted at a time, which limits the memory of sorting their words.
TEXTS = 4096


def vectorize_texts(texts, analysis):
    """Return the vectorizer of all words of texts, and their features: those that `vectorize_new` gives a corpus.

    Parameters
    ----------
    texts : iterable of str
    analysis : Analysis

    Returns
    -------
    vectorizer : Vectorizer
    features : csr_array of float32, N×D

    Raises
    ------
    SettingsError
        If no text has a word, or a word is not Unicode text.
    """
    analyse, words = analysis.function(), defaultdict()
    words.default_factory = words.__len__
    found, ends = array("i"), [0]
    for text in texts:
        found.extend(map(words.__getitem__, analyse(text)))
        ends.append(len(found))
    names = list(words)
    if not names:
        raise SettingsError("no document has a word")
    order = sorted(range(len(names)), key=names.__getitem__)
    numbers = np.empty(len(names), np.int32)
    numbers[order] = np.arange(len(names))
    kept = [names[place] for place in order]
    try:
        "".join(kept).encode()
    except UnicodeEncodeError:
        raise SettingsError("a text has half of a surrogate pair, which is no character") from None
    found = np.frombuffer(found, np.int32)
    blocks = []
    for start in range(0, len(ends) - 1, TEXTS):
        bounds = ends[start : start + TEXTS + 1]
        blocks.append(counts(numbers[found[bounds[0] : bounds[-1]]], np.diff(bounds), len(kept)))
    # Some versions of SciPy return a matrix.
    return Vectorizer(analysis, kept), csr_array(vstack(blocks, format="csr"))
