"""What a vectorizer of scikit-learn may consist of, so that a text is only a text and needs bounded memory."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np

from xmlgp.runtime.untrusted_text import excerpt
from xmlgp.text.analysis import LONGEST

__all__ = ["check_parts"]

#: The parts by their modules. None opens a file, starts a program, or repeats a step until numbers say so.
PARTS = {
    "sklearn.decomposition": ("TruncatedSVD",),
    "sklearn.feature_extraction.text": ("CountVectorizer", "HashingVectorizer", "TfidfTransformer", "TfidfVectorizer"),
    "sklearn.feature_selection": ("VarianceThreshold",),
    "sklearn.pipeline": ("FeatureUnion", "Pipeline"),
    "sklearn.preprocessing": ("Binarizer", "FunctionTransformer", "MaxAbsScaler", "Normalizer", "StandardScaler"),
    "sklearn.random_projection": ("GaussianRandomProjection",),
}

#: Values that hold no others. skops itself refuses all types and functions but harmless ones of Python and NumPy.
VALUES = (int, float, str, bytes, slice, type, np.generic, np.dtype, np.ufunc, np.random.RandomState)


def check_parts(vectorizer: Any) -> list[Any]:
    """Return the parts of a vectorizer of scikit-learn; ValueError says which is not allowed.

    Everything that it holds is looked at, whatever attribute it is in, because any can be set in a file.
    """
    allowed = _allowed()
    parts = []
    pending = [vectorizer]
    if type(vectorizer) not in allowed:
        raise ValueError(f"it is of the type {excerpt(type(vectorizer).__name__)}")
    while pending:
        one = pending.pop()
        if type(one) in allowed:
            _check_part(one)
            parts.append(one)
        pending += [value for value in _held_by(one, allowed) if value is not None and not isinstance(value, VALUES)]
    return parts


def _allowed() -> set[type]:
    """Return the classes of `PARTS`."""
    return {getattr(import_module(module), name) for module, names in PARTS.items() for name in names}


def _held_by(one: Any, allowed: set[type]) -> Iterator[Any]:
    """Yield what a part, a container or an array holds; ValueError if it is something else."""
    if type(one) in allowed:
        yield from vars(one).values()
    elif type(one) is dict:
        yield from one.keys()
        yield from one.values()
    elif type(one) in (list, tuple, set, frozenset):
        yield from one
    elif type(one) is np.ndarray:
        yield from one.flat if one.dtype.hasobject else ()
    else:
        raise ValueError(f"it has a part of the type {excerpt(type(one).__name__)}")


def _arrays_in(value: Any) -> Iterator[np.ndarray]:
    """Yield the arrays in an attribute, also within containers, but not those of parts in it."""
    if isinstance(value, np.ndarray):
        yield value
    elif type(value) is dict:
        for own in value.values():
            yield from _arrays_in(own)
    elif type(value) in (list, tuple, set, frozenset):
        for own in value:
            yield from _arrays_in(own)


def _check_part(part: Any) -> None:
    """Raise ValueError if the attributes of a part open files, need too much memory, or replace its methods."""
    name = type(part).__name__
    attributes = vars(part)
    for attribute in attributes:
        if callable(getattr(type(part), attribute, None)):
            raise ValueError(f"{name} has the attribute {excerpt(attribute)}")
    settings = part.get_params(deep=False)
    for attribute, value in attributes.items():
        # Arrays of two axes, or more, could be combined into one of gigabytes.
        if not all(array.ndim <= 1 + (attribute == "components_") for array in _arrays_in(value)):
            raise ValueError(f"{name} has an array of another shape in {excerpt(attribute)}")
        if attribute in settings and next(_arrays_in(value), None) is not None:
            raise ValueError(f"{name} has an array in {excerpt(attribute)}")
    # The texts of a user would be names of files that it opens.
    if attributes.get("input", "content") != "content":
        raise ValueError(f"{name} reads files")
    if "ngram_range" in attributes:
        lengths = attributes["ngram_range"]
        integers = isinstance(lengths, tuple | list) and [isinstance(length, int | np.integer) for length in lengths]
        if integers != [True, True] or not 1 <= lengths[0] <= lengths[1] <= LONGEST:
            raise ValueError(f"{name} has n-grams of lengths that are not from 1 to {LONGEST}")
    if "n_features" in attributes:
        number = attributes["n_features"]
        # By another number, scikit-learn would end the process.
        if not isinstance(number, int | np.integer) or not 1 <= number < 2**31:
            raise ValueError(f"{name} has not from 1 to 2,147,483,647 features")
    # Each value of another type can be as long as the type says.
    if "dtype" in attributes and np.dtype(attributes["dtype"]).kind not in "biuf":
        raise ValueError(f"{name} has values that are not numbers")
    if "vocabulary_" in attributes:
        words = attributes["vocabulary_"]
        are_integers = isinstance(words, dict) and all(
            isinstance(number, int | np.integer) for number in words.values()
        )
        if not are_integers or set(words.values()) != set(range(len(words))):
            raise ValueError(f"the words of {name} do not have the numbers from 0")
