"""The vocabulary of texts, and their features if they are in memory."""

from array import array
from collections import defaultdict
from itertools import count, islice

import numpy as np
from scipy.sparse import csr_array, vstack

from xmlgp.errors import SettingsError
from xmlgp.text.vectorizer import Vectorizer, counts

__all__ = ["vectorize_texts", "vocabulary"]

#: Texts that are counted at a time, which limits the memory of sorting their words.
TEXTS = 4096


def vocabulary(words, occurrences, min_count=1, max_features=None):
    """Return the words that are kept, in order of their characters, and the new number of each word, −1 if it is not.

    Parameters
    ----------
    words : iterable of str
    occurrences : ndarray
        How often each occurs.
    min_count : int
        Words that occur less often are left out.
    max_features : int, optional
        At most so many are kept, those that occur most often, of equal ones the first.
    """
    names = list(words)
    kept = sorted(np.flatnonzero(occurrences >= min_count).tolist(), key=names.__getitem__)
    if max_features is not None and len(kept) > max_features:
        most = np.argsort(-occurrences[kept], kind="stable")[:max_features]
        kept = [kept[place] for place in np.sort(most).tolist()]
    numbers = np.full(len(names), -1, np.int32)
    numbers[kept] = np.arange(len(kept))
    return [names[number] for number in kept], numbers


def vectorize_texts(texts, analysis, known=(), columns=None):
    """Return the vectorizer of all words of texts, and their features: those that `vectorize_new` gives a corpus.

    Parameters
    ----------
    texts : iterable of str
    analysis : Analysis
    known : sequence of str
        Words that come first, whether or not a text has them; then the result is that of `vectorize_more`.
    columns : Columns, optional
        Those of the vectorizer.

    Returns
    -------
    vectorizer : Vectorizer
    features : csr_array of float32, N×D

    Raises
    ------
    SettingsError
        If there are no words, or a word is not Unicode text.
    """
    analyse, D = analysis.function(), len(known)
    words = defaultdict(count(D).__next__, zip(known, range(D), strict=True))
    found, ends = array("i"), [0]
    for text in texts:
        found.extend(map(words.__getitem__, analyse(text)))
        ends.append(len(found))
    if not words:
        raise SettingsError("no document has a word")
    new, numbers = vocabulary(islice(words, D, None), np.ones(len(words) - D))
    try:
        "".join(new).encode()
    except UnicodeEncodeError:
        raise SettingsError("a text has half of a surrogate pair, which is no character") from None
    kept = [*known, *new]
    numbers = np.concatenate([np.arange(D, dtype=np.int32), numbers + np.int32(D)])
    found = np.frombuffer(found, np.int32)
    blocks = []
    for start in range(0, len(ends) - 1, TEXTS):
        bounds = ends[start : start + TEXTS + 1]
        blocks.append(counts(numbers[found[bounds[0] : bounds[-1]]], np.diff(bounds), len(kept)))
    # Some versions of SciPy return a matrix.
    return Vectorizer(analysis, kept, columns), csr_array(vstack(blocks, format="csr"))
